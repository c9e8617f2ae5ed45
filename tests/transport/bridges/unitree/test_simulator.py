"""The bridge with Unitree's own simulator, over DDS. Its trace is the judge."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sdk import FOLDER, with_unitree

from controllers.robot.load import load_robot

DOMAIN = str(20 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]))
"""One for each worker: simulators of the same domain would share their topics."""


@pytest.fixture
def simulator(tmp_path):
    """Return a function that starts the simulator for some seconds; it returns what waits for its end and gives the trace."""
    started = []

    def start(robot, seconds, *options):
        trace = tmp_path / "trace.npz"
        environment = os.environ | {"PYTHONPATH": str(FOLDER), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, str(FOLDER / "headless.py"), "--robot", robot, "--seconds", str(seconds), "--domain", DOMAIN]
        command += ["--trace", str(trace), *options]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))

        def end():
            started[-1].wait(timeout=seconds + 30)
            with np.load(trace) as found:
                return found["rows"], int(found["nq"]), int(found["nv"])

        return end

    yield start
    for process in started:
        process.kill()
        process.wait()


def bridge(tmp_path, *options, robot="go2-unitree"):
    command = [sys.executable, "-m", "sim_harness", "bridge", "unitree", "--robot", robot, "--domain", DOMAIN, *options]
    command += ["--json", str(tmp_path / "figures.json")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)


@with_unitree
def test_a_go2_stands_up_and_lies_down(simulator, tmp_path):
    (tmp_path / "script.txt").write_text("stand 3\nlie\n")
    end = simulator("go2", 16)
    done = bridge(tmp_path, "--script", str(tmp_path / "script.txt"), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    (rows, nq, nv), (robot, stance) = end(), load_robot("go2")
    heights, torques = rows[:, 3], rows[:, 1 + nq + nv :]
    assert abs(heights.max() - stance[2]) < 0.03
    standing = heights > 0.3
    assert standing.sum() * 0.002 > 2.5
    assert heights[-1] < 0.12
    tilts = np.arccos(np.clip(1.0 - 2.0 * (rows[standing, 5] ** 2 + rows[standing, 6] ** 2), -1.0, 1.0))
    assert tilts.max() < 0.1
    assert np.abs(torques).max() < robot.limits.tau_max.max()
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["answered"] > 1000, figures["ended"]) == (True, "")


@with_unitree
def test_a_dry_run_sends_nothing(simulator, tmp_path):
    end = simulator("go2", 8)
    shown = bridge(tmp_path, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "FL_calf_joint" in shown.stdout
    rows, nq, nv = end()
    assert not np.ptp(rows[:, 1 + nq + nv :], axis=0).any()  # the torques of the simulator's first pose


@pytest.mark.full
def test_without_a_robot_the_bridge_says_so_and_the_checklist_must_be_confirmed(tmp_path):
    done = bridge(tmp_path, "--dry-run")
    assert done.returncode == 2
    assert "no state within 5 s" in done.stderr
    done = bridge(tmp_path)
    assert done.returncode == 2
    assert "expected a terminal to confirm the checklist, or --yes" in done.stderr
    assert "every process on the network 'lo' can command this robot" in done.stdout


@with_unitree
def test_a_go2_walks_in_lock_step_with_commands_that_act_late():
    """Each state waits for its command, so that the load of the machine does not matter."""
    from sim_harness.studies.unitree import Setup, run_once  # noqa: PLC0415 (needs the extra mujoco)

    found = run_once(Setup(FOLDER, "go2", "go2-unitree", "stand 1\nvelocity 0.3 0 0 3\nlie\n", delay=3), "coulomb")
    assert found.ended == ""
    assert found.tilt < 0.1
    assert found.walks[1].forward > 0.6
    assert found.estimates.right > 0.95
