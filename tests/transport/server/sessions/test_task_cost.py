"""Commanded tasks by their measured cost per tick, given here: those that take too much of the period end, and are refused."""

from itertools import count
from pathlib import Path

import numpy as np
import pytest
from rig import Rig
from standin import MS

from controllers.build import load_controller
from idyn.model.robot import Robot
from transport.log.provenance import attachments, metadata
from transport.log.reader import LogReader
from transport.log.recorder import Recorder
from transport.log.replay import replay
from transport.protocol.codec import decode, encode
from transport.protocol.messages import Message
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.hello import Welcome
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.tasks import ComPart
from transport.protocol.messages.torque import TorqueMessage
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings

BASE_NS, TASK_NS = 330_000, 64_000
"""Duration of a tick without tasks, and of each task: of 32 tasks on a robot of 1 kHz, a tick takes 2.38 ms."""


class Planned(Rig):
    """A robot and a planner."""

    def __init__(self, robot: Robot, kind: str = "robot") -> None:
        super().__init__(robot, planners=("mpc",))
        self.greet_kind(kind)
        welcome = self.send(PlanHello(name="mpc"), b"p")
        assert isinstance(welcome, PlanWelcome)
        self.planner, self.seq = welcome.session, 0

    def greet_kind(self, kind: str) -> None:
        welcome = self.send(hello_for(self.robot, 1e-3, kind=kind))  # type: ignore[arg-type]
        assert isinstance(welcome, Welcome)
        self.session = welcome.session

    def ask(self, tasks: int) -> Message:
        return self.send(CommandMessage(session=self.planner, valid_for=60.0, tasks=[ComPart()] * tasks), b"p")

    def step(self, cost_ns: int | None = None) -> tuple[int, str]:
        """Number of tasks in a tick, and the message of its answer. cost_ns: of the tick; None: by the number of tasks"""
        self.seq += 1
        begin = self.seq * MS
        self.times = iter((begin,)) if cost_ns is None else iter((begin, begin + cost_ns))
        tasks: list[int] = []
        answer = self.controller.answer

        def told(state, contacts, inputs):  # type: ignore[no-untyped-def]
            tasks.append(0 if inputs.tasks is None else len(inputs.tasks.tasks))
            if cost_ns is None:
                self.times = iter((begin + BASE_NS + TASK_NS * tasks[0],))
            return answer(state, contacts, inputs)

        self.controller.answer = told  # type: ignore[method-assign]
        reply = self.tick(self.seq)
        self.controller.answer = answer  # type: ignore[method-assign]
        assert isinstance(reply, TorqueMessage), reply
        return tasks[0], reply.message


def test_tasks_that_take_too_long_end_and_are_refused_with_their_cost(robot: Robot) -> None:
    rig = Planned(robot)
    assert rig.step() == (0, "")
    assert isinstance(rig.ask(32), CommandAck)
    served = [rig.step() for _ in range(100)]
    assert {tasks for tasks, _ in served[:20]} == {32}
    assert {tasks for tasks, _ in served[25:]} == {0}
    assert "32 tasks take 2378 µs of a tick, of at most 800" in served[-1][1]
    refused = rig.ask(32)
    assert isinstance(refused, ErrorMessage)
    assert (refused.code, refused.field) == (Code.BAD_SCHEMA, "tasks")
    assert "32 tasks take 2378 µs" in refused.message


def test_a_planner_finds_the_tasks_that_the_robot_has_time_for(robot: Robot) -> None:
    rig, asked, slow = Planned(robot), 32, 0
    for _ in range(400):
        while isinstance(rig.ask(asked), ErrorMessage):
            asked -= 1
        tasks, _ = rig.step()
        slow += BASE_NS + TASK_NS * tasks > 0.8 * MS
    assert asked == 7  # 330 + 7 · 64 µs ≤ 800 µs
    assert slow <= 100
    rig.greet_kind("robot")
    assert isinstance(rig.ask(32), CommandAck)


@pytest.mark.parametrize("kind", ["robot", "sim"])
def test_single_long_ticks_and_simulated_robots_end_no_tasks(robot: Robot, kind: str) -> None:
    rig = Planned(robot, kind)
    assert isinstance(rig.ask(32), CommandAck)
    for i in range(200):
        assert rig.step(5 * MS if kind == "sim" or i % 3 == 0 else MS // 2) == (32, "")
    assert isinstance(rig.ask(32), CommandAck)


def test_a_replay_ends_the_tasks_in_the_same_tick(tmp_path: Path) -> None:
    settings = ServerSettings(controller="quadruped", planners=("mpc",))
    controller, path, times = load_controller("quadruped"), tmp_path / "run.mcap", count(0, 2 * MS)
    recorder = Recorder(path, attachments(controller.snapshot(), settings), metadata(controller.robot, seed=0))
    service = Service(controller, settings, clock=lambda: next(times), recorder=recorder)

    def told(message: Message, identity: bytes = b"a", now: int = 0) -> Message:
        return decode(service.handle(identity, encode(message), now).reply)

    welcome, planner = told(hello_for(controller.robot, 1e-3, kind="robot")), told(PlanHello(name="mpc"), b"p")
    assert isinstance(welcome, Welcome)
    assert isinstance(planner, PlanWelcome)
    told(CommandMessage(session=planner.session, valid_for=60.0, tasks=[ComPart(position=[0.02, 0.0, 0.4])]), b"p")
    q, vel, messages = controller.stance.tobytes(), np.zeros(controller.robot.nv).tobytes(), []
    for seq in range(1, 41):
        state = StateMessage(session=welcome.session, seq=seq, t_robot=seq * MS, t_send=seq * MS, q=q, vel=vel)
        reply = told(state, now=seq * MS)
        assert isinstance(reply, TorqueMessage), reply
        messages.append(reply.message)
    service.settle()
    recorder.close()
    assert not messages[0]
    assert "1 tasks take" in messages[-1]
    with LogReader(path) as reader:
        assert len(list(reader.exchanges())) == 43
    report = replay(path)
    assert (report.ticks, report.exact) == (40, True)
