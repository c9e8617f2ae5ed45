"""Faults of planners: commands that are late, malformed, contradictory, unreachable, or of somebody else."""

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np
import pytest
from faults import told
from trial import AFTER, BEFORE, Trial
from wire import expect

from controllers.build import load_controller
from idyn.tasks import ComTask, ForceTask, FrameTask
from idyn.types import Array
from sim_harness.run.plan import load_plan, simulated_robot
from transport.protocol.codec import decode, encode
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.requests import ClientKind
from transport.protocol.task_input import write_tasks
from transport.robot.client import connected, hello_for
from transport.robot.planner import CommandRefused, PlannerClient
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback


def planning(trial: Trial, work: Callable[[PlannerClient], object], modes: tuple[str, ...] = ("ok",)) -> None:
    """Let a planner work while the robot goes on: every torque is checked, and every mode is one of `modes`."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            with PlannerClient(trial.server.address, "mpc", timeout_ms=20_000) as planner:
                work(planner)
        except BaseException as error:
            problems.append(error)

    trial.stands()
    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        assert set(trial.run(10)) <= set(modes)
    if problems:
        raise problems[0]
    assert set(trial.run(AFTER)) <= set(modes)


def base(trial: Trial, shift: tuple[float, float, float] = (0.0, 0.0, 0.0), **fields: object) -> FrameTask:
    stance = trial.server.controller.stance
    return FrameTask(frame="root_joint", position=stance[:3] + np.array(shift), **fields)


def messages(trial: Trial) -> set[str]:
    return {reply.message for reply in trial.client.received[-50:]}


@told("the commands of a planner end", "`the last command has expired …`", "stands")
def test_a_planner_ends(trial):
    planning(
        trial,
        lambda planner: planner.command(valid_for=0.05, tasks=[base(trial, (0.01, 0.0, 0.0), velocity=[0.1] + [0.0] * 5)]),
    )
    assert any("expired" in message for message in messages(trial))
    before = trial.client.received[-1]
    trial.run(AFTER)
    assert np.abs(np.frombuffer(trial.client.received[-1].tau) - np.frombuffer(before.tau)).max() < 1.0


@told(
    "an old command comes again, byte for byte, after it has expired",
    "`out_of_order`, or `duplicate` for a command without `seq`",
    "stands",
)
def test_an_old_command(trial):
    tasks = write_tasks([base(trial, (0.0, 0.0, 0.01))])
    with connected(trial.server.address, None) as planner:

        def answer(data: bytes) -> FromServer:
            planner.send(data)
            assert planner.poll(20_000)
            return decode(planner.recv())

        welcome = expect(PlanWelcome, answer(encode(PlanHello(name="mpc"))))
        for number, code in ((0, Code.DUPLICATE), (7, Code.OUT_OF_ORDER)):
            command = encode(CommandMessage(session=welcome.session, seq=number, valid_for=0.02, tasks=tasks))
            assert isinstance(answer(command), CommandAck)
            time.sleep(0.03)
            trial.stands(AFTER)
            reply = expect(ErrorMessage, answer(command))
            assert reply.code is code
            assert any("expired" in message for message in messages(trial))


@told("a planner starts twice under one name", "`not_controlling`, while the command of the first is in force", "goes on")
@told("a second planner commands while the command of another one is in force", "`not_controlling`", "goes on")
@told("a planner that is not listed sends plan_hello", "`not_controlling`", "goes on")
def test_other_planners(trial):
    def work(planner: PlannerClient) -> None:
        with pytest.raises(CommandRefused, match="'stranger' is not in") as refused:
            PlannerClient(trial.server.address, "stranger")
        assert refused.value.error.code is Code.NOT_CONTROLLING
        planner.command(valid_for=5.0, tasks=[base(trial)])
        with PlannerClient(trial.server.address, "joystick", timeout_ms=20_000) as other:
            for _ in range(50):
                with pytest.raises(CommandRefused, match="another client is in force"):
                    other.command(valid_for=1.0, tasks=[base(trial, (0.2, 0.0, 0.0))])
        with pytest.raises(CommandRefused, match="another 'mpc'"):
            PlannerClient(trial.server.address, "mpc")
        planner.command(valid_for=0.01, tasks=[base(trial)])
        time.sleep(0.02)
        PlannerClient(trial.server.address, "mpc", timeout_ms=20_000).close()

    planning(trial, work)


@told("a command of 33 tasks, and one of 100 kB", "`bad_schema`", "goes on")
@told("NaN and Inf in the targets of commands", "`non_finite`", "goes on")
def test_malformed_commands(trial):
    def work(planner: PlannerClient) -> None:
        planner.command(valid_for=5.0, tasks=[base(trial)])
        for i in range(50):
            wrong = ComTask(position=[0.0, float("nan") if i % 2 else float("inf"), 0.0])
            with pytest.raises(CommandRefused, match=r"tasks\[1\].position\[1\]"):
                planner.command(valid_for=1.0, tasks=[base(trial), wrong])
        with pytest.raises(CommandRefused, match="at most 32"):
            planner.command(valid_for=1.0, tasks=[base(trial)] * 33)
        with pytest.raises(CommandRefused, match="at most 65536 bytes"):
            planner.command(valid_for=1.0, tasks=[base(trial, name="x" * 100_000)])

    planning(trial, work)
    assert messages(trial) == {""}


def asked_again(trial: Trial, tasks: list) -> None:
    """Let a planner ask for tasks that cannot all be met, at 100 Hz."""

    def work(planner: PlannerClient) -> None:
        for _ in range(50):
            planner.command(valid_for=0.2, tasks=tasks)
            time.sleep(0.01)

    trial.client.received.clear()
    planning(trial, work)
    assert any(not task.met for reply in trial.client.received for task in reply.tasks)


@told("contradictory tasks at one level", "the tasks are not met, and what is missing", "goes on")
@told("targets that standing feet and the weight do not permit", "the tasks are not met, and what is missing", "goes on")
def test_unreachable_and_contradictory_targets(trial):
    foot = trial.robot.contact_names[0]
    far = FrameTask(frame="LF_FOOT" if "LF_FOOT" in trial.robot.frames.names else foot, position=[10.0, 0.0, 0.0], level=1)
    push = ForceTask(contacts=foot, normal=4e3, level=2)
    asked_again(trial, [base(trial, rotation=np.eye(3)), far, push])
    asked_again(trial, [base(trial, (0.05, 0.0, 0.0), name="one"), base(trial, (-0.05, 0.0, 0.0), name="other")])


@told("a force that tips the base over, as no task holds its attitude", "`latched (base turns …)`", "damps until `reset`")
def test_a_command_that_tips_the_base(trial):
    def work(planner: PlannerClient) -> None:
        tasks = [base(trial), ForceTask(contacts=trial.robot.contact_names[0], normal=4e3, level=1)]

        def go_on() -> None:
            for _ in range(500):
                planner.command(valid_for=0.2, tasks=tasks)
                time.sleep(0.01)

        with pytest.raises(CommandRefused, match="base turns"):
            go_on()

    planning(trial, work, modes=("ok", "failsafe:damping"))


COMMANDS = 120  # number of contradictory commands, unless one is refused


class Rehearsal:
    """A standing robot, its server and a planner without sockets, on the robot's clock: a run is repeatable bit for bit."""

    def __init__(self, kind: ClientKind = "sim", clock: Callable[[], int] = time.monotonic_ns) -> None:
        """clock: of the server, for the times in its answers [ns]"""
        self.controller = load_controller("quadruped")
        self._service = Service(self.controller, ServerSettings(controller="quadruped", planners=("mpc",)), clock=clock)
        client = Loopback(self._service, hello_for(self.controller.robot, 1e-3, kind=kind), clock=self._now_ns)
        self._side = simulated_robot(load_plan("stand"), client)
        client.hello()
        self.torques: list[Array] = []
        self.modes: set[str] = set()
        welcome = expect(PlanWelcome, self.tell(PlanHello(name="mpc")))
        self.session = welcome.session

    def run(self, ticks: int) -> None:
        trace = self._side.run(ticks * 1e-3)
        self.torques.append(trace.tau)
        self.modes |= {trace.modes[i] for i in trace.mode}

    def tell(self, message: FromClient) -> FromServer:
        return decode(self._service.handle(b"\0mpc", encode(message), self._now_ns()).reply)

    def _now_ns(self) -> int:
        return 0 if not hasattr(self, "_side") else round(self._side.world.t * 1e9)


@told(
    "32 tasks at 50 Hz, with which a tick takes twice the robot's period",
    "`the last command has ended: 32 tasks take …`; `bad_schema` to the planner, with the number that is permitted",
    "goes on",
)
def test_tasks_that_take_too_long():
    """The clock of the server advances by 2 ms in each step."""
    robot = Rehearsal("robot", clock=partial(next, count(0, 2_000_000)))
    robot.run(BEFORE)
    frame = FrameTask(frame="root_joint", position=robot.controller.stance[:3])
    tasks, answers = write_tasks([frame] * 32), []
    for i in range(10):
        answers.append(robot.tell(CommandMessage(session=robot.session, seq=i + 1, valid_for=0.2, tasks=tasks)))
        robot.run(20)
    assert isinstance(answers[0], CommandAck)
    refusal = expect(ErrorMessage, answers[-1])
    assert "expected at most 12: 32 tasks take 2000 µs of a tick" in refusal.message
    assert robot.modes <= {"ok", "degraded"}


def flickered(period: int) -> tuple[Rehearsal, str]:
    """Return a robot after commands that contradict each other, one every `period` ticks, and why the last one, or one more
    after a while, was refused."""
    robot = Rehearsal()
    robot.run(BEFORE)
    foot, place = robot.controller.robot.contact_names[0], robot.controller.stance[:3]
    refusal = ""
    for i in range(COMMANDS + 1):
        if i == COMMANDS:
            robot.run(AFTER)
        task = FrameTask(frame="root_joint", position=place + np.array([0.005 if i % 2 else -0.005, 0.0, 0.0]))
        modes = {foot: "open"} if i % 2 else {}
        asked = CommandMessage(session=robot.session, seq=i + 1, valid_for=0.2, tasks=write_tasks([task]), modes=modes)
        answer = robot.tell(asked)
        if isinstance(answer, ErrorMessage):
            refusal = answer.message
            break
        robot.run(period)
    if i < COMMANDS:
        robot.run(AFTER)
    return robot, refusal


@told(
    "modes of contacts and targets change with every command, as often as every state",
    "–, or a fault: `roughness: the torques oscillate …`, `base turns …`",
    "goes on, or damps until `reset`",
)
@pytest.mark.parametrize("period", [1, pytest.param(5, marks=pytest.mark.full)])
def test_flickering_commands(period):
    """The commands hold no attitude. Targets move on the server's clock, and the outcome depends on when a command arrives:
    here both are in the robot's time."""
    robot, refusal = flickered(period)
    torques = np.concatenate(robot.torques)
    assert np.isfinite(torques).all()
    assert (np.abs(torques) <= robot.controller.robot.limits.tau_max).all()
    assert robot.modes <= {"ok", "degraded", "fault", "failsafe:damping"}
    assert not refusal or "the torques oscillate" in refusal or "base turns" in refusal
    assert ("failsafe:damping" in robot.modes) == bool(refusal)
    again, _ = flickered(period)
    np.testing.assert_array_equal(np.concatenate(again.torques), torques)
