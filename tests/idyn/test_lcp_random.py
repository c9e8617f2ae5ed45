"""Random families of complementarity problems × every solver, against conditions, feasibility and other solvers."""

import numpy as np
from fast import every
from lcp_solvers import PIVOTS, SOLVERS, by_dual, by_lemke, by_ppm, check_solution
from lcps import Lcp, coulomb, gram
from oracles import enumerate_lcp, lcp_error
from quantecon.optimize.lcp_lemke import lcp_lemke
from scipy.optimize import linprog

from idyn.solvers.pivoting import ppm
from idyn.status import Status


def feasible(M, q):
    """Whether any z ≥ 0 has M z + q ≥ 0; for M PSD that is solvability."""
    return linprog(np.zeros(len(q)), A_ub=-M, b_ub=q, bounds=(0, None)).status == 0


def random_gram(seed):
    """n rows of rank m < n with integer entries: dependent rows, ties, infeasible ones among them."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 10)), int(rng.integers(1, 6))
    return gram(rng.integers(-3, 4, size=(n, m)), rng.integers(-4, 3, size=n))


@every("solver", SOLVERS)
def test_random_low_rank_problems_are_solved_or_refused(solver):
    solved = refused = cycles = 0
    for seed in range(600):
        lcp = random_gram(seed)
        z, status, basis = SOLVERS[solver](lcp)
        if status is Status.SOLVED:
            check_solution(lcp, z, basis)
            solved += 1
        elif status is Status.RAY:
            assert not feasible(lcp.M, lcp.q)
            refused += 1
        else:
            assert (solver, status) == ("ppm", Status.CYCLE)
            cycles += 1
    assert solved > 300
    assert refused > 100
    assert cycles < 3


def test_principal_pivoting_reaches_the_same_slack_from_any_guess():
    """w is unique for a PSD matrix; the guess must not matter."""
    rng = np.random.default_rng(0)
    for seed in range(200):
        lcp = random_gram(seed)
        z, status, _ = by_dual(lcp)
        guess = rng.uniform(size=len(lcp.q)) < 0.5
        warm, warm_status, _ = by_ppm(lcp, guess)
        if warm_status is Status.CYCLE:
            continue
        assert warm_status is status
        if status is Status.SOLVED:
            np.testing.assert_allclose(lcp.M @ warm, lcp.M @ z, atol=1e-9)


def test_principal_pivoting_started_from_the_answer_does_not_pivot():
    for seed in range(100):
        lcp = random_gram(seed)
        _, status, basis = by_ppm(lcp)
        if status is Status.SOLVED:
            _, again, pivots, _ = ppm(lcp.Y, lcp.q, (lcp.Y**2).sum(axis=1), basis, 0.0, PIVOTS)
            assert (Status(again), pivots) == (Status.SOLVED, 0)


def test_random_p_matrices_have_the_one_solution_of_brute_force():
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 7))
        M = rng.normal(size=(n, n))
        M += np.diag(np.abs(M).sum(axis=1) + 0.1)  # strictly diagonally dominant
        q = rng.normal(size=n).round(1)
        z, status, basis = by_lemke(Lcp(M, q))
        assert status is Status.SOLVED
        check_solution(Lcp(M, q), z, basis)
        for other in enumerate_lcp(M, q):
            np.testing.assert_allclose(z, other, atol=1e-9)


def test_random_contact_problems_agree_with_an_independent_lemke():
    """Both must solve the problem, with equal impulses or not; one contact is checked against all its solutions."""
    compared = 0
    for seed in range(200):
        lcp = coulomb(1 + seed % 4, seed, mu=[0.1, 0.6, 1.5][seed % 3])
        z, status, basis = by_lemke(lcp)
        assert status is Status.SOLVED
        check_solution(lcp, z, basis)
        oracle = lcp_lemke(lcp.M, lcp.q)
        compared += oracle.success and np.allclose(z, oracle.z, atol=1e-7)
        if len(lcp.q) == 6:
            assert any(np.allclose(z, other, atol=1e-8) for other in enumerate_lcp(lcp.M, lcp.q))
    assert compared > 150


@every("scale", [1e-12, 1e-6, 1e6, 1e12])
@every("solver", SOLVERS)
def test_the_solution_scales_with_units(solver, scale):
    """M in units of `scale`: a robot of grams or of tons, impulses in between."""
    for seed in range(60):
        lcp = random_gram(seed)
        z, status, _ = SOLVERS[solver](lcp)
        scaled = Lcp(lcp.M * scale, lcp.q, Y=lcp.Y * np.sqrt(scale))
        z_scaled, status_scaled, _ = SOLVERS[solver](scaled)
        assert status_scaled is status
        if status is Status.SOLVED:
            assert lcp_error(lcp.M, lcp.q, z_scaled * scale) < 1e-9
        assert np.isfinite(z).all()


@every("solver", SOLVERS)
def test_nan_is_never_reported_as_solved(solver):
    """A NaN anywhere never gives SOLVED with finite z."""
    lcp = gram([[1.0, 2], [3, 4], [0, 1]], [-1, -2, np.nan])
    z, status, _ = SOLVERS[solver](lcp)
    assert status is not Status.SOLVED or not np.isfinite(lcp_error(lcp.M, lcp.q, z))
