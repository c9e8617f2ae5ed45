"""The published programs [Drumwright], whose defects are known, and the law that the engine uses instead."""

import numpy as np
import pytest
from fast import every, full
from first_order_bodies import along_normals, random_spd, step_of, ties
from first_order_scenes import RAMP_H, across, foot, leaning_rod, ramp
from scipy.optimize import minimize

from idyn.errors import InputError
from sim_harness.engines.engine import Rows
from sim_harness.engines.first_order import FirstOrder, free_motion
from sim_harness.studies.first_order_published import Published, program, solve_program, tied

PUBLISHED = Published(tangential=1e4)


@full
def test_a_foot_tips_over_under_the_published_program():
    """(5.335, 4.836) N instead of the springs' own (8.829, 0.981) N, and 0.554 rad after a second."""
    forces, tilt = foot("published", 1.0)
    np.testing.assert_allclose(forces, [5.335, 4.836], atol=5e-4)
    assert tilt == pytest.approx(0.554, abs=5e-4)


@every("friction", ["cone", "convex"])
def test_a_foot_stands_on_its_springs_under_the_engine(friction):
    forces, tilt = foot(friction, 1.0)
    np.testing.assert_allclose(forces, [8.829, 0.981], atol=5e-4)
    assert tilt == pytest.approx((0.9 - 0.1) * 9.81 / 1e7 / 0.1 / 1.0, rel=1e-3)


def test_a_single_contact_has_its_spring_force():
    rng = np.random.default_rng(9)
    for _ in range(100):
        gap, v, f = 1e-3 * rng.normal(), 0.1 * rng.normal(), 10 * rng.normal()
        problem = step_of([[2.0]], [f], [v], 1e-3, along_normals([[1.0]]), [gap], stiffness=1e6, dissipation=1e-5)
        answers = [engine.solve(problem) for engine in (Published(), FirstOrder())]
        speed = answers[1].v_plus[0]
        expected = max(0.0, -1e6 * (gap + 1e-3 * speed) - 10.0 * speed)
        for solution in answers:
            assert solution.p[0, 2] / 1e-3 == pytest.approx(expected, rel=1e-7, abs=1e-7)


def test_with_the_published_weight_a_block_jumps_off_its_ramp():
    """μ = 0.125, ζ = 1/h: 20.29 N instead of 9.47 N, no sliding, 5.5 m above the ramp after a second."""
    forces, place, _ = ramp(0.125, friction="published")
    assert forces[2] == pytest.approx(20.29, abs=5e-3)
    assert abs(place[0]) < 1e-6
    assert place[1] == pytest.approx(5.5, abs=0.05)


def test_with_another_weight_the_published_block_slides():
    _, place, _ = ramp(0.125, friction="published", normal_weight=100 * (1 + 1e6) ** 2)
    assert place[0] == pytest.approx(0.6833, abs=5e-5)


def test_no_single_weight_suits_every_contact_of_the_published_program():
    """With the weight that suits the block a sticking rod has (3.36, −3.02) N instead of (7.97, 3.19) N."""
    friction, normal = leaning_rod(0.9, friction="published", normal_weight=100 * (1 + 1e6) ** 2)
    assert (normal, friction) == (pytest.approx(3.36, abs=5e-3), pytest.approx(-3.02, abs=5e-3))
    friction, normal = leaning_rod(0.9)
    assert (normal, friction) == (pytest.approx(7.970, abs=1e-3), pytest.approx(3.185, abs=2e-3))


def test_friction_direction_is_that_of_least_slip_or_most_dissipation():
    """−107.07° is least slip, −138.02° most dissipation."""
    for settings, degrees in (({"friction": "published", "normal_weight": 1e10}, -107.07), ({}, -138.02)):
        force = across(**settings)
        assert np.rad2deg(np.arctan2(force[1], force[0])) == pytest.approx(degrees, abs=0.01)
        assert np.hypot(*force[:2]) == pytest.approx(5.0, rel=1e-6)


def random_program(rng, contacts=3, rows=True, planar=False, zeta=None):
    """A step of 9 degrees of freedom with contacts, two ties and a stop; its program, and what it is made of."""
    nv, h = 9, RAMP_H
    J = rng.normal(size=(3 * contacts, nv))
    if planar:
        J[1::3] = 0.0
    many = None
    if rows:
        G = rng.normal(size=(3, nv))
        many = ties(G, 1e-3 * rng.normal(size=3), 10 ** rng.uniform(3, 5, 3), 10.0)
        many = type(many)(
            G=G, g=many.g, stops=np.array([False, False, True]), compliance=many.compliance, dissipation=many.dissipation
        )
    problem = step_of(
        random_spd(rng, nv),
        5 * rng.normal(size=nv),
        rng.normal(size=nv),
        h,
        J,
        1e-3 * rng.normal(size=contacts),
        rng.uniform(0.2, 1.0, contacts),
        rows=many,
        stiffness=10 ** rng.uniform(3, 6, contacts),
        dissipation=1e-3,
    )
    bodies, table = PUBLISHED.parts(problem, PUBLISHED.choose(problem))
    free = free_motion(bodies)
    return problem, program(bodies, free, table, 1 / h if zeta is None else zeta), bodies, table


def test_the_published_program_is_solved_to_optimality():
    """3D: inequalities and cones hold, and a general method finds nothing better."""
    rng = np.random.default_rng(15)
    for _ in range(12):
        _, a, _, _ = random_program(rng, contacts=2)
        n, size = len(a.mu), len(a.g)
        x, status, rounds, left = solve_program(a)
        assert status.ok
        assert rounds < 30
        scale = np.abs(x).max() + 1.0
        assert (a.A @ x >= a.q - 1e-7 * np.abs(a.q).max()).all()
        assert (x[:n] >= -1e-7 * scale).all()
        assert (np.hypot(x[n : 2 * n], x[2 * n : 3 * n]) <= a.mu * x[:n] + 1e-7 * scale).all()
        assert left < 1e-8
        conditions = [
            {"type": "ineq", "fun": lambda y, a=a, scale=scale: (a.A @ (scale * y) - a.q) / np.abs(a.q).max()},
            {"type": "ineq", "fun": lambda y, n=n, size=size: np.concatenate([y[:n], y[3 * n : size]])},
            {"type": "ineq", "fun": lambda y, a=a, n=n: (a.mu * y[:n]) ** 2 - y[n : 2 * n] ** 2 - y[2 * n : 3 * n] ** 2},
        ]
        size_of = 0.5 * x @ a.H @ x + abs(a.g @ x) + 1e-9

        def cost(y, a=a, scale=scale, size_of=size_of):
            return (0.5 * scale * y @ a.H @ (scale * y) + a.g @ (scale * y)) / size_of

        start = x / scale + 0.01 * np.concatenate([np.ones(n), np.zeros(2 * n), np.ones(size - 3 * n)])
        other = minimize(cost, start, method="SLSQP", constraints=conditions, options={"ftol": 1e-12, "maxiter": 500})
        assert cost(x / scale) <= cost(other.x) + 1e-6


def test_on_planar_data_the_published_program_is_planar():
    rng = np.random.default_rng(151)
    for _ in range(10):
        _, a, _, _ = random_program(rng, contacts=2, planar=True)
        n = len(a.mu)
        x, status, _, _ = solve_program(a)
        assert status.ok
        assert np.abs(x[2 * n : 3 * n]).max() < 1e-6 * np.abs(x).max()
        flat, status, _, _ = solve_program(a, facets=2)  # |λ_r| ≤ μ λ_n
        assert status.ok
        np.testing.assert_allclose(flat, x, atol=1e-6 * np.abs(x).max())


def test_elimination_of_bilateral_rows_keeps_forces_and_cost():
    """Bilateral forces and cost of the reduced program equal those of the whole system, and Λ = (M + G_bᵀ S_b G_b)⁻¹."""
    rng, h = np.random.default_rng(16), RAMP_H
    for _ in range(20):
        problem, a, bodies, table = random_program(rng)
        tie, normals = table.tie, bodies.J[2::3]
        G_b, S = normals[tie], 1 / table.R[tie, 1]
        phi_K, S_dt = -S * table.v_hat[tie] / h, S / h
        Minv, M = np.linalg.inv(problem.M), problem.M
        _, _, Lam = tied(S, S_dt, phi_K, G_b, Minv, problem.v)
        np.testing.assert_allclose(Lam, np.linalg.inv(M + G_b.T @ (S[:, None] * G_b)), atol=1e-8 * np.abs(Lam).max())
        n = len(problem.mu)
        x = rng.normal(size=len(a.g))
        G = np.vstack([bodies.J[2 : 3 * n : 3], bodies.J[: 3 * n : 3], bodies.J[1 : 3 * n : 3], normals[n:][~tie[n:]]])
        # unreduced: v⁺ and λ_b from M (v⁺ − v) = h (f + G_bᵀ λ_b + Gᵀ x), λ_b = −K φ − (hK + B) G_b v⁺
        whole = np.linalg.solve(
            M + h * G_b.T @ (S_dt[:, None] * G_b), M @ problem.v + h * (problem.force + G.T @ x - G_b.T @ phi_K)
        )
        np.testing.assert_allclose(a.ties[0] + a.ties[1] @ x, -phi_K - S_dt * (G_b @ whole), rtol=1e-8, atol=1e-7)
        slip = x[n : 2 * n] + 1e4 * (bodies.J[: 3 * n : 3] @ whole)  # β_r
        half = 0.5 * x @ a.H @ x + a.g @ x
        other = x[2 * n : 3 * n] + 1e4 * (bodies.J[1 : 3 * n : 3] @ whole)
        rest = np.linalg.solve(M + h * G_b.T @ (S_dt[:, None] * G_b), M @ problem.v + h * (problem.force - G_b.T @ phi_K))
        without = 1e4 * bodies.J[: 3 * n : 3] @ rest, 1e4 * bodies.J[1 : 3 * n : 3] @ rest
        weights = np.concatenate([np.full(n, 1 / h), np.ones(2 * n), np.full(len(x) - 3 * n, 1 / h)])
        expected = 0.5 * (weights * x) @ x + 0.5 * (slip @ slip + other @ other - sum(part @ part for part in without))
        assert half == pytest.approx(expected, rel=1e-8, abs=1e-6 * abs(expected))


@full
def test_the_published_program_has_one_solution():
    rng = np.random.default_rng(17)
    for zeta in (0.1, 100.0):
        for _ in range(10):
            _, a, _, _ = random_program(rng, zeta=zeta)
            assert np.linalg.eigvalsh(a.H).min() >= min(1.0, zeta) * (1 - 1e-6)
            answers = [solve_program(a, facets) for facets in (3, 8, 24)]
            assert all(status.ok for _, status, _, _ in answers)
            x = answers[0][0]
            for other, _, _, _ in answers[1:]:
                assert (other - x) @ a.H @ (other - x) < 1e-8 * (x @ a.H @ x)


def test_infinite_friction_and_stiffness_are_refused_by_the_published_programs():
    problem = step_of(np.eye(3), [0, 0, -10], np.zeros(3), 1e-2, np.eye(3), [0.0], np.inf)
    with pytest.raises(InputError, match=r"mu: expected finite friction.*'published'.*'first-order'"):
        PUBLISHED.solve(problem)
    rows = Rows(G=np.array([[1.0]]), g=np.zeros(1), stops=np.array([True]))
    rigid = step_of([[1.0]], [-10], [0.0], 1e-2, rows=rows)
    with pytest.raises(InputError, match=r"stiffness: expected finite stiffness.*'published'.*'first-order'"):
        PUBLISHED.solve(rigid)
