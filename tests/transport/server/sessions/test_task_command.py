"""Commands with tasks, through bytes: what is refused, how targets move until the command expires, and what replaces them."""

import msgpack
import numpy as np
import pytest
from rig import Rig
from standin import SpringDamper

from idyn import InputError
from idyn.model.robot import Robot
from idyn.tasks import (
    AngularMomentumTask,
    CenterOfPressureTask,
    ComTask,
    ForceTask,
    FrameTask,
    PostureTask,
    TaskStack,
)
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.tasks import ComPart, ForcePart, FramePart, MomentumPart, PosturePart, PressurePart
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.task_input import read_tasks, write_tasks
from transport.server.service import Service
from transport.server.sessions.command_latch import STANDS
from transport.server.settings import ServerSettings

NAN, INF = float("nan"), float("inf")

FOOT = "FL_FOOT"


@pytest.fixture
def planned(robot: Robot) -> Rig:
    rig = Rig(robot, planners=("mpc",))
    rig.greet()
    rig.planner = rig.send(PlanHello(name="mpc"), b"p").session  # type: ignore[attr-defined]
    return rig


def command(rig: Rig, tasks: list, **fields: object) -> object:
    given = {"session": rig.planner, "valid_for": 1.0, "tasks": tasks} | fields  # type: ignore[attr-defined]
    return rig.send(CommandMessage(**given), b"p")  # type: ignore[arg-type]


def applied(rig: Rig, seq: int) -> tuple[TaskStack | None, str]:
    """Tasks that the controller got with state `seq`, and the message of the reply."""
    reply = rig.tick(seq)
    assert isinstance(reply, TorqueMessage), reply
    assert rig.controller.last is not None
    return rig.controller.last.tasks, reply.message


def foot(robot: Robot) -> str:
    return robot.contact_names[0]


def test_targets_move_by_their_derivatives_until_the_command_expires_and_then_stay(planned: Rig) -> None:
    part = FramePart(
        frame="root_joint",
        position=[1.0, 2.0, 3.0],
        rotation=[0.0, 0.0, 0.0, 1.0],
        velocity=[1.0, 0.0, 0.0, 0.0, 0.0, 10.0],
        acceleration=[0.0, 100.0, 0.0, 0.0, 0.0, 0.0],
    )
    push = ForcePart(contacts=[planned.controller.robot.contact_names[0]], normal=5.0)
    modes = {foot(planned.controller.robot): "open"}
    assert isinstance(command(planned, [part, push], valid_for=0.004, modes=modes), CommandAck)
    for seq in (1, 2, 3):  # states arrive at 1, 2, 3 ms, the command at 0
        tasks, message = applied(planned, seq)
        assert tasks is not None
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
        tasks, message = applied(planned, seq)
        assert tasks is not None
        assert message == STANDS
        frame, lowered = tasks.tasks  # the force task has ended, and the foot with a mode goes down
        assert lowered.frame == FOOT
        np.testing.assert_array_equal(lowered.velocity, [0.0, 0.0, -0.4, 0.0, 0.0, 0.0])
        assert lowered.position is None
        assert not tasks.modes
        np.testing.assert_allclose(frame.position, [1.004, 2.0 + 50.0 * 0.004**2, 3.0], atol=1e-12)
        assert frame.velocity is None
        assert frame.acceleration is None


def test_a_command_replaces_the_last_one_as_a_whole(planned: Rig) -> None:
    command(planned, [ComPart(position=[0.0, 0.0, 0.3])], modes={foot(planned.controller.robot): "slide"})
    tasks, _ = applied(planned, 1)
    assert tasks is not None
    assert dict(tasks.modes) == {foot(planned.controller.robot): "slide"}
    planned.send(CommandMessage(session=planned.planner, valid_for=1.0, velocity=[0.1, 0.0, 0.0]), b"p")  # type: ignore[attr-defined]
    assert applied(planned, 2) == (None, "")


@pytest.mark.parametrize(
    ("field", "tasks", "fields"),
    [
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
        ("tasks[0].contacts", [PressurePart(contacts=["nose"], point=[0.0] * 3)], {}),
        ("tasks[0].acceleration", [ComPart(acceleration=[0.0, 0.0, 1e308])], {}),
        ("tasks[0].acceleration", [FramePart(frame="root_joint", acceleration=[0.0] * 5 + [1e308])], {}),
        ("tasks[0].acceleration", [PosturePart(acceleration=[1e308] + [0.0] * 11)], {}),
        ("tasks[0].velocity", [ComPart(velocity=[0.0, -1e4, 0.0])], {}),
        ("tasks[0].position", [ComPart(position=[0.0, 0.0, 1e9])], {}),
        ("tasks[0].angles", [PosturePart(angles=[1e9] + [0.0] * 11)], {}),
        ("tasks[0].momentum", [MomentumPart(momentum=[1e300, 0.0, 0.0])], {}),
        ("tasks[0].momentum_rate", [MomentumPart(momentum_rate=[0.0, 0.0, 1e300])], {}),
        ("tasks[0].force", [ForcePart(contacts=[FOOT], force=[0.0, 0.0, 1e5])], {}),
        ("tasks[0].normal", [ForcePart(contacts=[FOOT], normal=1e5)], {}),
        ("tasks[1].name", [ComPart(name="sway"), FramePart(frame="root_joint", name="sway")], {}),
        ("tasks", [ComPart()] * 33, {}),
        ("modes.nose", [ComPart()], {"modes": {"nose": "open"}}),
        ("modes", [], {"modes": {FOOT: "open"}, "velocity": [0.0] * 3}),
        ("velocity", [], {}),
        ("valid_for", [ComPart()], {"valid_for": INF}),
    ],
)
def test_a_malformed_command_is_refused_whole_and_the_previous_one_stands(
    planned: Rig, field: str, tasks: list, fields: dict
) -> None:
    assert isinstance(command(planned, [ComPart(position=[0.0, 0.0, 0.25])]), CommandAck)
    refused = command(planned, tasks, **fields)
    assert isinstance(refused, ErrorMessage), refused
    assert refused.field == field
    stack, message = applied(planned, 1)
    assert stack is not None
    assert message == ""
    np.testing.assert_array_equal(stack.tasks[0].position, [0.0, 0.0, 0.25])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("field", "task"), [("tasks[0].kind", {"kind": "dance"}), ("tasks[0].positon", {"kind": "com", "positon": []})]
)
def test_an_unknown_kind_or_field_of_a_task_is_refused(planned: Rig, field: str, task: dict) -> None:
    message = {"t": "command", "v": "1.1", "session": planned.planner, "valid_for": 1.0, "tasks": [task]}  # type: ignore[attr-defined]
    refused = planned.raw(msgpack.packb(message), b"p")
    assert isinstance(refused, ErrorMessage)
    assert refused.field == field


def test_a_controller_that_realises_no_tasks_refuses_them(robot: Robot) -> None:
    rig, controller = Rig(robot), SpringDamper(robot)
    controller.realises_tasks = False
    rig.service = Service(controller, ServerSettings(controller="standin", planners=("mpc",)))
    rig.planner = rig.send(PlanHello(name="mpc"), b"p").session  # type: ignore[attr-defined]
    refused = command(rig, [ComPart()])
    assert isinstance(refused, ErrorMessage)
    assert refused.field == "tasks"


def test_tasks_are_the_same_after_the_wire(robot: Robot) -> None:
    turn = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    sent = [
        FrameTask(
            frame="root_joint", position=[1, 2, 3], rotation=turn, velocity=[0.1] * 6, axes="local", mask=[True] * 6, level=2
        ),
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


def test_weights_by_row_cannot_be_sent() -> None:
    with pytest.raises(InputError, match="weight"):
        write_tasks([ComTask(weight=[1.0, 1.0, 2.0])])
