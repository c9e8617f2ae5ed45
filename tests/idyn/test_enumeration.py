"""MINDIFF: against brute force over all complementary bases, on small problems that have many solutions."""

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast
from oracles import coulomb_lcp, enumerate_lcp
from rungs import attempts
from scenes import each_walker, predict_scene, random_scenes, standing_scene

from idyn.laws import make_law
from idyn.laws.enumeration import Enumeration
from idyn.status import STATUSES, Status
from idyn.terms.reduction import Reduced


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
    M, q, G = M[np.ix_(keep, keep)], q[keep], G[:, keep]
    return M, q, G, [G @ z for z in enumerate_lcp(M, q)]


@pytest.mark.parametrize(("n", "count"), first_is_fast([(1, 60), (2, 12), (1, 200)]))
def test_enumeration_finds_the_nearest_basic_solution(n, count):
    several = 0
    for seed in range(count):
        problem = random_problem(seed, n)
        _, _, _, found = all_solutions(problem)
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
