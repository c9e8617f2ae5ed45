"""The engine `sap`: contacts of small bodies against closed forms and reference values."""

import numpy as np
import pytest
from fast import every, first_is_fast, full
from sap_bodies import DT, G, cube, cylinder, near, pendulum, point_mass
from test_sap_newton import parts

from sim_harness.engines.sap import Sap
from sim_harness.engines.sap_newton import R_N, R_T

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


RESTITUTION = {"touching": (0.998, 0.857, 0.506, 0.298), "near": (0.998, 0.853, 0.444, 0.163)}
DISSIPATIONS = (0.0, 1e-3, 5e-3, 1e-2)


def bounce(candidates, tau):
    """Speed after over speed before an impact of 1 kg on 1e4 N/m at 1.4 m/s, without weight."""
    body = point_mass(mu=0.0)
    body.h[:], body.q[2], body.v[2] = 0.0, 0.02, -1.4
    body.run(Sap(stiffness=1e4, dissipation=tau, candidates=candidates), 1e-5, 7000)
    assert body.q[2] > 0
    return body.v[2] / 1.4


@full
@pytest.mark.parametrize("candidates", RESTITUTION)
def test_restitution_matches_the_closed_form(candidates):
    found = [bounce(candidates, tau) for tau in DISSIPATIONS]
    np.testing.assert_allclose(found, RESTITUTION[candidates], rtol=1e-2)


@full
def test_a_bounce_follows_a_spring_and_damper_without_pull():
    omega = np.sqrt(1e4)
    for tau in DISSIPATIONS:
        zeta = tau * omega / 2
        s = np.sqrt(1 - zeta**2)
        psi = np.pi - np.arctan2(2 * zeta * s, 1 - 2 * zeta**2)
        exact = -np.exp(-zeta * psi / s) * (np.cos(psi) - zeta / s * np.sin(psi))
        assert bounce("touching", tau) == pytest.approx(exact, rel=1e-2)


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


def test_below_the_friction_angle_it_creeps():
    body = on_a_slope(0.99)
    assert body.v[0] == pytest.approx(2.5094e-6, rel=1e-4)
    assert body.v[0] == pytest.approx(1e-3 * W * -body.h[0] * DT, rel=1e-9)


def test_above_the_friction_angle_it_slides():
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


def test_a_cylinder_rolls_down_a_slope():
    acceleration, slip = rolled(0.5)
    assert acceleration == pytest.approx(2 / 3 * G * np.sin(np.deg2rad(20)), rel=1e-5)
    assert acceleration == pytest.approx(2.23681, abs=5e-6)
    assert slip == pytest.approx(1.2e-6, rel=2e-2)


def test_a_cylinder_slips_down_a_slope():
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
