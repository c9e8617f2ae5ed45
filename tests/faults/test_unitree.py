"""Faults of a Go2 behind its own interface, in Unitree's simulator: what breaks, and what the motors got."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from faults import told

from controllers.robot.load import load_robot
from sim_harness.run.server_process import ServerProcess
from sim_harness.studies.unitree_simulator import read_truth
from transport.server.settings import ServerSettings

UNITREE = Path(__file__).parents[2].parent / "shared" / "third_party" / "unitree"
needs_unitree = pytest.mark.skipif(not UNITREE.is_dir(), reason="Unitree's simulator is not beside the project")

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
HERE, THERE = 60 + WORKER, 80 + WORKER  # DDS domains of the bridge and of the simulator

BEGIN_S, SERVED_S, SECONDS = 4.0, 5.0, 22.0
"""When a fault begins, after the first command; time that the server answers; time of the simulator [s]."""


class Seen(NamedTuple):
    """ended: by the bridge; ok: share of the answers; torques: of the motors [N·m]; heights [m]; tilts [rad]: standing"""

    ended: str
    ok: float
    torques: np.ndarray
    heights: np.ndarray
    tilts: np.ndarray

    @property
    def stood(self) -> bool:
        """Whether the robot stood from its rise until it was laid down."""
        standing = self.heights > 0.28
        return bool(standing.sum() * 0.002 > SERVED_S and self.tilts[standing].max() < 0.2)


def trial(fault: str, folder: Path, *, kill: bool = False) -> Seen:
    """Stand up, stand by a server while something breaks, and lie down."""
    environment = os.environ | {"PYTHONPATH": str(UNITREE), "PYTHONDONTWRITEBYTECODE": "1"}
    trace, script, figures = folder / "trace.npz", folder / "script.txt", folder / "figures.json"
    script.write_text(f"stand {SERVED_S:g}\nlie\n")
    simulator = [sys.executable, str(UNITREE / "headless.py"), "--robot", "go2", "--seconds", str(SECONDS)]
    simulator += ["--domain", str(THERE), "--trace", str(trace)]
    relay = [sys.executable, str(Path(__file__).parent / "relay.py"), str(THERE), str(HERE), fault, str(BEGIN_S)]
    bridge = [sys.executable, "-m", "sim_harness", "bridge", "unitree", "--robot", "go2-unitree", "--yes"]
    settings = ServerSettings(controller="go2-unitree", endpoint=f"ipc://{folder}/server")
    with ServerProcess(settings) as server:
        running = [subprocess.Popen(simulator, env=environment, stdout=subprocess.DEVNULL)]
        running.append(subprocess.Popen(relay, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}))
        try:
            bridge += ["--domain", str(HERE), "--script", str(script), "--connect", server.endpoint, "--json", str(figures)]
            with subprocess.Popen(bridge, stdout=subprocess.DEVNULL) as robot:
                if kill:
                    time.sleep(9.0)
                    robot.send_signal(signal.SIGKILL)
                robot.wait(timeout=60)
            running[0].wait(timeout=60)
        finally:
            for process in running:
                process.kill()
                process.wait()
    said = json.loads(figures.read_text()) if figures.exists() else {"ended": "killed", "modes": {}}
    truth = read_truth(trace)
    modes = said["modes"]
    return Seen(said["ended"], modes.get("ok", 0) / max(sum(modes.values()), 1), truth.torques, truth.q[:, 2], truth.tilt)


def within_limits(seen: Seen) -> bool:
    """All legs have the same limits, so that the order of the legs does not matter; messages have single precision."""
    most = load_robot("go2-unitree")[0].limits.tau_max
    return bool((np.abs(seen.torques).max(axis=0) <= most + 1e-3).all())


GOES_ON = [("1 % lost", 0.9), ("10 % lost", 0.8), ("20 ms lost", 0.8), ("50 ms lost", 0.5), ("some checksums", 0.8)]
"""What breaks, and the least share of states that are answered with `ok`."""

ENDS = [  # what breaks, and why the bridge ends
    ("300 ms lost", "no state for 0.1 s"),
    ("cable", "no state for 0.1 s"),
    ("checksums", "no state for 0.1 s"),
    ("motor", "hot motor"),
    ("battery", "low voltage"),
    ("IMU", "the IMU repeats itself"),
    ("remote", "stopped by the remote control"),
]


@pytest.mark.unitree
@needs_unitree
@told("Go2: 1 or 10 % of the states are lost", "–", "goes on")
@told("Go2: no state for 20 or 50 ms", "–", "goes on")
@told("Go2: a tenth of the states has a wrong checksum", "–", "goes on")
@pytest.mark.parametrize(("fault", "ok"), GOES_ON, ids=[fault for fault, _ in GOES_ON])
def test_the_robot_goes_on(fault, ok, tmp_path):
    seen = trial(fault, tmp_path)
    assert seen.ended == ""
    assert seen.ok > ok
    assert seen.stood
    assert within_limits(seen)


@pytest.mark.unitree
@needs_unitree
@told("Go2: no state for 0.1 s, cable out, or every checksum wrong", "–", "damps; the bridge ends")
@told("Go2: a motor at 95 °C", "`hot motor …`", "damps; the bridge ends")
@told("Go2: supply at 23 V", "`low voltage …`", "damps; the bridge ends")
@told("Go2: the IMU repeats its numbers", "–", "damps; the bridge ends")
@told("Go2: L2 and B on the remote control", "–", "damps; the bridge ends")
@pytest.mark.parametrize(("fault", "says"), ENDS, ids=[fault for fault, _ in ENDS])
def test_the_bridge_damps_and_ends(fault, says, tmp_path):
    seen = trial(fault, tmp_path)
    assert says in seen.ended
    assert within_limits(seen)
    end = seen.torques[-250:]  # the last half second: a robot that lies or sinks, and is braked
    assert seen.heights[-1] < 0.25
    assert np.abs(end).max() < 5.0


@pytest.mark.unitree
@needs_unitree
@told(
    "Go2: the bridge is killed (−9)", "–", "the motors keep their last command; in the simulator its torque, without feedback"
)
def test_the_bridge_is_killed(tmp_path):
    seen = trial("1 % lost", tmp_path, kill=True)
    assert seen.ended == "killed"
    assert within_limits(seen)
    assert not np.ptp(seen.torques[-250:], axis=0).any()
