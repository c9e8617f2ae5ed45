"""Inverse kinematics of legs, compared with Pinocchio's forward kinematics and with finite differences."""

import numpy as np
import pytest
from fast import every

from controllers.command import Steering
from controllers.planners import legs as planner
from controllers.planners.gait import GaitSettings
from controllers.planners.legs import Legs
from controllers.planners.locomotion import Locomotion
from controllers.planners.path import PathSettings
from controllers.robot.kinematics import contact_places
from controllers.robot.load import load_robot
from idyn.errors import InputError


def solved(legs, x, v, a, guess):
    """Angles, speeds and accelerations, and whether the feet reach their targets."""
    motion = guess.copy(), np.zeros(len(guess)), np.zeros(len(guess))
    reached = planner.solve(legs.fields, (x, v, a), motion)
    return *motion, reached


ROBOTS = ("quadruped", "solo12", "a1", "go2")


@pytest.fixture(params=ROBOTS)
def legged(request):
    robot, q = load_robot(request.param)
    return robot, Legs(robot, q), robot.joint_angles(q)


@pytest.mark.parametrize("legged", [*ROBOTS, "solo8"], indirect=True)
def test_foot_positions_match_pinocchio(legged):
    robot, legs, angles = legged
    rng = np.random.default_rng(0)
    for _ in range(20):
        there = angles + 0.3 * rng.normal(size=robot.na)
        expected = contact_places(robot, robot.with_joint_angles(robot.neutral(), there))
        np.testing.assert_allclose(legs.feet(there), expected, atol=1e-14)


def test_inverse_kinematics_inverts_forward_kinematics(legged):
    """From angles 0.1 rad off the solution, which is the only one nearby."""
    robot, legs, angles = legged
    rng = np.random.default_rng(1)
    zero = np.zeros((4, 3))
    for _ in range(20):
        there = angles + 0.1 * rng.normal(size=robot.na)
        q, v, a, reached = solved(legs, legs.feet(there), zero, zero, angles)
        assert reached
        np.testing.assert_allclose(q, there, atol=1e-9)
        assert not v.any()
        assert not a.any()


@pytest.mark.parametrize("legged", [*ROBOTS, "solo8"], indirect=True)
def test_joint_speeds_and_accelerations_match_finite_differences(legged):
    _, legs, angles = legged
    home = legs.feet(angles)
    way = 0.02 * np.array([[1, 2, 1], [-1, 1, 0.5], [0.3, -1, 1], [2, 0.2, -1]])

    def solve(t):
        return solved(legs, home + way * np.sin(3 * t), way * 3 * np.cos(3 * t), -way * 9 * np.sin(3 * t), angles)

    e = 1e-5
    before, now, after = solve(0.4 - e), solve(0.4), solve(0.4 + e)
    np.testing.assert_allclose(now[1], (after[0] - before[0]) / (2 * e), atol=1e-8)
    np.testing.assert_allclose(now[2], (after[1] - before[1]) / (2 * e), atol=1e-7)


def test_targets_out_of_reach_are_reported(legged):
    """A metre below the base: stretched legs, finite numbers, and False."""
    _, legs, angles = legged
    target = legs.feet(angles) - [0.0, 0.0, 1.0]
    q, v, a, reached = solved(legs, target, np.ones((4, 3)), np.ones((4, 3)), angles)
    assert not reached
    assert np.isfinite(np.concatenate([q, v, a])).all()


@pytest.fixture(scope="module")
def two_hinges():
    """solo8 has no hip abduction: all hinges are parallel to y."""
    robot, q = load_robot("solo8")
    return robot, Legs(robot, q), robot.joint_angles(q)


def test_two_hinges_leave_the_sideways_motion_out(two_hinges):
    """The angles are those of the targets without their y, and so are speeds and accelerations."""
    robot, legs, angles = two_hinges
    there = angles + 0.1 * np.random.default_rng(1).normal(size=robot.na)
    v, a = np.random.default_rng(2).normal(size=(2, 4, 3))
    flat = np.array([1.0, 0.0, 1.0])
    expected = solved(legs, legs.feet(there), v * flat, a * flat, angles)
    found = solved(legs, legs.feet(there) + np.array([0.0, 0.02, 0.0]), v, a, angles)
    assert found[3]
    np.testing.assert_allclose(found[0], there, atol=1e-9)
    for one, other in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_two_hinges_report_targets_far_to_the_side(two_hinges):
    _, legs, angles = two_hinges
    zero = np.zeros((4, 3))
    assert not solved(legs, legs.feet(angles) + np.array([0.0, 0.05, 0.0]), zero, zero, angles)[3]


@every("k", [1, 2])
def test_a_robot_on_two_hinges_refuses_to_step_sideways_and_to_turn(two_hinges, k):
    plan = Locomotion(two_hinges[0], load_robot("solo8")[1], 0.0, GaitSettings(), PathSettings(), 2e-3)
    velocity = np.array([0.3, 0.0, 0.0])
    plan.check(Steering(velocity=velocity))
    velocity[k] = 0.1
    with pytest.raises(InputError) as refused:
        plan.check(Steering(velocity=velocity))
    assert refused.value.field == f"velocity[{k}]"


@every("name", ["solo8", "fivebar"])
def test_legs_of_two_hinges_reach_further_forwards_than_sideways(name):
    """Sideways, a foot may be 3 cm from the plane of its leg. Both robots have legs of 0.3 m."""
    plan = Locomotion(*load_robot(name), 0.0, GaitSettings(), PathSettings(), 2e-3)
    forward, aside = plan.reach.strides
    assert 0.08 < forward < 0.25
    assert aside == pytest.approx(0.03, abs=0.002)
    assert plan.plan.slender == pytest.approx(forward / aside)
