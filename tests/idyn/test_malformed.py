"""Inputs of a warm tick: views, other types, malformed ones, and contacts that change."""

import msgspec
import numpy as np
import pytest
from fast import every
from numba.core import event
from scenes import DT, LITERAL, standing_scene

from idyn.contact.ground import Ground
from idyn.errors import InputError
from idyn.laws import LAWS, make_law
from idyn.laws.coulomb import Coulomb
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Selection, State

YIELDING = Ground.rigid(relaxation=0.02, memory=0.01, recovery_speed=0.0)


def solve(scene, law, options, guess=None, **more):
    return predict(scene.robot, scene.state, scene.contacts, scene.q_ddot, law=law, dt=DT, options=options, guess=guess, **more)


@every("law", [name for name in LAWS if name not in ("enumeration", "sensed")])
def test_contacts_may_change_between_ticks(law):
    """Feet that touch in turn, in another order, and no feet: the last basis and forces are assigned by contact key."""
    law, scene, guess, options = make_law(law), standing_scene("quadruped"), None, Options.paper(ground=YIELDING)
    for rows in ([0, 1, 2, 3], [0, 3], [3, 0, 1], [], [1], [2, 1, 3, 0]):
        touching = msgspec.structs.replace(scene, contacts=scene.contacts.take(np.array(rows, dtype=np.int64)))
        if guess is not None:
            keys = touching.contacts.keys
            ordered = msgspec.structs.replace(
                guess, keys=keys, basis=guess.carried_over(guess.basis, keys), force=guess.carried_over(guess.force, keys)
            )
            expected = solve(touching, law, options, ordered)
        answer = solve(touching, law, options, guess)
        if guess is not None:
            assert (answer.rung, answer.tau.tobytes(), answer.p.tobytes()) == (
                expected.rung,
                expected.tau.tobytes(),
                expected.p.tobytes(),
            )
        assert answer.status.ok
        guess = answer.guess


def test_views_and_read_only_arrays_give_the_same_answer_without_compiling():
    """Arrays that compiled code cannot use directly are copied; another kernel for them would cost a minute at 1 kHz."""
    scene, law, options = standing_scene("quadruped"), make_law("coulomb"), Options.paper(ground=LITERAL)
    first = solve(scene, law, options)
    expected = solve(scene, law, options, first.guess)
    q, mu = np.repeat(scene.state.q, 2)[::2], scene.contacts.mu.copy()
    mu.flags.writeable = False
    assert not q.flags.c_contiguous
    odd = msgspec.structs.replace(
        scene, state=State(q=q, v=scene.state.v), contacts=msgspec.structs.replace(scene.contacts, mu=mu)
    )
    with event.install_recorder("numba:compile") as compiled:
        answer = solve(odd, law, options, first.guess)
    assert answer.tau.tobytes() == expected.tau.tobytes()
    assert not compiled.buffer


def test_a_derived_law_does_not_use_its_parents_kernel():
    """A subclass with other rungs uses these."""

    class Mine(Coulomb):
        name = "mine"

        @property
        def rungs(self):
            return tuple(rung._replace(name="mine") for rung in super().rungs)

    scene, law, options = standing_scene("quadruped"), Mine(), Options.paper(ground=LITERAL)
    first = solve(scene, law, options)
    assert first.rung == solve(scene, law, options, first.guess).rung == "mine"


@every("selection", Selection)
@every(
    ("field", "changes"),
    [
        ("guess.force", {"force": np.ones((1000, 3))}),
        ("guess.force", {"force": np.ones((4, 2))}),
        ("guess.force", {"force": np.ones((0, 3))}),
        ("guess.force", {"force": [["0"] * 3] * 4}),
        ("guess.force", {"force": np.ones((2, 3)), "keys": ("b", "a", "c", "d")}),
        ("guess.tau", {"tau": np.ones(11)}),
        ("preferred", {"preferred": [["0"] * 3] * 4}),
        ("preferred", {"preferred": np.ones((4, 3), dtype=complex)}),
        ("preferred", {"preferred": np.ones((5, 3))}),
        ("contacts.normals", {"normals": np.ones((2, 3))}),
        ("contacts.tangents", {"tangents": None}),
    ],
)
def test_malformed_inputs_of_a_warm_tick_are_named(selection, field, changes):
    scene, law, options = standing_scene("quadruped"), make_law("coulomb"), Options.paper(selection=selection, ground=LITERAL)
    guess, preferred = solve(scene, law, options).guess, changes.get("preferred")
    if field.startswith("guess"):
        guess = msgspec.structs.replace(guess, **changes)
    if field.startswith("contacts"):
        scene = msgspec.structs.replace(scene, contacts=msgspec.structs.replace(scene.contacts, **changes))
    with pytest.raises(InputError, match=field):
        solve(scene, law, options, guess, preferred=preferred)


@every("law", ["no-slip", "coulomb", "convex"])
def test_a_malformed_basis_is_ignored(law):
    """A basis for other settings of the law, of another type, or missing: the answer is that of a cold start."""
    scene, law, options = standing_scene("quadruped"), make_law(law), Options.paper(ground=LITERAL)
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


@every("selection", Selection)
def test_forces_of_the_last_tick_may_be_views(selection):
    scene, law, options = standing_scene("quadruped"), make_law("coulomb"), Options.paper(selection=selection, ground=YIELDING)
    guess = solve(scene, law, options).guess
    expected = solve(scene, law, options, guess)
    frozen = guess.force.copy()
    frozen.flags.writeable = False
    for force in (np.asfortranarray(guess.force), np.repeat(guess.force, 2, axis=0)[::2], frozen):
        answer = solve(scene, law, options, msgspec.structs.replace(guess, force=force))
        np.testing.assert_allclose(answer.tau, expected.tau, atol=1e-9)
