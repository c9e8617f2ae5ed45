"""The world of a robot's own MJCF against MuJoCo stepped by hand, and what the controller believes otherwise."""

import mujoco
import numpy as np
import pytest

from idyn import ContactPoint, Flat, Robot
from sim_harness.mujoco.file_world import beliefs, file_world
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.world.robot_bodies import RobotBodies
from sim_harness.world.world import Push
from sim_harness.world.worlds import build_world

TABLE = """
<mujoco model="table">
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    {floor}
    <body name="top" pos="0 0 0.2">
      <freejoint/>
      <geom type="box" size="0.3 0.2 0.02" mass="4" contype="0" conaffinity="0"/>
      <geom type="sphere" size="0.03" pos="0.25 0.15 -0.17" friction="0.6" mass="0.1"/>
      <geom type="sphere" size="0.03" pos="0.25 -0.15 -0.17" friction="0.6" mass="0.1"/>
      <geom type="sphere" size="0.03" pos="-0.25 0.15 -0.17" friction="0.6" mass="0.1"/>
      <geom type="sphere" size="0.03" pos="-0.25 -0.15 -0.17" friction="0.6" mass="0.1"/>
      <body name="arm" pos="0 0 0.05">
        <joint name="swing" axis="0 1 0" pos="{anchor} 0 0"
          damping="0.4" frictionloss="0.1" stiffness="3" springref="0.2" armature="0.02"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.02" mass="0.5"/>
      </body>
    </body>
    <body name="ball" pos="3 0 0.1"><freejoint/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <actuator><position joint="swing" kp="50" forcerange="-9 9"/></actuator>
</mujoco>
"""
FLOOR = '<geom type="plane" size="5 5 1" friction="0.9"/>'


@pytest.fixture
def world_of(tmp_path):
    def build(floor=FLOOR, anchor=0.0, **settings):
        path = tmp_path / "table.xml"
        path.write_text(TABLE.format(floor=floor, anchor=anchor), encoding="utf-8")
        robot = Robot.from_mjcf(path, **settings)
        q = robot.neutral()
        q[2] = 0.2
        return file_world(RobotBodies(robot, Flat(), q), path, 0.0), path

    return build


def test_it_moves_as_mujoco_moves_the_file(world_of):
    world, path = world_of()
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    data = mujoco.MjData(model)
    swing = model.joint("swing")
    for k in range(200):
        torque = 1.5 * np.sin(0.05 * k)
        world.step(np.array([torque]), 0.002)
        data.qfrc_applied[swing.dofadr[0]] = torque
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(world.q[:3], data.qpos[:3], atol=1e-12)
    np.testing.assert_allclose(world.q[7], data.qpos[swing.qposadr[0]], atol=1e-12)
    np.testing.assert_allclose(world.data.qpos[-7:], data.qpos[-7:], atol=1e-12)  # the ball, which is not the robot's


@pytest.mark.parametrize("floor", [FLOOR, ""])
def test_the_feet_carry_the_weight_on_the_files_floor_or_an_added_one(world_of, floor):
    world, _ = world_of(floor)
    for _ in range(1000):
        result = world.step(np.zeros(1), 0.002)
    assert world.robot.weight == pytest.approx((4.0 + 0.4 + 0.5) * 9.81)
    assert result.impulse[:, 2].sum() / 0.002 == pytest.approx(world.robot.weight, rel=1e-3)
    assert len(result.contacts.keys) == 4


def test_a_push_acts_on_the_body_of_the_file(world_of):
    world, _ = world_of()
    for _ in range(300):
        world.step(np.zeros(1), 0.002)
    at_rest = world.q[0]
    for _ in range(200):
        world.step(np.zeros(1), 0.002, [Push(frame="top", force=(60.0, 0.0, 0.0))])
    acceleration = (60.0 - 0.9 * world.robot.weight) / world.robot.total_mass  # the larger μ of foot and floor
    assert world.q[0] - at_rest == pytest.approx(0.5 * acceleration * 0.4**2, rel=0.05)


def test_a_push_acts_where_it_is_said_also_beside_the_anchor_of_a_joint(world_of):
    """At the joint's own point, the anchor, a force does not turn it; 0.3 m above it, it does."""
    speeds = []
    for height in (0.0, 0.3):
        world, _ = world_of(anchor=0.01)
        world.step(np.zeros(1), 0.002, [Push(frame="arm", force=(5.0, 0.0, 0.0), point=(0.0, 0.0, height))])
        free, _ = world_of(anchor=0.01)
        free.step(np.zeros(1), 0.002)
        speeds.append(world.v[6] - free.v[6])
    assert abs(speeds[1]) > 20.0 * abs(speeds[0])


def test_what_the_controller_believes_otherwise_is_said(world_of):
    feet = [ContactPoint(frame="top", offset=(x, y, -0.17), radius=0.03, mu=0.8) for x in (-0.25, 0.25) for y in (-0.15, 0.15)]
    world, path = world_of(armature={"swing": 0.5}, contact=feet, tau_max={"swing": 3.0})
    said = " ".join(beliefs(world.robot, path))
    assert "rotor inertia: believed 0.5 for 0.02" in said
    assert "torque limit of swing: believed 3, in the file 9" in said
    assert "friction of top: believed 0.8, in the file 0.6" in said
    assert beliefs(world_of()[0].robot, path) == []


def test_a_world_made_from_the_model_has_no_springs_of_the_file(world_of):
    own, path = world_of()
    made = build_world(MujocoSettings(), own.robot, Flat(), own.q)
    for world in (own, made):
        world.step(np.zeros(1), 0.002)
    assert abs(own.v[6]) > 10 * abs(made.v[6])
    assert path.exists()
