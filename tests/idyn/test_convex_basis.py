"""Bases of the convex law: their points are exact, and a basis is read off any solution of a QP back end."""

import numpy as np
import pytest
from fast import every, first_is_fast
from rungs import attempts
from scenes import DT, LITERAL, WALKERS, each_walker, many_points, random_scene

from idyn.laws.convex.basis import basis_of, solve_basis
from idyn.laws.convex.law import Convex
from idyn.laws.convex.pivoting import pivot_to_basis
from idyn.laws.convex.program import Program, assemble, cone_rays
from idyn.laws.law import polygon
from idyn.solvers.qp import solve_qp
from idyn.status import Status
from idyn.terms.dynamics import evaluate
from idyn.terms.reduction import reduce

FRICTION = {"finite": (0.3, 1.0), "all kinds": (0.0, 0.3, 1.0, np.inf)}


def problems(name, friction, count, points=1):
    for seed in range(count):
        scene = many_points(random_scene(name, seed, n=4 if points > 1 else None), points)
        reduced = reduce(evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=LITERAL), scene.q_ddot)
        mu = np.random.default_rng(seed).choice(FRICTION[friction], len(scene.contacts))
        yield type(reduced)(Y=reduced.Y, b=reduced.b, energy=reduced.energy, mu=mu)


def energy(problem, p):
    return 0.5 * np.sum((problem.Y.T @ p) ** 2) + problem.energy @ p


@pytest.mark.parametrize("edges", first_is_fast([4, 8]))
@every("friction", FRICTION)
@every(("name", "points"), [*((w, 1) for w in WALKERS), ("quadruped", 3)])
def test_a_basis_is_read_off_the_back_ends_solution(name, points, friction, edges):
    """Started with it, the next call nearly always needs no QP, and its point has the same motion and no more energy."""
    law, exact, count = Convex(edges=edges), 0, 0
    for problem in problems(name, friction, 40, points):
        count += 1
        cold = next(solution for _, solution in attempts(law, problem, None) if solution.status.ok)
        H, f, A, lower, unit, _ = assemble(
            Program(problem.Y, problem.b, problem.energy, problem.mu, False, law.directions), 0.0
        )
        assert energy(problem, cold.p) <= energy(problem, unit * solve_qp(H, f, A, lower).x) + 1e-9
        rung, warm = next(attempts(law, problem, cold.basis))
        assert rung == "warm"
        if warm.status is Status.SOLVED:
            exact += 1
            np.testing.assert_allclose(problem.Y.T @ warm.p, problem.Y.T @ cold.p, atol=1e-7)
            assert energy(problem, warm.p) <= energy(problem, cold.p) + 1e-9
    assert exact >= 0.95 * count


def test_loaded_rays_are_few_and_independent():
    """Twelve contacts share one floating base: at most six loaded rays, however the load is distributed."""
    directions = polygon(4)
    for problem in problems("quadruped", "finite", 10, points=3):
        n = len(problem.mu)
        spread = np.tile([0.0, 0.0, 1.0], n)
        program = Program(problem.Y, problem.b, problem.energy, problem.mu, False, directions)
        basis, G = basis_of(program, spread, np.zeros(n)), cone_rays(program).G
        loaded = G[basis[:, :-1].ravel()]
        assert np.linalg.matrix_rank(loaded) == len(loaded) <= 6
        # and they can carry the same motion with loads that push
        x = problem.Y.T @ spread
        c = np.linalg.lstsq(loaded.T, x, rcond=None)[0]
        np.testing.assert_allclose(loaded.T @ c, x, atol=1e-9)
        assert c.min() > -1e-9


def test_a_wrong_basis_is_refused():
    """Nothing loaded while the feet fall, or everything loaded at once."""
    directions = polygon(4)
    for problem in problems("quadruped", "finite", 10):
        n = len(problem.mu)
        if problem.b[2::3].min() >= 0:
            continue
        for basis in (np.zeros((n, 5), dtype=bool), np.ones((n, 5), dtype=bool)):
            *_, solved = solve_basis(Program(problem.Y, problem.b, problem.energy, problem.mu, False, directions), basis, False)
            assert not solved


@every("friction", FRICTION)
@each_walker
def test_pivots_end_at_a_basis(name, friction):
    """Of independent rays, with no more energy than the back end's answer; afterwards it is the last basis."""
    directions, exact, count = polygon(4), 0, 0
    for problem in problems(name, friction, 40):
        program = Program(problem.Y, problem.b, problem.energy, problem.mu, False, directions)
        basis = np.ones((len(problem.mu), 5), dtype=np.bool_)
        p, y, _, status, _ = pivot_to_basis(program, basis)
        count += 1
        if status != Status.SOLVED.value:
            continue
        exact += 1
        loaded = cone_rays(program).G[basis[:, :-1].ravel()]
        assert np.linalg.matrix_rank(loaded) == len(loaded)
        H, f, A, lower, unit, _ = assemble(program, 0.0)
        assert energy(problem, p) <= energy(problem, unit * solve_qp(H, f, A, lower).x) + 1e-9
        again, multipliers, _, solved = solve_basis(program, basis, False)
        assert solved
        np.testing.assert_array_equal(again, p)
        np.testing.assert_array_equal(multipliers, y)
    assert exact >= 0.95 * count
