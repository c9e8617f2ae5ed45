"""Legs: positions, speeds and accelerations of the feet against Pinocchio; closed legs and legs of two hinges."""

from functools import lru_cache

import numpy as np
import pinocchio as pin
import pytest
from fast import every, every_row, first_is_fast, full
from many_hinges import quadruped_of
from rigs import Walker

from controllers.command import Steering
from controllers.planners import legs as planner
from controllers.planners.gait import GaitSettings
from controllers.planners.legs import Legs
from controllers.planners.locomotion import Locomotion
from controllers.planners.path import PathSettings
from controllers.robot.kinematics import close_chains, contact_places
from idyn import ConfigError, InputError, load_robot
from idyn.model.description import Closure

ROBOTS = ("quadruped", "solo12", "a1", "go2")
BUILDS = [(4, 4), (5, 5), (6, 6), (7, 7), (4, 7)]  # hinges of the front and the hind legs
FEET = ("LF", "RF", "LH", "RH")
WAY = 0.02 * np.array([[1, 2, 1], [-1, 1, 0.5], [0.3, -1, 1], [2, 0.2, -1]])
ALL, FLAT = np.ones(3), np.array([1.0, 0.0, 1.0])
FINE, COARSE = (1e-8, 1e-7), (1e-6, 1e-6)


class Rig:
    """A robot's legs, and the same robot with a fixed base in Pinocchio."""

    def __init__(self, robot, stance, ends):
        """ends: frames that reach the feet, per foot"""
        self.robot, self.legs, self.ends = robot, Legs(robot, stance), ends
        self.angles = self.legs.angles(stance)
        self.model = pin.buildModelFromXML(robot.description.urdf)
        self.data = self.model.createData()
        passive = np.setdiff1d(np.arange(6, robot.nv), robot.tree.a)
        self.order = np.concatenate([robot.tree.a, passive]) - 6

    def solve(self, x, v, a, guess=None):
        motion = (self.angles if guess is None else guess).copy(), np.zeros(len(self.angles)), np.zeros(len(self.angles))
        return *motion, planner.solve(self.legs, (x, v, a), motion)

    def in_pinocchio(self, angles):
        full = np.zeros(self.model.nv)
        full[self.order] = angles
        return full

    def motion_of(self, frame, q, v, a):
        """Position, velocity and acceleration of a frame in the base frame, by Pinocchio."""
        pin.forwardKinematics(self.model, self.data, *map(self.in_pinocchio, (q, v, a)))
        pin.updateFramePlacements(self.model, self.data)
        at = self.model.getFrameId(frame), pin.LOCAL_WORLD_ALIGNED
        motion = (get(self.model, self.data, *at).linear for get in (pin.getFrameVelocity, pin.getFrameClassicalAcceleration))
        return self.data.oMf[at[0]].translation, *motion


@lru_cache(maxsize=16)
def rig_of(build):
    """Of a shipped robot, or of a quadruped with so many hinges."""
    if isinstance(build, tuple):
        return Rig(*quadruped_of(*build), [(f"{foot}_foot",) for foot in FEET])
    return Rig(*load_robot(build), [(f"{foot}_front_end", f"{foot}_hind_end") for foot in FEET])


@every("name", [*ROBOTS, "solo8"])
def test_foot_positions_match_pinocchio(name):
    rig, rng = rig_of(name), np.random.default_rng(0)
    for _ in range(20):
        there = rig.angles + 0.3 * rng.normal(size=rig.robot.na)
        expected = contact_places(rig.robot, rig.robot.with_joint_angles(rig.robot.neutral(), there))
        np.testing.assert_allclose(rig.legs.feet(there), expected, atol=1e-14)


@every("name", ROBOTS)
def test_inverse_kinematics_inverts_forward_kinematics(name):
    """From angles 0.1 rad off the solution, which is the only one nearby."""
    rig, rng, zero = rig_of(name), np.random.default_rng(1), np.zeros((4, 3))
    for _ in range(20):
        there = rig.angles + 0.1 * rng.normal(size=rig.robot.na)
        q, v, a, reached = rig.solve(rig.legs.feet(there), zero, zero)
        assert reached
        np.testing.assert_allclose(q, there, atol=1e-9)
        assert not v.any()
        assert not a.any()


@every(("build", "along", "tolerance"), first_is_fast([("fivebar", FLAT, 1e-9), *((build, ALL, 1e-7) for build in BUILDS)], 2))
def test_feet_move_as_wanted(build, along, tolerance):
    rig, rng = rig_of(build), np.random.default_rng(0)
    home = rig.legs.feet(rig.angles)
    for _ in range(20):
        x, (v, a) = home + along * rng.uniform(-0.04, 0.04, (4, 3)), along * rng.normal(size=(2, 4, 3))
        *motion, reached = rig.solve(x, v, a)
        assert reached
        for i, frames in enumerate(rig.ends):
            for frame in frames:
                for one, wanted in zip(rig.motion_of(frame, *motion), (x[i], v[i], a[i]), strict=True):
                    np.testing.assert_allclose(one, wanted, atol=tolerance * max(1.0, np.abs(wanted).max()))


@every_row(*((name, ALL, FINE) for name in (*ROBOTS, "solo8")), *((b, ALL, COARSE) for b in BUILDS), ("fivebar", FLAT, COARSE))
def test_joint_speeds_and_accelerations_match_finite_differences(build, along, tolerances):
    """With more hinges than the foot needs, too."""
    rig, way, e = rig_of(build), WAY * along, 1e-5
    home = rig.legs.feet(rig.angles)

    def solve(t):
        return rig.solve(home + way * np.sin(3 * t), way * 3 * np.cos(3 * t), -way * 9 * np.sin(3 * t))

    before, now, after = solve(0.4 - e), solve(0.4), solve(0.4 + e)
    for k, tolerance in enumerate(tolerances):
        np.testing.assert_allclose(now[k + 1], (after[k] - before[k]) / (2 * e), atol=tolerance)


@every("build", [*ROBOTS, *BUILDS])
def test_targets_out_of_reach_are_reported(build):
    """A metre below the base: stretched legs, finite numbers, and False."""
    rig = rig_of(build)
    q, v, a, reached = rig.solve(rig.legs.feet(rig.angles) - [0.0, 0.0, 1.0], np.ones((4, 3)), np.ones((4, 3)))
    assert not reached
    assert np.isfinite(np.concatenate([q, v, a])).all()


@every("build", BUILDS)
def test_the_posture_is_the_nearest_to_the_stance(build):
    """θ − θ₀ has no part in the null space of the Jacobian, by Pinocchio, and does not depend on the guess."""
    rig = rig_of(build)
    rng, home, zero = np.random.default_rng(3), rig.legs.feet(rig.angles), np.zeros((4, 3))
    x = home + rng.uniform(-0.04, 0.04, (4, 3))
    q, _, _, reached = rig.solve(x, zero, zero)
    assert reached
    away = rig.in_pinocchio(q - rig.angles)
    for (frame,) in rig.ends:
        end = rig.model.getFrameId(frame)
        full = pin.computeFrameJacobian(rig.model, rig.data, rig.in_pinocchio(q), end, pin.LOCAL_WORLD_ALIGNED)
        J, of_leg = full[:3], np.abs(full).max(axis=0) > 0
        pull = np.linalg.lstsq(J[:, of_leg].T, away[of_leg], rcond=None)[0]
        np.testing.assert_allclose(J[:, of_leg].T @ pull, away[of_leg], atol=1e-7)
    assert np.abs(away).max() > 0.01
    other = rig.solve(x, zero, zero, rig.angles + 0.02 * rng.normal(size=len(q)))
    assert other[3]
    np.testing.assert_allclose(other[0], q, atol=1e-7)


# -- two hinges: solo8 has no hip abduction, all hinges are parallel to y -------------------------------------------------


def test_two_hinges_leave_the_sideways_motion_out_and_report_targets_far_to_the_side():
    """The angles are those of the targets without their y, and so are speeds and accelerations."""
    rig, zero = rig_of("solo8"), np.zeros((4, 3))
    there = rig.angles + 0.1 * np.random.default_rng(1).normal(size=rig.robot.na)
    v, a = np.random.default_rng(2).normal(size=(2, 4, 3))
    expected = rig.solve(rig.legs.feet(there), v * FLAT, a * FLAT)
    found = rig.solve(rig.legs.feet(there) + np.array([0.0, 0.02, 0.0]), v, a)
    assert found[3]
    np.testing.assert_allclose(found[0], there, atol=1e-9)
    for one, other in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert not rig.solve(rig.legs.feet(rig.angles) + np.array([0.0, 0.05, 0.0]), zero, zero)[3]


@every("k", [1, 2])
def test_a_robot_on_two_hinges_refuses_to_step_sideways_and_to_turn(k):
    plan = Locomotion(*load_robot("solo8"), 0.0, GaitSettings(), PathSettings(), 2e-3)
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


# -- closed legs -----------------------------------------------------------------------------------------------------------


@full
def test_closed_legs_walk_in_the_plan():
    walker = Walker("fivebar", velocity=(0.2, 0.0, 0.0))
    robot, moved, last = walker.robot, [], None
    for k in range(1500):
        reference = walker.tick()
        assert not reference.problem
        assert len(reference.q) == robot.na
        q = close_chains(robot, walker.q)
        walker.stance = q
        turns, origins = (each[robot.spheres.joints] for each in robot.place(q))
        feet = origins + np.einsum("nij,nj->ni", turns, robot.spheres.offsets)
        if last is not None and k > 300:
            both = reference.schedule.stance & last[1]
            moved.append(np.abs(feet - last[0])[both, 0].max())
        last = feet, reference.schedule.stance
    assert np.max(moved) < 2e-6
    assert walker.plan.plan.pose[0] > 0.2


@every("second", ["LF_front_knee", "LF_hind_knee"])
def test_legs_that_close_elsewhere_are_refused(second):
    robot, stance = load_robot("fivebar")
    frames = {"LF_front_knee": "RF_hind_shank", "LF_hind_knee": "RF_front_shank"}
    closures = (*robot.description.closure, Closure(first="LF_hind_thigh", second=frames[second]))
    other = robot.variant(closure=closures)
    with pytest.raises(ConfigError, match="centre of a foot"):
        Legs(other, stance)


def test_an_open_leg_with_a_joint_without_motor_is_refused():
    robot, stance = quadruped_of(4, 4)
    other = robot.variant(unactuated=("LF_3",))
    with pytest.raises(ConfigError, match="LF_3"):
        Legs(other, stance)
