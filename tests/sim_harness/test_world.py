"""The world: flight, pushes, standing, friction of contacts and joints, repeatability, and many worlds at once."""

import numpy as np
import pytest
from conftest import WORLDS
from fast import every, fast, first_is_fast

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.errors import FrameNotFound, InputError
from idyn.model.description import Description
from idyn.model.robot import Robot
from idyn.status import Status
from sim_harness.engines import NAMES
from sim_harness.studies.world_batch import WorldBatch
from sim_harness.world.bodies import CREEP, JointFriction
from sim_harness.world.world import Push
from sim_harness.world.worlds import ENGINES, AnyEngine, EngineWorld, build_world

INERTIA = 0.02
WHEEL = f"""
<robot name="wheel"><link name="stand"/>
<link name="wheel"><inertial><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="{INERTIA}"/></inertial></link>
<joint name="axle" type="revolute"><parent link="stand"/><child link="wheel"/><axis xyz="0 0 1"/>
<limit lower="-1000" upper="1000" effort="10" velocity="100"/></joint></robot>
"""


def wheel(armature: float = 0.0) -> Robot:
    return Robot(Description(urdf=WHEEL, base="fixed", armature=armature))


def wheel_world(viscous: float = 0.0, coulomb: float = 0.0, armature: float = 0.0) -> EngineWorld:
    robot = wheel(armature)
    friction = JointFriction.of(robot, {"axle": viscous}, {"axle": coulomb})
    return build_world(ENGINES["lcp"](), robot, Flat(), robot.neutral(), friction=friction)


DT = 1e-3
G = 9.81


def lifted(world, height=10.0):
    q = world.q.copy()
    q[2] += height
    return q


@every("engine", ["lcp", "mujoco"])
def test_a_falling_robot_follows_the_discrete_parabola_and_keeps_its_energy_to_first_order(make_world, engine):
    """A tumbling robot with free joints: no contact, no torque, so energy drifts with the step only."""
    world = make_world(engine)
    q, n = lifted(world), 500
    world.reset(q)
    for _ in range(n):
        result = world.step(np.zeros(12), DT)
    assert result.status is Status.SOLVED
    assert len(result.contacts) == 0
    assert world.t == pytest.approx(n * DT)
    assert q[2] - world.q[2] == pytest.approx(G * DT * DT * n * (n + 1) / 2, abs=1e-11)
    assert world.v[2] == pytest.approx(-G * world.t, abs=1e-11)
    v0 = np.random.default_rng(2).normal(size=18)
    drift = []
    for dt in (1e-3, 5e-4):
        world = make_world(engine)
        q = lifted(world)
        world.reset(q, v0)
        before = world.robot.energy(q, v0)
        for _ in range(round(0.2 / dt)):
            world.step(np.zeros(12), dt)
        drift.append(abs(world.robot.energy(world.q, world.v) - before))
    assert drift[0] < 0.05
    assert drift[1] == pytest.approx(drift[0] / 2, rel=0.2)


@every(("engine", "steps"), [("lcp", 1), ("mujoco", 2)])
def test_a_push_gives_its_impulse_as_momentum_and_turns_the_block_off_its_centre(make_block, engine, steps):
    """Off the grid: 3.3 ms from 0.4 ms on, in control steps of so many physics steps."""
    world = make_block(engine)
    world.reset(lifted(world))
    push = Push(frame="block", force=(4.0, -3.0, 2.0), start=0.4e-3, duration=3.3e-3)
    for _ in range(10 // steps):
        world.step(np.zeros(0), steps * DT, [push])
    np.testing.assert_allclose(2 * world.v[:3], 3.3e-3 * np.array(push.force) - [0, 0, 2 * G * world.t], atol=1e-12)
    np.testing.assert_allclose(world.v[3:], 0, atol=1e-15)
    world = make_block(engine)
    world.reset(lifted(world))
    world.step(np.zeros(0), DT, [Push(frame="block", force=(0, 5, 0), point=(0.2, 0, 0))])
    assert world.v[5] == pytest.approx(0.2 * 5 * DT / 0.04)


@every("engine", ["lcp", "mujoco"])
def test_a_malformed_state_and_a_push_on_an_unknown_body_are_refused(make_world, engine):
    world = make_world(engine)
    with pytest.raises(InputError, match="q: expected 19"):
        world.reset(np.zeros(18))
    with pytest.raises(InputError, match="v: expected 18"):
        world.reset(world.q, np.full(18, np.nan))
    with pytest.raises(FrameNotFound, match="BODY0"):
        world.step(np.zeros(12), DT, [Push(frame="BODY", force=(0, 0, 0))])


@every("engine", ["lcp", "penalty", "mujoco"])
def test_two_runs_and_a_reset_are_identical(make_world, make_stand, engine):
    world, ends = make_world(engine), []
    for again in range(3):
        if again == 2:
            world = make_world(engine)
        start = load_robot("quadruped")[1]
        world.reset(start)
        assert world.q.tobytes() == start.tobytes()
        assert world.t == 0.0
        stand = make_stand(world)
        for _ in range(200):
            world.step(stand.torque(), DT, [Push(frame="BODY0", force=(8, 5, 0), start=0.02, duration=0.1)])
        ends.append((world.q.tobytes(), world.v.tobytes()))
    assert ends[0] == ends[1] == ends[2]


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


@pytest.mark.parametrize("share", fast([0.5, 0.999, -0.999], -0.999))
def test_a_load_below_the_friction_moves_nothing(share):
    speeds = spin(wheel_world(coulomb=0.2), 0.0, share * 0.2, 3000)
    assert np.abs(speeds).max() <= CREEP
    assert speeds[-1] == pytest.approx(share * CREEP, rel=1e-6)


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
        world = build_world(WORLDS[engine](), robot, Flat(), q, friction=friction)
        for _ in range(150):
            assert world.step(np.zeros(12), DT).status.ok
        sunk[coulomb] = q[2] - world.q[2]
    assert sunk[0.0] > 0.04
    assert abs(sunk[5.0]) < 2e-3


@pytest.mark.parametrize("processes", first_is_fast([1, 2]))
@pytest.mark.parametrize("engine", fast(NAMES, "lcp"))
def test_batched_worlds_equal_single_worlds(engine, processes):
    """States with some feet off the ground or in it; several steps in one call, and one at a time."""
    engine, (robot, stance), rng = parse(engine, AnyEngine, "engine"), load_robot("quadruped"), np.random.default_rng(8)
    q = np.array([robot.integrate(stance, 0.01 * rng.normal(size=robot.nv)) for _ in range(5)])
    v, tau = 0.1 * rng.normal(size=(5, robot.nv)), rng.normal(size=(5, robot.na))
    worlds = [build_world(engine, robot.variant(), Flat(), each) for each in q]
    for world, each, speed, torque in zip(worlds, q, v, tau, strict=True):
        world.reset(each, speed)
        for _ in range(8):
            world.step(torque, DT)
    with WorldBatch(engine, robot, Flat(), q, processes=processes) as batch:
        for steps in (8, 1):
            batch.reset(q, v)
            for _ in range(8 // steps):
                answer = batch.step(tau, DT, steps)
            assert answer.t == pytest.approx(8 * DT)
            for i, world in enumerate(worlds):
                assert answer.q[i].tobytes() == world.q.tobytes(), i
                assert answer.v[i].tobytes() == world.v.tobytes(), i
        with pytest.raises(InputError, match="tau"):
            batch.step(tau[:, :-1], DT)
