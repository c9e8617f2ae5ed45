"""The command line: names that it offers, help without numerics, completion, an interrupt; packages of its names beside it."""

import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import get_args

import pytest
from fast import fast, first_is_fast

from controllers.config.tables import kind_of
from idyn.siblings import NAMES
from sim_harness import engines
from sim_harness.commands import options, setup
from sim_harness.compare.studies import PEERS, STUDIES
from sim_harness.world import worlds

IDYN = (sys.executable, "-m", "idyn")
HEAVY = ("numpy", "scipy", "numba", "pinocchio", "matplotlib", "zmq")


def test_the_options_offer_the_names_of_the_code():
    assert set(engines.NAMES) == {kind_of(each) for each in get_args(worlds.AnyEngine)}
    assert set(options.LISTS) == set(setup.LISTS)
    assert all(find_spec(f"sim_harness.studies.peers.{peer}_controller") for peer in PEERS)


def test_every_study_takes_the_options_of_its_row():
    for entry in STUDIES.values():
        study = import_module(entry.module).study
        words = ["folder"] if entry.words else []
        signature(study).bind(*words, **dict.fromkeys(entry.options))


def test_help_of_every_command_loads_no_numerics():
    code = f"""
import sys
from sim_harness.commands.main import build_parser
from sim_harness.commands.options import COMMANDS
for name in COMMANDS:
    try:
        build_parser().parse_args([name, "--help"])
    except SystemExit as end:
        assert end.code == 0
print(*[each for each in {HEAVY} if each in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stderr.strip(), done.stdout.count("usage: ")) == ("", len(options.COMMANDS))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_a_command_and_its_options():
    script = subprocess.run([*IDYN, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    completed = {"idyn sim": {"simulate"}, "idyn simulate --eng": {"--engine"}, "idyn list exp": {"experiments"}}
    for words, expected in completed.items():
        line = (
            f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))",
            f"COMP_LINE='{words}'; COMP_POINT=${{#COMP_LINE}}",
            "$(complete -p idyn | sed 's/.*-F \\([^ ]*\\).*/\\1/')",
            "printf '%s\\n' \"${COMPREPLY[@]}\"",
        )
        command = ["bash", "-c", "\n".join((script, *line))]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert set(found) == expected


def test_an_interrupt_while_a_command_loads_is_one_line():
    command = ["env", "--default-signal=INT", *IDYN, "simulate", "demo"]  # a shell's background jobs ignore SIGINT
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    maps = Path(f"/proc/{process.pid}/maps")
    while "_multiarray_umath" not in maps.read_text() and process.poll() is None:  # the command loads, still
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert "Traceback" not in errors
    assert process.returncode == 130


LOAD = "import idyn; robot, q = idyn.load_robot('quadruped'); print(robot.na)"
COMMANDS = {
    "import": ([sys.executable, "-c", LOAD], "12"),
    "module": ([sys.executable, "-m", "idyn", "list", "robots"], "quadruped"),
    "harness": ([sys.executable, "-m", "sim_harness", "list", "robots"], "quadruped"),
    "script": ([str(Path(sys.executable).with_name("idyn")), "list", "robots"], "quadruped"),
    "client": ([sys.executable, "-c", "from idyn import *; print(RobotClient, Failsafe)"], "failsafe.Failsafe"),
}


@pytest.fixture(params=first_is_fast(["packages", "folders", "modules"]))
def folder(request, tmp_path):
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


@pytest.mark.parametrize("name", fast(COMMANDS, "import"))
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
