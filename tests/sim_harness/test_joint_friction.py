"""Friction in the joints: a wheel with known answers, and a robot that stands by friction alone."""

import numpy as np
import pytest
from fast import every, fast
from wheels import INERTIA, wheel_world

from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.bodies import CREEP, JointFriction
from sim_harness.world.worlds import ENGINES, build_world

DT = 1e-3


def spin(world, speed, torque, ticks):
    """Speeds after each tick [rad/s] (ticks)."""
    world.reset(world.robot.neutral(), np.array([speed]))
    speeds = []
    for _ in range(ticks):
        assert world.step(np.array([torque]), DT).status.ok
        speeds.append(world.v[0])
    return np.array(speeds)


@every("viscous", [0.01, 1.0, 1e4])
def test_viscous_friction_is_backward_euler(viscous):
    """v⁺ = v / (1 + dt b / I), at any damping."""
    speeds = spin(wheel_world(viscous=viscous), 3.0, 0.0, 50)
    np.testing.assert_allclose(speeds, 3.0 / (1 + DT * viscous / INERTIA) ** np.arange(1, 51), rtol=1e-9, atol=1e-300)


@every("coulomb", [0.05, 0.5, 50.0])
def test_coulomb_friction_brakes_evenly_and_then_holds(coulomb):
    speeds = spin(wheel_world(coulomb=coulomb), -2.0, 0.0, 2000)
    stops = int(np.ceil(2.0 * INERTIA / coulomb / DT))
    brake = -2.0 + coulomb / INERTIA * DT * np.arange(1, stops)
    np.testing.assert_allclose(speeds[: stops - 1], brake, rtol=1e-9, atol=1e-12)
    assert (np.diff(speeds) >= -1e-15).all()  # it never turns round
    assert speeds.max() < 1e-12
    assert abs(speeds[stops]) <= CREEP
    assert abs(speeds[-1]) < 1e-12


def test_coulomb_friction_dissipates_force_times_distance():
    world = wheel_world(coulomb=0.1)
    spin(world, 5.0, 0.0, 1500)
    assert world.robot.joint_angles(world.q)[0] * 0.1 == pytest.approx(0.5 * INERTIA * 5.0**2, rel=DT * 10)


@pytest.mark.parametrize("share", fast([0.5, 0.999, -0.999], -0.999))
def test_a_load_below_the_friction_moves_nothing(share):
    speeds = spin(wheel_world(coulomb=0.2), 0.0, share * 0.2, 3000)
    assert np.abs(speeds).max() <= CREEP
    assert speeds[-1] == pytest.approx(share * CREEP, rel=1e-6)


@every("torque", [0.21, -1.0])
def test_a_load_above_the_friction_breaks_away_at_once(torque):
    speeds = spin(wheel_world(coulomb=0.2), 0.0, torque, 100)
    net = torque - np.sign(torque) * 0.2
    np.testing.assert_allclose(speeds[5:], net / INERTIA * DT * np.arange(6, 101), rtol=1e-6, atol=2 * CREEP)


def test_armature_adds_to_the_inertia():
    speeds = spin(wheel_world(armature=0.03), 0.0, 1.0, 10)
    np.testing.assert_allclose(speeds, DT * np.arange(1, 11) / (INERTIA + 0.03), rtol=1e-12)


@every("engine", ["lcp", "penalty", "mujoco"])
def test_friction_alone_keeps_a_robot_standing(engine):
    """No torque at all: with friction above what the stance needs the joints lock; without it the robot sinks."""
    sunk = {}
    for coulomb in (0.0, 5.0):
        robot, q = load_robot("quadruped")
        friction = JointFriction.of(robot, dict.fromkeys(robot.joint_names, 0.0), dict.fromkeys(robot.joint_names, coulomb))
        if engine == "mujoco":
            world = build_world(MujocoSettings(), robot, Flat(), q, friction=friction)
        else:
            world = build_world(ENGINES[engine](), robot, Flat(), q, friction=friction)
        for _ in range(150):
            assert world.step(np.zeros(12), DT).status.ok
        sunk[coulomb] = q[2] - world.q[2]
    assert sunk[0.0] > 0.04
    assert abs(sunk[5.0]) < 2e-3
