"""MuJoCo's world against closed forms and against Pinocchio's equation of motion: flight, weight, joints, repeatability."""

import msgspec
import mujoco
import numpy as np
import pytest
from fast import every, first_is_fast
from mujoco_scenes import block_world, robot_world, turning, velocity_map

from controllers.robot.load import load_robot
from idyn.contact.heightmap import Heightmap
from idyn.contact.terrain import Flat, FrictionMap, Slope
from idyn.errors import InputError
from idyn.model.description import Description
from idyn.model.robot import Robot
from idyn.status import Status
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.bodies import JointFriction
from sim_harness.world.world import Push, contact_jacobian
from sim_harness.world.worlds import build_world

DT = 1e-3
G = 9.81


def lifted(world, height=10.0):
    q = world.q.copy()
    q[2] += height
    return q


def test_a_falling_robot_follows_the_discrete_parabola():
    world = robot_world()
    q, n = lifted(world), 500
    world.reset(q)
    for _ in range(n):
        result = world.step(np.zeros(12), DT)
    assert result.status is Status.SOLVED
    assert len(result.contacts) == 0
    assert world.t == pytest.approx(n * DT)
    assert q[2] - world.q[2] == pytest.approx(G * DT * DT * n * (n + 1) / 2, abs=1e-10)
    assert world.v[2] == pytest.approx(-G * world.t, abs=1e-10)


def test_energy_error_in_flight_is_first_order():
    v0 = np.random.default_rng(2).normal(size=18)
    drift = []
    for dt in (1e-3, 5e-4):
        world = robot_world()
        q = lifted(world)
        world.reset(q, v0)
        before = world.robot.energy(q, v0)
        for _ in range(round(0.2 / dt)):
            world.step(np.zeros(12), dt)
        drift.append(abs(world.robot.energy(world.q, world.v) - before))
    assert drift[0] < 0.05
    assert drift[1] == pytest.approx(drift[0] / 2, rel=0.2)


def test_a_push_gives_its_impulse_as_momentum():
    """Off the grid: 3.3 ms from 0.4 ms on, in control steps of 2 ms of two physics steps each."""
    world = block_world()
    world.reset(lifted(world))
    push = Push(frame="block", force=(4.0, -3.0, 2.0), start=0.4e-3, duration=3.3e-3)
    for _ in range(5):
        world.step(np.zeros(0), 2 * DT, [push])
    np.testing.assert_allclose(2 * world.v[:3], 3.3e-3 * np.array(push.force) - [0, 0, 2 * G * world.t], atol=1e-12)
    np.testing.assert_allclose(world.v[3:], 0, atol=1e-14)


def test_a_push_off_the_centre_turns_the_block():
    world = block_world()
    world.reset(lifted(world))
    world.step(np.zeros(0), DT, [Push(frame="block", force=(0, 5, 0), point=(0.2, 0, 0))])
    assert world.v[5] == pytest.approx(0.2 * 5 * DT / 0.04)


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2"]))
@every("ground", ["flat", "slope"])
def test_the_reported_forces_satisfy_the_equation_of_motion(name, ground):
    """M v̇ + h = τ + Jᵀ f with Pinocchio's M and h and our contact Jacobian: 100 steps of a robot that is thrown at the ground.

    MuJoCo lets forces act half-way between the two surfaces.
    """
    rng = np.random.default_rng(5)
    world = robot_world(name, Slope(0.1) if ground == "slope" else None)
    robot = world.robot
    world.reset(world.q, 0.5 * rng.normal(size=18))
    pressed = 0
    for _ in range(100):
        q, v, tau = world.q, world.v, rng.normal(size=12)
        terms = robot.terms(q, v)
        M, h, axes = terms.M.copy(), terms.h.copy(), terms.axes.copy()
        T, before = velocity_map(world, q), world.data.qvel.copy()
        result = world.step(tau, DT)
        acceleration = np.linalg.solve(T, (world.data.qvel - before) / DT - turning(world, q, v))
        c = result.contacts
        middle = np.array(c.points - 0.5 * c.gaps[:, None] * c.normals)
        J = contact_jacobian(axes, robot.tree.support, msgspec.structs.replace(c, points=middle))
        missed = M @ acceleration + h - J.T @ result.force[:, [1, 2, 0]].ravel()
        missed[robot.tree.a] -= tau
        np.testing.assert_allclose(missed, 0, atol=1e-8 + 2 * result.dynamics / DT)  # what MuJoCo's solver left
        assert result.dynamics < 1e-4 * world.robot.total_mass * G * DT
        np.testing.assert_allclose(result.impulse, DT * np.einsum("nj,nji->ni", result.force, frames(c)), atol=1e-12)
        pressed += (result.normal_force > 0).sum()
    assert pressed > 50


def frames(c):
    return np.stack([c.normals, c.tangents, np.cross(c.normals, c.tangents)], axis=1)


@pytest.mark.parametrize("ground", first_is_fast(["default", "firm", "stiff"]))
@pytest.mark.parametrize(
    ("name", "kp", "kd"), first_is_fast([("quadruped", 60, 0.2), ("solo12", 30, 0.2), ("a1", 300, 3), ("go2", 300, 3)])
)
def test_at_rest_the_ground_carries_the_weight(make_stand, name, kp, kd, ground):
    world = robot_world(name, ground=ground)
    stand = make_stand(world, kp=kp, kd=kd)
    for _ in range(3000):
        result = world.step(stand.torque(), DT)
    assert result.status is Status.SOLVED
    assert result.dynamics < 1e-9
    assert np.abs(world.v).max() < 1e-3
    assert result.normal_force.sum() == pytest.approx(world.robot.total_mass * G, rel=1e-5)
    assert (world.contacts.gaps < 0).all()


WHEELS = """
<robot name="wheels">
<link name="root"/>
<link name="rim">
  <inertial><mass value="1"/><inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial></link>
<link name="free">
  <inertial><mass value="1"/><inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial></link>
<joint name="axle" type="continuous"><parent link="root"/><child link="rim"/><axis xyz="0 0 1"/></joint>
<joint name="free" type="continuous"><parent link="root"/><child link="free"/><axis xyz="0 0 1"/></joint>
</robot>
"""


@every(("viscous", "coulomb"), [(0.1, 0.0), (0.0, 0.05)])
def test_a_wheel_slows_down_by_its_joint_friction(viscous, coulomb):
    """Inertia 0.02 kg·m² and an armature of 0.03: v decays with b/I, taken at the end of the step, or falls by c/I."""
    robot = Robot(Description(urdf=WHEELS, base="fixed", armature={"axle": 0.03}))
    friction = JointFriction(viscous=np.array([viscous, 0]), coulomb=np.array([coulomb, 0]))
    world = build_world(MujocoSettings(), robot, Flat(), robot.neutral(), friction=friction)
    world.reset(robot.neutral(), np.array([20.0, 20.0]))
    for _ in range(1000):
        result = world.step(np.zeros(2), DT)
    assert result.status is Status.SOLVED
    assert world.v[0] == pytest.approx(20.0 / (1 + DT * viscous / 0.05) ** 1000 - coulomb / 0.05, rel=1e-6)
    assert world.v[1] == 20.0


def test_two_runs_and_a_reset_are_identical(make_stand):
    world, ends = robot_world(), []
    for again in range(3):
        if again == 2:
            world = robot_world()
        start = load_robot("quadruped")[1]
        world.reset(start)
        assert world.q.tobytes() == start.tobytes()
        assert world.t == 0.0
        stand = make_stand(world)
        for _ in range(200):
            world.step(stand.torque(), DT, [Push(frame="BODY0", force=(8, 5, 0), start=0.02, duration=0.1)])
        ends.append((world.q.tobytes(), world.v.tobytes()))
    assert ends[0] == ends[1] == ends[2]


def test_a_control_period_may_have_several_physics_steps():
    """5 ms at once are five steps of 1 ms, and the impulse is theirs together."""
    coarse, fine = robot_world(), robot_world()
    tau = np.random.default_rng(4).normal(size=12)
    at_once = coarse.step(tau, 5 * DT)
    parts = [fine.step(tau, DT) for _ in range(5)]
    assert coarse.q.tobytes() == fine.q.tobytes()
    np.testing.assert_allclose(at_once.impulse, sum(part.impulse for part in parts), atol=1e-15)
    np.testing.assert_allclose(at_once.force, sum(part.force for part in parts) / 5, atol=1e-12)


def test_settings_reach_mujoco():
    option = robot_world(cone="pyramidal", integrator="implicitfast", impratio=10.0, solref=(-5000.0, -100.0)).model
    assert option.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    assert option.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert option.opt.impratio == 10.0
    np.testing.assert_array_equal(option.pair_solref, np.tile([-5000.0, -100.0], (4, 1)))


@every("terrain", [Flat(), Flat(friction=FrictionMap(0.1, 1.0, 0.05, 0)), Heightmap(np.zeros((9, 9)), 0.5)])
def test_a_diverged_world_reports_it(terrain, tmp_path, monkeypatch):
    """And does not begin again from where it started, as MuJoCo does by itself, nor write a log file."""
    monkeypatch.chdir(tmp_path)
    world = robot_world(terrain=terrain)
    for _ in range(20):
        result = world.step(np.full(12, 1e300), DT)
        if result.status is not Status.SOLVED:
            break
    assert result.status is Status.NON_FINITE
    assert not list(tmp_path.iterdir())


def test_a_malformed_state_is_refused():
    world = robot_world()
    with pytest.raises(InputError, match="q: expected 19"):
        world.reset(np.zeros(18))
