"""Worlds: flight, pushes, standing, friction, repeatability; MuJoCo's world against closed forms and Pinocchio."""

import json
from functools import partial
from pathlib import Path

import msgspec
import mujoco
import numpy as np
import pytest
import urdf
from fast import every, every_row, fast, first_is_fast, full
from stands import WORLDS, Stand, block_world, robot_world

from controllers.config.loading import parse
from controllers.robot.load import load_robot, urdf_path
from idyn import Robot, Status, contacts_from_geometry
from idyn.contact.terrain import Flat, FrictionMap, Heightmap, Slope, Stairs, hills
from idyn.errors import ConfigError, FrameNotFound, InputError
from idyn.model.description import Box, ContactPoint, Description
from sim_harness.commands.main import main
from sim_harness.engines import NAMES
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.studies.world_batch import WorldBatch
from sim_harness.world.bodies import CREEP, JointFriction
from sim_harness.world.world import Push, contact_jacobian
from sim_harness.world.worlds import ENGINES, AnyEngine, EngineWorld, build_world

mujoco_world = partial(robot_world, "mujoco")
DT = 1e-3
G = 9.81
AXLES = [urdf.joint(name, "root", link, axis="0 0 1", kind="continuous") for name, link in (("axle", "rim"), ("free", "free"))]
WHEELS = urdf.robot("wheels", urdf.link("root"), *[urdf.link(name, 1.0, 0.02) for name in ("rim", "free")], *AXLES)
PLATE_AND_BALL = urdf.robot(
    "two",
    *[urdf.link("root"), urdf.link("plate", 3.0, (0.05, 0.05, 0.1)), urdf.link("ball", 1.0, 0.01)],
    urdf.joint("p", "root", "plate", kind="floating", at=(1, 2, 0.02), rpy="0 0 0.5"),
    urdf.joint("b", "root", "ball", kind="floating", at=(1.02, 2.01, 0.09), rpy="0.4 0 0"),
)
INERTIA = 0.02
AXLE = urdf.joint("axle", "stand", "wheel", axis="0 0 1", limits=(-1000, 1000, 10, 100))
WHEEL = urdf.robot("wheel", urdf.link("stand"), urdf.link("wheel", 1.0, (0.01, 0.01, INERTIA)), AXLE)


def velocity_map(world, q):
    """T (nv, nv) with qvel = T v; v is linear and angular in the body's frame, qvel linear in the world's."""
    return np.array([world.coordinates.to_mujoco(q, unit)[1] for unit in np.eye(len(world.v))]).T


def turning(world, q, v):
    """Ṫ v (nv): the linear acceleration of a free body in the world frame has R (ω × v) beside R v̇."""
    robot, bend = world.robot, np.zeros(len(v))
    for joint in set(robot.tree.dof_joint.tolist()):
        columns = np.flatnonzero(robot.tree.dof_joint == joint)
        if len(columns) == 6:
            bend[columns[:3]] = np.cross(v[columns[3:]], v[columns[:3]])
    return velocity_map(world, q) @ bend


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


def states(world):
    robot, rng = world.robot, np.random.default_rng(0)
    for _ in range(STATES):
        q, v = robot.integrate(robot.neutral(), rng.normal(size=robot.nv)), rng.normal(size=robot.nv)
        world.reset(q, v)
        mujoco.mj_forward(world.model, world.data)
        yield q, v


def inertia(world):
    rows = np.zeros((len(world.v), len(world.v)))
    for row, unit in zip(rows, np.eye(len(world.v)), strict=True):
        mujoco.mj_mulM(world.model, world.data, row, unit)
    return rows


@every("name", [*SHIPPED, *FOREIGN])
def test_inertia_and_bias_forces_match_pinocchio_and_states_survive_the_round_trip(name):
    """M = Tᵀ M' T and h = Tᵀ (h' + M' Ṫ v), both to 1e-9 of their largest element."""
    robot = robot_of(name)
    world = world_of(robot)
    for q, v in states(world):
        T, terms = velocity_map(world, q), robot.terms(q, v)
        M = inertia(world)
        np.testing.assert_allclose(T.T @ M @ T, terms.M, rtol=0, atol=1e-9 * np.abs(terms.M).max())
        h = T.T @ (world.data.qfrc_bias + M @ turning(world, q, v))
        np.testing.assert_allclose(h, terms.h, rtol=0, atol=1e-9 * np.abs(terms.h).max())
        back, speed = world.coordinates.from_mujoco(*world.coordinates.to_mujoco(q, v))
        np.testing.assert_allclose(robot.difference(q, back), 0, atol=1e-12)
        np.testing.assert_allclose(speed, v, atol=1e-12)


@every("name", [*SHIPPED, "anymal", "hyq"])
def test_contact_points_and_their_speeds_match_pinocchio(name):
    """Centres of the spheres in MuJoCo, and their speeds, against points and Jacobian of the contacts."""
    robot = robot_of(name)
    world = world_of(robot)
    n = len(robot.spheres.keys)
    for q, v in states(world):
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
    for q, _ in states(world):
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
    robot, q = load_robot("arm")
    world = build_world(MujocoSettings(), robot, Flat(-0.2), q)
    tips = [(gap, key) for gap, key in zip(world.contacts.gaps, world.contacts.keys, strict=True) if key.startswith("TIP")]
    assert len(tips) == 4
    mujoco.mj_forward(world.model, world.data)
    box = world.model.geom("box 0").id
    for i in range(4):
        gap = mujoco.mj_geomDistance(world.model, world.data, world.model.geom(f"place {i}").id, box, 1.0, None)
        assert gap == pytest.approx(dict((key, gap) for gap, key in tips)[f"TIP_{i // 2}{i % 2}/BOX"], abs=1e-9)


def test_armature_and_total_mass_are_in_the_model():
    """Armature of the robot's model, 10, 20, … g·m² from joint to joint."""
    robot = robot_of("quadruped")
    robot = robot.variant(armature={name: 0.01 * (i + 1) for i, name in enumerate(robot.joint_names)})
    world = world_of(robot)
    for q, v in states(world):
        T = velocity_map(world, q)
        np.testing.assert_allclose(T.T @ inertia(world) @ T, robot.terms(q, v).M, rtol=0, atol=1e-9)
    for name in SHIPPED[:4]:
        robot, _ = load_robot(name)
        assert world_of(robot).model.body_mass.sum() == pytest.approx(robot.total_mass, rel=1e-12)


def two(kind, ixx=1.0):
    """Two bodies of 1 kg and 1 kg·m² and a joint between them. ixx: of the second one"""
    parts = [urdf.link("a", 1.0, 1.0), urdf.link("b", 1.0, (ixx, 1.0, 1.0)), urdf.joint("j", "a", "b", axis="0 0 1", kind=kind)]
    return Robot(Description(urdf=urdf.robot("two", *parts)))


@every("kind", ["planar", "floating"])
def test_a_joint_that_mujoco_lacks_is_refused(kind):
    with pytest.raises(ConfigError, match="got another type for joint 2 of two"):
        world_of(two(kind))


def test_a_body_with_impossible_inertia_is_refused():
    with pytest.raises(ConfigError, match=r"cannot compile the model of two .*idyn check.*A \+ B >= C"):
        world_of(two("continuous", ixx=3.0))


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2"]))
@every("ground", ["flat", "slope"])
def test_the_reported_forces_satisfy_the_equation_of_motion(name, ground):
    """M v̇ + h = τ + Jᵀ f with Pinocchio's M and h and our contact Jacobian: 100 steps of a robot that is thrown at the ground.
    MuJoCo lets forces act half-way between the two surfaces."""
    rng = np.random.default_rng(5)
    world = mujoco_world(name, Slope(0.1) if ground == "slope" else None)
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


def test_a_control_period_may_have_several_physics_steps():
    """5 ms at once are five steps of 1 ms, and the impulse is theirs together."""
    coarse, fine = mujoco_world(), mujoco_world()
    tau = np.random.default_rng(4).normal(size=12)
    at_once = coarse.step(tau, 5 * DT)
    parts = [fine.step(tau, DT) for _ in range(5)]
    assert coarse.q.tobytes() == fine.q.tobytes()
    np.testing.assert_allclose(at_once.impulse, sum(part.impulse for part in parts), atol=1e-15)
    np.testing.assert_allclose(at_once.force, sum(part.force for part in parts) / 5, atol=1e-12)


def test_settings_reach_mujoco():
    option = mujoco_world(cone="pyramidal", integrator="implicitfast", impratio=10.0, solref=(-5000.0, -100.0)).model
    assert option.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    assert (option.opt.integrator, option.opt.impratio) == (mujoco.mjtIntegrator.mjINT_IMPLICITFAST, 10.0)
    np.testing.assert_array_equal(option.pair_solref, np.tile([-5000.0, -100.0], (4, 1)))


@every("terrain", [Flat(), Flat(friction=FrictionMap(0.1, 1.0, 0.05, 0)), Heightmap(np.zeros((9, 9)), 0.5)])
def test_a_diverged_world_reports_it(terrain, tmp_path, monkeypatch):
    """And does not begin again from where it started, as MuJoCo does by itself, nor write a log file."""
    monkeypatch.chdir(tmp_path)
    world = mujoco_world(terrain=terrain)
    for _ in range(20):
        result = world.step(np.full(12, 1e300), DT)
        if result.status is not Status.SOLVED:
            break
    assert result.status is Status.NON_FINITE
    assert not list(tmp_path.iterdir())


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


def test_a_ball_lies_on_a_plate_that_lies_on_the_ground():
    """Free bodies that are not placed at the origin; the force of a pair is that on the body of the contact place."""
    corners = [(x, y, -0.02) for x in (-0.2, 0.2) for y in (-0.2, 0.2)]
    points = [ContactPoint(frame="plate", offset=corner) for corner in corners] + [ContactPoint(frame="ball", radius=0.05)]
    plate = Box(frame="plate", size=(0.4, 0.4, 0.04))
    robot = Robot(Description(urdf=PLATE_AND_BALL, base="fixed", contact=points, box=(plate,)))
    world = build_world(MujocoSettings(), robot, Flat(), robot.neutral())
    for _ in range(1000):
        result = world.step(np.zeros(0), DT)
    forces = dict(zip(result.contacts.keys, result.impulse / DT, strict=True))
    np.testing.assert_allclose(forces.pop("ball/plate"), [0, 0, G], atol=1e-3)
    np.testing.assert_allclose(sum(forces.values()), [0, 0, 4 * G], atol=1e-3)
    assert set(forces) == {"plate", "plate.1", "plate.2", "plate.3"}


def test_grounds_are_chosen_by_name():
    assert MujocoSettings().contact_solref == (0.02, 1.0)
    assert MujocoSettings(ground="firm").contact_solref == (0.005, 1.0)
    assert MujocoSettings(ground="stiff").contact_solref == (0.002, 1.0)
    assert MujocoSettings(solref=(-5e3, -100.0)).contact_solref == (-5e3, -100.0)


@every_row(
    ({"grund": "firm"}, r"engine.grund: no such setting of 'mujoco' \(nearest: ground"),
    ({"ground": "soft"}, "engine.ground"),
    ({"timestep": 0.0}, "engine.timestep"),
    ({"solref": (0.001, 1.0)}, "engine: solref: expected a time constant of at least two time steps of 0.001 s"),
    ({"solref": (-100.0, 1.0)}, "engine: solref: expected two numbers > 0, or"),
    ({"solreffriction": (0.0, 1.0)}, "engine: solreffriction: expected"),
    ({"ground": "stiff", "timestep": 0.002}, "solref: expected a time constant of at least two time steps"),
)
def test_wrong_settings_are_named(settings, named):
    with pytest.raises(ConfigError, match=named):
        parse({"kind": "mujoco"} | settings, AnyEngine, "engine")


def test_the_engine_is_a_command_line_option_that_names_all(tmp_path, capsys):
    figures = tmp_path / "figures.json"
    assert main(["simulate", "stand", "--engine", "mujoco", "--seconds", "0.02", "--json", str(figures)]) in (0, 1)
    assert {row["engine"] for row in json.loads(figures.read_text())} == {"mujoco"}
    for command in ("simulate", "demo"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert ",".join(NAMES) in "".join(capsys.readouterr().out.split())  # lines may end at a hyphen


def wheel(armature: float = 0.0) -> Robot:
    return Robot(Description(urdf=WHEEL, base="fixed", armature=armature))


def wheel_world(viscous: float = 0.0, coulomb: float = 0.0, armature: float = 0.0) -> EngineWorld:
    robot = wheel(armature)
    friction = JointFriction.of(robot, {"axle": viscous}, {"axle": coulomb})
    return build_world(ENGINES["lcp"](), robot, Flat(), robot.neutral(), friction=friction)


def lifted(world, height=10.0):
    q = world.q.copy()
    q[2] += height
    return q


@every("engine", first_is_fast(["mujoco", "lcp"]))
def test_a_falling_robot_follows_the_discrete_parabola_and_keeps_its_energy_to_first_order(engine):
    """A tumbling robot with free joints: no contact, no torque, so energy drifts with the step only."""
    world = robot_world(engine)
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
        world = robot_world(engine)
        q = lifted(world)
        world.reset(q, v0)
        before = world.robot.energy(q, v0)
        for _ in range(round(0.2 / dt)):
            world.step(np.zeros(12), dt)
        drift.append(abs(world.robot.energy(world.q, world.v) - before))
    assert drift[0] < 0.05
    assert drift[1] == pytest.approx(drift[0] / 2, rel=0.2)


@every(("engine", "steps"), [("lcp", 1), ("mujoco", 2)])
def test_a_push_gives_its_impulse_as_momentum_and_turns_the_block_off_its_centre(engine, steps):
    """Off the grid: 3.3 ms from 0.4 ms on, in control steps of so many physics steps."""
    world = block_world(engine)
    world.reset(lifted(world))
    push = Push(frame="block", force=(4.0, -3.0, 2.0), start=0.4e-3, duration=3.3e-3)
    for _ in range(10 // steps):
        world.step(np.zeros(0), steps * DT, [push])
    np.testing.assert_allclose(2 * world.v[:3], 3.3e-3 * np.array(push.force) - [0, 0, 2 * G * world.t], atol=1e-12)
    np.testing.assert_allclose(world.v[3:], 0, atol=1e-15)
    world = block_world(engine)
    world.reset(lifted(world))
    world.step(np.zeros(0), DT, [Push(frame="block", force=(0, 5, 0), point=(0.2, 0, 0))])
    assert world.v[5] == pytest.approx(0.2 * 5 * DT / 0.04)


@every("engine", ["lcp", "mujoco"])
def test_a_malformed_state_and_a_push_on_an_unknown_body_are_refused(engine):
    world = robot_world(engine)
    with pytest.raises(InputError, match="q: expected 19"):
        world.reset(np.zeros(18))
    with pytest.raises(InputError, match="v: expected 18"):
        world.reset(world.q, np.full(18, np.nan))
    with pytest.raises(FrameNotFound, match="BODY0"):
        world.step(np.zeros(12), DT, [Push(frame="BODY", force=(0, 0, 0))])


@every("engine", first_is_fast(["lcp", "mujoco", "penalty"], 2))
def test_two_runs_and_a_reset_are_identical(engine):
    world, ends = robot_world(engine), []
    for again in range(3):
        if again == 2:
            world = robot_world(engine)
        start = load_robot("quadruped")[1]
        world.reset(start)
        assert (world.q.tobytes(), world.t) == (start.tobytes(), 0.0)
        stand = Stand(world)
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


@full
@every("coulomb", first_is_fast([0.5, 0.05, 50.0]))
def test_coulomb_friction_brakes_evenly_and_then_holds(coulomb):
    speeds = spin(wheel_world(coulomb=coulomb), -2.0, 0.0, 2000)
    stops = int(np.ceil(2.0 * INERTIA / coulomb / DT))
    brake = -2.0 + coulomb / INERTIA * DT * np.arange(1, stops)
    np.testing.assert_allclose(speeds[: stops - 1], brake, rtol=1e-9, atol=1e-12)
    assert (np.diff(speeds) >= -1e-15).all()  # it never turns round
    assert speeds.max() < 1e-12
    assert abs(speeds[stops]) <= CREEP
    assert abs(speeds[-1]) < 1e-12


@full
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
