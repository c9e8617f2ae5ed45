"""The options of the command line: names that they offer, help without numerics, completion, an interrupt."""

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

from controllers.config.tables import kind_of
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
    assert done.stderr.strip() == ""
    assert done.stdout.count("usage: ") == len(options.COMMANDS)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_a_command_and_its_options():
    script = subprocess.run([*IDYN, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    for words, expected in (
        ("idyn sim", {"simulate"}),
        ("idyn simulate --eng", {"--engine"}),
        ("idyn list exp", {"experiments"}),
    ):
        line = (
            f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))",
            f"COMP_LINE='{words}'; COMP_POINT=${{#COMP_LINE}}",
            "$(complete -p idyn | sed 's/.*-F \\([^ ]*\\).*/\\1/')",
            "printf '%s\\n' \"${COMPREPLY[@]}\"",
        )
        found = subprocess.run(
            ["bash", "-c", "\n".join((script, *line))], capture_output=True, text=True, check=True
        ).stdout.split()
        assert set(found) == expected


@pytest.mark.parametrize("library", ["_multiarray_umath", "libllvmlite"])
def test_an_interrupt_while_a_command_loads_is_one_line(library):
    command = ["env", "--default-signal=INT", *IDYN, "simulate", "demo"]  # a shell's background jobs ignore SIGINT
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    maps = Path(f"/proc/{process.pid}/maps")
    while library not in maps.read_text() and process.poll() is None:  # the command is still loading when this appears
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert "Traceback" not in errors
    assert process.returncode == 130
