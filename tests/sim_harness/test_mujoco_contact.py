"""MuJoCo's contacts as our worlds see them: yielding, friction by direction, place and slope, pairs of bodies."""

import numpy as np
import pytest
from fast import every, full
from mujoco_scenes import block_world, robot_world

from controllers.robot.load import load_robot
from idyn.contact.heightmap import Heightmap, hills
from idyn.contact.terrain import Flat, FrictionMap, Slope
from idyn.model.description import ContactPoint, Description
from idyn.model.robot import Robot
from idyn.model.shapes import Box
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.worlds import build_world

DT = 1e-3
G = 9.81


@full
def test_stiffer_ground_yields_less():
    depth = {}
    for ground in ("default", "firm", "stiff"):
        world = block_world(ground=ground)
        for _ in range(1000):
            result = world.step(np.zeros(0), DT)
        assert result.normal_force == pytest.approx(np.full(4, 2 * G / 4), rel=1e-6)
        depth[ground] = -world.contacts.gaps.mean()
    assert depth["default"] > 5 * depth["firm"] > 10 * depth["stiff"] > 0


@every("mu", [0.1, 0.5])
def test_a_sliding_block_is_braked_by_mu_times_its_weight(mu):
    """In every step by μ Σ f_N, which is the weight on average: MuJoCo throws a block that begins to slide a little up."""
    world = block_world(mu, ground="stiff")
    world.reset(world.q, np.array([2.0, 0, 0, 0, 0, 0]))
    while world.v[0] > 0.01:
        result = world.step(np.zeros(0), DT)
        assert -result.impulse[:, 0].sum() == pytest.approx(mu * result.impulse[:, 2].sum(), rel=1e-2, abs=1e-6)
    assert world.t == pytest.approx(2.0 / (mu * G), rel=0.05)


def test_a_pyramid_is_weaker_between_its_edges():
    """Along its edges friction is that of the circle, at 45° to them cos 45° of it; where they point is MuJoCo's choice."""
    share = []
    for angle in np.linspace(0, np.pi / 2, 7):
        world = block_world(0.5, ground="stiff", cone="pyramidal")
        direction = np.array([np.cos(angle), np.sin(angle), 0])
        world.reset(world.q - 1e-6 * np.eye(7)[2], np.concatenate([direction, np.zeros(3)]))  # it touches
        result = world.step(np.zeros(0), DT)
        share.append(-(result.impulse.sum(axis=0) @ direction) / (0.5 * result.impulse[:, 2].sum()))
    assert max(share) == pytest.approx(1.0, abs=1e-3)
    assert min(share) == pytest.approx(np.cos(np.pi / 4), abs=0.02)


def test_a_block_slides_down_a_slope_that_is_steeper_than_its_friction_angle():
    angle = 0.3
    tilt = [0, -np.sin(angle / 2), 0, np.cos(angle / 2)]
    for mu, expected in ((0.1, G * (np.sin(angle) - 0.1 * np.cos(angle))), (0.6, 0.0)):
        world = block_world(mu, Slope(angle), ground="stiff")
        q = world.q.copy()
        q[:3], q[3:] = 0.05 * np.array([-np.sin(angle), 0, np.cos(angle)]), tilt
        world.reset(q)
        for _ in range(200):
            world.step(np.zeros(0), DT)
        assert -world.v[0] == pytest.approx(expected * world.t, rel=0.03, abs=0.005)


def friction(world):
    """What the feet have in MuJoCo, along both tangents (n, 2)."""
    return np.array([world.model.pair(f"pair {i}").friction[:2] for i in range(4)])


def test_friction_of_the_experiment_and_of_the_patch_reaches_mujoco():
    robot, q = load_robot("quadruped")
    world = build_world(MujocoSettings(), robot, Flat(), q, mu=np.array([0.0, 0.3, np.inf, 1.0]))
    world.step(np.zeros(12), DT)
    np.testing.assert_allclose(friction(world), np.tile([[1e-5], [0.3], [100.0], [1.0]], 2))
    patches = FrictionMap(0.1, 1.5, 0.05, seed=3)
    world = build_world(MujocoSettings(), robot, Flat(friction=patches), q)
    world.step(np.zeros(12), DT)
    world.step(np.zeros(12), DT)
    np.testing.assert_allclose(friction(world), patches.at(world.contacts.points)[:, None].repeat(2, axis=1), atol=1e-6)


@full
def test_a_robot_stands_on_hills(make_stand):
    heights = hills(side=3.0, resolution=0.05, count=100, height=0.02, variance=0.05, spread=0.5, seed=1)
    world = robot_world(terrain=Heightmap(heights, 0.05), ground="firm")
    stand = make_stand(world, kp=60.0, kd=0.2)
    q = world.q.copy()
    q[2] += 0.02
    world.reset(q)
    for _ in range(2000):
        result = world.step(stand.torque(), DT)
    assert result.impulse[:, 2].sum() / DT == pytest.approx(world.robot.total_mass * G, rel=1e-3)
    assert np.ptp(world.contacts.points[:, 2]) > 1e-3


PLATE_AND_BALL = """
<robot name="two">
<link name="root"/>
<link name="plate">
  <inertial><mass value="3"/><inertia ixx="0.05" ixy="0" ixz="0" iyy="0.05" iyz="0" izz="0.1"/></inertial></link>
<link name="ball">
  <inertial><mass value="1"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>
<joint name="p" type="floating"><parent link="root"/><child link="plate"/><origin xyz="1 2 0.02" rpy="0 0 0.5"/></joint>
<joint name="b" type="floating"><parent link="root"/><child link="ball"/><origin xyz="1.02 2.01 0.09" rpy="0.4 0 0"/></joint>
</robot>
"""


def test_a_ball_lies_on_a_plate_that_lies_on_the_ground():
    """Free bodies that are not placed at the origin; the force of a pair is that on the body of the contact place."""
    corners = [(x, y, -0.02) for x in (-0.2, 0.2) for y in (-0.2, 0.2)]
    points = [ContactPoint(frame="plate", offset=corner) for corner in corners] + [ContactPoint(frame="ball", radius=0.05)]
    robot = Robot(
        Description(urdf=PLATE_AND_BALL, base="fixed", contact=points, box=(Box(frame="plate", size=(0.4, 0.4, 0.04)),))
    )
    world = build_world(MujocoSettings(), robot, Flat(), robot.neutral())
    for _ in range(1000):
        result = world.step(np.zeros(0), DT)
    forces = dict(zip(result.contacts.keys, result.impulse / DT, strict=True))
    np.testing.assert_allclose(forces.pop("ball/plate"), [0, 0, G], atol=1e-3)
    np.testing.assert_allclose(sum(forces.values()), [0, 0, 4 * G], atol=1e-3)
    assert set(forces) == {"plate", "plate.1", "plate.2", "plate.3"}
