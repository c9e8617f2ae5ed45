"""The engine `sap`: motion without contacts, the theta schemes, their orders and energies."""

from functools import cache

import msgspec
import numpy as np
import pinocchio as pin
import pytest
from fast import every, fast, full
from sap_bodies import DT, Body, G, cylinder, near, point_mass
from test_engines import random_problems

from controllers.robot.load import load_robot
from idyn.errors import ConfigError
from sim_harness.engines.engine import ForwardProblem, Springs
from sim_harness.engines.sap import SCHEMES, Sap, free_motion


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
    problem = ForwardProblem(
        M=terms.M.copy(),
        h=terms.h.copy(),
        v=v,
        J=np.zeros((0, robot.nv)),
        force=on * rng.normal(size=robot.nv),
        mu=np.zeros(0),
        gaps=np.zeros(0),
        dt=dt,
        springs=Springs(stiffness=50.0 * on, damping=0.2 * on, stretch=0.1 * on * rng.normal(size=robot.nv)),
        system=Moving(robot, q),
    )
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


def test_implicit_euler_decays_in_a_few_periods():
    assert on_a_spring(0.0, "implicit", 0.02, 2.0)[1][-1] < 1e-3 * 0.5


def test_the_midpoint_scheme_keeps_the_energy_of_rolling():
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
@pytest.mark.parametrize("scheme", fast(ERRORS, "symplectic"))
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
