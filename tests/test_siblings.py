"""A folder with packages of the same names as idyn's breaks nothing: the console script, `python -c`, `python -m`, a script."""

import subprocess
import sys
from pathlib import Path

import pytest
from fast import first_is_fast

import idyn
from idyn.siblings import NAMES

SCRIPT = str(Path(sys.executable).with_name("idyn"))
LOAD = "import idyn; robot, q = idyn.load_robot('quadruped'); print(robot.na)"
COMMANDS = {
    "import": ([sys.executable, "-c", LOAD], "12"),
    "module": ([sys.executable, "-m", "idyn", "list", "robots"], "quadruped"),
    "harness": ([sys.executable, "-m", "sim_harness", "list", "robots"], "quadruped"),
    "script": ([SCRIPT, "list", "robots"], "quadruped"),
    "client": ([sys.executable, "-c", "from idyn import *; print(RobotClient, Failsafe)"], "failsafe.Failsafe"),
}


@pytest.fixture(params=first_is_fast(["packages", "folders", "modules"]))
def folder(request, tmp_path):
    """A user's folder with packages, plain folders, or modules of the names."""
    for name in NAMES:
        if name == "sim_harness":  # `python -m sim_harness` means the user's own
            continue
        if request.param == "modules":
            (tmp_path / f"{name}.py").write_text("mine = True\n", encoding="utf-8")
            continue
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.toml").write_text("", encoding="utf-8")
        if request.param == "packages":
            (tmp_path / name / "__init__.py").write_text("mine = True\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", first_is_fast(COMMANDS, 2))
def test_other_packages_of_the_same_names_break_nothing(folder, name):
    command, expected = COMMANDS[name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(code, encoding="utf-8")
    return subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False)


def test_a_hidden_package_is_named_and_one_that_was_imported_before(tmp_path):
    (tmp_path / "controllers.py").write_text("mine = True\n", encoding="utf-8")
    done = run(tmp_path, LOAD)
    assert done.returncode == 0
    assert f"hides {tmp_path / 'controllers.py'}" in done.stderr
    done = run(tmp_path, f"import controllers\n{LOAD}")
    assert done.returncode == 1
    assert f"{tmp_path / 'controllers.py'} was imported under this name" in done.stderr


def test_what_an_own_program_needs_is_public():
    """The names that the guides use."""
    assert {"load_robot", "load_controller", "RobotClient", "StateMessage", "Contact", "Failsafe"} <= set(idyn.__all__)
