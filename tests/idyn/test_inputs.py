"""The public interface: names and types of `idyn`, and malformed inputs, refused by field before an array is read."""

import ast
import contextlib
import copy
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import numpy as np
import pytest
import urdf
from fast import every
from scenes import DT, LITERAL, predict_scene, standing_scene

import idyn
from idyn import LAWS, Batch, Ground, InputError, Options, Selection, Status, make_law, predict, predict_batch
from idyn.laws.coulomb import Coulomb
from idyn.types import Demand

SCENE = standing_scene("quadruped")
OPTIONS = Options.paper(ground=LITERAL)
FEET = [
    urdf.link(f"{side}_foot", 2.0, 1.0)
    + urdf.joint(side, "trunk", f"{side}_foot", axis="0 1 0", at=(0, y, 0), limits=(-1, 1, 100, 10))
    for side, y in (("left", 0.2), ("right", -0.2))
]
URDF = urdf.robot("biped", urdf.link("trunk", 2.0, 1.0), *FEET)  # two soles on the ground, for the example of `help(idyn)`


def ask(state=SCENE.state, contacts=SCENE.contacts, q_ddot=SCENE.q_ddot, dt=DT, options=OPTIONS, **changes):
    return predict(SCENE.robot, state, contacts, q_ddot, law=make_law("coulomb"), dt=dt, options=options, **changes)


def with_entry(value, index, entry):
    changed = value.copy()
    changed[index] = entry
    return changed


def contacts(**fields):
    return {"contacts": msgspec.structs.replace(SCENE.contacts, **fields)}


def state(**fields):
    return {"state": msgspec.structs.replace(SCENE.state, **fields)}


GUESS = ask().guess


def guess(**fields):
    return {"guess": msgspec.structs.replace(GUESS, **fields)}


C, Q, V = SCENE.contacts, SCENE.state.q, SCENE.state.v
MALFORMED = [
    ("dt", {"dt": 0.0}),
    ("dt", {"dt": -1e-3}),
    ("dt", {"dt": np.nan}),
    ("dt", {"dt": np.inf}),
    ("q_ddot", {"q_ddot": np.zeros(11)}),
    ("q_ddot", {"q_ddot": np.zeros(0)}),
    ("q_ddot", {"q_ddot": np.zeros(13)}),
    ("q_ddot", {"q_ddot": np.zeros((12, 1))}),
    ("q_ddot", {"q_ddot": ["0"] * 12}),
    ("q_ddot", {"q_ddot": [0.0, [1.0]]}),
    ("q_ddot", {"q_ddot": np.zeros(12, dtype=complex)}),
    ("q_ddot", {"q_ddot": np.zeros(12, dtype=bool)}),
    ("q_ddot", {"q_ddot": np.zeros(12, dtype=np.longdouble)}),
    ("q_ddot", {"q_ddot": None}),
    ("q", state(q="standing")),
    ("q_ddot[3]", {"q_ddot": with_entry(SCENE.q_ddot, 3, np.nan)}),
    ("q_ddot[3]", {"q_ddot": with_entry(SCENE.q_ddot, 3, -np.inf)}),
    ("q", state(q=Q[:-1])),
    ("q[0]", state(q=with_entry(Q, 0, np.nan))),
    ("q[3:7]", state(q=with_entry(Q, 6, 0.9))),
    ("q[3:7]", state(q=with_entry(Q, slice(3, 7), 0.0))),
    ("v", state(v=np.zeros(17))),
    ("v[17]", state(v=with_entry(V, 17, np.inf))),
    ("applied", {"applied": np.zeros(12)}),
    ("applied[5]", {"applied": with_entry(V, 5, np.nan)}),
    ("guess.tau", guess(tau=np.zeros(11))),
    ("guess.force", guess(force=np.zeros((3, 3)))),
    ("guess.force", guess(force=np.ones((1000, 3)))),
    ("guess.force", guess(force=np.ones((4, 2)))),
    ("guess.force", guess(force=np.ones((0, 3)))),
    ("guess.force", guess(force=[["0"] * 3] * 4)),
    ("guess.force", guess(force=np.ones((2, 3)), keys=("b", "a", "c", "d"))),
    ("preferred", {"preferred": np.zeros((3, 3))}),
    ("preferred", {"preferred": np.ones((5, 3))}),
    ("preferred", {"preferred": [["0"] * 3] * 4}),
    ("preferred", {"preferred": np.ones((4, 3), dtype=complex)}),
    ("preferred[3, 1]", {"preferred": with_entry(np.zeros((4, 3)), (3, 1), np.nan)}),
    ("preferred[0, 2]", {"preferred": with_entry(np.zeros((4, 3)), (0, 2), -np.inf)}),
    ("preferred[0, 2]", {"preferred": with_entry(np.zeros((4, 3)), (0, 2), 1e200)}),
    ("contacts.keys", contacts(keys=(*C.keys[:3], C.keys[0]))),
    ("contacts.keys", contacts(keys=(*C.keys[:3], 7))),
    ("contacts.keys", contacts(keys=list(C.keys))),
    ("contacts.points", contacts(points=C.points[:3])),
    ("contacts.points[2]", contacts(points=with_entry(C.points, (2, 1), np.nan))),
    ("contacts.normals[1]", contacts(normals=with_entry(C.normals, 1, [0.0, 0.0, 0.99]))),
    ("contacts.normals[1]", contacts(normals=with_entry(C.normals, 1, [0.0, 0.0, np.nan]))),
    ("contacts.normals", contacts(normals=np.ones((2, 3)))),
    ("contacts.tangents", contacts(tangents=None)),
    ("contacts.tangents[0]", contacts(tangents=with_entry(C.tangents, 0, [0.0, 0.0, 1.0]))),
    ("contacts.tangents[0]", contacts(tangents=with_entry(C.tangents, 0, [0.0, 0.0, 0.0]))),
    ("contacts.mu", contacts(mu=np.zeros(5))),
    ("contacts.mu[3]", contacts(mu=with_entry(C.mu, 3, -0.1))),
    ("contacts.mu[3]", contacts(mu=with_entry(C.mu, 3, np.nan))),
    ("contacts.gaps[3]", contacts(gaps=with_entry(C.gaps, 3, np.inf))),
    ("contacts.bodies[0]", contacts(bodies=with_entry(C.bodies, 0, 99))),
    ("contacts.bodies[0]", contacts(bodies=with_entry(C.bodies, 0, -1))),
    ("contacts.bodies[0]", contacts(bodies=with_entry(C.bodies, 0, C.others[0]))),
    ("contacts.bodies", contacts(bodies=C.bodies.astype(float))),
]


@every(("field", "changes"), MALFORMED)
def test_malformed_inputs_are_refused_by_name(field, changes):
    for selection in (None, *Selection):
        given = {} if selection is None else {"guess": GUESS, "options": Options.paper(selection=selection, ground=LITERAL)}
        with pytest.raises(InputError, match="expected") as refused:
            ask(**given | changes)
        assert refused.value.field == field


def test_repeated_keys_are_refused_in_every_tick():
    repeated = contacts(keys=(*C.keys[:3], C.keys[0]))
    for _ in range(2):
        assert ask(guess=GUESS).rung == "warm"
        with pytest.raises(InputError, match=f"expected different keys, got '{C.keys[0]}' twice"):
            ask(**repeated, guess=GUESS)


def test_the_largest_preferred_force_keeps_the_torques_exact():
    """Near to a huge force, the certificate still holds: rounding of the target does not reach the torques."""
    options = Options(ground=LITERAL)
    answer = ask(preferred=np.full((4, 3), 1e9), options=options)
    assert answer.status.certified
    assert answer.residuals.worst < 1e-6


LISTS = {"q": Q.tolist(), "v": V.tolist()}
OTHER_ORDER = {name: getattr(C, name).astype(getattr(C, name).dtype.newbyteorder(">")) for name in ("mu", "points", "bodies")}
CONVERTED = {
    "list": {"q_ddot": SCENE.q_ddot.tolist(), "applied": [0.0] * 18, "preferred": [[0.0] * 3] * 4, **state(**LISTS)},
    "float32": {"q_ddot": SCENE.q_ddot.astype(np.float32), "preferred": np.zeros((4, 3), np.float32)},
    "int": {"q_ddot": np.zeros(12, dtype=int), "applied": np.zeros(18, dtype=np.int32)},
    "other byte order": {"q_ddot": SCENE.q_ddot.astype(">f8"), "applied": np.zeros(18, dtype=">f8"), **contacts(**OTHER_ORDER)},
    "views": {**state(q=np.repeat(Q, 2)[::2]), **contacts(mu=np.broadcast_to(C.mu[0], 4))},  # read-only
    "column-major": contacts(**{name: np.asfortranarray(getattr(C, name)) for name in ("points", "normals", "tangents")}),
    "guess": guess(tau=GUESS.tau.tolist(), force=GUESS.force.tolist()),
}


@every("name", CONVERTED)
def test_lists_narrower_types_and_views_give_the_same_answer(name):
    expected = ask(guess=GUESS) if name == "guess" else ask()
    np.testing.assert_array_equal(ask(**CONVERTED[name]).tau, expected.tau)


@every("seed", range(40))
def test_quaternions_near_unit_length_are_answered_or_refused(seed):
    """All checks agree on the tolerance: an answer or an InputError."""
    rng = np.random.default_rng(seed)
    d = rng.normal(size=4)
    d *= np.sqrt(1 + 2e-5) * (1 + rng.integers(-3, 4) * 1.1e-16) / np.linalg.norm(d)
    with contextlib.suppress(InputError):
        ask(**state(q=with_entry(Q, slice(3, 7), d)))


def test_copies_and_pickles_of_a_robot_answer_the_same():
    robot, answer = SCENE.robot, ask()
    for other in (copy.deepcopy(robot), pickle.loads(pickle.dumps(robot))):
        again = predict(other, SCENE.state, C, SCENE.q_ddot, law=make_law("coulomb"), dt=DT, options=OPTIONS)
        np.testing.assert_array_equal(again.tau, answer.tau)


def test_well_formed_inputs_are_answered():
    """Infinite and zero friction, gaps of a metre, and a guess with NaN."""
    for changes in (
        {},
        guess(tau=np.full(12, np.nan)),
        contacts(mu=np.array([0.0, 0.5, np.inf, 10.0])),
        contacts(gaps=np.array([-1.0, 0.0, 1e-9, 1.0])),
        {"applied": np.zeros(18), "preferred": np.zeros((4, 3))},
    ):
        assert ask(**changes).status.ok


# -- inputs of a warm tick ---------------------------------------------------------------------------------------------


YIELDING = Ground.rigid(relaxation=0.02, memory=0.01, recovery_speed=0.0)


@every("law", [name for name in LAWS if name not in ("enumeration", "sensed")])
def test_contacts_may_change_between_ticks(law):
    """Feet that touch in turn, in another order, and no feet: the last basis and forces are assigned by contact key."""
    law, scene, guess, options = make_law(law), standing_scene("quadruped"), None, Options.paper(ground=YIELDING)
    for rows in ([0, 1, 2, 3], [0, 3], [3, 0, 1], [], [1], [2, 1, 3, 0]):
        touching = msgspec.structs.replace(scene, contacts=scene.contacts.take(np.array(rows, dtype=np.int64)))
        if guess is not None:
            keys = touching.contacts.keys
            basis, force = guess.carried_over(guess.basis, keys), guess.carried_over(guess.force, keys)
            ordered = msgspec.structs.replace(guess, keys=keys, basis=basis, force=force)
            expected = predict_scene(touching, law, options, ordered)
        answer = predict_scene(touching, law, options, guess)
        if guess is not None:
            one, other = ((each.rung, each.tau.tobytes(), each.p.tobytes()) for each in (answer, expected))
            assert one == other
        assert answer.status.ok
        guess = answer.guess


def test_a_derived_law_does_not_use_its_parents_kernel():

    class Mine(Coulomb):
        name = "mine"

        @property
        def rungs(self):
            return tuple(rung._replace(name="mine") for rung in super().rungs)

    scene, law, options = standing_scene("quadruped"), Mine(), Options.paper(ground=LITERAL)
    first = predict_scene(scene, law, options)
    assert first.rung == predict_scene(scene, law, options, first.guess).rung == "mine"


@every("law", ["no-slip", "coulomb", "convex"])
def test_a_malformed_basis_is_ignored(law):
    """A basis for other settings of the law, of another type, or missing: the answer is that of a cold start."""
    scene, law, options = standing_scene("quadruped"), make_law(law), Options.paper(ground=LITERAL)
    guess = predict_scene(scene, law, options).guess
    expected = predict_scene(scene, law, msgspec.structs.replace(options, warm_start=False), guess)
    wrong = np.ones((4, 9), bool), np.ones((3, law.basis_width), bool), guess.basis.astype(float), guess.basis.ravel(), [], None
    for basis in wrong:
        answer = predict_scene(scene, law, options, msgspec.structs.replace(guess, basis=basis))
        assert answer.tau.tobytes() == expected.tau.tobytes()


@every("selection", Selection)
def test_forces_of_the_last_tick_may_be_views(selection):
    scene, law, options = standing_scene("quadruped"), make_law("coulomb"), Options.paper(selection=selection, ground=YIELDING)
    guess = predict_scene(scene, law, options).guess
    expected = predict_scene(scene, law, options, guess)
    frozen = guess.force.copy()
    frozen.flags.writeable = False
    for force in (np.asfortranarray(guess.force), np.repeat(guess.force, 2, axis=0)[::2], frozen):
        answer = predict_scene(scene, law, options, msgspec.structs.replace(guess, force=force))
        np.testing.assert_allclose(answer.tau, expected.tau, atol=1e-9)


@every("name", idyn.__all__)
def test_public_names_have_docstrings(name):
    thing = getattr(idyn, name)
    assert name in dir(idyn)
    assert name in {"__version__", "LAWS"} or thing.__doc__


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(idyn.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    lazy = {name for names in idyn._MODULES.values() for name in names}
    assert seen == lazy == set(idyn.__all__) - {"__version__"}


def test_an_unknown_name_is_refused_with_the_public_names():
    with pytest.raises(AttributeError, match="make_law"):
        idyn.no_such_thing  # noqa: B018


def test_help_is_short_and_lists_all_public_names():
    command = [sys.executable, "-c", "import idyn; help(idyn)"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(text.splitlines()) < 150
    assert [name for name in idyn.__all__ if name != "__version__" and name not in text] == []


def test_the_example_of_help_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("robot.urdf").write_text(URDF, encoding="utf-8")
    example = idyn.__doc__.partition("\n")[2].partition("\nRobot\n")[0]
    exec(compile(textwrap.dedent(example), "idyn.__doc__", "exec"), {})
    assert capsys.readouterr().out.startswith("SOLVED [")


def test_a_status_prints_its_name():
    assert str(Status.OTHER_LAW) == f"{Status.OTHER_LAW}" == "OTHER_LAW"
    assert f"{Status.RAY:>5}|" == "  RAY|"
    assert int(Status.OTHER_LAW) == 9
    assert msgspec.json.encode(Status.RAY) == b"1"


def test_records_have_short_representations_in_one_line():
    scene = standing_scene("solo12")
    robot, state, contacts = scene.robot, scene.state, scene.contacts
    prediction = predict(robot, state, contacts, scene.q_ddot, law=make_law("coulomb"), dt=DT)
    batch = Batch(state=state, contacts=contacts, q_ddot=np.zeros((3, robot.na)))
    many = predict_batch(robot, batch, law=make_law("coulomb"), dt=DT)
    expected = {
        f"nq={robot.nq}, nv={robot.nv}, na={robot.na}, contacts=4, mass=": robot,
        f"State(nq={robot.nq}, nv={robot.nv}, ‖v‖=": state,
        f"ContactSet(n=4, keys=({contacts.keys[0]!r}, {contacts.keys[1]!r}, ": contacts,
        f"Prediction(SOLVED, law='coulomb', rung='cold', na={robot.na}, ‖τ‖=": prediction,
        "Guess(law='coulomb', contacts=(": prediction.guess,
        "Residuals(dynamics=": prediction.residuals,
        f"Kinematics(nq={robot.nq}, nv={robot.nv}, njoints=": robot.terms(state.q, state.v),
        f"Batch(state=State(nq={robot.nq}, ": batch,
        "BatchPrediction(B=3, SOLVED: 3, law='coulomb', n=4, residual=": many,
        "BatchGuess(law='coulomb', keys=(": many.guess,
        f"Demand(q_ddot=array({robot.na},), change=0.0)": Demand(q_ddot=scene.q_ddot),
    }
    for start, record in expected.items():
        text = repr(record)
        assert start in text
        assert "\n" not in text
        assert len(text) <= 320, text
    many = scene.contacts.take(np.zeros(500, dtype=np.int64))
    assert len(repr(many)) < 200
    assert "… 500 in all" in repr(many)
    assert repr(scene.contacts.take(np.zeros(0, dtype=np.int64))) == "ContactSet(n=0, keys=(), gaps=- m, mu=-)"
