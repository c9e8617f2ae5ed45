"""A table of complementarity problems × every solver that claims them: the expected solution or refusal."""

import numpy as np
import pytest
from fast import every
from lcp_solvers import SOLVERS, by_dual, by_lemke, by_ppm, check_solution
from lcps import KOSTREVA, PPM_CYCLES, RAY_THOUGH_SOLVABLE, TABLE, gram, murty_exponential
from oracles import enumerate_lcp, lcp_error
from scipy.optimize import linprog

from idyn.solvers.lemke import basis_solution, lemke
from idyn.solvers.pivoting import dual_active_set, ppm
from idyn.status import Status

CASES = [(name, solver) for name, lcp in TABLE.items() for solver in SOLVERS if "lemke" in solver or lcp.Y is not None]


@every(("name", "solver"), CASES)
def test_each_solver_gives_the_expected_result(name, solver):
    lcp = TABLE[name]
    z, status, basis = SOLVERS[solver](lcp)
    if (name, solver) == ("ppm cycles", "ppm"):
        assert status is Status.CYCLE
        return
    if not lcp.solvable:
        assert status is Status.RAY
        return
    assert status is Status.SOLVED
    check_solution(lcp, z, basis)
    if lcp.z is not None:
        np.testing.assert_allclose(z, lcp.z, atol=1e-12)


@every("name", [name for name, lcp in TABLE.items() if len(lcp.q) < 13])
def test_the_expected_results_match_brute_force(name):
    """Brute force finds the stated solution, or none where none is stated."""
    lcp = TABLE[name]
    solutions = enumerate_lcp(lcp.M, lcp.q)
    assert bool(solutions) == lcp.solvable
    if lcp.z is not None:
        assert all(np.abs(z - lcp.z).max(initial=0) < 1e-9 for z in solutions)


def test_beales_problem_has_the_linear_programs_optimum():
    lcp = TABLE["Beale"]
    oracle = linprog(lcp.q[:4], A_ub=-lcp.M[4:, :4], b_ub=lcp.q[4:])
    z, _, _ = by_lemke(lcp)
    assert lcp.q[:4] @ z[:4] == pytest.approx(oracle.fun, abs=1e-12)
    assert oracle.fun == pytest.approx(-1.25)


def test_a_ray_of_a_matrix_that_is_not_copositive_is_no_answer():
    lcp = RAY_THOUGH_SOLVABLE
    assert any(np.allclose(z, lcp.z) for z in enumerate_lcp(lcp.M, lcp.q))
    _, status, _ = by_lemke(lcp)
    assert status is Status.RAY


@every("n", [2, 5, 11])
def test_the_exponential_family_takes_as_many_pivots_as_the_theory_says(n):
    """And the pivot cap ends it one pivot earlier, without a solution."""
    M, q, *_ = murty_exponential(n)
    _, status, pivots, _ = lemke(M, q, 10000, np.ones(len(q)))
    assert (Status(status), pivots) == (Status.SOLVED, 2**n)
    z, status, cut, _ = lemke(M, q, pivots - 1, np.ones(len(q)))
    assert (Status(status), cut) == (Status.PIVOT_LIMIT, pivots - 1)
    assert not z.any()


@every("solve", [ppm, dual_active_set])
def test_the_pivot_cap_ends_principal_pivoting(solve):
    Y, r = np.eye(6), -np.ones(6)
    guess = (np.zeros(6, dtype=bool),) if solve is ppm else ()
    _, status, pivots, _ = solve(Y, r, (Y**2).sum(axis=1), *guess, 0.0, 2)
    assert Status(status) is Status.PIVOT_LIMIT
    assert pivots <= 3


@every("name", [n for n, lcp in TABLE.items() if lcp.solvable and len(lcp.q) < 7])
def test_basis_solution_matches_numpy_on_every_basis(name):
    """`basis_solution` against numpy on all complementary bases, singular ones refused."""
    lcp = TABLE[name]
    n = len(lcp.q)
    for code in range(2**n):
        basis = np.array([code >> i & 1 for i in range(n)], dtype=bool)
        z, w, regular = basis_solution(lcp.M, lcp.q, basis)
        block = lcp.M[np.ix_(basis, basis)]
        assert regular == (not basis.any() or np.linalg.matrix_rank(block) == basis.sum())
        if regular:
            expected = np.zeros(n)
            expected[basis] = np.linalg.solve(block, -lcp.q[basis])
            np.testing.assert_allclose(z, expected, atol=1e-9 * (1 + np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(w, lcp.M @ expected + lcp.q, atol=1e-8 * (1 + np.abs(expected).max(initial=0)))


def test_the_cycling_example_cycles():
    """`ppm` reports the cycle from the empty set, and solves it from elsewhere; Kostreva's matrix is a P-matrix."""
    lcp = gram(*PPM_CYCLES)
    assert by_ppm(lcp)[1] is Status.CYCLE
    _, _, basis = by_dual(lcp)
    z, status, _ = by_ppm(lcp, basis)
    assert status is Status.SOLVED
    assert lcp_error(lcp.M, lcp.q, z) < 1e-9
    K = np.array(KOSTREVA, dtype=float)
    minors = [np.linalg.det(K[np.ix_(s, s)]) for s in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2])]
    assert min(minors) > 0
