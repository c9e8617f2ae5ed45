"""Warm starts save work and cannot change an answer, whatever is wrong with them."""

import msgspec
import numpy as np
import pytest
from conditions import allowance, coulomb_error, dynamics, exact_cone_error
from fast import every, fast
from oracles import full
from scenes import DT, LITERAL, each_walker, random_scene, standing_scene

from idyn.laws import LAWS, make_law
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.status import Status
from idyn.types import Selection, State

PIVOTING = ("no-slip", "coulomb")
each_law = pytest.mark.parametrize("law", fast(LAWS, "no-slip", "coulomb", "exact-cone", "convex", "cone", "sap"))
each_pivoting = pytest.mark.parametrize("law", PIVOTING)


def solve(scene, law, guess=None, selection=Selection.TORQUE, **changes):
    scene = msgspec.structs.replace(scene, **changes)
    options = Options.paper(selection=selection, ground=LITERAL)
    law = make_law(law)
    return predict(scene.robot, scene.state, scene.contacts, scene.q_ddot, law=law, dt=DT, options=options, guess=guess)


def moving(name, steps):
    """A stance whose demand and velocity change a little from tick to tick."""
    scene, rng = standing_scene(name, mu=0.6), np.random.default_rng(0)
    directions = rng.normal(size=(2, scene.robot.na))
    for k in range(steps):
        q_ddot = 0.5 * np.sin(0.1 * k) * directions[0] + 0.5 * np.cos(0.13 * k) * directions[1]
        v = 1e-3 * np.sin(0.1 * k) * np.ones(scene.robot.nv)
        yield msgspec.structs.replace(scene, state=State(q=scene.state.q, v=v), q_ddot=q_ddot)


@each_walker
@each_pivoting
def test_warm_and_cold_starts_give_the_same_answer(name, law):
    """Along a motion: the same velocity and torque, fewer pivots, and a rung that names the warm start."""
    guess, saved, warm = None, 0, 0
    for scene in moving(name, 60):
        cold = solve(scene, law)
        answer = solve(scene, law, guess)
        guess = answer.guess
        assert answer.residuals.worst < 1e-8
        np.testing.assert_allclose(answer.v_plus, cold.v_plus, atol=1e-9)
        np.testing.assert_allclose(answer.tau, cold.tau, atol=1e-6)
        saved += cold.iterations - answer.iterations
        warm += answer.rung == "warm"
    assert warm > 40
    assert saved > 60


@each_walker
@each_pivoting
def test_the_last_answer_is_confirmed_without_a_pivot(name, law):
    """Given back as the guess."""
    for seed in range(20):
        scene = random_scene(name, seed, touching=1.0)
        first = solve(scene, law)
        if first.law != law or first.rung != "cold" or first.demand_change > 0:
            continue
        again = solve(scene, law, first.guess)
        assert again.rung == "warm"
        assert again.iterations == 0 or (law == "no-slip" and again.iterations <= first.iterations)
        np.testing.assert_allclose(again.v_plus, first.v_plus, atol=1e-9)


def poisoned(guess, rng):
    """Guesses with everything that can be wrong."""
    n, width = guess.basis.shape
    change = msgspec.structs.replace
    yield change(guess, basis=rng.uniform(size=(n, width)) < 0.5)
    yield change(guess, basis=~guess.basis)
    yield change(guess, basis=np.ones((n, width), dtype=bool))
    yield change(guess, keys=tuple(f"elsewhere {i}" for i in range(n)))
    yield change(guess, keys=guess.keys[::-1])
    yield change(guess, keys=guess.keys[:-1], basis=guess.basis[:-1], force=guess.force[:-1])
    yield change(guess, tau=np.full(len(guess.tau), np.nan))
    yield change(guess, force=np.full_like(guess.force, np.nan))
    yield change(guess, tau=np.full(len(guess.tau), 1e12), force=1e12 * np.ones_like(guess.force))
    for law in LAWS:  # a basis that was another law's
        yield change(guess, law=law, basis=np.zeros((n, make_law(law).basis_width), dtype=bool))


@pytest.mark.parametrize("selection", fast(Selection, Selection.TORQUE))
@each_law
@each_walker
def test_malformed_guesses_do_not_change_the_answer(name, law, selection):
    rng = np.random.default_rng(0)
    for seed in range(3):
        scene = random_scene(name, seed, n=4, touching=1.0)
        clean = solve(scene, law, selection=Selection.OFF)
        for guess in poisoned(solve(scene, law).guess, rng):
            answer = solve(scene, law, guess, selection)
            assert answer.status.certified
            assert np.isfinite(answer.tau).all()
            f = full(scene.robot, scene.state, scene.contacts)
            assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-8
            if answer.law == "coulomb":
                extra = allowance(scene.contacts.gaps, DT)
                assert coulomb_error(f, answer.p, answer.v_plus, scene.contacts.mu, extra) < 1e-8
            if answer.law == "exact-cone":
                extra = allowance(scene.contacts.gaps, DT)
                assert exact_cone_error(f, answer.p, answer.v_plus, scene.contacts.mu, extra) < 1e-8
            if answer.law == clean.law and law not in ("coulomb", "exact-cone"):  # those may have several answers
                np.testing.assert_allclose(answer.v_plus, clean.v_plus, atol=1e-7)


@each_pivoting
def test_a_guess_follows_contacts_that_are_permuted(law):
    """The basis is assigned by contact key: permuted contacts are still warm and give the permuted answer."""
    scene = standing_scene("solo12")
    scene = msgspec.structs.replace(scene, q_ddot=np.r_[0.1, -0.2, 0.3, np.zeros(9)])
    first = solve(scene, law)
    order = np.array([2, 0, 3, 1])
    permuted = solve(scene, law, first.guess, contacts=scene.contacts.take(order))
    assert permuted.rung == "warm"
    np.testing.assert_allclose(permuted.tau, first.tau, atol=1e-9)
    np.testing.assert_allclose(permuted.normal_force, first.normal_force[order], atol=1e-6)
    for chosen in ([0, 1, 2], [3], []):
        few = scene.contacts.take(np.array(chosen, dtype=int))
        answer = solve(scene, law, first.guess, contacts=few)
        np.testing.assert_allclose(answer.v_plus, solve(scene, law, contacts=few).v_plus, atol=1e-9)
        back = solve(scene, law, answer.guess)
        assert back.status.ok
        np.testing.assert_allclose(back.tau, first.tau, atol=1e-8)


def broken_inputs(scene):
    """The scene with one number, in each kind of place, that leads to an overflow."""
    for bad in (1e160, -1e300):
        for i in (0, 4, 9):
            q, v = scene.state.q.copy(), scene.state.v.copy()
            q[i if i != 4 else 8], v[i] = bad, bad  # not the quaternion
            yield msgspec.structs.replace(scene, state=State(q=q, v=scene.state.v))
            yield msgspec.structs.replace(scene, state=State(q=scene.state.q, v=v))
            q_ddot = scene.q_ddot.copy()
            q_ddot[i] = bad
            yield msgspec.structs.replace(scene, q_ddot=q_ddot)
        for field in ("points", "gaps"):
            value = getattr(scene.contacts, field).copy()
            value.flat[2] = bad
            yield msgspec.structs.replace(scene, contacts=msgspec.structs.replace(scene.contacts, **{field: value}))
    mu = np.array([0.5, 1e300, 0.5, 0.5])
    yield msgspec.structs.replace(scene, contacts=msgspec.structs.replace(scene.contacts, mu=mu))


@each_law
@every("name", ["solo12"])
def test_an_overflow_is_never_reported_as_solved(name, law):
    """A status reports it, or the torque is finite and correct: never SOLVED with a non-finite number, never an exception."""
    scene = standing_scene(name)
    guess = solve(scene, law).guess
    with np.errstate(all="ignore"):
        for broken in broken_inputs(scene):
            for start in (None, guess):
                answer = solve(broken, law, start)
                finite = all(np.isfinite(x).all() for x in (answer.tau, answer.p, answer.v_plus, answer.impulse))
                assert finite or not answer.status.certified
                assert np.isfinite(answer.tau).all() or answer.status is Status.NON_FINITE
                assert answer.status.certified == (answer.residuals.worst <= 1e-8 and answer.rung != "last forces")
