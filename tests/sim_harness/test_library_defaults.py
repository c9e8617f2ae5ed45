"""Predictions beside worlds: the library's defaults in a plain loop, fine steps, other friction than believed."""

import logging

import msgspec
import numpy as np
import pytest
from fast import every, every_row, fast, first_is_fast, full
from known_ends import STAND
from mujoco_robot import DT, MujocoRobot
from stands import robot_world

from idyn import Consistency, Flat, Ground, Options, Selection, State, contacts_from_geometry, load_robot, predict
from idyn.contact.soft import SoftContact
from idyn.laws import CoulombSettings, MujocoLawSettings, make_law
from idyn.prediction.solve import advice
from idyn.terms.dynamics import contact_jacobian
from sim_harness.commands.main import main
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.mujoco.mujoco_settings import MujocoSettings, differences
from sim_harness.run.plan import frictions, load_plan
from sim_harness.world.worlds import build_world

UNSUITABLE = {
    "paper": Options.paper(),
    "rigid": Options(ground=Ground.rigid()),
    "as rigid as the period": Options(ground=Ground(relaxation=DT)),
    "project": Options(consistency=Consistency.PROJECT),
    "off": Options(consistency=Consistency.OFF),
    "torque": Options(selection=Selection.TORQUE),
    "torque-change": Options(selection=Selection.TORQUE_CHANGE),
    "short relaxation": Options(ground=Ground(relaxation=0.01, memory=0.002)),
}
RECOVERY = PolygonLcp().recovery
OPTIONS = Options.paper(ground=Ground.rigid(noise=0.0, recovery_speed=RECOVERY, drift=False))
STEPS, MU = 400, 0.8
MODES = {"sticks": np.zeros(3), "slides": np.array([0.3, 0.1, 0.0]), "lifts": np.array([0.0, 0.0, 0.1])}
"""Velocity of the first foot along s, t, n [m/s]; the others are at rest."""
STIFF = SoftContact(solref=(0.01, 1.0))


def stand(name, seconds, ground="default", **options):
    """Stand in MuJoCo with q̈ = −100 e − 20 ė. Return over the last half: the largest joint error [rad], the mean |dτ/dt|
    [N·m/s], and the largest horizontal way of the base [m]. Infinite when the base leaves the height of a stance."""
    world = MujocoRobot(*load_robot(name), ground)
    robot, stance = world.robot, world.stance
    wanted, ticks, guess, errors, ways = robot.joint_angles(stance), int(seconds / DT), None, [], []
    for _ in range(ticks):
        q, v = world.state
        contacts = contacts_from_geometry(robot, q, Flat(), margin=0.002)
        q_ddot = -100.0 * (robot.joint_angles(q) - wanted) - 20.0 * v[robot.tree.a]
        last = predict(robot, State(q=q, v=v), contacts, q_ddot, law="coulomb", dt=DT, guess=guess, **options)
        guess = last.guess
        world.step(last.tau)
        errors.append(np.abs(robot.joint_angles(q) - wanted).max())
        ways.append(np.hypot(*(q[:2] - stance[:2])))
        if not 0.5 < q[2] / stance[2] < 1.5:
            return np.inf, np.inf, np.inf
    half, rates = ticks // 2, np.abs(np.diff(world.torques, axis=0)).mean(axis=1) / DT
    return max(errors[half:]), float(np.mean(rates[half - 1 :])), max(ways[half:])


@pytest.mark.parametrize("ground", fast(["default", "firm", "stiff"], "default"))
@every("name", ["go2", "quadruped"])
def test_robots_stand_with_the_defaults(name, ground):
    error, rate, way = stand(name, 1.0, ground)
    assert error < 1e-3
    assert rate < 1.0
    assert way < 1e-3


def test_the_defaults_get_no_advice_and_unsuitable_settings_are_warned_of_once(caplog):
    for law in ("coulomb", "no-slip", "exact-cone", "contact-free"):
        assert advice(make_law(law), Options(), DT) == []
    robot, stance = load_robot("quadruped")
    contacts, state = contacts_from_geometry(robot, stance, Flat(), margin=0.002), State(q=stance, v=np.zeros(robot.nv))
    options = Options(ground=Ground.rigid(relaxation=0.0123, memory=0.001))
    with caplog.at_level(logging.WARNING, "idyn.options"):
        for _ in range(3):
            predict(robot, state, contacts, np.zeros(robot.na), law="coulomb", dt=DT, options=options)
            predict(robot.twin(), state, contacts, np.zeros(robot.na), law="coulomb", dt=DT, options=options)
    assert [record.getMessage().count("ground.relaxation = 0.0123 s") for record in caplog.records] == [1]


@full
@pytest.mark.parametrize("name", UNSUITABLE)
def test_unsuitable_settings_are_advised_against_and_do_not_stand_quietly(name):
    options = UNSUITABLE[name]
    assert advice(make_law("coulomb"), options, DT)
    outcomes = [stand(robot, 4.0, options=options) for robot in ("go2", "quadruped")]
    assert max(error for error, _, _ in outcomes) > 5e-3 or max(rate for _, rate, _ in outcomes) > 100.0


def knock(world, rng, k):
    robot = world.robot
    world.reset(world.q, np.zeros(robot.nv))
    q = robot.integrate(world.q, 0.1 * (k % 3 > 0) * rng.normal(size=robot.nv))
    world.reset(q)
    q[2] -= min(world.contacts.gaps, default=0.0) + 0.001 * (k % 2)
    world.reset(q, 0.3 * (k % 4) * rng.normal(size=robot.nv))


@full
@pytest.mark.parametrize(("law", "engine"), first_is_fast([("coulomb", "lcp"), ("exact-cone", "newton")]))
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
@pytest.mark.parametrize("count", first_is_fast([40, 120]))
def test_predicted_motion_and_forces_match_the_world(name, law, engine, count):
    """Where the law itself answered, joint velocities and the sum of the normal forces agree."""
    law = make_law(law)
    robot, _ = load_robot(name)
    rng = np.random.default_rng(8)
    worst_velocity = worst_force = 0.0
    tested = 0
    for k in range(count):
        world = robot_world(engine, name=name)
        knock(world, rng, k)
        demand = 20 * rng.normal(size=robot.na)
        prediction = predict(robot, world.state, world.contacts, demand, law=law, dt=DT, options=OPTIONS)
        if prediction.law != law.name or prediction.demand_change > 0:
            continue
        tested += 1
        result = world.step(prediction.tau, DT)
        assert result.status.ok
        worst_velocity = max(worst_velocity, np.abs(world.v - prediction.v_plus).max())
        total = max(prediction.normal_force.sum(), 1.0)
        worst_force = max(worst_force, abs(result.normal_force.sum() - prediction.normal_force.sum()) / total)
    assert tested > 5 * count // 6
    assert worst_velocity < 1e-10
    assert worst_force < 1e-10


def passing(robot, stance, speed, rng, foot):
    """A state whose base moves at `speed` [m/s] while the feet rest but for the first one; all spheres touch the plane."""
    q = robot.integrate(stance, np.r_[np.zeros(6), 0.03 * rng.normal(size=robot.nv - 6)])
    for _ in range(20):  # joints that put all spheres on the plane
        contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
        N = contact_jacobian(robot, robot.terms(q, np.zeros(robot.nv)), contacts)[2::3]
        q = robot.integrate(q, -np.linalg.pinv(N) @ contacts.gaps)
    contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
    J = contact_jacobian(robot, robot.terms(q, np.zeros(robot.nv)), contacts)
    v, angle, u, a = np.zeros(robot.nv), rng.uniform(0.0, 2.0 * np.pi), robot.tree.u, robot.tree.a
    v[:6] = speed * np.cos(angle), speed * np.sin(angle), *(0.1 * rng.normal(size=4))
    v[a] = np.linalg.solve(J[:, a], np.r_[foot, np.zeros(9)] - J[:, u] @ v[u])
    return State(q=q, v=v), msgspec.structs.replace(contacts, gaps=np.zeros(4), mu=np.full(4, MU))


def measured(world, state, tau):
    """Mean Σ f_N of the fine steps [N]."""
    world.reset(state.q, state.v)
    return np.mean([world.step(tau, DT / STEPS).normal_force.sum() for _ in range(STEPS)])


@full
@pytest.mark.parametrize("count", first_is_fast([4, 24]))
@every("mode", first_is_fast(MODES))
@pytest.mark.parametrize("speed", first_is_fast([1.0, 1.5, 0.4]))
def test_forces_are_those_of_fine_steps(speed, mode, count):
    """Σ f_N, median, to 1e-3; of the law at J v⁺ it is wrong by some per cent."""
    robot, stance = load_robot("go2")
    world, rng = build_world(Newton(recovery=0.0), robot, Flat(), stance, mu=np.full(4, MU)), np.random.default_rng(1)
    errors, literal = [], []
    while len(errors) < count:
        state, contacts = passing(robot, stance, speed, rng, MODES[mode])
        demand, rests = 2.0 * rng.normal(size=robot.na), contacts.take(np.arange(0 if mode == "sticks" else 1, 4))
        for drift, found in ((True, errors), (False, literal)):
            ground, asked = Ground.rigid(drift=drift), {"law": "exact-cone", "dt": DT}
            held = predict(robot, state, rests, demand, options=Options(ground=ground), **asked)  # of the feet at rest
            options = Options(ground=ground, consistency=Consistency.OFF)
            answer = predict(robot, state, contacts, (held.v_plus - state.v)[robot.tree.a] / DT, options=options, **asked)
            assert answer.status.ok
            acting = measured(world, state, answer.tau)
            found.append(abs(answer.normal_force.sum() - acting) / robot.weight)
    print(f"\n{mode}, {speed} m/s: median {np.median(errors):.3%}, 95 % {np.quantile(errors, 0.95):.2%}; ", end="")
    print(f"at J v⁺ {np.median(literal):.2%}, 95 % {np.quantile(literal, 0.95):.1%}")
    assert np.median(errors) < 1e-3
    assert np.median(literal) > (0.003 if speed == 0.4 else 0.02)


def test_equal_parameters_and_other_laws_and_worlds_are_not_reported():
    stiff = MujocoLawSettings(contact=SoftContact(solref=(0.002, 1.0)))
    assert differences(MujocoLawSettings(), MujocoSettings(), 0.001) == []
    assert differences(stiff, MujocoSettings(ground="stiff"), 0.001) == []
    assert differences(CoulombSettings(), MujocoSettings(ground="stiff"), 0.001) == []
    assert differences(stiff, PolygonLcp(), 0.001) == []
    assert differences(MujocoLawSettings(), MujocoSettings(integrator="implicitfast"), 0.001) == []
    assert differences(MujocoLawSettings(integrator="implicit"), MujocoSettings(integrator="implicit"), 0.001) == []


@every_row(
    ({}, {"ground": "firm"}, ["contact.solref = (0.02, 1.0), in the world (0.005, 1.0)"]),
    ({"cone": "pyramidal"}, {}, ["cone = pyramidal, in the world elliptic"]),
    ({}, {"impratio": 10.0}, ["impratio = 1.0, in the world 10.0"]),
    ({"contacts": {"LF_FOOT": STIFF}}, {}, ["contacts.LF_FOOT.solref = (0.01, 1.0), in the world (0.02, 1.0)"]),
    (
        {"integrator": "implicitfast"},
        {"integrator": "implicit"},
        ["integrator = implicitfast, in the world implicit: forces agree, joint accelerations do not"],
    ),
    ({}, {"condim": 4, "spin": 0.005}, ["contact.condim = 3, in the world 4"]),
    ({"contact": SoftContact(condim=6, spin=0.01)}, {"condim": 6}, ["contact.spin = 0.01, in the world 0.005"]),
    ({}, {"timestep": 0.0005}, ["physics steps of 0.0005 s; the law predicts one step of 0.001 s"]),
)
def test_each_difference_is_named(law, engine, said):
    assert differences(MujocoLawSettings(**law), MujocoSettings(**engine), 0.001) == said


def test_simulate_names_the_differences(tmp_path, capsys):
    path = tmp_path / "experiment.toml"
    path.write_text('server = "quadruped"\nlaws = ["mujoco"]\nduration = 0.01\nengine = {kind = "mujoco", ground = "firm"}\n')
    main(["simulate", str(path)])
    assert "note: the law mujoco is not that of the world: contact.solref = (0.02, 1.0)" in capsys.readouterr().out


def plan_of(path, controller):
    path.write_text(STAND.replace("2.0", "0.05") + f"mu = 0.3\n{controller}", encoding="utf-8")
    return load_plan(str(path))


def test_the_worlds_friction_does_not_change_what_the_controller_believes_and_both_are_said(tmp_path, capsys):
    path = tmp_path / "experiment.toml"
    assert frictions(plan_of(path, "")) == (0.3, 0.3)
    assert frictions(plan_of(path, "controller.contact.mu = 0.8\n")) == (0.3, 0.8)
    main(["simulate", str(path)])
    assert "friction: 0.3 in the world, the controller believes 0.8" in capsys.readouterr().out
