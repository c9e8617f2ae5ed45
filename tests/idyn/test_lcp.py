"""Linear complementarity problems 0 ≤ z ⟂ M z + q ≥ 0 with every solver, MINDIFF, and the linear algebra of the reduction."""

from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast
from oracles import coulomb_lcp, enumerate_lcp, lcp_error
from rungs import attempts
from scenes import each_walker, predict_scene, random_scenes, standing_scene
from scipy.optimize import linprog

from idyn.laws import make_law
from idyn.laws.enumeration import Enumeration
from idyn.solvers.lemke import covering, lemke
from idyn.solvers.linalg import cholesky, lu_factor
from idyn.solvers.pivoting import dual_active_set, ppm
from idyn.status import STATUSES, Status
from idyn.terms.reduction import Reduced
from idyn.types import Array

# -- problems with their expected results ------------------------------------------------------------------------------


class Lcp(NamedTuple):
    """`solvable` says whether any z solves it; Y is set when M = Y Yᵀ; `z` when the solution is known and unique."""

    M: Array
    q: Array
    solvable: bool = True
    Y: Array | None = None
    z: Array | None = None


def gram(Y: object, q: object, solvable: bool = True, z: object = None) -> Lcp:
    Y, q = np.array(Y, dtype=float), np.array(q, dtype=float)
    return Lcp(Y @ Y.T, q, solvable, Y, None if z is None else np.array(z, dtype=float))


def plain(M: object, q: object, solvable: bool = True, z: object = None) -> Lcp:
    M, q = np.array(M, dtype=float), np.array(q, dtype=float)
    return Lcp(M, q, solvable, None, None if z is None else np.array(z, dtype=float))


def murty_triangle(n: int) -> Array:
    return np.eye(n) + 2 * np.tril(np.ones((n, n)), -1)


def murty_exponential(n: int) -> Lcp:
    """From q = −(2ⁿ, 2ⁿ + 2ⁿ⁻¹, …) Lemke's path takes 2ⁿ pivots to the solution 2ⁿ e₁  [Murty 1978]."""
    return Lcp(murty_triangle(n), -np.cumsum(2.0 ** np.arange(n, 0, -1)), z=2.0**n * np.eye(n)[0])


def beale() -> Lcp:
    """Beale's linear program, on which the simplex method with the plain ratio test cycles, as an LCP; optimum −5/4."""
    A = np.array([[-0.25, 8, 1, -9], [-0.5, 12, 0.5, -3], [0, 0, -1, 0]])
    c, b = np.array([-0.75, 20, -0.5, 6]), np.array([0, 0, -1.0])
    M = np.block([[np.zeros((4, 4)), -A.T], [A, np.zeros((3, 3))]])
    return Lcp(M, np.r_[c, -b])


def coulomb(n: int, seed: int, mu: float = 0.6, rank: int = 6) -> Lcp:
    """The frictional contact problem of n contacts with a random contact matrix of low rank."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(3 * n, rank))
    M, q, _ = coulomb_lcp(J @ J.T, J @ rng.normal(size=rank), np.full(n, mu))
    return Lcp(M, q)


def degenerate_stance() -> Lcp:
    """Three point contacts of a rigid body on a grid, with a twist of whole numbers: so degenerate that the ratio test without
    the lexicographic rule goes in circles in this order of the variables."""
    arms = [np.array([x, y, -1.0]) for x, y in ((-1, -1), (2, 1), (1, 1))]
    J = np.array([np.r_[d, np.cross(arm, d)] for arm in arms for d in np.eye(3)])
    M, q, _ = coulomb_lcp(J @ J.T, J @ np.array([-1.0, 0, 0, -1, 1, 0]), np.ones(3))
    order = [12, 16, 10, 4, 5, 9, 6, 15, 11, 8, 2, 13, 14, 3, 7, 0, 17, 1]
    return Lcp(M[np.ix_(order, order)], q[order])


KOSTREVA = [[1, 2, 0], [0, 1, 2], [2, 0, 1]]
"""Principal pivoting by blocks cycles on it from q = −1 [Kostreva 1979], and Lemke's first ratios are all equal."""

PPM_CYCLES = (  # Y and r on which the largest-violation rule of `ppm` comes back to an earlier active set
    [[-1, 2, 4, 1], [4, 5, 5, -4], [5, 5, -5, 2], [-4, -3, 4, 2], [-2, -3, -3, 5], [-5, 2, 1, 4]],
    [-5, -3, -4, -1, 1, -3],
)

TABLE = {
    "Murty 2×2": gram(np.linalg.cholesky([[2, 1], [1, 2]]), [-5, -6], z=[4 / 3, 7 / 3]),
    "Murty exponential": murty_exponential(8),
    "Fathi exponential": gram(murty_triangle(8), -np.ones(8), z=np.eye(8)[0]),
    "Kostreva": plain(KOSTREVA, [-1, -1, -1], z=[1 / 3, 1 / 3, 1 / 3]),
    "Beale": beale(),
    "all ratios equal": gram(np.eye(5), -np.ones(5), z=np.ones(5)),
    "twin rows": gram([[1, 0], [1, 0], [0, 1], [0, 1]], [-1, -1, -2, -2]),
    "twin rows, one deeper": gram([[1, 0], [1, 0], [0, 1]], [-1, -2, -1], z=[0, 2, 1]),
    "ppm cycles": gram(*PPM_CYCLES),
    "zero right-hand side": gram([[1, 2], [3, 4], [5, 6]], [0, 0, 0]),
    "zero right-hand side, P": plain(KOSTREVA, [0, 0, 0], z=[0, 0, 0]),
    "already solved": gram([[1, 0], [0, 1]], [0, 3], z=[0, 0]),
    "zero matrix, already solved": gram([[0], [0]], [1, 0]),
    "empty": gram(np.zeros((0, 3)), []),
    "1×1, M > 0, q < 0": gram([[2]], [-6], z=[1.5]),
    "1×1, M > 0, q = 0": gram([[2]], [0], z=[0]),
    "1×1, M > 0, q > 0": gram([[2]], [1], z=[0]),
    "1×1, M = 0, q < 0": gram([[0]], [-1], solvable=False),
    "1×1, M = 0, q = 0": gram([[0]], [0]),
    "1×1, M < 0, q < 0": plain([[-1]], [-1], solvable=False),
    "1×1, M < 0, q > 0": plain([[-1]], [1]),
    "squeezed": gram([[1], [-1]], [-1, -1], solvable=False),
    "squeezed with bystanders": gram([[1, 0], [-1, 0], [0, 1]], [-1, -1, -5], solvable=False),
    "infeasible, not symmetric": plain([[0, 1], [-1, 0]], [1, -1], solvable=False),
    "PSD of rank 1": gram([[1], [2], [-1]], [-2, -1, 2.5]),
    "PSD of rank 2 in 6": gram([[1, 0], [0, 1], [1, 1], [1, -1], [2, 1], [-1, 2]], [-1, -2, 1, 0.5, -3, -4]),
    "one sliding contact": coulomb(1, 3),
    "two contacts": coulomb(2, 7),
    "degenerate stance": degenerate_stance(),
    "two slippery contacts": coulomb(2, 9, mu=0.05),
}

RAY_THOUGH_SOLVABLE = plain([[-1, 0], [1, 0]], [1, -1], z=[1, 0])
"""Not copositive: Lemke may end on a ray, and then must say so."""


# -- solvers -----------------------------------------------------------------------------------------------------------


PIVOTS = 1000


def by_lemke(lcp, guess=None, spread=0.0):
    z, status, _, basis = lemke(lcp.M, lcp.q, PIVOTS, covering(len(lcp.q), spread))
    return z, Status(status), basis


def by_ppm(lcp, guess=None):
    guess = np.zeros(len(lcp.q), dtype=bool) if guess is None else guess
    z, status, _, basis = ppm(lcp.Y, lcp.q, (lcp.Y**2).sum(axis=1), guess, 0.0, PIVOTS)
    return z, Status(status), basis


def by_dual(lcp, guess=None):
    z, status, _, basis = dual_active_set(lcp.Y, lcp.q, (lcp.Y**2).sum(axis=1), 0.0, PIVOTS)
    return z, Status(status), basis


SOLVERS = {"lemke": by_lemke, "lemke, uneven": partial(by_lemke, spread=0.01), "ppm": by_ppm, "dual active set": by_dual}


def check_solution(lcp, z, basis):
    """z solves the problem, and it is the solution that belongs to `basis`."""
    scale = 1 + np.abs(lcp.q).max(initial=0)
    assert lcp_error(lcp.M, lcp.q, z) < 1e-9 * scale
    assert z.min(initial=0) >= -1e-12 * scale
    assert not z[~basis].any()
    assert np.abs((lcp.M @ z + lcp.q)[basis]).max(initial=0) < 1e-9 * scale


# -- the table ---------------------------------------------------------------------------------------------------------


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
    lcp = TABLE[name]
    solutions = enumerate_lcp(lcp.M, lcp.q)
    assert bool(solutions) == lcp.solvable
    if lcp.z is not None:
        assert all(np.abs(z - lcp.z).max(initial=0) < 1e-9 for z in solutions)


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


# -- random families ---------------------------------------------------------------------------------------------------


def feasible(M, q):
    """Whether any z ≥ 0 has M z + q ≥ 0; for M PSD that is solvability."""
    return linprog(np.zeros(len(q)), A_ub=-M, b_ub=q, bounds=(0, None)).status == 0


def random_gram(seed):
    """n rows of rank m < n with integer entries: dependent rows, ties, infeasible ones among them."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 10)), int(rng.integers(1, 6))
    return gram(rng.integers(-3, 4, size=(n, m)), rng.integers(-4, 3, size=n))


@pytest.mark.parametrize("count", first_is_fast([100, 600]))
@every("solver", SOLVERS)
def test_random_low_rank_problems_are_solved_or_refused(solver, count):
    solved = refused = cycles = 0
    for seed in range(count):
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
    assert solved > count // 2
    assert refused > count // 6
    assert cycles < 3


def test_principal_pivoting_reaches_the_same_slack_from_any_guess_and_does_not_pivot_from_the_answer():
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
    for seed in range(100):
        lcp = random_gram(seed)
        _, status, basis = by_ppm(lcp)
        if status is Status.SOLVED:
            _, again, pivots, _ = ppm(lcp.Y, lcp.q, (lcp.Y**2).sum(axis=1), basis, 0.0, PIVOTS)
            assert (Status(again), pivots) == (Status.SOLVED, 0)


def test_random_contact_problems_are_solved():
    """One contact is checked against all its solutions."""
    for seed in range(200):
        lcp = coulomb(1 + seed % 4, seed, mu=[0.1, 0.6, 1.5][seed % 3])
        z, status, basis = by_lemke(lcp)
        assert status is Status.SOLVED
        check_solution(lcp, z, basis)
        if len(lcp.q) == 6:
            assert any(np.allclose(z, other, atol=1e-8) for other in enumerate_lcp(lcp.M, lcp.q))


@every("scale", first_is_fast([1e-12, 1e12, 1e-6, 1e6], 2))
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
    lcp = gram([[1.0, 2], [3, 4], [0, 1]], [-1, -2, np.nan])
    z, status, _ = SOLVERS[solver](lcp)
    assert status is not Status.SOLVED or not np.isfinite(lcp_error(lcp.M, lcp.q, z))


# -- linear algebra ----------------------------------------------------------------------------------------------------


def test_cholesky_of_an_indefinite_matrix_is_nan():
    A = np.array([[1.0, 2.0], [2.0, 1.0]])
    with np.errstate(all="ignore"):
        cholesky(A)
    assert np.isnan(A[1, 1])


@every("A", [np.zeros((2, 2)), np.ones((3, 3)), np.diag([1.0, 0.0]), np.array([[np.nan]])])
def test_lu_reports_a_singular_matrix(A):
    assert not lu_factor(A)[2]


def random_problem(seed, n):
    """Contacts of one rigid body: D of rank at most 3, so that impulses are indeterminate; all kinds of μ."""
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(3 * n, 3))
    mu = rng.choice([0.0, 0.3, 1.0, np.inf], n)
    b = rng.normal(size=3 * n)
    b[2::3] -= 0.5
    return Reduced(Y=Y, b=b, energy=np.zeros(3 * n), mu=mu)


def all_solutions(problem):
    """Impulses of every basic solution, by an independent assembly and enumeration; infinite friction has no λ."""
    M, q, G = coulomb_lcp(problem.Y @ problem.Y.T, problem.b, np.where(np.isinf(problem.mu), 0.0, problem.mu))
    keep = np.r_[np.ones(5 * len(problem.mu), dtype=bool), np.isfinite(problem.mu)]
    return [G[:, keep] @ z for z in enumerate_lcp(M[np.ix_(keep, keep)], q[keep])]


@pytest.mark.parametrize(("n", "count"), first_is_fast([(1, 60), (2, 12), (1, 200)]))
def test_enumeration_finds_the_nearest_basic_solution(n, count):
    several = 0
    for seed in range(count):
        problem = random_problem(seed, n)
        found = all_solutions(problem)
        last = np.random.default_rng([seed, 1]).normal(size=(n, 3))
        (rung, answer), *rest = attempts(Enumeration(), problem, last)
        assert rung == "enumeration"
        assert not rest
        assert (answer.status == Status.SOLVED) == bool(found)
        if found:
            distances = [np.linalg.norm(p - last.ravel()) for p in found]
            assert min(np.abs(answer.p - p).max() for p in found) < 1e-6 * max(1.0, np.abs(answer.p).max())
            assert np.linalg.norm(answer.p - last.ravel()) == pytest.approx(min(distances), rel=1e-7)
            several += np.ptp(distances) > 1e-6
    assert several > 0 or n == 1  # one contact has one solution here


@every("n", [1, 2])
@each_walker
def test_enumeration_solves_the_lcp_of_two_feet(name, n):
    for scene in random_scenes(name, 20, n=n):
        answer = predict_scene(scene, "enumeration")
        assert (answer.status, answer.law) == (Status.SOLVED, "enumeration")
        assert answer.residuals.worst < 1e-8


def test_enumeration_keeps_the_last_solution():
    """Two feet with two equal solutions by symmetry, or without: the last choice is repeated."""
    scene = standing_scene("solo12", n=2)
    law, first = make_law("enumeration"), None
    answers = []
    for _ in range(3):
        answer = predict_scene(scene, law, guess=first)  # fmt: skip
        first = answer.guess
        answers.append(answer.p)
    np.testing.assert_array_equal(answers[1], answers[2])


def test_a_new_contact_keeps_the_answer_and_more_than_two_are_refused():
    two = standing_scene("solo12", n=2)
    one = msgspec.structs.replace(two, contacts=standing_scene("solo12", n=1).contacts)
    law = make_law("enumeration")
    guess = predict_scene(one, law).guess
    answer = predict_scene(two, law, guess=guess)
    assert answer.status.ok
    scene = standing_scene("solo12", n=3)
    answer = predict_scene(scene, "enumeration")
    assert answer.law != "enumeration"
    ((_, refused),) = attempts(Enumeration(), random_problem(0, 3), None)
    assert refused.status == Status.TOO_MANY_CONTACTS
    assert "two contacts at most" in STATUSES[refused.status].sentence
