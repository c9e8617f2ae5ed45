"""Which commanded tasks gaits accept beside their own, and what controllers make of them."""

import numpy as np
import pytest
from fast import every
from rigs import at_rest, controller

from controllers.command import Inputs, Steering
from idyn.errors import InputError
from idyn.tasks import AngularMomentumTask, CenterOfPressureTask, ComTask, ForceTask, FrameTask, PostureTask, TaskStack

HAND, FOOT = "left_wrist_yaw_link", "left_ankle_roll_link"
WALKS = Steering(velocity=np.array([0.2, 0.0, 0.0]))
PLACE = np.array([0.2, 0.2, 0.9])


@pytest.fixture(scope="module")
def g1():
    return controller("g1-walk")


@every(
    "task",
    [
        FrameTask(frame=HAND, position=PLACE),
        FrameTask(frame="head_link", rotation=np.eye(3)),
        FrameTask(frame="torso_link", rotation=np.eye(3), axes="local", mask=[False] * 5 + [True]),
        PostureTask(joints=["waist_yaw_joint", "left_elbow_joint"], angles=[0.1, 0.2], stiffness=1000.0, damping=100.0),
    ],
)
def test_tasks_above_the_legs_are_accepted_and_leave_the_forces_of_the_feet(g1, task):
    stack = TaskStack(tasks=[task])
    g1.check_steering(WALKS, stack)
    g1.check_steering(Steering(), stack)
    forces = []
    for tasks in (None, stack):
        g1.reset()
        command = g1.step(at_rest(g1), g1.contacts(g1.stance), Inputs(dt=0.0, steering=WALKS, tasks=tasks))
        assert command.prediction is not None
        forces.append(command.prediction.force.sum(axis=0))
    np.testing.assert_allclose(*forces, atol=0.1)  # the centre of mass moves as without them
    assert {"centre of mass", "trunk", task.label()} <= {outcome.name for outcome in command.outcomes}


@every(
    ("field", "task", "reason"),
    [
        ("kind", ComTask(position=[0.0] * 3), "the gait decides how the centre of mass"),
        ("kind", AngularMomentumTask(), "the gait decides how the centre of mass"),
        ("kind", ForceTask(contacts="left_ankle_roll_link_0", normal=1.0), "how the feet are loaded"),
        ("kind", CenterOfPressureTask(contacts=["left_ankle_roll_link_0"], point=[0.0] * 3), "how the feet are loaded"),
        ("frame", FrameTask(frame="root_joint", position=[0.0] * 3), "got root_joint"),
        ("frame", FrameTask(frame="pelvis", rotation=np.eye(3)), "got pelvis"),
        ("frame", FrameTask(frame=FOOT, position=[0.0] * 3), f"got {FOOT}"),
        ("frame", FrameTask(frame="right_knee_link", position=[0.0] * 3), "got right_knee_link"),
        ("joints", PostureTask(joints=["left_knee_joint", "left_elbow_joint"], angles=[0.0, 0.0]), "got left_knee_joint$"),
        ("joints", PostureTask(angles=[0.0] * 29), "got left_hip_pitch_joint, left_hip_roll_joint"),
        ("position", FrameTask(frame=HAND, velocity=[0.1] * 6), "expected position or rotation"),
        ("angles", PostureTask(joints=["left_elbow_joint"]), "expected angles"),
        ("stiffness", FrameTask(frame=HAND, position=PLACE, stiffness=1001.0), "at most 1000 beside a gait, got 1001"),
        ("damping", FrameTask(frame=HAND, position=PLACE, damping=1e6), "at most 100 beside"),
        ("level", FrameTask(frame=HAND, position=PLACE, level=1), "expected 0: .* got 1"),
        ("name", FrameTask(frame=HAND, position=PLACE, name="landing pad"), "got 'landing pad'"),
    ],
)
def test_tasks_that_contradict_the_gait_are_refused_by_name(g1, field, task, reason):
    with pytest.raises(InputError, match=reason) as refused:
        g1.check_steering(WALKS, TaskStack(tasks=[FrameTask(frame=HAND, position=PLACE), task]))
    assert refused.value.field == f"tasks[1].{field}"


def test_all_contradictions_are_named_at_once(g1):
    tasks = [ComTask(), FrameTask(frame=FOOT, position=[0.0] * 3, level=3)]
    with pytest.raises(InputError) as refused:
        g1.check_steering(Steering(), TaskStack(tasks=tasks, modes={g1.robot.contact_names[0]: "open"}))
    assert refused.value.field == "modes"
    for part in ("which feet stand; tasks[0].kind: ", "; tasks[1].frame: ", f"got {FOOT}; tasks[1].level: "):
        assert part in refused.value.message


def test_a_gait_of_four_legs_refuses_tasks_beside_a_velocity_only():
    go2, stack = controller("quadruped-trot"), TaskStack(tasks=[ComTask()])
    with pytest.raises(InputError, match="a motion of all their joints") as refused:
        go2.check_steering(WALKS, stack)
    assert refused.value.field == "tasks"
    go2.check_steering(Steering(), stack)
    go2.check_steering(WALKS, None)


def test_targets_of_any_size_and_of_all_joints_above_the_legs_give_a_torque(g1):
    upper = [name for name in g1.robot.joint_names if "hip" not in name and "knee" not in name and "ankle" not in name]
    for task in (FrameTask(frame=HAND, position=[1e200, 0.0, 0.0]), PostureTask(joints=upper, angles=[0.1] * len(upper))):
        g1.reset()
        command = g1.step(at_rest(g1), g1.contacts(g1.stance), Inputs(dt=0.0, tasks=TaskStack(tasks=[task])))
        assert command.prediction is not None, command.message
        assert np.isfinite(command.tau).all()
