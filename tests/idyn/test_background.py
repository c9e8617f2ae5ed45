"""First answers from an empty kernel cache: interpreted at once, compiled by one other process, which may fail."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
import pytest
from fast import full

from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.prediction.predict import predict
from idyn.types import State

pytestmark = [
    pytest.mark.skipif(numba.config.DISABLE_JIT or os.environ.get("IDYN_JIT") == "plain", reason="compiles nothing, or here"),
    pytest.mark.timeout(300),
]

PRELUDE = """
import json, logging, os, sys, time
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
import numpy as np
from idyn import Flat, State, contacts_from_geometry, load_robot, predict
robot, q = load_robot("quadruped")
state = State(q=q, v=np.zeros(robot.nv))

def touch():
    return contacts_from_geometry(robot, q, Flat(), margin=0.002)

def children():
    tasks = [f"/proc/self/task/{task}/children" for task in os.listdir("/proc/self/task")]
    return [child for task in tasks for child in open(task).read().split()]

def compiled():
    from idyn.contact import contacts, terrain
    return all(kernel.signatures for kernel in (contacts._sphere_contacts, terrain._plane))

def wait(condition, limit=200.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "too late"
        touch()
        time.sleep(0.05)
"""


def start(script, cache, **variables):
    """Start a script with a kernel cache of its own, as a user would: without `IDYN_COMPILE`, unless given."""
    environment = {key: value for key, value in os.environ.items() if key not in ("IDYN_COMPILE", "IDYN_JIT")}
    environment |= {"NUMBA_CACHE_DIR": str(cache), **variables}
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def run(script, cache, **variables):
    """Run it to its end; its output and its log."""
    process = start(script, cache, **variables)
    output, said = process.communicate(timeout=250)
    assert process.returncode == 0, said
    return output, said


def helper_of(said):
    """Process number of the compiler that the log names."""
    return int(re.search(r"process (\d+)", said)[1])


def alive(process):
    status = Path(f"/proc/{process}/status")
    return status.exists() and "State:\tZ" not in status.read_text(encoding="utf-8")


def children(process):
    """Number of the processes that a process has started and that run."""
    found = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += tasks.read_text(encoding="utf-8").split()
        except OSError:  # the thread has ended
            continue
    return sum(map(alive, found))


def end(process):
    if alive(process):
        os.kill(process, signal.SIGKILL)


def stored(cache):
    return sorted(path.name for path in cache.rglob("*.nbi"))


@full
def test_the_first_prediction_is_answered_before_its_kernels_are_compiled(tmp_path):
    """It equals the compiled one bit by bit; the interpreter ends while the compiler, which the log names, goes on."""
    script = """
answer = predict(robot, state, touch(), np.zeros(robot.na), law="coulomb", dt=0.001)
again = predict(robot, state, touch(), np.zeros(robot.na), law="coulomb", dt=0.001, guess=answer.guess)
assert type(answer.iterations) is int and type(again.null_dim) is int and type(again.residuals.worst) is float
time.sleep(1.5)
print(json.dumps([answer.rung, again.rung, *answer.tau, *again.tau, *answer.p, *again.force.ravel()]))
"""
    output, said = run(script, tmp_path)
    helper = helper_of(said)
    try:
        assert alive(helper)
        assert not any("tick" in name for name in stored(tmp_path))
    finally:
        end(helper)
    assert said.count("WARNING") == 2
    assert "compiles kernels" in said
    assert "a prediction takes" in said
    assert "goes on compiling kernels" in said
    robot, q = load_robot("quadruped")
    state, contacts = State(q=q, v=np.zeros(robot.nv)), contacts_from_geometry(robot, q, Flat(), margin=0.002)
    answer = predict(robot, state, contacts, np.zeros(robot.na), law="coulomb", dt=0.001)
    again = predict(robot, state, contacts, np.zeros(robot.na), law="coulomb", dt=0.001, guess=answer.guess)
    assert json.loads(output) == [answer.rung, again.rung, *answer.tau, *again.tau, *answer.p, *again.force.ravel()]


@full
def test_kernels_are_used_when_they_are_compiled(tmp_path):
    """Results before and after are the same; afterwards nothing is left running, and the next start compiles nothing."""
    script = """
first = touch()
wait(compiled)
after = touch()
same = [(getattr(first, name) == getattr(after, name)).all() for name in ("points", "normals", "tangents", "gaps")]
assert all(same), same
wait(lambda: not children())
"""
    _, said = run(script, tmp_path)
    assert "the kernels that were asked for are compiled" in said
    assert "goes on" not in said
    _, said = run("touch(); assert compiled()", tmp_path)
    assert said == ""


@full
def test_a_killed_compiler_is_reported_and_replaced(tmp_path):
    script = """
touch()
wait(children)
os.kill(int(children()[0]), 9)
wait(compiled)
"""
    _, said = run(script, tmp_path)
    assert re.search(r"process \d+, which compiled kernels, ended with exit code -9; this process compiles", said)
    assert stored(tmp_path)


@full
def test_several_processes_share_one_compiler(tmp_path):
    """Each of three answers at once; each kernel is compiled by one process, once."""
    script = """
touch()
print("answered", flush=True)
wait(compiled)
"""
    processes = [start(script, tmp_path) for _ in range(3)]
    most = 0
    while any(each.poll() is None for each in processes):
        most = max(most, sum(children(each.pid) for each in processes))
        time.sleep(0.1)
    for each in processes:
        output, said = each.communicate()
        assert each.returncode == 0, said
        assert output.split() == ["answered"]
    assert most == 1


@full
def test_a_variable_switches_it_off(tmp_path):
    _, said = run("touch(); assert compiled()", tmp_path, IDYN_COMPILE="wait")
    assert "process" not in said
    assert stored(tmp_path)
    assert not (tmp_path / "compiler.lock").exists()


@full
def test_a_cache_that_cannot_be_written_is_no_reason_to_wait(tmp_path):
    """A file stands where the folder is to be: the system administrator may write everywhere else."""
    place = tmp_path / "file"
    place.write_text("")
    _, said = run("touch(); assert compiled()", place / "cache")
    assert "kernels are not cached" in said
    assert "compiles kernels" not in said


def test_an_unknown_value_of_the_variable_is_refused(tmp_path):
    process = start("", tmp_path, IDYN_COMPILE="later")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "ValueError: IDYN_COMPILE: expected 'wait', got 'later'" in said


@full
def test_a_controller_compiles_before_its_first_tick(tmp_path):
    script = """
from idyn import load_controller
touch()
load_controller("quadruped")
touch()
assert compiled()
"""
    run(script, tmp_path)
