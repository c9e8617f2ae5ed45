"""Commands, through bytes: who may send them, what they do, when they expire; commands with tasks."""

from itertools import count

import msgpack
import numpy as np
import pytest
from fast import every, every_row
from rig import FORWARD, Planned, Rig
from standin import MS, SpringDamper, standing
from wire import expect

from idyn import InputError, hello_for, load_controller
from idyn.tasks import AngularMomentumTask, CenterOfPressureTask, ComTask, ForceTask, FrameTask, PostureTask, TaskStack
from transport.log.provenance import attachments, metadata
from transport.log.reader import LogReader
from transport.log.recorder import Recorder
from transport.log.replay import replay
from transport.protocol.codec import decode, encode
from transport.protocol.messages import Message, command
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.command import CommandAck, ComPart, ForcePart, FramePart, PosturePart
from transport.protocol.messages.requests import Stop, Welcome
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.protocol.task_input import read_tasks, write_tasks
from transport.server.service import Service
from transport.server.sessions.latches import STANDS
from transport.server.settings import ServerSettings

NAN, INF = float("nan"), float("inf")
FOOT = "FL_FOOT"
BASE_NS, TASK_NS = 330_000, 64_000
"""Duration of a tick without tasks, and of each task: of 32 tasks on a robot of 1 kHz, a tick takes 2.38 ms."""


@pytest.fixture
def planned(robot):
    return Planned(robot)


def code(reply):
    return expect(ErrorMessage, reply).code


def field(reply):
    return expect(ErrorMessage, reply).field


def test_a_command_applies_until_it_expires_and_the_robot_then_stands(planned):
    assert planned.velocity(1) == (None, "")
    ack = expect(CommandAck, planned.command(valid_for=0.003))
    assert (ack.session, ack.valid_until) == (planned.planner, 4 * MS)
    for seq in (2, 3):
        assert planned.velocity(seq) == (FORWARD, "")
    for seq in (4, 5):
        assert planned.velocity(seq) == ([0.0] * 3, STANDS)


def test_a_planner_gets_the_last_state_of_the_robot(planned):
    assert planned.greet_planner(b"p").state is None
    planned.tick(1)
    welcome = planned.greet_planner(b"p")
    planned.tick(2)
    ack = expect(CommandAck, planned.command(session=welcome.session))
    for seen, t in ((welcome.state, 1), (ack.state, 2)):
        assert seen.t_robot == t * MS
        np.testing.assert_array_equal(np.frombuffer(seen.q), standing(planned.robot))
        np.testing.assert_array_equal(np.frombuffer(seen.vel), 0.0)


def test_the_controlling_client_commands_within_its_session(planned):
    expect(CommandAck, planned.command(by=b"a", session=planned.session))
    assert planned.velocity(1) == (FORWARD, "")
    assert field(planned.command(by=b"a", session=planned.session + 1)) == "session"


def test_another_client_is_refused_until_the_command_in_force_has_expired(planned):
    other = planned.greet_planner(b"q", "joystick").session
    planned.command(valid_for=0.005)
    late = command.CommandMessage(session=other, valid_for=1.0, velocity=[0.0, 0.0, 1.0])
    assert code(planned.send(late, b"q")) == Code.NOT_CONTROLLING
    assert code(planned.command(by=b"a", session=planned.session)) == Code.NOT_CONTROLLING
    assert planned.velocity(1) == (FORWARD, "")
    planned.now = 5 * MS
    expect(CommandAck, planned.send(late, b"q"))
    assert planned.velocity(6) == ([0.0, 0.0, 1.0], "")


@every("identity", [b"p", b"a"])
@every("numbered", [True, False])
def test_an_old_command_that_comes_again_is_refused(robot, identity, numbered):
    """Of a planner and of the controlling client, whose commands have numbers or not; a new command is accepted."""
    planned, again = Planned(robot), Code.OUT_OF_ORDER if numbered else Code.DUPLICATE
    session = planned.planner if identity == b"p" else planned.session

    def sent(number, speed):
        velocity = [speed, 0.0, 0.0]
        return planned.command(by=identity, session=session, seq=number * numbered, valid_for=0.003, velocity=velocity)

    for number, speed in ((1, 0.4), (2, 0.1), (3, 0.4)):  # the first one is in force
        expect(CommandAck, sent(number, speed))
    assert planned.velocity(4) == ([0.0] * 3, STANDS)
    for number, speed in ((1, 0.4), (2, 0.1)):
        refused = expect(ErrorMessage, sent(number, speed))
        assert (refused.code, refused.field) == (again, "seq")
    assert planned.velocity(5) == ([0.0] * 3, STANDS)
    expect(CommandAck, sent(4, 0.2))
    assert planned.velocity(6) == ([0.2, 0.0, 0.0], "")
    for number, speed in ((1, 0.4), (3, 0.4)):  # nor while another one is in force
        assert code(sent(number, speed)) == again
    assert planned.velocity(7) == ([0.2, 0.0, 0.0], "")


def test_a_client_that_numbers_its_commands_numbers_all_and_a_refused_number_does_not_count_later(planned):
    for number, accepted in ((0, True), (5, True), (5, False), (0, False), (4, False), (6, True)):
        assert isinstance(planned.command(seq=number), CommandAck if accepted else ErrorMessage), number
    again = planned.greet_planner(b"p").session  # another session counts anew
    expect(CommandAck, planned.command(session=again, seq=1, valid_for=0.005))
    other = planned.greet_planner(b"q", "joystick").session
    assert code(planned.command(by=b"q", session=other, seq=1)) == Code.NOT_CONTROLLING
    planned.now = 5 * MS
    assert code(planned.command(by=b"q", session=other, seq=1)) == Code.OUT_OF_ORDER


def test_height_and_attitude_apply_until_the_command_expires(planned):
    def pose(seq):
        return planned.applied(seq)[0].steering.pose.tolist()

    planned.command(valid_for=0.003, height=-0.04, attitude=[0.1, -0.05])
    assert pose(1) == [-0.04, 0.1, -0.05]
    planned.command(valid_for=0.003, velocity=FORWARD, height=0.01)
    assert pose(2) == [0.01, 0.0, 0.0]  # it replaces the last command as a whole
    planned.command(valid_for=0.003, attitude=[0.1, 0.0])
    assert planned.velocity(3)[0] == [0.0] * 3  # without a velocity the robot stands
    assert pose(4) == [0.0, 0.1, 0.0]
    assert pose(7) == [0.0] * 3


@every_row(
    ("valid_for", {"valid_for": 0.0}),
    ("valid_for", {"valid_for": -1.0}),
    ("valid_for", {"valid_for": NAN}),
    ("valid_for", {"valid_for": 61.0}),
    ("velocity", {"velocity": [0.0, NAN, 0.0]}),
    ("velocity", {"velocity": [0.0, INF, 0.0]}),
    ("velocity", {"velocity": [0.0, 0.0]}),
    ("velocity", {"velocity": [11.0, 0.0, 0.0]}),
    ("velocity", {"velocity": [0.0, 0.0, -60.0]}),
    ("velocity", {"velocity": None}),
    ("height", {"height": NAN}),
    ("height", {"height": -0.06}),
    ("height", {"height": 0.03}),
    ("attitude", {"attitude": [0.1]}),
    ("attitude", {"attitude": [INF, 0.0]}),
    ("attitude[0]", {"attitude": [0.3, 0.0]}),
    ("attitude[1]", {"attitude": [0.0, -0.2]}),
)
def test_a_malformed_command_is_refused_and_the_previous_one_stands(wrong, changes, robot):
    planned = Planned(robot)
    planned.command()
    assert field(planned.command(**({"velocity": [0.1, 0.0, 0.0]} | changes))).startswith(wrong)
    assert planned.velocity(1) == (FORWARD, "")


def test_who_may_not_command(planned, robot):
    assert field(planned.send(command.PlanHello(name="stranger"), b"x")) == "name"
    assert code(planned.command(by=b"x", session=7)) == Code.NOT_CONTROLLING
    assert code(planned.command(by=b"x")) == Code.NOT_CONTROLLING
    assert field(Rig(robot).send(command.PlanHello(name="joystick"), b"p")) == "name"  # no planners allowed
    planned.controller.steers = False  # the controller has no gait
    assert field(planned.command()) == "velocity"


def test_a_reset_a_new_session_and_stop_of_the_planner(planned):
    planned.command(valid_for=10.0)
    planned.send(Stop(session=planned.planner), b"p")
    assert planned.velocity(1) == (FORWARD, "")  # the command stands until it expires
    planned.send(planned.at_rest)
    assert planned.velocity(2) == (None, "")
    planned.command(valid_for=10.0)
    planned.greet()
    assert planned.velocity(3) == (None, "")


def test_a_gait_applies_until_the_command_expires(planned):
    def gait(seq):
        gait = planned.applied(seq)[0].steering.gait
        return None if gait is None else (gait.pattern, gait.period, gait.duty, gait.step_height)

    expect(CommandAck, planned.command(valid_for=0.002, gait=command.GaitPart(pattern="walk", duty=0.8)))
    assert gait(1) == ("walk", None, 0.8, None)
    assert gait(2) is None
    unknown = {"t": "command", "v": "1.2", "session": planned.planner, "valid_for": 1.0, "gait": {"pattern": "gallop"}}
    assert field(planned.raw(msgpack.packb(unknown), b"p")) == "gait.pattern"


def tasks_of(rig: Planned, seq: int) -> tuple[TaskStack | None, str]:
    """Tasks that the controller got with state `seq`, and the message of the reply."""
    inputs, message = rig.applied(seq)
    return inputs.tasks, message


def test_targets_move_by_their_derivatives_until_the_command_expires_and_then_stay(planned):
    moving = {"velocity": [1.0, 0.0, 0.0, 0.0, 0.0, 10.0], "acceleration": [0.0, 100.0, 0.0, 0.0, 0.0, 0.0]}
    part = FramePart(frame="root_joint", position=[1.0, 2.0, 3.0], rotation=[0.0, 0.0, 0.0, 1.0], **moving)
    push = ForcePart(contacts=[FOOT], normal=5.0)
    modes = {FOOT: "open"}
    assert isinstance(planned.command(tasks=[part, push], valid_for=0.004, modes=modes), CommandAck)
    for seq in (1, 2, 3):  # states arrive at 1, 2, 3 ms, the command at 0
        tasks, message = tasks_of(planned, seq)
        assert message == ""
        frame, force = tasks.tasks
        t = seq * 1e-3
        np.testing.assert_allclose(frame.position, [1.0 + t, 2.0 + 50.0 * t * t, 3.0], atol=1e-12)
        np.testing.assert_allclose(frame.velocity, [1.0, 100.0 * t, 0.0, 0.0, 0.0, 10.0], atol=1e-12)
        turned = [[np.cos(10 * t), -np.sin(10 * t), 0.0], [np.sin(10 * t), np.cos(10 * t), 0.0], [0.0, 0.0, 1.0]]
        np.testing.assert_allclose(frame.rotation, turned, atol=1e-12)
        assert force.normal == 5.0
        assert dict(tasks.modes) == modes
    for seq in (4, 5, 9):
        tasks, message = tasks_of(planned, seq)
        assert message == STANDS
        frame, lowered = tasks.tasks  # the force task has ended, and the foot with a mode goes down
        assert lowered.frame == FOOT
        np.testing.assert_array_equal(lowered.velocity, [0.0, 0.0, -0.4, 0.0, 0.0, 0.0])
        assert lowered.position is None
        assert not tasks.modes
        np.testing.assert_allclose(frame.position, [1.004, 2.0 + 50.0 * 0.004**2, 3.0], atol=1e-12)
        assert frame.velocity is None
        assert frame.acceleration is None
    planned.command(tasks=[ComPart(position=[0.0, 0.0, 0.3])], modes={FOOT: "slide"})
    assert dict(tasks_of(planned, 10)[0].modes) == {FOOT: "slide"}
    planned.command()  # it replaces the last one as a whole
    assert tasks_of(planned, 11) == (None, "")


@every_row(
    ("tasks[0].frame", [FramePart(frame="nose")], {}),
    ("tasks[1].position[1]", [ComPart(), ComPart(position=[0.0, NAN, 0.0])], {}),
    ("tasks[0].position", [ComPart(position=[0.0, 0.0])], {}),
    ("tasks[0].velocity", [FramePart(frame="root_joint", velocity=[0.0] * 3)], {}),
    ("tasks[0].rotation", [FramePart(frame="root_joint", rotation=[0.0, 0.0, 0.0, 2.0])], {}),
    ("tasks[0].rotation", [FramePart(frame="root_joint", position=[0.0] * 3, velocity=[0.1] * 6, axes="local")], {}),
    ("tasks[0].mask", [FramePart(frame="root_joint", mask=[True])], {}),
    ("tasks[0].mask", [ComPart(mask=[False] * 3)], {}),
    ("tasks[0].stiffness", [ComPart(stiffness=-1.0)], {}),
    ("tasks[0].damping", [ComPart(damping=INF)], {}),
    ("tasks[0].weight", [ComPart(weight=0.0)], {}),
    ("tasks[0].level", [ComPart(level=15)], {}),
    ("tasks[0].joints", [PosturePart(joints=["knee"])], {}),
    ("tasks[0].angles", [PosturePart(angles=[0.0])], {}),
    ("tasks[0].contacts", [ForcePart(contacts=["nose"], normal=1.0)], {}),
    ("tasks[0].contacts", [ForcePart(contacts=[], normal=1.0)], {}),
    ("tasks[0].normal", [ForcePart(contacts=[FOOT])], {}),
    ("tasks[0].contacts", [command.PressurePart(contacts=["nose"], point=[0.0] * 3)], {}),
    ("tasks[0].acceleration", [ComPart(acceleration=[0.0, 0.0, 1e308])], {}),
    ("tasks[0].acceleration", [FramePart(frame="root_joint", acceleration=[0.0] * 5 + [1e308])], {}),
    ("tasks[0].acceleration", [PosturePart(acceleration=[1e308] + [0.0] * 11)], {}),
    ("tasks[0].velocity", [ComPart(velocity=[0.0, -1e4, 0.0])], {}),
    ("tasks[0].position", [ComPart(position=[0.0, 0.0, 1e9])], {}),
    ("tasks[0].angles", [PosturePart(angles=[1e9] + [0.0] * 11)], {}),
    ("tasks[0].momentum", [command.MomentumPart(momentum=[1e300, 0.0, 0.0])], {}),
    ("tasks[0].momentum_rate", [command.MomentumPart(momentum_rate=[0.0, 0.0, 1e300])], {}),
    ("tasks[0].force", [ForcePart(contacts=[FOOT], force=[0.0, 0.0, 1e5])], {}),
    ("tasks[0].normal", [ForcePart(contacts=[FOOT], normal=1e5)], {}),
    ("tasks[1].name", [ComPart(name="sway"), FramePart(frame="root_joint", name="sway")], {}),
    ("tasks", [ComPart()] * 33, {}),
    ("modes.nose", [ComPart()], {"modes": {"nose": "open"}}),
    ("modes", [], {"modes": {FOOT: "open"}, "velocity": [0.0] * 3}),
    ("velocity", [], {}),
    ("valid_for", [ComPart()], {"valid_for": INF}),
)
def test_a_malformed_command_is_refused_whole_and_the_previous_one_stands(field, tasks, fields, robot):
    planned = Planned(robot)
    assert isinstance(planned.command(tasks=[ComPart(position=[0.0, 0.0, 0.25])]), CommandAck)
    assert expect(ErrorMessage, planned.command(tasks=tasks, **fields)).field == field
    stack, message = tasks_of(planned, 1)
    assert message == ""
    np.testing.assert_array_equal(stack.tasks[0].position, [0.0, 0.0, 0.25])


def test_unknown_kinds_and_fields_and_tasks_for_a_controller_that_realises_none_are_refused(planned, monkeypatch):
    for field, task in (("tasks[0].kind", {"kind": "dance"}), ("tasks[0].positon", {"kind": "com", "positon": []})):
        message = {"t": "command", "v": "1.1", "session": planned.planner, "valid_for": 1.0, "tasks": [task]}
        assert expect(ErrorMessage, planned.raw(msgpack.packb(message), b"p")).field == field
    monkeypatch.setattr(SpringDamper, "realises_tasks", False)
    assert expect(ErrorMessage, planned.command(tasks=[ComPart()])).field == "tasks"


def test_tasks_are_the_same_after_the_wire(robot):
    with pytest.raises(InputError, match="weight"):
        write_tasks([ComTask(weight=[1.0, 1.0, 2.0])])  # by row
    turn, options = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), {"mask": [True] * 6, "level": 2}
    sent = [
        FrameTask(frame="root_joint", position=[1, 2, 3], rotation=turn, velocity=[0.1] * 6, axes="local", **options),
        ComTask(position=np.arange(3.0), acceleration=[1.0, 0.0, 0.0], mask=[True, False, True], damping=3.0),
        AngularMomentumTask(momentum=[1.0, 2.0, 3.0], inertia=0.2, weight=4.0),
        PostureTask(joints=robot.joint_names[:2], angles=[0.1, 0.2], name="hips"),
        ForceTask(contacts=robot.contact_names[0], normal=20.0),
        CenterOfPressureTask(contacts=robot.contact_names[:2], point=[0.1, 0.0, 0.0]),
    ]
    read = read_tasks(robot, write_tasks(sent), {}).tasks
    for one, other in zip(sent, read, strict=True):
        assert type(one) is type(other)
        for name in one.__struct_fields__:
            before, after = getattr(one, name), getattr(other, name)
            if name == "contacts" and isinstance(before, str):
                before = [before]
            if before is None or isinstance(before, str):
                assert before == after
            elif name in ("contacts", "joints"):
                assert list(before) == list(after)
            else:
                np.testing.assert_allclose(np.asarray(before, float), np.asarray(after, float), atol=1e-12)


class Timed(Planned):
    """Its ticks take a time that is given."""

    seq = 0

    def ask(self, tasks: int) -> Message:
        return self.command(valid_for=60.0, tasks=[ComPart()] * tasks)

    def step(self, cost_ns: int | None = None) -> tuple[int, str]:
        """Number of tasks in a tick, and the message of its answer. cost_ns: of the tick; None: by the number of tasks"""
        self.seq += 1
        begin = self.seq * MS
        self.times = iter((begin,)) if cost_ns is None else iter((begin, begin + cost_ns))
        tasks: list[int] = []
        answer = self.controller.answer

        def told(state, contacts, inputs):
            tasks.append(0 if inputs.tasks is None else len(inputs.tasks.tasks))
            if cost_ns is None:
                self.times = iter((begin + BASE_NS + TASK_NS * tasks[0],))
            return answer(state, contacts, inputs)

        self.controller.answer = told
        reply = self.torque(self.seq)
        self.controller.answer = answer
        return tasks[0], reply.message


def test_a_planner_finds_the_tasks_that_the_robot_has_time_for(robot):
    rig, asked, slow = Timed(robot), 32, 0
    for _ in range(400):
        while isinstance(rig.ask(asked), ErrorMessage):
            asked -= 1
        tasks, _ = rig.step()
        slow += BASE_NS + TASK_NS * tasks > 0.8 * MS
    assert asked == 7  # 330 + 7 · 64 µs ≤ 800 µs
    assert slow <= 100
    rig.greet()
    assert isinstance(rig.ask(32), CommandAck)


@pytest.mark.parametrize("kind", ["robot", "sim"])
def test_single_long_ticks_and_simulated_robots_end_no_tasks(robot, kind):
    rig = Timed(robot, kind)
    assert isinstance(rig.ask(32), CommandAck)
    for i in range(200):
        assert rig.step(5 * MS if kind == "sim" or i % 3 == 0 else MS // 2) == (32, "")
    assert isinstance(rig.ask(32), CommandAck)


def test_a_replay_ends_the_tasks_in_the_same_tick(tmp_path):
    settings = ServerSettings(controller="quadruped", planners=("mpc",))
    controller, path, times = load_controller("quadruped"), tmp_path / "run.mcap", count(0, 2 * MS)
    recorder = Recorder(path, attachments(controller.snapshot(), settings), metadata(controller.robot, seed=0))
    service = Service(controller, settings, clock=lambda: next(times), recorder=recorder)

    def told(message: Message, identity: bytes = b"a", now: int = 0) -> Message:
        return decode(service.handle(identity, encode(message), now).reply)

    welcome = expect(Welcome, told(hello_for(controller.robot, 1e-3, kind="robot")))
    planner = expect(command.PlanWelcome, told(command.PlanHello(name="mpc"), b"p"))
    told(command.CommandMessage(session=planner.session, valid_for=60.0, tasks=[ComPart(position=[0.02, 0.0, 0.4])]), b"p")
    q, vel, messages = controller.stance.tobytes(), np.zeros(controller.robot.nv).tobytes(), []
    for seq in range(1, 41):
        state = StateMessage(session=welcome.session, seq=seq, t_robot=seq * MS, t_send=seq * MS, q=q, vel=vel)
        messages.append(expect(TorqueMessage, told(state, now=seq * MS)).message)
    service.settle()
    recorder.close()
    assert not messages[0]
    assert "1 tasks take" in messages[-1]
    with LogReader(path) as reader:
        assert len(list(reader.exchanges())) == 43
    report = replay(path)
    assert (report.ticks, report.exact) == (40, True)
