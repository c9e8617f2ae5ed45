"""Public names of `idyn`: types for `mypy --strict`, `help`, and short representations."""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import numpy as np
import pytest
from fast import every, full
from scenes import DT, standing_scene

import idyn
from idyn import Batch, Status, make_law, predict, predict_batch
from idyn.types import Demand

SCRIPT = """
    import numpy as np
    from numpy.typing import NDArray

    from idyn import (
        Batch,
        BatchPrediction,
        ContactSet,
        Flat,
        Options,
        Prediction,
        Robot,
        Selection,
        State,
        Status,
        contacts_from_geometry,
        make_law,
        predict,
        predict_batch,
    )


    def torques(robot: Robot, state: State, contacts: ContactSet) -> NDArray[np.float64]:
        law, options = make_law("coulomb", edges=8), Options.paper(selection=Selection.TORQUE)
        prediction: Prediction = predict(robot, state, contacts, np.zeros(robot.na), law=law, dt=0.001, options=options)
        if prediction.status is not Status.SOLVED:
            print(prediction.status, prediction.status.sentence)
        return prediction.tau


    def many(robot: Robot, state: State, contacts: ContactSet, demands: NDArray[np.float64]) -> BatchPrediction:
        batch = Batch(state=state, contacts=contacts, q_ddot=demands)
        return predict_batch(robot, batch, law=make_law("no-slip"), dt=0.001)


    robot = Robot.from_urdf("robot.urdf", base="fixed")
    state = State(q=robot.neutral(), v=np.zeros(robot.nv))
    contacts = contacts_from_geometry(robot, state.q, Flat(), margin=0.002)
    print(torques(robot, state, contacts), len(many(robot, state, contacts, np.zeros((3, robot.na)))))
"""
"""A user's program."""

INERTIAL = '<inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'

LEG = """
    <link name="{side}_foot">{inertial}</link>
    <joint name="{side}" type="revolute"><parent link="trunk"/><child link="{side}_foot"/><origin xyz="0 {y} 0"/>
      <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="100" velocity="10"/></joint>
"""

URDF = f"""<robot name="biped"><link name="trunk">{INERTIAL}</link>
    {LEG.format(side="left", y=0.2, inertial=INERTIAL)}
    {LEG.format(side="right", y=-0.2, inertial=INERTIAL)}
</robot>"""
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


@full
def test_a_users_script_passes_mypy_strict(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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
