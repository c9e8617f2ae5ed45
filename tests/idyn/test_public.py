"""Public names of `idyn`: types for `mypy --strict`, `help`, and short representations."""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import numpy as np
import pytest
import urdf
from fast import every
from scenes import DT, standing_scene

import idyn
from idyn import Batch, Status, make_law, predict, predict_batch
from idyn.types import Demand

FEET = [
    urdf.link(f"{side}_foot", 2.0, 1.0)
    + urdf.joint(side, "trunk", f"{side}_foot", axis="0 1 0", at=(0, y, 0), limits=(-1, 1, 100, 10))
    for side, y in (("left", 0.2), ("right", -0.2))
]
URDF = urdf.robot("biped", urdf.link("trunk", 2.0, 1.0), *FEET)
"""Two soles on the ground, for the example of `help(idyn)`."""


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
