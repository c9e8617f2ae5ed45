"""The fallback cascade: every rung can be reached and is certified; at last the forces of the last tick answer."""

import msgspec
import numpy as np
import pytest
from conditions import allowance, dynamics, law_error, outside_cone
from fast import every, fast
from hard import degenerate_scene, wild_scene
from oracles import full, outcome
from rungs import Wrapped, attempts
from scenes import DT, LITERAL, each_walker, fingers_scene, predict_scene, random_scenes, reduced, standing_scene, with_contacts

from idyn import (
    LAWS,
    Consistency,
    Flat,
    Guess,
    Options,
    Selection,
    State,
    contacts_from_geometry,
    load_robot,
    make_law,
    predict,
)
from idyn.certificate.certify import CERTIFIED
from idyn.laws.law import single
from idyn.status import STATUSES, Status

UNCERTIFIED = {"coulomb": 2}  # number of last rungs that move the velocity by more than the certificate allows


def failing(law, failures, status):
    """A law whose first rungs fail: with a status, or by claiming success for impulses that are wrong."""

    def solve(law, problem, basis):
        for i, (rung, solution) in enumerate(attempts(law, problem, basis)):
            if i >= failures:
                yield rung, solution
            elif status.ok:
                yield rung, solution._replace(p=solution.p + 1e-3, face=single(len(problem.mu)))
            else:
                yield rung, solution._replace(status=status)

    return Wrapped(law, solve)


class Other:
    """The same law under another name."""

    name = "other"

    def __init__(self, law):
        self._law = law

    def __getattr__(self, name):
        return getattr(self._law, name)


def solve(scene, law, options=None, guess=None):
    return predict_scene(scene, law, options or Options.paper(ground=LITERAL), guess)


def calm(n=4):
    """A stance on n feet with a small demand for the joints of one leg, which all laws can meet."""
    scene = standing_scene("solo12", n=n)
    return msgspec.structs.replace(scene, q_ddot=np.r_[0.1, -0.2, 0.3, np.zeros(9)])


@every("status", [Status.CYCLE, Status.SOLVED])
@every("law", LAWS)
def test_each_rung_answers_when_those_before_it_fail(law, status):
    """Those before fail, or claim success and are refused by the certificate. quadprog needs a definite D, as on one foot."""
    scene, law_of = calm(1 if law.startswith(("convex", "cone")) else 2), make_law(law)
    names = [rung for rung, _ in attempts(law_of, reduced(scene)[1], None, scene.robot)]
    f = full(scene.robot, scene.state, scene.contacts)
    for failures, rung in enumerate(names[: len(names) - UNCERTIFIED.get(law, 0)]):
        answer = solve(scene, failing(law_of, failures, status) if failures else law_of)
        assert (answer.law, answer.rung, answer.status) == (law, rung, Status.SOLVED)
        assert answer.residuals.worst <= CERTIFIED
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-10


def test_regularised_answers_are_certified_against_the_original_problem():
    """A share of ‖D‖ on the diagonal moves the velocity by as much: small ones pass, large ones are refused."""
    scene = calm(2)
    law = make_law("coulomb")
    f = full(scene.robot, scene.state, scene.contacts)
    exact, *others = [outcome(f, scene.q_ddot, DT, s.p)[0] for _, s in attempts(law, reduced(scene)[1], None)]
    error = [np.abs(v_plus - exact).max() for v_plus in others]
    assert error[0] < 1e-10
    assert error[-1] > 1e-7
    answer = solve(scene, failing(Other(law), 4, Status.CYCLE))
    assert (answer.law, answer.status) == ("coulomb", Status.OTHER_LAW)


@every("law", ["no-slip", "convex", "cone"])
def test_after_all_rungs_coulombs_law_answers(law):
    scene = calm()
    answer = solve(scene, failing(make_law(law), 99, Status.CYCLE))
    assert (answer.law, answer.status) == ("coulomb", Status.OTHER_LAW)
    assert not answer.status.ok
    assert answer.status.certified
    np.testing.assert_allclose(answer.tau, solve(scene, "coulomb").tau, atol=1e-9)
    assert answer.guess.law == "coulomb"


@every("scene", [wild_scene(33), degenerate_scene(34), degenerate_scene(59)])
def test_where_no_law_answers_friction_is_limited(scene):
    """Unlimited or large friction, for which neither the law nor Coulomb's law has a certified answer."""
    assert scene.contacts.mu.max() > 1.0
    answer = solve(scene, "no-slip")
    assert answer.status is Status.OTHER_LAW
    assert answer.rung.endswith(", μ ≤ 1")
    assert answer.residuals.worst <= CERTIFIED
    assert outside_cone(answer.p, np.minimum(scene.contacts.mu, 1.0)) < 1e-9


def beyond():
    """A stance that is asked for accelerations whose rounding errors exceed what the certificate allows, whatever the law."""
    return msgspec.structs.replace(calm(), q_ddot=1e14 * np.random.default_rng(0).normal(size=12))


@every("status", [s for s in STATUSES if not s.ok])
def test_the_last_forces_answer_when_every_law_fails(status):
    """With the status of the law's own failure, the previous impulses, and the torque that goes with them."""
    scene = beyond()
    before = solve(calm(), "coulomb")
    answer = solve(scene, failing(make_law("coulomb"), 99, status), guess=before.guess)
    assert (answer.law, answer.rung, answer.status) == ("contact-free", "last forces", status)
    np.testing.assert_allclose(answer.impulse, before.impulse, atol=1e-15)
    f = full(scene.robot, scene.state, scene.contacts)
    np.testing.assert_allclose(answer.tau, outcome(f, scene.q_ddot, DT, before.p)[1], rtol=1e-9)


def test_last_forces_are_assigned_by_contact_key_and_zero_without_a_guess():
    """Given in world coordinates: order and tangents of the new contacts do not matter, contacts without a force carry none."""
    scene = beyond()
    force = np.random.default_rng(0).normal(size=(2, 3))
    keys = (scene.contacts.keys[2], scene.contacts.keys[0])
    guess = Guess(law="any", keys=keys, basis=np.zeros((2, 0), dtype=bool), tau=np.zeros(12), force=force)
    answer = solve(scene, "coulomb", guess=guess)
    assert answer.rung == "last forces"
    np.testing.assert_allclose(answer.force[[2, 0]], force, atol=1e-15)
    assert not answer.impulse[[1, 3]].any()
    scene = beyond()
    answer = solve(scene, "coulomb")
    assert answer.rung == "last forces"
    assert not answer.impulse.any()
    f = full(scene.robot, scene.state, scene.contacts)
    np.testing.assert_allclose(answer.tau, outcome(f, scene.q_ddot, DT, np.zeros(12))[1], rtol=1e-9)


def test_a_selection_that_fails_the_certificate_is_undone():
    """The law reports a face that is too large: sliding feet may stick in it, and the selection lets them."""

    def enlarge(law, problem, basis):
        for rung, solution in attempts(law, problem, basis):
            flags = np.ones_like(solution.face.flags)
            flags[:, 1] = False
            yield rung, solution._replace(face=solution.face._replace(flags=flags))

    undone = 0
    for scene in random_scenes("solo12", 40, n=4, mu=0.3, touching=1.0):
        options = Options.paper(consistency=Consistency.OFF, ground=LITERAL)
        answer = solve(scene, Wrapped(make_law("coulomb"), enlarge), options)
        plain = solve(scene, "coulomb", msgspec.structs.replace(options, selection=Selection.OFF))
        assert answer.status.certified
        if answer.rung == "cold, unselected":
            undone += 1
            np.testing.assert_array_equal(answer.p, plain.p)
    assert undone > 5


def test_after_a_ray_the_demand_is_projected():
    """The law's other rungs are skipped, and the change of the demand is reported."""
    scene = fingers_scene((10.0, -10.0))
    asked = []

    def watch(law, problem, basis):
        for rung, solution in attempts(law, problem, basis):
            asked.append(solution.status)
            yield rung, solution

    watched = Wrapped(make_law("coulomb"), watch)
    answer = solve(scene, watched)
    assert asked == [Status.RAY, Status.SOLVED]
    assert answer.demand_change > 0
    asked.clear()
    assert not solve(scene, watched, Options.paper(consistency=Consistency.OFF)).status.ok


def test_every_status_has_a_sentence_of_its_own():
    assert [int(s) for s in STATUSES] == list(range(len(Status)))
    sentences = [s.sentence for s in Status]
    assert len(set(sentences)) == len(Status)
    assert all(len(s) > 20 or s == Status.SOLVED.sentence for s in sentences)


def test_bounded_predictions_replace_no_slip_by_coulomb_where_torque_is_too_large():
    """Demands that drag feet apart need more torque without slip than with it."""
    bounded = Options.paper(ground=LITERAL, bounded=True)
    gave_way = 0
    for scene in random_scenes("quadruped", 40, touching=1.0):
        unbounded = solve(scene, "no-slip", Options.paper(ground=LITERAL))
        answer = solve(scene, "no-slip", bounded)
        assert unbounded.law == "no-slip"
        assert answer.torque_excess <= unbounded.torque_excess
        if answer.law == "coulomb":
            gave_way += 1
            assert answer.torque_excess < unbounded.torque_excess
            np.testing.assert_array_equal(answer.tau, solve(scene, "coulomb", bounded).tau)
        else:
            np.testing.assert_array_equal(answer.tau, unbounded.tau)
        assert solve(scene, "convex", bounded).law == "convex"
    assert gave_way > 5


def test_a_law_that_needs_no_more_torque_than_coulomb_stays_whatever_rounding_says():
    robot, q = load_robot("quadruped")
    weak, demands = robot.variant(tau_max=dict.fromkeys(robot.joint_names, 0.05)), np.random.default_rng(0)
    contacts = contacts_from_geometry(weak, q, Flat(), margin=0.01)
    for _ in range(50):
        demand = 0.1 * demands.standard_normal(weak.na)
        answer = predict(weak, State(q=q, v=np.zeros(weak.nv)), contacts, demand, law="no-slip", dt=DT)
        assert answer.torque_excess > 0.1
        assert (answer.law, answer.status) == ("no-slip", Status.SOLVED)


# -- warm starts save work and cannot change an answer -----------------------------------------------------------------


each_law = pytest.mark.parametrize("law", fast(LAWS, "coulomb", "exact-cone", "cone", "sap"))
each_pivoting = every("law", ("no-slip", "coulomb", "convex"))


def started(scene, law, guess=None, selection=Selection.TORQUE, **changes):
    return predict_scene(scene, law, Options.paper(selection=selection, ground=LITERAL), guess, **changes)


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
    guess, saved, warm = None, 0, 0
    for scene in moving(name, 60):
        cold = started(scene, law)
        answer = started(scene, law, guess)
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
    for scene in random_scenes(name, 20, touching=1.0):
        first = started(scene, law)
        if first.law != law or first.rung != "cold" or first.demand_change > 0:
            continue
        again = started(scene, law, first.guess)
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
    for scene in random_scenes(name, 3, n=4, touching=1.0):
        clean = started(scene, law, selection=Selection.OFF)
        for guess in poisoned(started(scene, law).guess, rng):
            answer = started(scene, law, guess, selection)
            assert answer.status.certified
            assert np.isfinite(answer.tau).all()
            f = full(scene.robot, scene.state, scene.contacts)
            assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-8
            if answer.law in ("coulomb", "exact-cone"):
                extra = allowance(scene.contacts.gaps, DT)
                assert law_error(answer.law, f, answer.p, answer.v_plus, scene.contacts.mu, extra) < 1e-8
            if answer.law == clean.law and law not in ("coulomb", "exact-cone"):  # those may have several answers
                np.testing.assert_allclose(answer.v_plus, clean.v_plus, atol=1e-7)


@each_pivoting
def test_a_guess_follows_contacts_that_are_permuted(law):
    """The basis is assigned by contact key: permuted contacts are still warm and give the permuted answer."""
    scene = calm()
    first = started(scene, law)
    order = np.array([2, 0, 3, 1])
    permuted = started(scene, law, first.guess, contacts=scene.contacts.take(order))
    assert permuted.rung == "warm"
    np.testing.assert_allclose(permuted.tau, first.tau, atol=1e-9)
    np.testing.assert_allclose(permuted.normal_force, first.normal_force[order], atol=1e-6)
    for chosen in ([0, 1, 2], [3], []):
        few = scene.contacts.take(np.array(chosen, dtype=int))
        answer = started(scene, law, first.guess, contacts=few)
        np.testing.assert_allclose(answer.v_plus, started(scene, law, contacts=few).v_plus, atol=1e-9)
        back = started(scene, law, answer.guess)
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
            yield with_contacts(scene, **{field: value})
    mu = np.array([0.5, 1e300, 0.5, 0.5])
    yield with_contacts(scene, mu=mu)


@each_law
@every("name", ["solo12"])
def test_an_overflow_is_never_reported_as_solved(name, law):
    """A status reports it, or the torque is finite and correct: never SOLVED with a non-finite number, never an exception."""
    scene = standing_scene(name)
    guess = started(scene, law).guess
    with np.errstate(all="ignore"):
        for broken in broken_inputs(scene):
            for start in (None, guess):
                answer = started(broken, law, start)
                finite = all(np.isfinite(x).all() for x in (answer.tau, answer.p, answer.v_plus, answer.impulse))
                assert finite or not answer.status.certified
                assert np.isfinite(answer.tau).all() or answer.status is Status.NON_FINITE
                assert answer.status.certified == (answer.residuals.worst <= 1e-8 and answer.rung != "last forces")
