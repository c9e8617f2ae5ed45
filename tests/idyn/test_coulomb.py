"""The Coulomb law: its conditions over random states, brute force, and an independent Lemke on an independent assembly."""

import numpy as np
import pytest
from conditions import allowance, coulomb_error
from fast import first_is_fast
from oracles import coulomb_lcp, eliminate, enumerate_lcp, full, lcp_error, outcome
from quantecon.optimize.lcp_lemke import lcp_lemke
from rungs import attempts
from scenes import (
    DT,
    PLAIN,
    VARIANTS,
    each_walker,
    predict_scene,
    random_scene,
    random_scenes,
    reduced,
    standing_scene,
    varied,
)

from idyn import make_law
from idyn.laws.coulomb import Coulomb, assemble
from idyn.solvers.lemke import lemke
from idyn.status import STATUSES, Status
from idyn.terms.reduction import Reduced


def solve(scene, edges=4, options=PLAIN, **changes):
    return predict_scene(scene, make_law("coulomb", edges=edges), options, **changes)


def assembled(scene, edges=4):
    """The LCP of [ZD §5] from the elimination of the full system."""
    f = full(scene.robot, scene.state, scene.contacts)
    D, b, _, _ = eliminate(f, scene.q_ddot, DT)
    b[2::3] += allowance(scene.contacts.gaps, DT)
    return f, *coulomb_lcp(D, b, scene.contacts.mu, edges)


@each_walker
def test_lemke_alone_solves_feet_with_many_points(name):
    """Redundant points leave a ray at which the artificial variable is zero up to rounding: that is a solution."""
    directions = make_law("coulomb").directions
    for scene in varied(name, VARIANTS["twelve points"], 120):
        r, _ = reduced(scene)
        M, q, _, _ = assemble(r.Y, r.b, r.mu, directions, 0.0)
        z, status, _, _ = lemke(M, q, 1000, np.ones(len(q)))
        assert STATUSES[status] is Status.SOLVED
        assert lcp_error(M, q, z) < 1e-9


@pytest.mark.parametrize(("count", "of"), first_is_fast([(60, {"n": 1}), (4, {"n": 2, "touching": 1.0, "mu": 0.6})]))
@each_walker
def test_the_prediction_is_one_of_the_solutions_of_brute_force(name, count, of):
    """All 2⁶ complementary bases of one contact, 2¹² of two; several solutions may exist."""
    for scene in random_scenes(name, count, **of):
        f, M, q, G = assembled(scene)
        velocities = [outcome(f, scene.q_ddot, DT, G @ z)[0] for z in enumerate_lcp(M, q)]
        answer = solve(scene)
        assert velocities
        assert min(np.abs(v - answer.v_plus).max() for v in velocities) < 1e-9


def test_the_circumscribed_polygon_encloses_the_cone():
    scene = random_scene("solo12", 1, n=2, mu=0.1, touching=1.0)
    for edges in (4, 8):
        law = Coulomb(edges, circumscribed=True)
        answer = predict_scene(scene, law)
        assert answer.status.ok
        friction = np.hypot(answer.p[::3], answer.p[1::3]) / answer.p[2::3]
        assert friction.max() <= 0.1 / np.cos(np.pi / edges) + 1e-12
        assert friction.max() >= 0.1 - 1e-12


def test_at_rest_a_basic_solution_loads_two_diagonal_feet():
    """MATHEMATICS §3.5: a basic solution loads as few feet as possible; here two, with half the weight each."""
    scene = standing_scene("quadruped")
    answer = solve(scene)
    loads = np.sort(answer.normal_force)
    np.testing.assert_allclose(loads, [0, 0, 23.544, 23.544], atol=1e-9)


def test_the_answer_scales_with_units_of_mass_and_time():
    """The law normalises: a problem a million times lighter or heavier, or slower, has the same answer in its units."""
    rng = np.random.default_rng(0)
    Y, b = rng.normal(size=(12, 6)), rng.normal(size=12)
    law = make_law("coulomb")
    plain = Reduced(Y=Y, b=b, energy=b, mu=np.full(4, 0.5))
    _, expected = next(attempts(law, plain, None))
    for mass, speed in ((1e-6, 1), (1e6, 1), (1, 1e-6), (1e6, 1e-3)):
        _, solution = next(attempts(law, Reduced(Y=Y / np.sqrt(mass), b=speed * b, energy=speed * b, mu=plain.mu), None))
        np.testing.assert_allclose(solution.p / (mass * speed), expected.p, atol=1e-10)


@each_walker
def test_coulomb_agrees_with_an_independent_lemke(name):
    """Where the oracle finds another velocity, there are two solutions; that must be rare."""
    compared = different = 0
    for scene in random_scenes(name, 120):
        f, M, q, G = assembled(scene)
        oracle = lcp_lemke(M, q)
        if not oracle.success or lcp_error(M, q, oracle.z) > 1e-9:
            continue
        compared += 1
        v, tau = outcome(f, scene.q_ddot, DT, G @ oracle.z)
        answer = solve(scene)
        if np.abs(answer.v_plus - v).max() > 1e-8:
            different += 1
            assert coulomb_error(f, answer.p, answer.v_plus, scene.contacts.mu, allowance(scene.contacts.gaps, DT)) < 1e-9
        elif scene.contacts.keys[1:] == ():  # one foot: the impulse is determined too
            np.testing.assert_allclose(answer.tau, tau, atol=1e-6)
    assert compared > 100
    assert different <= 2
