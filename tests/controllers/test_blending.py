"""Targets of successive commands: how those without derivatives move from one command to the next."""

import numpy as np
import pytest
from fast import every
from scipy.spatial.transform import Rotation

from controllers.planners.task_motion.targets import STRETCH, TargetMotion, exponential, left_jacobian, logarithm
from idyn.tasks import AngularMomentumTask, ComTask, ForceTask, FrameTask, PostureTask, TaskStack

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


def test_a_straight_path_at_constant_velocity_is_exact_but_late():
    motions = stream(lambda t: ComTask(position=t * np.array([1.0, -2.0, 0.5])), 200)
    np.testing.assert_allclose(sampled(motions[150:], "velocity"), np.tile([1.0, -2.0, 0.5], (1000, 1)), atol=1e-6)
    lag = 200 * T - T - motions[-1].at(0.0).tasks[0].position[0]
    assert lag == pytest.approx(STRETCH * T, abs=1e-6)


def test_a_step_is_reached_without_overshoot_and_with_no_velocity():
    motions = stream(lambda t: ComTask(position=[0.1 if t > 0.05 else 0.0, 0.0, 0.0]), 10)
    x, v = sampled(motions[1:], "position")[:, 0], sampled(motions[1:], "velocity")
    assert (np.diff(x) >= 0.0).all()
    assert np.abs(np.diff(x)).max() < 0.1 * 0.12
    assert x[-1] == pytest.approx(0.1, abs=1e-6)
    assert not v.any()


def test_after_a_late_command_the_target_rests_at_its_goal():
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
