"""The engine `sap`: its solver, the errors that it reports, and how its solution changes."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest
from fast import every
from sap_bodies import DT, Body, G, cube, near, point_mass
from sap_problems import TIGHT, cost, gradient, random_convex
from test_engines import random_problems

from idyn.status import SOLVED, Status
from sim_harness.engines.linalg import sparse_pushed, speeds
from sim_harness.engines.sap import Sap, constraint_laws, free_motion, solve_islands
from sim_harness.engines.sap_newton import (
    Line,
    Rules,
    convex_problem,
    exact_share,
    hessian,
    minimise,
    slope_along,
    symmetric_times,
)


def parts(engine, problem):
    """The free motion, J and laws of a step."""
    motion, _ = free_motion(problem, engine.scheme)
    J, materials, _ = engine.constraints(problem)
    return motion, J, constraint_laws(J, motion.L, motion.first, materials)


def full(lower):
    return np.tril(lower) + np.tril(lower, -1).T


def test_momentum_balances_and_complementarity_holds():
    engine = Sap(tolerance=1e-12)
    for problem in random_problems("quadruped", 60):
        solution = engine.solve(problem)
        assert solution.status.ok
        scale = np.abs(problem.M @ solution.v_plus).max()
        balance = problem.M @ (solution.v_plus - problem.v) - problem.J.T @ solution.p.ravel()
        assert np.abs(balance - DT * (problem.force - problem.h)).max() < 1e-10 * max(1.0, scale)
        assert solution.accuracy.slackness < 1e-14


def test_newton_converges_quadratically_and_the_cost_never_rises():
    rng = np.random.default_rng(23)
    tails = 0
    for _ in range(20):
        c, A, J, v0 = random_convex(rng, k=5)
        best, _, _, steps = minimise(c, v0, TIGHT)
        assert steps <= 10
        iterates = [minimise(c, v0, Rules(1e-15, n))[0] for n in range(steps + 1)]
        costs = np.array([cost(c, A, J, v) for v in iterates])
        assert (np.diff(costs) <= 1e-14 * costs[0]).all()
        assert np.abs(gradient(c, iterates[-1])).max() < 1e-12 * np.abs(A @ v0).max()
        errors = [np.linalg.norm(v - best) for v in iterates[:-1]]
        tails += any(after <= 10 * before**2 and after < 1e-3 for before, after in pairwise(errors))
    assert tails >= 15


def test_every_start_leads_to_the_same_velocity():
    rng = np.random.default_rng(24)
    for _ in range(10):
        c, _, _, v = random_convex(rng, k=5)
        best, _, _, _ = minimise(c, v, TIGHT)
        for _ in range(10):
            found, _, status, steps = minimise(c, 1e3 * rng.normal(size=len(v)), TIGHT)
            assert status == SOLVED
            assert steps <= 30
            np.testing.assert_allclose(found, best, atol=1e-11)


def test_a_body_at_rest_takes_at_most_one_iteration():
    body, engine = cube(), near(stiffness=np.inf, dissipation=DT, tolerance=1e-5)
    body.run(engine, DT, 500)
    assert max(body.step(engine, DT).iterations for _ in range(100)) <= 1


def test_the_exact_line_search_finds_the_minimum():
    rng = np.random.default_rng(26)
    for _ in range(50):
        c, A, _, v = random_convex(rng)
        u = speeds(c, v)
        way = -np.linalg.solve(full(hessian(c, u)), gradient(c, v))
        pull = A @ (v - c.v_star)
        line = Line(u, speeds(c, way), way @ pull, way @ A @ way)
        share = exact_share(c, line)
        falls = way @ gradient(c, v)
        assert slope_along(c, line, 0.0)[0] == pytest.approx(falls, rel=1e-9)
        assert abs(slope_along(c, line, share)[0]) < 1e-12 * abs(falls)
        assert abs(way @ gradient(c, v + share * way)) < 1e-11 * abs(falls)


@every("tolerance", [1e-1, 1e-3, 1e-6, 1e-9])
def test_the_step_ends_below_its_tolerance(tolerance):
    engine = Sap(tolerance=tolerance)
    for problem in random_problems("quadruped", 40):
        solution = engine.solve(problem)
        assert solution.status.ok
        assert solution.accuracy.momentum < tolerance


def test_units_change_neither_iterations_nor_errors():
    """Each degree of freedom in a unit of its own, as millimetres and degrees would be."""
    rng = np.random.default_rng(28)
    for problem in random_problems("quadruped", 20):
        unit = 10 ** rng.uniform(-3, 3, 18)
        other = msgspec.structs.replace(
            problem,
            M=problem.M / np.outer(unit, unit),
            h=problem.h / unit,
            force=problem.force / unit,
            v=problem.v * unit,
            J=problem.J / unit,
        )
        one, two = Sap(tolerance=1e-5).solve(problem), Sap(tolerance=1e-5).solve(other)
        assert one.iterations == two.iterations
        np.testing.assert_allclose(two.v_plus / unit, one.v_plus, atol=1e-9)
        assert two.accuracy.momentum == pytest.approx(one.accuracy.momentum, rel=1e-3, abs=1e-12)


CONDITION = {1e-1: 786, 1e-2: 997, 1e-3: 9.92e3, 1e-4: 9.91e4, 1e-5: 9.91e5, 1e-6: 9.91e6}


@every("sigma", CONDITION)
def test_the_hessian_of_a_cube_at_rest_has_the_known_condition_number(sigma):
    engine, body = near(stiffness=1e12, dissipation=0.01, sigma=sigma), cube()
    body.run(engine, 0.01, 300)
    motion, J, laws = parts(engine, body.problem(0.01))
    c = convex_problem(motion, J, laws, np.arange(6), np.arange(4))
    assert np.linalg.cond(full(hessian(c, speeds(c, body.v)))) == pytest.approx(CONDITION[sigma], rel=5e-3)


def crowd(rng, trees=12, groups=3):
    """Bodies of three degrees of freedom; those of one group touch one another and the ground."""
    nv = 3 * trees
    M, h = np.zeros((nv, nv)), np.tile([0.0, 0.0, G], trees)
    for t in range(trees):
        B = rng.normal(size=(3, 3))
        M[3 * t : 3 * t + 3, 3 * t : 3 * t + 3] = B @ B.T + np.eye(3)
    group = rng.permutation(np.arange(trees) % groups)
    blocks = []
    for t in range(trees):
        J = np.zeros((3, nv))
        J[:, 3 * t : 3 * t + 3] = rng.normal(size=(3, 3))
        other = next((o for o in range(t + 1, trees) if group[o] == group[t]), None)
        if other is not None:
            J[:, 3 * other : 3 * other + 3] = rng.normal(size=(3, 3))
        blocks.append(J)
    gaps = -1e-3 * rng.uniform(size=trees)
    body = Body(M, h, np.vstack(blocks), lambda q: gaps, np.full(trees, 0.5))
    body.v = rng.normal(size=nv)
    return body, np.repeat(group, 3)


def test_islands_are_solved_as_the_whole_problem():
    rng = np.random.default_rng(29)
    engine = Sap(tolerance=1e-13)
    for _ in range(10):
        body, _ = crowd(rng)
        motion, J, laws = parts(engine, body.problem(DT))
        c = convex_problem(motion, J, laws, np.arange(36), np.arange(12))
        whole, gamma, status, _ = minimise(c, body.v, TIGHT)
        v, impulses, how, _ = solve_islands(motion, J, laws, TIGHT)
        assert status == how == SOLVED
        np.testing.assert_allclose(v, whole, atol=1e-10)
        np.testing.assert_allclose(impulses, gamma, atol=1e-10)


def test_islands_are_independent():
    rng = np.random.default_rng(30)
    body, group = crowd(rng)
    before = Sap().solve(body.problem(DT)).v_plus
    after = Sap().solve(body.problem(DT, np.where(group == 1, 50.0, 0.0))).v_plus
    assert (before[group != 1] == after[group != 1]).all()
    assert (before[group == 1] != after[group == 1]).all()


def test_reported_errors_match_a_recomputation():
    engine = Sap(tolerance=1e-3)
    for problem in random_problems("quadruped", 40):
        solution = engine.solve(problem)
        _, J, laws = parts(engine, problem)
        v, gamma = solution.v_plus, solution.p[problem.gaps <= 0]
        D = 1 / np.sqrt(np.diag(problem.M))
        free = problem.v + np.linalg.solve(problem.M, DT * (problem.force - problem.h))
        rest = problem.M @ (v - free) - J.T @ gamma.ravel()
        scale = max(np.linalg.norm(D * (problem.M @ v)), np.linalg.norm(D * (J.T @ gamma.ravel())))
        assert solution.accuracy.momentum == pytest.approx(np.linalg.norm(D * rest) / scale, rel=1e-9, abs=1e-12)
        R, v_hat = laws[:, [1, 1, 2]], np.outer(laws[:, 3], [0, 0, 1])
        g = (J @ v).reshape(-1, 3) - v_hat + R * gamma
        total = 0.5 * (v - free) @ problem.M @ (v - free) + 0.5 * (R * gamma * gamma).sum()
        slack = np.abs((g * gamma).sum(axis=1)).mean() / total if len(gamma) else 0.0
        assert solution.accuracy.slackness == pytest.approx(slack, abs=1e-12)


def test_equal_problems_give_identical_results():
    for problem in random_problems("quadruped", 20):
        one, two = Sap().solve(problem), Sap().solve(problem)
        assert one.v_plus.tobytes() == two.v_plus.tobytes()
        assert one.p.tobytes() == two.p.tobytes()


def test_the_derivative_by_torques_matches_finite_differences():
    """dv/dτ = dt H⁻¹, against differences of the engine's own solutions where no contact changes its region."""
    engine, compared = Sap(tolerance=1e-13), 0
    for problem in random_problems("quadruped", 60):
        solution = engine.solve(problem)
        motion, J, laws = parts(engine, problem)
        c = convex_problem(motion, J, laws, np.arange(18), np.arange(len(laws)))
        slope = DT * np.linalg.inv(full(hessian(c, speeds(c, solution.v_plus))))
        for d in (0, 6, 13):
            e = np.zeros(18)
            e[d] = 1e-3
            up = engine.solve(msgspec.structs.replace(problem, force=problem.force + e))
            down = engine.solve(msgspec.structs.replace(problem, force=problem.force - e))
            numeric = (up.v_plus - down.v_plus) / 2e-3
            if any(np.sign(a.p[:, 2]).tolist() != np.sign(solution.p[:, 2]).tolist() for a in (up, down)):
                continue
            compared += 1
            np.testing.assert_allclose(numeric, slope[:, d], atol=2e-6 * np.abs(slope[:, d]).max())
            normal = (up.p - down.p) / 2e-3
            expected = -slope_of_impulses(c, solution.v_plus) @ slope[:, d]
            np.testing.assert_allclose(
                normal[problem.gaps <= 0].ravel(), expected, atol=2e-5 * max(np.abs(expected).max(initial=0), 1e-9)
            )
    assert compared > 60


def slope_of_impulses(c, v):
    """G J: −dγ/dv, from H − A = Jᵀ G J by the contacts one by one (3k, nv)."""
    rows = []
    for i in range(len(c.laws)):
        begin, end = c.begin[i], c.begin[i + 1]
        alone = np.zeros((3, len(v)))
        alone[:, c.columns[begin:end]] = c.rows[begin:end].T
        one = c._replace(
            A=np.zeros((3, 3)),
            first=np.zeros(3, dtype=np.int64),
            v_star=np.zeros(3),
            begin=np.array([0, 3]),
            columns=np.arange(3),
            rows=np.eye(3),
            laws=c.laws[i : i + 1].copy(),
        )
        rows.append(full(hessian(one, (alone @ v)[None])) @ alone)
    return np.vstack(rows) if rows else np.zeros((0, len(v)))


@every("sigma", [1e-6, 1e-1])
@every("stiffness", [1e3, np.inf])
@every("candidates", ["touching", "near"])
def test_random_states_of_a_robot_are_all_solved(stiffness, sigma, candidates):
    for problem in random_problems("quadruped", 60, infinite=True):
        solution = Sap(stiffness=stiffness, sigma=sigma, candidates=candidates).solve(problem)
        assert solution.status.ok
        assert solution.iterations <= 40


def test_a_step_that_does_not_converge_is_reported():
    problem = list(random_problems("quadruped", 8))[7]
    assert Sap(max_iterations=1, tolerance=1e-14).solve(problem).status is Status.NOT_CERTIFIED


def test_impulses_satisfy_the_momentum_balance():
    rng = np.random.default_rng(31)
    c, A, J, v = random_convex(rng)
    gamma = rng.normal(size=(5, 3))
    np.testing.assert_allclose(sparse_pushed(c, gamma), J.T @ gamma.ravel(), atol=1e-12)
    np.testing.assert_allclose(symmetric_times(c.A, c.first, v), A @ v, atol=1e-12)


def test_point_masses_with_any_friction_come_to_rest():
    for mu in (0.0, 0.5, np.inf):
        body = point_mass(mu=mu)
        body.run(Sap(), DT, 500)
        assert abs(body.v[2]) < 1e-3
