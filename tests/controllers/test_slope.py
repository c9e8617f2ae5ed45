"""Gaits on slopes: the plane through the standing feet, the lean of the base, and plans on inclined ground."""

import numpy as np
import pytest
from fast import every, first_is_fast, full
from rigs import DT, Walker
from scipy.spatial.transform import Rotation

from controllers.contact.ground import StandingPlane
from controllers.planners.gait import GaitSettings
from controllers.planners.locomotion import Locomotion, plane
from controllers.planners.path import PathSettings
from controllers.planners.pose import BasePose, PoseSettings, lean_on
from controllers.planners.slope import CAREFUL, UNEVEN, Slope, across, advance_slope, observe, plane_error, watch
from controllers.robot.kinematics import angles_for_places, contact_places, resting
from controllers.robot.load import load_robot
from idyn.contact.terrain import Heightmap, Stairs, heights_below
from idyn.contact.terrain import Slope as SlopedGround
from idyn.model.so3 import rotation, tilt, up, yaw

FEET = np.array([[0.2, 0.15, -0.3], [0.22, -0.14, -0.3], [-0.19, 0.13, -0.3], [-0.2, -0.16, -0.3]])
SLOPES = {"up": (0.36, 0.0), "down": (-0.3, 0.0), "left": (0.0, 0.25), "both": (0.2, -0.3), "level": (0.0, 0.0)}


def on_plane(gradient, attitude, yaw):
    """Feet on a plane below the base, in the frame of a base that is turned by yaw, then tilted. gradient: in the world (2)"""
    world = Rotation.from_euler("z", yaw).apply(FEET)
    world[:, 2] = -0.3 + world[:, :2] @ gradient
    R = Rotation.from_euler("z", yaw) * Rotation.from_rotvec(attitude)
    return R.inv().apply(world), R


@every("gradient", SLOPES.values())
def test_the_gradient_is_that_of_the_plane_through_the_feet(gradient):
    """In the heading frame, of a base with any attitude: found by turning the world's gradient back by the heading."""
    feet, R = on_plane(gradient, [0.1, -0.2, 0.05], 0.8)
    up, forward = R.as_matrix()[2].copy(), R.as_matrix()[:, 0]
    heading = np.arctan2(forward[1], forward[0])
    expected = Rotation.from_euler("z", -heading).apply([*gradient, 0.0])[:2]
    found = plane_error(feet, up, np.ones(4, dtype=bool), (0.0, 0.0))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    left = plane_error(feet, up, np.ones(4, dtype=bool), tuple(expected))
    np.testing.assert_allclose(left, 0.0, atol=1e-12)


@every("pairs", first_is_fast([[(0, 3), (1, 2)], [(0, 1, 2, 3)]]))
def test_the_gradient_is_found_from_pairs_of_feet_in_turn(pairs):
    slope, yaw = Slope(follows=True), 0.4
    feet, R = on_plane((0.2, -0.1), [0.02, 0.05, 0.0], yaw)
    heading = np.arctan2(*R.as_matrix()[1::-1, 0])
    for k in range(3000):
        stands = np.isin(np.arange(4), pairs[k // 150 % len(pairs)])
        advance_slope(slope, DT, heading, 0.0)
        observe(slope, feet, R.as_matrix()[2].copy(), stands, heading, 10.0 * DT)
    np.testing.assert_allclose(slope.x, (0.2, -0.1), atol=1e-3)
    turned = Rotation.from_euler("z", -heading).apply([*slope.x, 0.0])[:2]
    np.testing.assert_allclose(slope.g, turned, atol=1e-12)


def test_nearly_level_ground_counts_as_level_and_heights_count_from_the_slope():
    slope = Slope(follows=True)
    feet, R = on_plane((0.01, 0.01), [0.0, 0.0, 0.0], 0.0)
    for _ in range(500):
        advance_slope(slope, DT, 0.0, 0.0)
        observe(slope, feet, R.as_matrix()[2].copy(), np.ones(4, dtype=bool), 0.0, 10.0 * DT)
    assert not slope.x.any()
    slope, (feet, R) = Slope(follows=True), on_plane((0.2, -0.1), [0.1, 0.05, 0.0], 0.0)
    slope.g[:] = plane_error(feet, R.as_matrix()[2].copy(), np.ones(4, dtype=bool), (0.0, 0.0))
    np.testing.assert_allclose(feet @ across(slope, R.as_matrix()[2].copy()), -0.3, atol=1e-12)


def test_footholds_have_heights_above_the_slope_only_for_a_while_after_a_step():
    """On planes they are zero. With a foot on a step, standing feet have their own, a foot in the air that of the last one."""
    slope, places, t = Slope(), FEET.copy(), 0.3
    stands, nowhere = np.ones(4, dtype=bool), np.full((4, 2), np.nan)
    for gradient in SLOPES.values():
        places[:, 2] = places[:, :2] @ gradient
        watch(slope, places, stands, nowhere, t)
        assert not slope.heights.any()
    slope.x[:] = 0.3, -0.2
    places[:, 2] = places[:, :2] @ slope.x
    watch(slope, places, stands, nowhere, t)
    places[0, 2] += 10 * UNEVEN
    stands[1] = False
    goals = np.where(stands[:, None], np.nan, FEET[:, :2] + 0.1)
    watch(slope, places, stands, goals, t)
    middle = places.mean(axis=0)
    above = places[:, 2] - middle[2] - (places - middle)[:, :2] @ slope.x
    _, gradient = plane(places[:, :2], places[:, 2])
    above[1] = (goals[1] - middle[:2]) @ (gradient - slope.x)
    np.testing.assert_allclose(slope.heights, above, atol=1e-15)
    places[0, 2] -= 10 * UNEVEN
    slope.x[:] = 0.0  # the planned slope differs, so that heights are not zero
    for later, forgets in (0.9 * CAREFUL, False), (1.1 * CAREFUL, True):
        watch(slope, places, stands, nowhere, t + later)
        assert (not slope.heights.any()) == forgets


def test_the_base_leans_normal_to_the_ground_with_exact_rates():
    def at(t):
        pose = BasePose(PoseSettings())
        g = np.array([0.3 * np.sin(t), 0.2 + 0.1 * np.cos(2 * t)])
        dg = np.array([0.3 * np.cos(t), -0.2 * np.sin(2 * t)])
        ddg = np.array([-0.3 * np.sin(t), -0.4 * np.cos(2 * t)])
        lean_on(pose, g, dg, ddg)
        return pose, g

    t, h = 0.7, 1e-4
    (before, _), (now, g), (after, _) = at(t - h), at(t), at(t + h)
    normal = np.array([-g[0], -g[1], 1.0])
    np.testing.assert_allclose(now.R[:, 2], normal / np.linalg.norm(normal), atol=1e-14)
    turned = Rotation.from_matrix(before.R.T @ after.R).as_rotvec() / (2 * h)
    np.testing.assert_allclose(now.w, turned, atol=1e-7)
    np.testing.assert_allclose(now.dw, (after.w - before.w) / (2 * h), atol=1e-7)


class SlopeWalker(Walker):
    """A robot on a slope that follows its planner exactly. Its base has the planned attitude and rises with the slope."""

    def __init__(self, name, gradient, ground, gait=None, **path):
        super().__init__(name, start=0.3, gait=gait, **path)
        angle, direction = np.arctan(np.hypot(*gradient)), np.arctan2(gradient[1], gradient[0])
        self.gradient, self.terrain = np.array(gradient), SlopedGround(angle, direction=direction)
        stance = resting(self.robot, self.stance, self.terrain) if ground == "told" else self.stance
        gait = gait or GaitSettings(capture=0.0)
        self.plan = Locomotion(self.robot, stance, 0.3, gait, PathSettings(**path), DT)
        self.plan.on(self.terrain if ground == "told" else StandingPlane(), ground)
        self.start = resting(self.robot, self.stance, self.terrain)
        places = contact_places(self.robot, self.start)
        self.start[2] = self.stance[2]  # above the slope at the origin
        self.angles = angles_for_places(self.robot, self.start, places)

    @property
    def q(self):
        x, y, yaw = self.plan.plan.pose
        q = self.start.copy()
        q[:3] = x, y, self.stance[2] + self.gradient @ (x, y)
        if self.k:
            q[3:7] = (Rotation.from_euler("z", yaw) * Rotation.from_matrix(self.plan.plan.base.R)).as_quat()
        return self.robot.with_joint_angles(q, self.angles)

    @property
    def twist(self):
        u, base = self.plan.plan.u, self.plan.plan.base
        rise = self.gradient @ (Rotation.from_euler("z", self.plan.plan.pose[2]).apply([u[0], u[1], 0.0])[:2])
        return np.concatenate([base.R.T @ (u[0], u[1], rise), base.R.T @ (0.0, 0.0, u[2]) + base.w])


@full
@pytest.mark.parametrize("ground", first_is_fast(["standing", "told"]))
@pytest.mark.parametrize("name", first_is_fast(["go2", "quadruped", "solo12", "a1"]))
def test_standing_feet_stay_where_they_are_on_a_slope(name, ground):
    """The plan on a slope is consistent: on it, once the base leans, standing feet neither slide nor leave the ground."""
    walker = SlopeWalker(name, (0.15, -0.08), ground, velocity=(0.2, 0.05, 0.2), duration=10.0)
    before, steps = None, 0
    for k in range(1500):
        reference = walker.tick()
        q = walker.robot.with_joint_angles(walker.q, reference.q)
        places, stands = contact_places(walker.robot, q), reference.schedule.stance & ~walker.plan.plan.seeking
        if before is not None and k > 900:
            both = stands & before[1]
            steps += int((~stands & before[1]).sum())
            np.testing.assert_allclose(places[both][:, :2], before[0][both][:, :2], atol=2e-5)
            gaps, _ = walker.terrain.query(places)
            settled = both & (walker.plan.plan.phase > 0.4) & (walker.plan.plan.phase < 0.6)
            np.testing.assert_allclose((gaps - walker.robot.spheres.radii)[settled], 0.0, atol=2e-3)
        before = places, stands
    assert steps >= 4
    normal = np.array([-0.15, 0.08, 1.0])
    R = Rotation.from_quat(walker.q[3:7]).as_matrix()
    np.testing.assert_allclose(R[:, 2], normal / np.linalg.norm(normal), atol=5e-3)


def test_a_steep_slope_lets_the_base_of_the_stance_lean():
    """The legs of the quadruped do not reach 20 degrees from a level base."""
    robot, stance = load_robot("quadruped")
    ground = SlopedGround(0.35)
    q = resting(robot, stance, ground)
    gaps, normals = ground.query(contact_places(robot, q))
    np.testing.assert_allclose(gaps, robot.spheres.radii, atol=1e-9)
    np.testing.assert_allclose(Rotation.from_quat(q[3:7]).as_matrix()[:, 2], normals[0], atol=1e-9)
    np.testing.assert_allclose(contact_places(robot, q)[:, :2], contact_places(robot, stance)[:, :2], atol=1e-9)


@every("name", ["go2", "quadruped"])
def test_steps_on_a_told_slope_are_as_long_as_on_level_ground(name):
    """The stance on the slope has legs of different lengths; the gait steps below a base that leans."""
    robot, stance = load_robot(name)
    ground = SlopedGround(0.35)
    level = Locomotion(robot, stance, 0.0, GaitSettings(), PathSettings(), DT)
    leaning = Locomotion(robot, resting(robot, stance, ground), 0.0, GaitSettings(), PathSettings(), DT)
    leaning.on(ground, "told")
    assert leaning.plan.stride == pytest.approx(level.plan.stride, rel=0.03)


def test_heights_below_points_are_those_of_the_surface():
    points = np.random.default_rng(0).uniform((-0.4, -0.4, 0.6), (0.4, 0.4, 1.4), (40, 3))
    slope = SlopedGround(0.3, 0.1, direction=0.5)
    along = points[:, 0] * np.cos(0.5) + points[:, 1] * np.sin(0.5)
    np.testing.assert_allclose(heights_below(slope, points), 0.1 + np.tan(0.3) * along, atol=1e-9)
    hills = Heightmap(0.02 * np.random.default_rng(1).uniform(size=(30, 30)), 0.05)
    np.testing.assert_allclose(heights_below(hills, points), hills.height(points), atol=1e-9)
    stairs = Stairs(0.1, 0.2, 0.05, 2)
    expected = np.where(points[:, 0] < 0.1, 0.0, np.where(points[:, 0] < 0.3, 0.05, 0.1))
    np.testing.assert_allclose(heights_below(stairs, points), expected, atol=1e-9)


# -- attitude ----------------------------------------------------------------------------------------------------------


TURNS = Rotation.random(50, random_state=0)


@every("turn", list(TURNS))
def test_rotation_up_tilt_and_yaw_match_scipy(turn):
    quaternion, R = turn.as_quat(), turn.as_matrix()
    np.testing.assert_allclose(rotation(quaternion), R, atol=1e-14)
    np.testing.assert_allclose(up(quaternion), R.T @ [0, 0, 1], atol=1e-14)
    assert tilt(quaternion) == pytest.approx(np.arccos(R[2, 2]), abs=1e-12)
    assert yaw(quaternion) == pytest.approx(np.arctan2(R[1, 0], R[0, 0]), abs=1e-12)
