"""Reference trajectories: derivatives, start, and feet that stay in place."""

import numpy as np
import pytest
from fast import every, first_is_fast
from rigs import controller

from controllers.config.loading import parse
from controllers.planners.trajectory import AnyTrajectory
from controllers.robot.kinematics import angles_for_base_shift, contact_places
from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.model.description import Description
from idyn.model.robot import Robot
from idyn.types import State

MOVING = ("sway", "squat")
ROBOTS = ("quadruped", "solo12", "a1", "go2")
MOTIONS = [*((name, kind) for name in ROBOTS for kind in MOVING), ("arm", "sinusoid"), ("quadruped", "sinusoid")]


class Timed:
    """A trajectory that depends on time only."""

    def __init__(self, motion, robot, stance):
        self.motion = motion
        self.state = State(q=stance, v=np.zeros(robot.nv))
        self.contacts = contacts_from_geometry(robot, stance, Flat(), margin=0.002)

    def at(self, t):
        return self.motion.at(t, self.state, self.contacts)


def motion(kind, **settings):
    return parse({"kind": kind, **settings}, AnyTrajectory, "reference")


def trajectory(name, kind, **settings):
    robot, stance = load_robot(name)
    return robot, stance, Timed(motion(kind, **settings).build(robot, stance, 0.001), robot, stance)


@every(("name", "kind"), MOTIONS)
def test_velocities_and_accelerations_are_derivatives(name, kind):
    """By central differences, over the ramp, across its end, and in the steady motion."""
    _, _, motion = trajectory(name, kind, start=0.1)
    e = 1e-5
    for t in (0.05, 0.11, 0.3, 0.59, 0.6 - 3e-5, 0.6 + 3e-5, 0.77, 2.3):
        before, now, after = motion.at(t - e), motion.at(t), motion.at(t + e)
        np.testing.assert_allclose(now.v, (after.q - before.q) / (2 * e), atol=1e-6)
        np.testing.assert_allclose(now.a, (after.v - before.v) / (2 * e), atol=1e-4)


@every(("name", "kind"), MOTIONS)
def test_trajectories_begin_at_rest_in_the_stance(name, kind):
    robot, stance, motion = trajectory(name, kind, start=0.2)
    for t in (0.0, 0.1, 0.2):
        reference = motion.at(t)
        np.testing.assert_allclose(reference.q, robot.joint_angles(stance), atol=1e-9)
        np.testing.assert_allclose(reference.v, 0, atol=1e-12)
        np.testing.assert_allclose(reference.a, 0, atol=1e-9)


@every(("kind", "axis"), [("sway", 1), ("squat", 2)])
@pytest.mark.parametrize("name", first_is_fast(ROBOTS))
def test_feet_stay_in_place_while_the_base_moves(name, kind, axis):
    """With the base moved along the stroke, the feet are where they were: to a micrometre, at the ends and in between."""
    robot, stance, motion = trajectory(name, kind, amplitude=0.01, ramp=0.1)
    places = contact_places(robot, stance).copy()
    reached = 0.0
    for t in np.linspace(0.1, 1.1, 23):
        shift = np.zeros(robot.nv)
        shift[axis] = 0.01 * np.sin(2 * np.pi * t)
        reached = max(reached, abs(shift[axis]))
        q = robot.with_joint_angles(robot.integrate(stance, shift), motion.at(t).q)
        np.testing.assert_allclose(contact_places(robot, q), places, atol=1e-6)
    assert reached > 0.0099


def test_a_sinusoid_lowers_by_its_amplitude_and_returns():
    robot, stance, motion = trajectory("arm", "sinusoid", amplitude=0.0846, frequency=3.0, ramp=0.5)
    angles = np.array([motion.at(t).q for t in np.arange(0.5, 3.0, 1e-3)]) - robot.joint_angles(stance)
    np.testing.assert_allclose(angles.max(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(angles.min(axis=0), -0.0846, atol=1e-5)
    np.testing.assert_allclose(motion.at(1.0).q, motion.at(4 / 3).q, atol=1e-12)


@every("name", ROBOTS)
def test_inverse_kinematics_reaches_the_moved_base(name):
    robot, stance = load_robot(name)
    shift = np.array([0.004, -0.006, 0.005])
    angles = angles_for_base_shift(robot, stance, shift)
    moved = stance.copy()
    moved[:3] += shift
    places = contact_places(robot, stance).copy()
    np.testing.assert_allclose(contact_places(robot, robot.with_joint_angles(moved, angles)), places, atol=1e-10)


def test_hold_keeps_the_stance():
    robot, stance, motion = trajectory("solo12", "hold")
    for t in (0.0, 1.0, 1e6):
        np.testing.assert_array_equal(motion.at(t).q, robot.joint_angles(stance))
        assert not motion.at(t).v.any()
        assert not motion.at(t).a.any()


def test_sway_requires_a_floating_base():
    robot, _ = load_robot("solo12")
    arm = Robot(Description(urdf=robot.description.urdf, base="fixed"))
    with pytest.raises(ConfigError, match=r"reference\.kind: 'sway' needs a floating base"):
        motion("sway").build(arm, arm.neutral(), 0.001)


def test_the_start_is_a_setting():
    assert controller("solo12", reference__kind="sway").settings.reference.start >= 0
    late = controller("solo12", reference__kind="sway", reference__start=1.0)
    assert late.settings.reference.start == 1.0
