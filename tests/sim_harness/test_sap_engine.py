"""The engine `sap`: contacts and motion of small bodies and robots against closed forms; the law `sap`; the study."""

from functools import cache

import msgspec
import numpy as np
import pinocchio as pin
import pytest
from fast import every, first_is_fast, full
from problems import DT, Body, G, cube, cylinder, near, pendulum, point_mass, random_problems, step_problem
from test_sap_solver import parts

from controllers.config.loading import load
from controllers.robot.load import load_robot
from idyn.contact.ground import Ground
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.laws import SapSettings
from idyn.options import Options
from idyn.prediction.predict import predict
from sim_harness.commands.main import main
from sim_harness.engines.engine import Springs
from sim_harness.engines.sap import SCHEMES, Sap, free_motion
from sim_harness.engines.sap_newton import R_N, R_T
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, load_plan, with_controller
from sim_harness.studies import sap_study
from sim_harness.studies.sap_study import SCENES, Pile, effective_mass, pile, swing
from sim_harness.world.bodies import JointFriction
from sim_harness.world.worlds import build_world

W = 1 / np.sqrt(3)
"""w of a free point of 1 kg [1/kg]"""


def test_the_estimate_of_w_matches_its_definition():
    for m in (1.0, 2.0):
        assert parts(near(), point_mass(m).problem(DT))[2][0, R_T] == pytest.approx(1e-3 * W / m, rel=1e-12)
    np.testing.assert_allclose(parts(near(), cube().problem(DT))[2][:, R_T] / 1e-3, 2.61406, rtol=2e-6)


def test_stiffness_is_limited_to_what_the_step_resolves():
    tau, beta = 1e-3, 1.3
    crossover = 4 * np.pi**2 / (beta**2 * W * DT * (DT + tau))
    for k in np.logspace(2, 14, 49):
        R_n = parts(near(stiffness=k, dissipation=tau, beta=beta), point_mass().problem(DT))[2][0, R_N]
        rigid, soft = beta**2 * W / (4 * np.pi**2), 1 / (DT * k * (DT + tau))
        assert R_n == pytest.approx(rigid if k > crossover else soft, rel=1e-12)


@pytest.mark.parametrize("dt", first_is_fast([1e-3, 1e-2]))
@every(("share", "depth"), [(1 / np.pi, 1.8913e-7), (1.0, 2.8693e-7)])
def test_resting_penetration_near_rigid(dt, share, depth):
    body = point_mass()
    body.run(near(stiffness=np.inf, dissipation=share * dt), dt, 3000)
    assert -body.q[2] == pytest.approx(depth * (dt / 1e-3) ** 2, rel=1e-4)


def test_resting_penetration_of_a_spring():
    body = point_mass()
    body.run(near(stiffness=1e4, dissipation=0.01), DT, 3000)
    assert -body.q[2] == pytest.approx(G / 1e4, rel=1e-7)


@every("stiffness", [1e4, np.inf])
def test_a_cube_at_rest_presses_with_its_weight(stiffness):
    body = cube()
    solution = body.run(near(stiffness=stiffness, dissipation=0.01), DT, 3000)
    assert solution.p[:, 2].sum() / DT == pytest.approx(G, rel=1e-7)
    np.testing.assert_allclose(solution.p[:, 2], G * DT / 4, rtol=1e-6)


DISSIPATIONS = (0.0, 1e-3, 5e-3, 1e-2)


def bounce(candidates, tau):
    """Speed after over speed before an impact of 1 kg on 1e4 N/m at 1.4 m/s, without weight."""
    body = point_mass(mu=0.0)
    body.h[:], body.q[2], body.v[2] = 0.0, 0.02, -1.4
    body.run(Sap(stiffness=1e4, dissipation=tau, candidates=candidates), 1e-5, 7000)
    assert body.q[2] > 0
    return body.v[2] / 1.4


@full
def test_a_bounce_follows_a_spring_and_damper_without_pull():
    """With `near` the damper acts before the body touches, too."""
    omega = np.sqrt(1e4)
    for tau, near_one in zip(DISSIPATIONS, (0.998, 0.853, 0.444, 0.163), strict=True):
        zeta = tau * omega / 2
        s = np.sqrt(1 - zeta**2)
        psi = np.pi - np.arctan2(2 * zeta * s, 1 - 2 * zeta**2)
        exact = -np.exp(-zeta * psi / s) * (np.cos(psi) - zeta / s * np.sin(psi))
        assert bounce("touching", tau) == pytest.approx(exact, rel=1e-2)
        assert bounce("near", tau) == pytest.approx(near_one, rel=1e-2)


def test_separating_contacts_do_not_adhere():
    """A separating body is released once −φ < τ_d v_n at the end of the step; before, the damper reduces the spring's force."""
    engine = near(stiffness=1e4, dissipation=5e-3)
    for speed, depth in np.random.default_rng(15).uniform((0.05, 1e-4), (1.0, 6e-3), (400, 2)):
        body = point_mass(mu=0.0)
        body.h[:], body.q[2], body.v[2] = 0.0, -depth, speed
        free = depth - DT * speed < 5e-3 * speed
        solution = body.step(engine, DT)
        assert (solution.p[0, 2] == 0.0) == free
        assert solution.p[0, 2] >= 0.0


def test_friction_stays_within_coulombs_limit():
    rng, engine, slid, stuck = np.random.default_rng(16), near(stiffness=1e4, dissipation=1e-3, tolerance=1e-13), 0, 0
    for _ in range(300):
        body = point_mass(mu=rng.uniform(0, 1))
        body.q[2], body.v = -1e-3 * rng.uniform(), 10 ** rng.uniform(-4, -1) * rng.normal(size=3)
        p = body.step(engine, DT).p[0]
        limit, friction, u = body.mu[0] * p[2], np.linalg.norm(p[:2]), body.v[:2]
        assert friction <= limit + 1e-12
        if friction < limit - 1e-12 or p[2] == 0.0:
            stuck += p[2] > 0.0
            continue
        slid += 1
        np.testing.assert_allclose(p[:2], -limit * u / np.linalg.norm(u), atol=1e-12)
    assert slid > 50
    assert stuck > 10


def test_stopping_distance_matches_the_closed_form():
    body = point_mass()
    body.q[2], body.v[0] = -G / 1e4, 2.0
    body.run(near(stiffness=1e4, dissipation=DT), DT, 1000)
    assert body.q[0] == pytest.approx(0.40674, abs=5e-6)
    assert body.q[0] == pytest.approx(2.0**2 / (2 * 0.5 * G), rel=5e-3)
    assert abs(body.v[0]) < 1e-12


def on_a_slope(share, **settings):
    """A point of 1 kg on a slope of a share of the friction angle of 0.5, after a second from rest on the ground."""
    body = point_mass(slope=share * np.arctan(0.5))
    engine = near(**{"stiffness": np.inf, "dissipation": DT, **settings})
    body.q[2] = -body.h[2] * DT * (DT + DT) * parts(engine, body.problem(DT))[2][0, R_N]
    body.run(engine, DT, 1000)
    return body


def test_below_the_friction_angle_it_creeps_and_above_it_slides():
    body = on_a_slope(0.99)
    assert body.v[0] == pytest.approx(2.5094e-6, rel=1e-4)
    assert body.v[0] == pytest.approx(1e-3 * W * -body.h[0] * DT, rel=1e-9)
    alpha = 1.01 * np.arctan(0.5)
    body = on_a_slope(1.01)
    assert body.v[0] == pytest.approx(0.0508, abs=5e-5)
    assert body.v[0] == pytest.approx(G * (np.sin(alpha) - 0.5 * np.cos(alpha)), rel=1e-2)


@every("dt", [1e-3, 1e-2])
def test_creep_of_a_loaded_contact_matches_its_formula(dt):
    """F = 0.999 μ m g with μ = 1: R_t F dt, and below the published bound σ μ dt g."""
    body = point_mass(mu=1.0)
    body.run(near(stiffness=np.inf, dissipation=dt), dt, 2000, np.array([0.999 * G, 0, 0]))
    assert body.v[0] == pytest.approx(5.658e-6 * dt / 1e-3, rel=1e-4)
    assert body.v[0] < 1e-3 * G * dt


@full
@pytest.mark.parametrize(
    ("stiffness", "tau", "dt", "gap"),
    [
        (1e4, 0.02, 1e-3, 9.5190e-3),
        pytest.param(1e4, 0.02, 1e-4, 9.0690e-3, marks=full),
        (np.inf, 0.0, 1e-3, 4.9986e-4),
        (np.inf, 1e-3, 1e-3, 9.9971e-4),
    ],
)
def test_a_sliding_contact_hovers_by_step_times_mu_times_speed(stiffness, tau, dt, gap):
    """Driven at 1 m/s against μ = 0.5."""
    body, engine = point_mass(), near(stiffness=stiffness, dissipation=tau)
    body.v[0], body.q[2] = 1.0, (dt + tau) * 0.5
    solution = body.run(engine, dt, round(4.0 / dt), np.array([0.5 * G, 0, 0]))
    assert body.v[0] == pytest.approx(1.0, abs=1e-6)
    assert body.q[2] == pytest.approx(gap, rel=1e-4)
    law = parts(engine, body.problem(dt))[2][0]
    steep = 0.25 * law[R_T] / law[R_N]
    assert body.q[2] == pytest.approx((dt + tau) * (0.5 - (1 + steep) * G * dt * law[R_N]), rel=1e-6)
    assert solution.p[0, 2] == pytest.approx(G * dt, rel=1e-5)  # the load is the true one


def rolled(mu):
    """Acceleration down a slope of 20° [m/s²] of a cylinder, its speed where it touches [m/s], and it."""
    body, engine = cylinder(mu=mu, slope=np.deg2rad(20)), near(stiffness=np.inf, dissipation=DT)
    body.run(engine, DT, 1000)
    before = body.v[0]
    body.run(engine, DT, 1000)
    return body.v[0] - before, body.v[0] - 0.05 * body.v[2]


def test_a_cylinder_rolls_or_slips_down_a_slope():
    acceleration, slip = rolled(0.5)
    assert acceleration == pytest.approx(2 / 3 * G * np.sin(np.deg2rad(20)), rel=1e-5)
    assert acceleration == pytest.approx(2.23681, abs=5e-6)
    assert slip == pytest.approx(1.2e-6, rel=2e-2)
    acceleration, slip = rolled(0.1)
    assert acceleration == pytest.approx(2.4334, abs=5e-5)
    assert slip > 0.5


@full
def test_rolling_loses_the_energy_of_its_creep():
    """dE/dt = −F_t² R_t dt, for a cylinder on a spring without other losses."""
    body = cylinder().spring([100.0, 0.0, 0.0])
    body.q[:2] = 0.1, -0.5 * G / 1e4
    engine, dt = near(stiffness=1e4, dissipation=0.02, scheme="midpoint"), 0.01
    start, lost = 50 * 0.1**2, 0.0
    R_t = parts(near(), body.problem(dt))[2][0, R_T]
    for _ in range(3000):
        p = body.step(engine, dt).p[0]
        lost += R_t * p[0] ** 2
    energy = 0.5 * body.v @ body.M @ body.v + 50 * body.q[0] ** 2
    assert lost > 0.002 * start
    assert start - energy == pytest.approx(lost, rel=0.05)


def test_a_pendulum_on_its_stop_is_held_by_its_weights_torque():
    body = pendulum(stop=True)
    for _ in range(3000):
        solution = body.step(Sap(), DT)
    assert solution.rows[0] / DT == pytest.approx(G, rel=1e-7)
    assert -1e-6 < body.q[0] < 0.0
    body.v[0] = 1.0
    assert body.step(Sap(), DT).rows[0] == 0.0


def test_a_gear_yields_by_its_load():
    """Two joints geared one to two, a weight on the first: the error of the gear stays below R times the load."""
    body = pendulum(stop=False)
    for _ in range(500):
        before = body.q
        solution = body.step(Sap(), DT)
    G_row, load = np.array([1.0, -2.0]), abs(solution.rows[0])
    assert load > 0.0
    R = 1 / (4 * np.pi**2) * 5.0
    tau = DT / np.pi
    assert abs(G_row @ before + (DT + tau) * G_row @ body.v) <= (DT + tau) * R * load * (1 + 1e-6)
    assert abs(G_row @ body.q) < 1e-5


class Moving:
    """A robot's terms at other configurations."""

    def __init__(self, robot, q):
        self.robot, self.q = robot, q

    def terms(self, shift, v):
        terms = self.robot.terms(self.robot.integrate(self.q, shift), v)
        return terms.M.copy(), terms.h.copy()


def swinging(seed, dt=DT):
    """The quadruped in the air with springs and dampers in its joints: a problem without contacts, and its robot and q."""
    robot, q = load_robot("quadruped")
    rng = np.random.default_rng(seed)
    q, v = robot.integrate(q, 0.2 * rng.normal(size=robot.nv)), rng.normal(size=robot.nv)
    terms = robot.terms(q, v)
    on = np.r_[np.zeros(6), np.ones(12)]
    force = on * rng.normal(size=robot.nv)
    springs = Springs(stiffness=50.0 * on, damping=0.2 * on, stretch=0.1 * on * rng.normal(size=robot.nv))
    problem = step_problem(terms.M, dt=dt, h=terms.h.copy(), v=v, force=force, springs=springs, system=Moving(robot, q))
    return problem, robot, q


@every("seed", range(5))
def test_without_contacts_a_step_is_an_euler_step_of_forward_dynamics(seed):
    problem, robot, q = swinging(seed)
    s = problem.springs
    tau = problem.force - s.stiffness * s.stretch - s.damping * problem.v
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    acceleration = pin.aba(model, model.createData(), q, problem.v, tau)
    np.testing.assert_allclose(Sap().solve(problem).v_plus, problem.v + DT * acceleration, rtol=1e-12, atol=1e-12)


def test_a_drop_follows_the_closed_form():
    body = point_mass()
    body.q[2] = 10.0
    body.run(Sap(), DT, 1000)
    assert 10.0 - body.q[2] == pytest.approx(0.5 * G * (1 + DT), rel=1e-12)


def on_a_spring(mu, scheme, dt, seconds):
    """Distance from rest [m] and energy [J] after each step of the reference cylinder, released at 0.1 m."""
    body = cylinder(mu=mu).spring([100.0, 0.0, 0.0])
    body.q[:2] = 0.1, -0.5 * G / 1e4
    engine, rows = near(stiffness=1e4, dissipation=0.02, scheme=scheme), []
    for _ in range(round(seconds / dt)):
        body.step(engine, dt)
        rows.append((body.q[0], 0.5 * body.v @ body.M @ body.v + 50 * body.q[0] ** 2))
    return np.array(rows).T


@every(("scheme", "low", "high"), [("symplectic", 0.285, 0.291), ("midpoint", 0.0, 1e-12)])
def test_without_friction_the_energy_stays_within_a_band(scheme, low, high):
    energy = on_a_spring(0.0, scheme, 0.02, 20.0)[1] / 0.5
    assert low <= energy.max() - energy.min() <= high


def test_implicit_euler_decays_in_a_few_periods_and_midpoint_keeps_the_energy_of_rolling():
    assert on_a_spring(0.0, "implicit", 0.02, 2.0)[1][-1] < 1e-3 * 0.5
    energy = on_a_spring(1.0, "midpoint", 0.02, 0.544)[1] / 0.5
    assert energy.max() - energy.min() < 0.0016 + 0.544 * 4.7e-4


STEPS = (0.02, 0.01, 0.005, 0.0025, 0.00125)
ERRORS = {
    "midpoint": (1.028e-2, 2.590e-3, 6.481e-4, 1.620e-4, 4.052e-5),
    "symplectic": (1.301e-2, 5.247e-3, 2.324e-3, 1.089e-3, 5.266e-4),
    "implicit": (6.24e-2, None, None, None, 1.48e-2),
}


@cache
def position_errors(scheme):
    """e_q over 5 s [m], by step."""
    errors, omega = [], np.sqrt(100.0 / 0.75)
    for dt in STEPS:
        x = on_a_spring(1.0, scheme, dt, 5.0)[0]
        errors.append(np.sqrt(np.mean((x - 0.1 * np.cos(omega * dt * np.arange(1, len(x) + 1))) ** 2)))
    return np.array(errors)


@full
@pytest.mark.parametrize("scheme", ERRORS)
def test_errors_of_the_rolling_cylinder_match_the_reference(scheme):
    for found, expected in zip(position_errors(scheme), ERRORS[scheme], strict=True):
        assert expected is None or found == pytest.approx(expected, rel=5e-3)


@full
def test_each_scheme_has_its_order_of_accuracy():
    orders = {scheme: np.log2(e[:-1] / e[1:]) for scheme in ERRORS for e in [position_errors(scheme)]}
    assert np.abs(orders["midpoint"] - 2.0).max() < 0.05
    assert orders["symplectic"][-1] == pytest.approx(1.0, abs=0.06)
    assert orders["implicit"][-1] == pytest.approx(0.8, abs=0.05)  # on its way to 1: the energy of 5 s is nearly gone
    assert (np.diff(orders["implicit"]) > 0).all()


def momentum(problem, name, v):
    """m(v) of (14), from the problem's own system."""
    theta, theta_vq = SCHEMES[name]
    a, s, dt = problem, problem.springs, problem.dt
    shift = theta * dt * (theta_vq * v + (1 - theta_vq) * a.v)
    middle = theta * v + (1 - theta) * a.v
    M, h = a.system.terms(shift, middle)
    return M @ (v - a.v) - dt * (a.force - h - s.stiffness * (s.stretch + shift) - s.damping * middle)


@every("scheme", ["implicit", "midpoint"])
def test_A_is_the_slope_of_the_momentum_to_first_order(scheme):
    errors = []
    for dt in (2e-3, 1e-3, 5e-4):
        problem, _, _ = swinging(9, dt)
        motion, found = free_motion(problem, scheme)
        assert found
        assert np.abs(momentum(problem, scheme, motion.v_star)).max() < 1e-12
        up, down = (np.array([momentum(problem, scheme, motion.v_star + h * e) for e in np.eye(18)]).T for h in (1e-4, -1e-4))
        errors.append(np.abs((up - down) / 2e-4 - motion.A).max())
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 2.0, atol=0.2)


@every("scheme", ["implicit", "midpoint"])
def test_A_is_exact_for_a_constant_mass_matrix(scheme):
    """(16) with θ_vq once, not twice as printed."""
    body = point_mass().spring([1e4, 2e4, 3e4], damping=50.0)
    body.q[2] = 1.0
    problem = body.problem(0.01)
    A, v = free_motion(problem, scheme)[0].A, np.zeros(3)
    slope = np.array([momentum(problem, scheme, v + e) - momentum(problem, scheme, v) for e in np.eye(3)]).T
    np.testing.assert_allclose(slope, A, atol=1e-9)


@every(("scheme", "bounded"), [("implicit", True), ("midpoint", True), ("explicit", False)])
def test_implicit_stiff_position_control_is_bounded(scheme, bounded):
    body = Body(np.eye(1), np.zeros(1), np.zeros((0, 1)), lambda _: np.zeros(0), []).spring([1e5])
    body.q[0] = 0.1
    engine, largest = Sap(scheme=scheme), 0.0
    for _ in range(100):
        body.step(engine, 0.01)
        largest = max(largest, abs(body.q[0]))
    assert (largest <= 0.1 + 1e-9) == bounded
    assert bounded or largest > 1e6


def test_implicit_schemes_need_the_bodies_at_other_configurations():
    problem = next(random_problems("quadruped", 1))
    with pytest.raises(ConfigError, match=r"engine\.scheme: expected 'symplectic' or 'explicit' .* got 'midpoint'"):
        Sap(scheme="midpoint").solve(problem)


def test_dampers_folded_into_the_problem_are_kept():
    """A damper folded into M and force acts alike under every scheme if no other force depends on the velocity."""
    body = point_mass()
    body.q[2], body.v[0] = 1.0, 2.0
    problem = body.problem(0.01)
    damped = msgspec.structs.replace(problem, M=problem.M + 0.01 * 30.0 * np.eye(3), force=problem.force - 30.0 * problem.v)
    for scheme in SCHEMES:
        assert Sap(scheme=scheme).solve(damped).v_plus[0] == pytest.approx(2.0 / 1.3, rel=1e-12)


@full
@pytest.mark.parametrize(("candidates", "mu"), [("touching", 0.8), ("touching", np.inf), ("near", 0.8)])
def test_robots_trot_in_the_sap_world(candidates, mu):
    settings = load("experiments", "trot-quadruped", ExperimentSettings)
    engine = Sap(candidates=candidates)
    settings = msgspec.structs.replace(settings, duration=3.0, engine=engine, mu=mu)
    summary = run_in_process(with_controller(build_plan(settings), {"law": "coulomb"}), "coulomb", lambda *_: None).summary
    assert summary.upright
    assert summary.tilt < 0.05
    assert summary.modes["ok"] > 0.99


def swung(make_world, scheme, dt, viscous=0.0):
    """The quadruped in the air, its legs driven by steady torques: angles after 50 ms."""
    world = make_world("sap", scheme=scheme)
    names = world.robot.joint_names
    friction = JointFriction.of(world.robot, dict.fromkeys(names, viscous), dict.fromkeys(names, 0.0)) if viscous else None
    world = build_world(world.engine, world.robot, Flat(), world.q + np.r_[0, 0, 1.0, np.zeros(16)], friction=friction)
    torque = 0.1 * np.sin(np.arange(12.0))
    for _ in range(round(0.05 / dt)):
        assert world.step(torque, dt).status.ok
    return world.robot.joint_angles(world.q)


@full
@pytest.mark.parametrize("viscous", [0.0, 0.01])
def test_all_schemes_converge_to_the_same_leg_swing(make_world, viscous):
    exact = swung(make_world, "midpoint", 1.25e-4, viscous)
    for scheme in SCHEMES:
        coarse, fine = (np.abs(swung(make_world, scheme, dt, viscous) - exact).max() for dt in (2e-3, 1e-3))
        assert coarse < 0.05
        order = np.log2(coarse / fine)
        expected = 2 if scheme == "midpoint" and not viscous else 1
        assert order == pytest.approx(expected, abs=0.2)


@full
@pytest.mark.parametrize(("scheme", "order", "most"), [("symplectic", 1, 0.03), ("midpoint", 2, 1e-4)])
def test_a_spinning_block_flies_straight_up_to_the_schemes_error(make_block, scheme, order, most):
    """1 m/s and 10 rad/s for a second; velocities are in body axes, which turn meanwhile."""
    errors = []
    for dt in (DT, DT / 2):
        world = make_block("sap", scheme=scheme)
        world.reset(world.q + np.r_[0, 0, 50.0, np.zeros(4)], np.array([1.0, 0, 0, 0, 0, 10.0]))
        for _ in range(round(1 / dt)):
            world.step(np.zeros(0), dt)
        errors.append(np.hypot(world.q[0] - 1.0, world.q[1]))
    assert errors[0] < most
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)


GROUNDS = {
    "shipped": {},
    "soft": {"stiffness": 2e3, "dissipation": 0.05},
    "rigid": {"stiffness": np.inf, "dissipation": DT},
    "creeping": {"sigma": 0.1, "beta": 3.0},
    "near": {"candidates": "near", "dissipation": 0.02},
}


@every("ground", GROUNDS)
@every("name", ["solo12", "quadruped", "go2"])
def test_random_motion_has_the_predicted_forces(name, ground):
    """50 steps of random demands from a drop on, each torque applied in the world: forces to 1e-9 of the largest, velocities
    to 1e-9."""
    robot, stance = load_robot(name)
    rng = np.random.default_rng(0)
    world = build_world(Sap(tolerance=1e-12, **GROUNDS[ground]), robot, Flat(), stance)
    world.reset(stance, 0.1 * rng.normal(size=robot.nv))
    law = SapSettings(**GROUNDS[ground], drift=False).build()
    options, pressed = Options.paper(ground=Ground.rigid(noise=0.0)), 0
    for _ in range(50):
        demand = rng.normal(scale=20.0, size=robot.na)
        answer = predict(robot, world.state, world.contacts, demand, law=law, dt=DT, options=options)
        assert answer.law == "sap"
        assert answer.status.ok
        result = world.step(answer.tau, DT)
        assert result.status.ok
        largest = np.abs(result.force).max(initial=1.0)
        np.testing.assert_allclose(answer.normal_force, result.normal_force, atol=1e-9 * largest)
        np.testing.assert_allclose(answer.impulse, result.impulse, atol=1e-9 * DT * largest)
        np.testing.assert_allclose(answer.v_plus, world.v, atol=1e-9)
        pressed += (result.normal_force > 0.1).sum()
    assert pressed > 20


@pytest.fixture(scope="module")
def sway_runs():
    plan = load_plan("sway-springs", 1.5)
    return [
        run_in_process(with_controller(plan, {"law": law}), str(i), lambda *_: None) for i, law in enumerate(plan.settings.laws)
    ]


@full
def test_with_the_floors_parameters_sap_predicts_forces_within_one_per_cent(sway_runs):
    """Every component of every foot's force in 99 of 100 ticks, relative to a fourth of the weight; the sum to 0.2 % in all but
    1 %. The rigid law with T_r, T_p predicts the sum as well and the single forces not."""
    weight = 4.8 * 9.81  # [N]
    for run, springs in zip(sway_runs, (False, True), strict=True):
        predicted, simulated = np.nan_to_num(run.trace.predicted[50:]), np.nan_to_num(run.trace.simulated[50:])
        assert run.summary.upright
        assert run.summary.tilt < 5e-3
        total = np.abs((predicted - simulated)[:, :, 0].sum(axis=1)) / weight
        each = np.abs(predicted - simulated).max(axis=(1, 2)) / weight
        assert np.percentile(total, 99) < 2e-3
        if springs:
            assert np.percentile(each, 99) < 1e-2
            assert run.summary.modes == {"ok": 1.0}


@full
def test_forty_bodies_come_to_rest_in_their_bin():
    found = pile("near")
    assert len(found.t) == 1000
    assert found.momentum.max() < 1e-5
    assert found.iterations[-300:].mean() <= 6.0  # contacts of boxes within the margin come and go
    assert found.iterations.max() > 10
    assert found.contacts[-1] > 100


@pytest.mark.long
def test_ten_minutes_of_rolling_lose_the_published_energy():
    """About 10 % [SAP §VI-B], with a contact at each end of the cylinder: half of what one contact alone takes."""
    energy = swing("rolls", "midpoint", 0.02, 600.0).energy
    assert 0.85 < energy[-50:].mean() < 0.92


@full
@pytest.mark.parametrize("motion", SCENES)
def test_the_scenes_cylinders_swing_in_their_periods(motion):
    run = swing(motion, "midpoint", 0.02, 5.0)
    turns = np.flatnonzero((run.x[:-1] < 0) & (run.x[1:] >= 0))
    expected = 2 * np.pi * np.sqrt(effective_mass(motion) / 100.0)
    assert np.ptp(run.t[turns]) / (len(turns) - 1) == pytest.approx(expected, rel=0.01)


@full
def test_the_page_has_its_tables_and_pictures(tmp_path, monkeypatch, capsys):
    few = np.arange(1.0, 9.0)
    monkeypatch.setattr(
        sap_study, "pile", lambda _: Pile(t=few, iterations=few, momentum=1e-6 / few, contacts=few, seconds=few)
    )
    monkeypatch.setattr(sap_study, "LONG_S", 2.0)
    monkeypatch.setattr(sap_study, "ORDER_S", 1.0)
    assert main(["compare", "sap-study", "--out", str(tmp_path)]) == 0
    assert {"schemes.png", "clutter.png", "report.html"} == {path.name for path in tmp_path.iterdir()}
    printed = capsys.readouterr().out
    assert "midpoint" in printed
    assert "order" in printed
