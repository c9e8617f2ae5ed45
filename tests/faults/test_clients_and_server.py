"""Faults of other clients, of planners and of the server, its disk and its log."""

import re
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import msgpack
import msgspec
import numpy as np
import pytest
import zmq
from disk import fill_disk
from fast import full
from faults import loaded, told
from log_tools import opened_by_every_tool
from trial import AFTER, BEFORE, LONG, T, Trial, serving, standing
from wire import dealer, expect

from controllers.command import LimitedBy
from idyn import CommandRefused, ConfigError, PlannerClient, load_controller
from idyn.tasks import ComTask, ForceTask, FrameTask
from idyn.types import Array
from sim_harness.run.plan import load_plan, simulated_robot
from transport.log.reader import LogReader
from transport.protocol.codec import decode, encode
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.requests import ClientKind, ClientLimits, Config, ConfigSet, Stats, StatsGet, Stop
from transport.protocol.task_input import write_tasks
from transport.robot.client import ConnectionFailed, RobotClient, connected, hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

NOT_READABLE = (b"\xc1", msgpack.packb({"t": "stats_get", "v": "2.0"}), msgpack.packb({"t": "stats_get", "v": "1.0", "no": 1}))
"""No MessagePack, another schema, an unknown field."""
COMMANDS = 120  # number of contradictory commands, unless one is refused


def beside(trial: Trial, talk: Callable[[zmq.Socket[bytes]], T], **options: object) -> T:
    """The reply to a stranger's message while the robot goes on, which is checked."""

    def work() -> T:
        with dealer(trial.server.address, **options) as socket:
            return talk(socket)

    trial.stands()
    reply = trial.during(work)
    trial.stands()
    return reply


@told(
    "another client sends one byte, another schema or an unknown field, and the robot a state that is cut by a byte",
    "`bad_schema`, `version_mismatch`; every tool reads the log",
    "goes on",
)
@pytest.mark.full
def test_every_tool_reads_a_log_with_refused_messages(tmp_path, capsys, caplog):
    log = tmp_path / "log.mcap"
    with serving(tmp_path, log=log) as server:
        trial = Trial(server, kind="sim")

        def talk(socket: zmq.Socket[bytes]) -> list[str]:
            codes = []
            for data in NOT_READABLE:
                socket.send(data)
                codes.append(msgpack.unpackb(socket.recv())["code"])
            return codes

        assert beside(trial, talk) == ["bad_schema", "version_mismatch", "bad_schema"]
        trial.client.wire.change = lambda data: data[:-1]
        trial.run(1)
        trial.client.heal()
        for force in (10.0, 10.0, float("nan")):  # also of a state that is refused for what it senses
            feet = loaded(force, active=True)
            trial.client.change_state = lambda message, feet=feet: msgspec.structs.replace(message, contacts=feet)
            trial.run(1)
        trial.client.heal()
        trial.stands()
        trial.close()
    server.recorder.close()
    ticks = sum(reply.solver is not None for reply in trial.client.received)
    for said in opened_by_every_tool(log, caplog):
        (line,) = [each for each in said if "the server refused 4 messages besides states" in each]
        assert re.search(r"the first at \d+\.\d{3} s from client \w+, of length 1: bad_schema: messagePack data is ", line)
    assert f"{ticks} ticks, {ticks} with the same torques bit for bit" in capsys.readouterr().out


@full
@told("another client sends 3000 malformed messages", "`bad_schema`, or drops what its queue does not hold", "goes on")
def test_a_flood_of_malformed_messages(trial):
    def talk(socket: zmq.Socket[bytes]) -> None:
        for i in range(3000):
            socket.send(b"\xc1" * (i % 500))
        replies = 0
        with dealer(trial.server.address) as other:
            while replies + dropped(other) < 3000:  # the flood's connection stays open until all of it was read
                while socket.poll(100):
                    assert b"bad_schema" in socket.recv()
                    replies += 1
        assert replies > 0

    def dropped(socket: zmq.Socket[bytes]) -> int:
        socket.send(encode(StatsGet()))
        return msgspec.msgpack.decode(socket.recv(), type=Stats).dropped

    beside(trial, talk)
    stats = expect(Stats, trial.client.ask(StatsGet()))
    assert stats.refused[Code.BAD_SCHEMA] + stats.dropped == 3000


@full
@told("another client sets a ZMQ identity of its own", "`not_controlling`", "goes on")
@told("another client sends a message of 5000 parts", "`bad_schema`", "goes on")
@told("another client sends 300 kB in one message", "cuts the connection", "goes on")
def test_strange_messages(trial):
    def oversize(socket: zmq.Socket[bytes]) -> int:
        news = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        socket.send(bytes(300_000))
        ended = news.poll(20_000)
        socket.disable_monitor()
        news.close()
        return ended

    def answered(*parts: bytes) -> Callable[[zmq.Socket[bytes]], bytes]:
        def talk(socket: zmq.Socket[bytes]) -> bytes:
            socket.send_multipart(parts)
            return socket.recv()

        return talk

    assert beside(trial, oversize)
    assert b"bad_schema" in beside(trial, answered(*[b"x"] * 5000))
    stop = encode(Stop(session=trial.client.session))
    assert b"not_controlling" in beside(trial, answered(stop), identity=b"robot")


@told("a second controller says hello", "`not_controlling`", "goes on")
def test_a_second_controller(trial):
    with RobotClient(trial.server.address, hello_for(trial.robot, 1e-3, kind="sim")) as second:
        with pytest.raises(ConnectionFailed, match="another client controls"):
            second.hello()
        trial.stands()


@told("settings are changed while a client controls", "`not_controlling`", "goes on")
def test_settings_during_control(trial):
    assert expect(ErrorMessage, trial.client.ask(ConfigSet(settings={"law": "no-slip"}))).code is Code.NOT_CONTROLLING
    trial.stands()


@told("invalid settings are sent, while no client controls", "`bad_schema`", "–")
def test_invalid_settings(trial):
    trial.client.close()
    with RobotClient(trial.server.address, hello_for(trial.robot, 1e-3, kind="sim"), connect_ms=20_000) as client:
        bad = ConfigSet(settings={"contact": {"terrain": {"kind": "heightmap", "side": float("inf")}}})
        refused = expect(ErrorMessage, client.ask(bad))
        assert refused.code is Code.BAD_SCHEMA
        refused = expect(ErrorMessage, client.ask(ConfigSet(settings={"contact": {7: False}})))
        assert (refused.code, refused.field) == (Code.BAD_SCHEMA, "settings.contact")
        assert isinstance(client.ask(ConfigSet(settings={"safety": {"max_tilt": 0.9}})), Config)
        client.hello()
    trial.server.end()


@told("a second server binds the same address", "refuses to start", "goes on")
def test_a_second_server(trial):
    with pytest.raises(ConfigError, match="another server"):
        trial.server.begin()
    trial.stands()


@told("the server ends", "no answer", "holds its posture until `reset`")
def test_the_server_ends(trial):
    trial.server.end()
    trial.stops_without_answers()


@told("the controller raises an exception", "`internal`, then `latched_fault`", "damps until `reset`")
def test_the_controller_raises_an_exception(trial, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(trial.server.controller, "answer", lambda *_: 1 / 0)
        trial.run(1)
    after = trial.run(AFTER)
    assert after["failsafe:damping"] > AFTER - 5
    trial.recovers()


@full
@told("the log is removed", "`not logged: …` in every `message`", "goes on")
@told("the disk of the log fails", "`not logged: …` in every `message`", "goes on")
@pytest.mark.parametrize(("spoil", "says"), [(fill_disk, ""), (Path.unlink, "the file was removed")])
def test_the_log_fails(tmp_path, monkeypatch, spoil, says):
    monkeypatch.setattr("transport.log.recorder.CHECK_S", 0.0)
    log = tmp_path / "log.mcap"
    with standing(tmp_path, log=log) as trial:
        spoil(log)
        trial.stands(500)
        assert trial.client.received[-1].message.startswith(f"not logged: {says}")


@full
@told("the folder of the log is replaced by a link", "a warning; the log goes on in the folder that it began in", "goes on")
def test_the_folder_of_the_log_is_replaced(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("transport.log.recorder.CHECK_S", 0.0)
    folder, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with serving(tmp_path, log=folder / "log.mcap", part_bytes=300_000) as server:
        trial = Trial(server)
        trial.stands(AFTER)
        folder.rename(tmp_path / "old")
        folder.symlink_to(elsewhere)
        trial.stands(2 * AFTER)
        assert "not logged" not in trial.client.received[-1].message
        trial.close()
    server.recorder.close()
    assert list(elsewhere.iterdir()) == []
    said = [record.getMessage() for record in caplog.records if "the folder was moved or replaced" in record.getMessage()]
    assert len(said) == 1
    with LogReader(tmp_path / "old" / "log.mcap") as log:
        answered = sum(entry.answered for entry in log.exchanges())
        assert log.complete
    assert answered == len(trial.client.received) >= 3 * AFTER
    assert len(list((tmp_path / "old").iterdir())) > 2


@told("`hello` limits the motors to 0.3 N·m", "`limited_by` 1", "sinks, with torques within that limit")
def test_weak_motors(tmp_path):
    with serving(tmp_path) as server:
        weak = np.full(server.controller.robot.na, 0.3)
        trial = Trial(server, limits=ClientLimits(tau_max=weak.tobytes()))
        trial.run(LONG)
        assert len(trial.client.received) >= LONG - 1
        for reply in trial.client.received:
            assert (np.abs(np.frombuffer(reply.tau)) <= 0.3).all()
        assert any(bit & LimitedBy.TORQUE for reply in trial.client.received for bit in reply.limited_by)
        trial.close()


def planning(trial: Trial, work: Callable[[PlannerClient], object], modes: tuple[str, ...] = ("ok",)) -> None:
    """Let a planner work while the robot goes on: every torque is checked, and every mode is one of `modes`."""

    def run() -> None:
        with PlannerClient(trial.server.address, "mpc", timeout_ms=20_000) as planner:
            work(planner)

    trial.stands()
    trial.during(run, modes)
    assert set(trial.run(AFTER)) <= set(modes)


def base(trial: Trial, shift: tuple[float, float, float] = (0.0, 0.0, 0.0), **fields: object) -> FrameTask:
    stance = trial.server.controller.stance
    return FrameTask(frame="root_joint", position=stance[:3] + np.array(shift), **fields)


def messages(trial: Trial) -> set[str]:
    return {reply.message for reply in trial.client.received[-50:]}


@told("the commands of a planner end", "`the last command has expired …`", "stands")
def test_a_planner_ends(trial):
    moving = base(trial, (0.01, 0.0, 0.0), velocity=[0.1] + [0.0] * 5)
    planning(trial, lambda planner: planner.command(valid_for=0.05, tasks=[moving]))
    assert any("expired" in message for message in messages(trial))
    before = trial.client.received[-1]
    trial.run(AFTER)
    assert np.abs(np.frombuffer(trial.client.received[-1].tau) - np.frombuffer(before.tau)).max() < 1.0


@full
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


@full
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
        time.sleep(0.25)  # until the last command has expired: the next planner would be refused

    trial.client.received.clear()
    planning(trial, work)
    assert any(not task.met for reply in trial.client.received for task in reply.tasks)


@full
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
    """A robot after contradicting commands, one every `period` ticks, and why the last one, or one more later, was refused."""
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
        if i < COMMANDS:  # nothing asks about what would come after the last one
            robot.run(period)
    if i < COMMANDS:
        robot.run(AFTER)
    return robot, refusal


@full
@told(
    "modes of contacts and targets change with every command, as often as every state",
    "–, or a fault: `roughness: the torques oscillate …`, `base turns …`",
    "goes on, or damps until `reset`",
)
@pytest.mark.parametrize("period", [1, 5])
def test_flickering_commands(period):
    """The commands hold no attitude; the outcome depends on when they arrive, here in the robot's time as targets do."""
    robot, refusal = flickered(period)
    torques = np.concatenate(robot.torques)
    assert np.isfinite(torques).all()
    assert (np.abs(torques) <= robot.controller.robot.limits.tau_max).all()
    assert robot.modes <= {"ok", "degraded", "fault", "failsafe:damping"}
    assert not refusal or "the torques oscillate" in refusal or "base turns" in refusal
    assert ("failsafe:damping" in robot.modes) == bool(refusal)
    again, _ = flickered(period)
    np.testing.assert_array_equal(np.concatenate(again.torques), torques)
