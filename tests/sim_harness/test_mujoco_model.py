"""The MuJoCo model of a robot equals Pinocchio's to rounding: states, inertia, forces, contact points. Random states of all
robots."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
from fast import every
from mujoco_scenes import turning, velocity_map

from controllers.robot.load import load_robot, urdf_path
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.heightmap import Heightmap, hills
from idyn.contact.terrain import Flat, Slope, Stairs
from idyn.errors import ConfigError
from idyn.model.description import ContactPoint, Description
from idyn.model.robot import Robot
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.world import contact_jacobian
from sim_harness.world.worlds import build_world

SHIPPED = ("quadruped", "solo12", "a1", "go2", "arm")
FOREIGN = {
    "anymal": ("anymal_b_simple_description/robots/anymal.urdf", ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")),
    "hyq": ("hyq_description/robots/hyq_no_sensors.urdf", ("lf_foot", "rf_foot", "lh_foot", "rh_foot")),
    "continuous": ("double_pendulum_description/urdf/double_pendulum_continuous.urdf", ()),
}
STATES = 10
HILLS = hills(side=3.0, resolution=0.05, count=100, height=0.05, variance=0.02, spread=0.5, seed=1)
TERRAINS = {"flat": Flat(), "slope": Slope(0.2), "stairs": Stairs(0.1, 0.2, 0.05, 4), "hills": Heightmap(HILLS, 0.05)}


def robot_of(name):
    if name not in FOREIGN:
        return load_robot(name)[0]
    path, feet = FOREIGN[name]
    points = [ContactPoint(frame=foot, offset=(0.01, 0.0, -0.02), radius=0.02) for foot in feet]
    return Robot.from_urdf(urdf_path(f"example-robot-data:{path}", Path()), contact=points)


def world_of(robot, terrain=TERRAINS["flat"]):
    return build_world(MujocoSettings(), robot, terrain, robot.neutral())


def states(robot, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(STATES):
        yield robot.integrate(robot.neutral(), rng.normal(size=robot.nv)), rng.normal(size=robot.nv)


def inertia(world):
    rows = np.zeros((len(world.v), len(world.v)))
    for row, unit in zip(rows, np.eye(len(world.v)), strict=True):
        mujoco.mj_mulM(world.model, world.data, row, unit)
    return rows


@every("name", [*SHIPPED, *FOREIGN])
def test_inertia_and_bias_forces_match_pinocchio(name):
    """M = Tᵀ M' T and h = Tᵀ (h' + M' Ṫ v), both to 1e-9 of their largest element."""
    robot = robot_of(name)
    world = world_of(robot)
    for q, v in states(robot):
        world.reset(q, v)
        mujoco.mj_forward(world.model, world.data)
        T, terms = velocity_map(world, q), robot.terms(q, v)
        M = inertia(world)
        np.testing.assert_allclose(T.T @ M @ T, terms.M, rtol=0, atol=1e-9 * np.abs(terms.M).max())
        h = T.T @ (world.data.qfrc_bias + M @ turning(world, q, v))
        np.testing.assert_allclose(h, terms.h, rtol=0, atol=1e-9 * np.abs(terms.h).max())


@every("name", [*SHIPPED, *FOREIGN])
def test_states_survive_the_round_trip(name):
    robot = robot_of(name)
    world = world_of(robot)
    for q, v in states(robot):
        back, speed = world.coordinates.from_mujoco(*world.coordinates.to_mujoco(q, v))
        np.testing.assert_allclose(robot.difference(q, back), 0, atol=1e-12)
        np.testing.assert_allclose(speed, v, atol=1e-12)


@every("name", [*SHIPPED, "anymal", "hyq"])
def test_contact_points_and_their_speeds_match_pinocchio(name):
    """Centres of the spheres in MuJoCo, and their speeds, against points and Jacobian of the contacts."""
    robot = robot_of(name)
    world = world_of(robot)
    n = len(robot.spheres.keys)
    for q, v in states(robot):
        world.reset(q, v)
        mujoco.mj_forward(world.model, world.data)
        contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
        spheres = [world.model.geom(f"place {i}").id for i in range(n)]
        centres = contacts.points[:n] + robot.spheres.radii[:, None] * contacts.normals[:n]
        np.testing.assert_allclose(world.data.geom_xpos[spheres], centres, atol=1e-9)
        J = contact_jacobian(robot.terms(q, v).axes, robot.tree.support, contacts)
        for i, sphere in enumerate(spheres):
            down, body, jacobian = contacts.points[i], world.model.geom_bodyid[sphere], np.zeros((3, world.model.nv))
            mujoco.mj_jac(world.model, world.data, jacobian, None, down, body)
            t = np.cross(contacts.normals[i], contacts.tangents[i])
            rows = np.array([contacts.tangents[i], t, contacts.normals[i]])
            np.testing.assert_allclose(rows @ jacobian @ world.data.qvel, J[3 * i : 3 * i + 3] @ v, atol=1e-9)


@every("ground", TERRAINS)
def test_gaps_and_normals_match_the_terrain(ground):
    """Robots pressed 4 mm into the ground, so that MuJoCo lists contacts: those at the beginning of its step."""
    robot, _ = load_robot("quadruped")
    world, found = world_of(robot, TERRAINS[ground]), 0
    for q, _ in states(robot):
        for _ in range(20):
            q[2] -= contacts_from_geometry(robot, q, TERRAINS[ground], margin=np.inf).gaps.min() + 0.004
        world.reset(q)
        before = {key: i for i, key in enumerate(world.contacts.keys)}
        gaps, normals = world.contacts.gaps, world.contacts.normals
        world.step(np.zeros(robot.na), 1e-3)
        for contact in world.data.contact:
            place = int(world.model.geom(contact.geom[1]).name.split()[1])
            i = before[robot.spheres.keys[place]]
            assert contact.dist == pytest.approx(gaps[i], abs=1e-9)
            np.testing.assert_allclose(contact.frame[:3], normals[i], atol=1e-9)
            found += 1
    assert found >= STATES


def test_boxes_match_pinocchio():
    """Gap and normal of a finger tip against the box that it holds."""
    robot, q = load_robot("arm")
    world = build_world(MujocoSettings(), robot, Flat(-0.2), q)
    tips = [(gap, key) for gap, key in zip(world.contacts.gaps, world.contacts.keys, strict=True) if key.startswith("TIP")]
    assert len(tips) == 4
    mujoco.mj_forward(world.model, world.data)
    box = world.model.geom("box 0").id
    for i in range(4):
        gap = mujoco.mj_geomDistance(world.model, world.data, world.model.geom(f"place {i}").id, box, 1.0, None)
        assert gap == pytest.approx(dict((key, gap) for gap, key in tips)[f"TIP_{i // 2}{i % 2}/BOX"], abs=1e-9)


def test_armature_is_in_the_model():
    """Armature of the robot's model, 10, 20, … g·m² from joint to joint."""
    robot = robot_of("quadruped")
    robot = robot.variant(armature={name: 0.01 * (i + 1) for i, name in enumerate(robot.joint_names)})
    world = world_of(robot)
    for q, v in states(robot):
        world.reset(q, v)
        mujoco.mj_forward(world.model, world.data)
        T = velocity_map(world, q)
        np.testing.assert_allclose(T.T @ inertia(world) @ T, robot.terms(q, v).M, rtol=0, atol=1e-9)


def test_the_total_mass_matches():
    for name in SHIPPED[:4]:
        robot, _ = load_robot(name)
        assert world_of(robot).model.body_mass.sum() == pytest.approx(robot.total_mass, rel=1e-12)


JOINT = """
<robot name="two">
<link name="a"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<link name="b"><inertial><mass value="1"/><inertia ixx="{ixx}" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="j" type="{type}"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint></robot>
"""


@every("kind", ["planar", "floating"])
def test_a_joint_that_mujoco_lacks_is_refused(kind):
    with pytest.raises(ConfigError, match="got another type for joint 2 of two"):
        world_of(Robot(Description(urdf=JOINT.format(type=kind, ixx=1))))


def test_a_body_with_impossible_inertia_is_refused():
    with pytest.raises(ConfigError, match=r"cannot compile the model of two .*idyn check.*A \+ B >= C"):
        world_of(Robot(Description(urdf=JOINT.format(type="continuous", ixx=3))))
