"""Frames, centre of mass and momentum: velocities against differences of positions, momentum against single bodies."""

import numpy as np
import pytest
from fast import every
from scenes import WALKERS, walker
from scipy.spatial.transform import Rotation

from idyn.errors import FrameNotFound, InputError

STEP = 1e-6


def moving(name, seed=0):
    robot, stance = walker(name)
    rng = np.random.default_rng(seed)
    return robot, robot.integrate(stance, 0.3 * rng.normal(size=robot.nv)), rng.normal(size=robot.nv)


def difference(f, robot, q, v):
    """Derivative of f(q) along v."""
    return (f(robot.integrate(q, STEP * v)) - f(robot.integrate(q, -STEP * v))) / (2 * STEP)


@every("name", [*WALKERS, "go2"])
def test_velocities_are_the_derivatives_of_placements(name):
    robot, q, v = moving(name)
    for frame in robot.frames.names[1::7]:
        linear = difference(lambda q, frame=frame: robot.frames.placement(frame, q).translation, robot, q, v)
        ahead, behind = (robot.frames.placement(frame, robot.integrate(q, s * STEP * v)).rotation for s in (1, -1))
        angular = Rotation.from_matrix(ahead @ behind.T).as_rotvec() / (2 * STEP)
        np.testing.assert_allclose(robot.frames.velocity(frame, q, v), [*linear, *angular], atol=1e-7)
        turn, place = robot.frames.placement(frame, q)
        local, world = (robot.frames.velocity(frame, q, v, axes=axes) for axes in ("local", "world"))
        np.testing.assert_allclose([*turn @ local[:3], *turn @ local[3:]], [*linear, *angular], atol=1e-7)
        np.testing.assert_allclose(world, [*(linear + np.cross(place, angular)), *angular], atol=1e-7)


@every("axes", ["local_world_aligned", "local", "world"])
def test_the_drift_is_the_rate_of_the_velocity(axes):
    robot, q, v = moving("quadruped")
    for frame in robot.frames.names[1::7]:
        rate = difference(lambda q, frame=frame: robot.frames.velocity(frame, q, v, axes=axes), robot, q, v)
        np.testing.assert_allclose(robot.frames.drift(frame, q, v, axes=axes), rate, atol=1e-6)


@every("name", [*WALKERS, "go2"])
def test_centre_of_mass_and_momentum(name):
    robot, q, v = moving(name, 1)
    velocity = difference(robot.frames.center_of_mass, robot, q, v)
    np.testing.assert_allclose(robot.frames.center_of_mass_jacobian(q) @ v, velocity, atol=1e-7)
    momentum = robot.frames.momentum(q, v)
    np.testing.assert_allclose(momentum.linear, robot.total_mass * velocity, atol=1e-6)
    # rows of the free flyer in M v: the momentum in the base's frame, about the base's origin
    turn, generalised = Rotation.from_quat(q[3:7]).as_matrix(), (robot.terms(q, v).M @ v)[:6]
    linear, about_base = turn @ generalised[:3], turn @ generalised[3:]
    np.testing.assert_allclose(momentum.linear, linear, atol=1e-9)
    about_centre = about_base - np.cross(robot.frames.center_of_mass(q) - q[:3], linear)
    np.testing.assert_allclose(momentum.angular, about_centre, atol=1e-9)


def test_unknown_frames_and_wrong_sizes_are_named():
    robot, q, v = moving("quadruped")
    with pytest.raises(FrameNotFound, match="LF_FOT"):
        robot.frames.placement("LF_FOT", q)
    with pytest.raises(InputError, match=r"^q: expected an array of shape"):
        robot.frames.placement(robot.frames.names[1], q[:-1])
    with pytest.raises(InputError, match=r"^v: "):
        robot.frames.velocity(robot.frames.names[1], q, v[:-1])
    with pytest.raises(InputError, match=r"^axes: expected one of"):
        robot.frames.jacobian(robot.frames.names[1], q, axes="body")
