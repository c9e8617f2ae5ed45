"""The steady tick, one compiled call, against the ladder: the same functions in the same order, so the same bits."""

import msgspec
import numba
import numpy as np
import pytest
from same import assert_same
from scenes import DT, LITERAL, WALKERS, random_scene, standing_scene

import idyn.prediction.predict
from idyn.contact.ground import Ground
from idyn.errors import InputError
from idyn.laws import LAWS, make_law
from idyn.laws.compiled_rungs import compiled_rungs
from idyn.laws.coulomb import Coulomb
from idyn.prediction.predict import predict
from idyn.prediction.steady import tick
from idyn.options import Options
from idyn.selection.aim import OBJECTIVES, Objective
from idyn.terms.filling import fill
from idyn.types import Consistency, Selection, State

RESUMING = tuple(name for name in LAWS if compiled_rungs(make_law(name)))
YIELDING = Ground(relaxation=0.02, memory=0.01, recovery_speed=0.0)


def ticks(scene, steps):
    """A stance whose demand and velocity change a little from tick to tick."""
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(2, scene.robot.na))
    for k in range(steps):
        q_ddot = 0.3 * np.sin(0.1 * k) * directions[0] + 0.3 * np.cos(0.13 * k) * directions[1]
        v = 1e-3 * np.sin(0.1 * k) * np.ones(scene.robot.nv)
        yield msgspec.structs.replace(scene, state=State(q=scene.state.q, v=v), q_ddot=q_ddot)


def solve(scene, law, options, guess=None, **more):
    return predict(scene.robot, scene.state, scene.contacts, scene.q_ddot, law=law, dt=DT, options=options, guess=guess, **more)


def by_ladder(monkeypatch, *arguments, **more):
    """The same prediction with the steady tick taken out."""
    with monkeypatch.context() as patch:
        patch.setattr(idyn.prediction.predict, "steady", lambda problem, law: None)
        return solve(*arguments, **more)


@pytest.mark.parametrize("consistency", Consistency)
@pytest.mark.parametrize("law", RESUMING)
def test_steady_answers_are_the_ladders(monkeypatch, law, consistency):
    """For every law that resumes and every way to treat demands and forces, taken in turn."""
    law, steady = make_law(law), 0
    selections = list(Selection)
    for robot in WALKERS:
        guess = None
        for k, scene in enumerate(ticks(standing_scene(robot, mu=0.6), 25)):
            ground = YIELDING if k // 12 % 2 else LITERAL
            options = Options(selection=selections[k // 5], consistency=consistency, ground=ground)
            more = {"preferred": np.full((4, 3), 5.0)} if k % 2 else {}
            expected = by_ladder(monkeypatch, scene, law, options, guess, **more)
            answer = solve(scene, law, options, guess, **more)
            assert_same(answer, expected)
            steady += answer.rung in compiled_rungs(law)
            guess = answer.guess
    assert steady >= 30


def test_what_is_near_to_nothing_this_time_is_near_to_zero(monkeypatch):
    """An objective may name torques in one tick and none in the next."""
    monkeypatch.setitem(
        OBJECTIVES, Selection.TORQUE, Objective(False, lambda tau, _, preferred: tau if preferred is not None else None)
    )
    law, scene, options = make_law("coulomb"), standing_scene("quadruped"), Options(selection=Selection.TORQUE)
    guess = msgspec.structs.replace(solve(scene, law, options).guess, tau=np.full(scene.robot.na, 3.0))
    first = solve(scene, law, options, guess)
    between = solve(scene, law, options, guess, preferred=np.zeros((4, 3)))
    again = solve(scene, law, options, guess)
    assert {first.rung, between.rung, again.rung} == {"warm"}
    assert np.abs(between.tau - first.tau).max() > 0.1
    np.testing.assert_array_equal(again.tau, first.tau)


@pytest.mark.parametrize("law", RESUMING)
def test_contacts_may_come_and_go(monkeypatch, law):
    """Feet that touch in turn, in another order, and none at all: what the last tick left is sorted by their names."""
    law, scene, guess, options = make_law(law), standing_scene("quadruped"), None, Options(ground=YIELDING)
    for rows in ([0, 1, 2, 3], [0, 3], [3, 0, 1], [], [1], [2, 1, 3, 0]):
        touching = msgspec.structs.replace(scene, contacts=scene.contacts.take(np.array(rows, dtype=np.int64)))
        answer = solve(touching, law, options, guess)
        assert_same(answer, by_ladder(monkeypatch, touching, law, options, guess))
        assert answer.status.ok
        guess = answer.guess


@pytest.mark.parametrize("law", RESUMING)
def test_where_it_does_not_hold_the_ladder_answers(monkeypatch, law):
    """Wild states with guesses of other states: whatever comes of it, it is what the ladder makes of it."""
    law = make_law(law)
    for seed in range(40):
        scene, other = random_scene("solo12", seed), random_scene("solo12", seed + 100)
        if len(scene.contacts) != len(other.contacts):
            continue
        other = msgspec.structs.replace(other, contacts=msgspec.structs.replace(other.contacts, keys=scene.contacts.keys))
        options = Options(selection=Selection.FORCE, ground=LITERAL, bounded=True)
        guess = solve(other, law, options).guess
        assert_same(solve(scene, law, options, guess), by_ladder(monkeypatch, scene, law, options, guess))


def test_views_and_read_only_arrays_are_data_like_any():
    """Arrays that compiled code does not take as they are cost time, not the answer."""
    scene, law, options = standing_scene("quadruped"), make_law("coulomb"), Options(ground=LITERAL)
    first = solve(scene, law, options)
    expected = solve(scene, law, options, first.guess)
    q, mu = np.repeat(scene.state.q, 2)[::2], scene.contacts.mu.copy()
    mu.flags.writeable = False
    assert not q.flags.c_contiguous
    odd = msgspec.structs.replace(
        scene, state=State(q=q, v=scene.state.v), contacts=msgspec.structs.replace(scene.contacts, mu=mu)
    )
    answer = solve(odd, law, options, first.guess)
    assert answer.tau.tobytes() == expected.tau.tobytes()


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_nothing_but_the_arrays_it_was_compiled_for_is_ever_compiled():
    """Data of another type must not cost a minute at 1 kHz."""
    test_views_and_read_only_arrays_are_data_like_any()
    assert len(fill.signatures) == len(tick.signatures) == 1


def test_a_law_that_is_derived_from_another_goes_its_own_way():
    """Compiled code knows the parent's rungs, not its own."""

    class Mine(Coulomb):
        name = "mine"

        def attempts(self, problem, basis):
            for _, solution in super().attempts(problem, basis):
                yield "mine", solution

    scene, law, options = standing_scene("quadruped"), Mine(), Options(ground=LITERAL)
    first = solve(scene, law, options)
    assert solve(scene, law, options, first.guess).rung == "mine"


@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("guess.force", {"force": np.ones((1000, 3))}),
        ("guess.force", {"force": np.ones((4, 2))}),
        ("guess.force", {"force": np.ones((0, 3))}),
        ("guess.force", {"force": [[0.0] * 3] * 4}),
        ("guess.force", {"force": np.ones((2, 3)), "keys": ("b", "a", "c", "d")}),
        ("guess.tau", {"tau": np.ones(11)}),
        ("preferred", {"preferred": [[0.0] * 3] * 4}),
        ("preferred", {"preferred": np.ones((4, 3), dtype=np.float32)}),
        ("preferred", {"preferred": np.ones((5, 3))}),
        ("contacts.normals", {"normals": np.ones((2, 3))}),
        ("contacts.tangents", {"tangents": None}),
    ],
)
def test_what_is_malformed_is_named_on_steady_ticks_too(selection, field, changes):
    scene, law, options = standing_scene("quadruped"), make_law("coulomb"), Options(selection=selection, ground=LITERAL)
    guess, preferred = solve(scene, law, options).guess, changes.get("preferred")
    if field.startswith("guess"):
        guess = msgspec.structs.replace(guess, **changes)
    if field.startswith("contacts"):
        scene = msgspec.structs.replace(scene, contacts=msgspec.structs.replace(scene.contacts, **changes))
    with pytest.raises(InputError, match=field):
        solve(scene, law, options, guess, preferred=preferred)


@pytest.mark.parametrize("law", ["no-slip", "coulomb", "convex"])
def test_a_basis_that_is_none_is_not_tried(law):
    """Of other settings of the law, of another type, none at all: the answer is that of a tick without one."""
    scene, law, options = standing_scene("quadruped"), make_law(law), Options(ground=LITERAL)
    guess = solve(scene, law, options).guess
    expected = solve(scene, law, msgspec.structs.replace(options, warm_start=False), guess)
    for basis in (
        np.ones((4, 9), bool),
        np.ones((3, law.basis_width), bool),
        guess.basis.astype(float),
        guess.basis.ravel(),
        [],
        None,
    ):
        assert solve(scene, law, options, msgspec.structs.replace(guess, basis=basis)).tau.tobytes() == expected.tau.tobytes()


@pytest.mark.parametrize("selection", Selection)
def test_forces_of_the_last_tick_may_be_views(selection):
    scene, law, options = standing_scene("quadruped"), make_law("coulomb"), Options(selection=selection, ground=YIELDING)
    guess = solve(scene, law, options).guess
    expected = solve(scene, law, options, guess)
    frozen = guess.force.copy()
    frozen.flags.writeable = False
    for force in (np.asfortranarray(guess.force), np.repeat(guess.force, 2, axis=0)[::2], frozen):
        answer = solve(scene, law, options, msgspec.structs.replace(guess, force=force))
        np.testing.assert_allclose(answer.tau, expected.tau, atol=1e-9)
