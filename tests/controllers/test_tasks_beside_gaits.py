"""Which commanded tasks gaits accept beside their own, and what controllers make of them."""

import numpy as np
import pytest
from fast import every
from rigs import at_rest, controller
from scipy.spatial.transform import Rotation

from controllers.command import Inputs, Steering
from controllers.planners.targets import STRETCH, TargetMotion, exponential, left_jacobian, logarithm
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


# -- targets of successive commands ------------------------------------------------------------------------------------


T = 0.02
"""Interval of the commands [s]."""


def stream(make, count, interval=T):
    """The target motions of commands make(t), one each interval."""
    motions = [TargetMotion(TaskStack(tasks=[make(0.0)]))]
    for k in range(1, count):
        motions.append(TargetMotion(TaskStack(tasks=[make(k * interval)]), motions[-1], interval))
    return motions


def sampled(motions, field, interval=T, n=20):
    """The field of the first task, n times in each interval."""
    times = np.arange(n) * interval / n
    return np.array([getattr(motion.at(t).tasks[0], field) for motion in motions for t in times])


def path(t):
    return np.array([np.sin(3.0 * t), 0.5 * t, np.cos(2.0 * t)])


def test_positions_along_a_path_are_joined_without_steps_and_with_the_velocity_of_the_path():
    motions = stream(lambda t: ComTask(position=path(t)), 100)
    x, v = sampled(motions[1:], "position"), sampled(motions[1:], "velocity")
    step = T / 20
    raw = np.linalg.norm(path(0.5 + T) - path(0.5))
    rates = np.linalg.norm(np.diff(x[200:], axis=0), axis=1) / step
    assert rates.max() < 4.0  # the path: at most 3.7 m/s
    assert rates.max() * step < 0.1 * raw
    times = T + np.arange(len(x)) * step
    expected = np.array([3.0 * np.cos(3.0 * times), np.full_like(times, 0.5), -2.0 * np.sin(2.0 * times)]).T
    assert np.abs(v[200:] - expected[200:]).max() < 0.5  # late by up to 50 ms, at up to 10 m/s²
    delayed = np.array([path(t - STRETCH * T) for t in times])
    assert np.abs(x[200:] - delayed[200:]).max() < 0.01


def test_a_straight_path_is_exact_but_late_and_a_step_is_reached_without_overshoot():
    motions = stream(lambda t: ComTask(position=t * np.array([1.0, -2.0, 0.5])), 200)
    np.testing.assert_allclose(sampled(motions[150:], "velocity"), np.tile([1.0, -2.0, 0.5], (1000, 1)), atol=1e-6)
    lag = 200 * T - T - motions[-1].at(0.0).tasks[0].position[0]
    assert lag == pytest.approx(STRETCH * T, abs=1e-6)

    motions = stream(lambda t: ComTask(position=[0.1 if t > 0.05 else 0.0, 0.0, 0.0]), 10)
    x, v = sampled(motions[1:], "position")[:, 0], sampled(motions[1:], "velocity")
    assert (np.diff(x) >= 0.0).all()
    assert np.abs(np.diff(x)).max() < 0.1 * 0.12
    assert x[-1] == pytest.approx(0.1, abs=1e-6)
    assert not v.any()

    (first, last) = stream(lambda t: ComTask(position=[t, 0.0, 0.0]), 2)
    np.testing.assert_allclose(last.at(STRETCH * T).tasks[0].position, [T, 0.0, 0.0], atol=1e-15)
    np.testing.assert_array_equal(last.at(1.0).tasks[0].velocity, 0.0)
    np.testing.assert_allclose(last.at_rest(0.01).tasks[0].position, last.at(0.01).tasks[0].position)
    assert first.at(0.0).tasks[0].velocity is None


@every("axes", ["world", "local"])
def test_rotations_turn_evenly(axes):
    axis = np.array([0.6, 0.0, 0.8])

    def make(t):
        return FrameTask(frame="f", position=[0.0] * 3, rotation=Rotation.from_rotvec(2.0 * t * axis).as_matrix(), axes=axes)

    motions = stream(make, 150)
    R, v = sampled(motions[120:], "rotation"), sampled(motions[120:], "velocity")
    turned = Rotation.from_matrix(R[1:] @ R[:-1].transpose(0, 2, 1)).as_rotvec() / (T / 20)
    np.testing.assert_allclose(turned, np.tile(2.0 * axis, (len(turned), 1)), atol=1e-4)
    np.testing.assert_allclose(v[:, 3:], np.tile(2.0 * axis, (len(v), 1)), atol=1e-4)  # the axis is the same in both frames
    np.testing.assert_array_equal(v[:, :3], 0.0)


@every(
    "task",
    [
        ComTask(position=[1.0, 0.0, 0.0], velocity=[0.0, 1.0, 0.0]),
        ComTask(position=[1.0, 0.0, 0.0], acceleration=[0.0, 1.0, 0.0]),
        FrameTask(frame="f", position=[1.0, 0.0, 0.0], velocity=[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        PostureTask(angles=[1.0], velocity=[0.0]),
        AngularMomentumTask(momentum=[1.0, 0.0, 0.0], momentum_rate=[0.0, 1.0, 0.0]),
        ForceTask(contacts="a", normal=4.0),
    ],
)
def test_targets_with_derivatives_and_forces_are_as_commanded(task):
    before = TargetMotion(TaskStack(tasks=[doubled(task)]))
    after, alone = TargetMotion(TaskStack(tasks=[task]), before, T), TargetMotion(TaskStack(tasks=[task]))
    for t in (0.0, 0.007, 0.5):
        for name in task.__struct_fields__:
            one, other = (getattr(motion.at(t).tasks[0], name) for motion in (after, alone))
            np.testing.assert_array_equal(one, other)


def doubled(task):
    """The same task with its vectors doubled."""
    fields = {name: getattr(task, name) for name in task.__struct_fields__}
    return type(task)(**{name: 2.0 * np.array(value) if isinstance(value, list) else value for name, value in fields.items()})


def test_another_task_begins_at_its_target():
    before = TargetMotion(TaskStack(tasks=[ComTask(position=[0.0] * 3), PostureTask(joints=["a"], angles=[0.0])]))
    tasks = [ComTask(position=[1.0] * 3, name="other"), PostureTask(joints=["b"], angles=[1.0])]
    first, second = TargetMotion(TaskStack(tasks=tasks), before, T).at(0.0).tasks
    np.testing.assert_array_equal(first.position, 1.0)
    np.testing.assert_array_equal(second.angles, 1.0)


def test_rotation_vectors_against_scipy():
    rng = np.random.default_rng(3)
    for angle in (0.0, 1e-13, 1e-9, 1e-5, 0.3, 2.0, 3.1, np.pi):
        axis = rng.normal(size=3)
        vector = angle * axis / np.linalg.norm(axis)
        R = Rotation.from_rotvec(vector).as_matrix()
        np.testing.assert_allclose(exponential(vector), R, atol=1e-12)
        found = logarithm(R)
        np.testing.assert_allclose(exponential(found), R, atol=1e-7 if angle > 3.12 else 1e-12)
        change, step = rng.normal(size=3), 1e-6
        moved = Rotation.from_rotvec(vector + step * change) * Rotation.from_rotvec(vector - step * change).inv()
        np.testing.assert_allclose(left_jacobian(vector) @ change, moved.as_rotvec() / (2 * step), atol=1e-6)
