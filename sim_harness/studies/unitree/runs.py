"""A Go2 in Unitree's own simulator, which reads joints, IMU and torques only: `idyn compare unitree FOLDER`.

Every run has a simulator, a server and a bridge (`idyn bridge unitree`) of its own, in real time, over DDS. The simulator's
trace is the judge; the controlled side does not read it.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any, NamedTuple

import msgspec
import numpy as np

from controllers.config.loading import load
from idyn.errors import ConfigError
from sim_harness.compare.study import Picture, Study, Sweep
from sim_harness.measure.metrics import tracking_errors
from sim_harness.run.log_blocks import LogBlocks
from sim_harness.run.server_process import ServerProcess
from sim_harness.studies.unitree.judge import EstimateFinder, judge_estimates, walk_of
from sim_harness.studies.unitree.outcomes import (
    LAWS,
    SLOW,
    TARGETS,
    Outcome,
    estimates_table,
    heights,
    loop_table,
    shares,
    tasks_table,
)
from sim_harness.studies.unitree.simulator import MODELS, PushOnBase, SimulatorSetup
from sim_harness.studies.unitree.trace import Truth, UnitreeModel, read_truth
from transport.server.settings import ServerSettings
from transport.unitree.script import Step, parse_script

SCRIPT = """stand 60
velocity 0.001 0 0 30
velocity 0.3 0 0 17.5
velocity 0 0 1 13
velocity 0 0.2 0 6
velocity 0 0 0 3
lie
"""
"""Stand, trot in place, forward 5 m, two turns, sideways 1 m, stand, lie down."""

SCENE_SCRIPT = """stand 10
velocity 0.3 0 0 20
"""
"""On other ground than the flat one: stand, then forward."""

TARGETS_SCRIPT = "stand 20\nlie\n"

DELAYS_SCRIPT = """stand 5
velocity 0.3 0 0 8
velocity 0 0 0 2
lie
"""

DELAYS = (0, 1, 2, 3, 4, 5)
"""Steps after which a command acts, in lock-step."""

G1_SCRIPT = """stand 34
move left_shoulder_pitch_joint=-0.6 right_shoulder_pitch_joint=0.6 3
move left_shoulder_pitch_joint=0.6 right_shoulder_pitch_joint=-0.6 3
move waist_pitch_joint=0.2 4
move waist_pitch_joint=0 16
"""
"""A humanoid: stand, of which it needs 4 s to bend its knees; swing the arms; lean forward; stand, and be pushed."""

G1_PUSH_N, G1_PUSH_S = 34.3, 0.2
"""A tenth of its weight, and for how long."""

G1_PUSHES = tuple(
    PushOnBase(50.0 + 3.0 * k, G1_PUSH_S, (G1_PUSH_N * x, G1_PUSH_N * y, 0.0))
    for k, (x, y) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1)))
)

FLAT = "flat"

DOMAIN = 41
"""DDS domain of the runs."""

SETTLE_S, SPARE_S = 10.0, 14.0
"""Time for a server to load its fallback [s], and time of a simulator beside the steps of a script [s]."""

SLOWEST = 10.0
"""Wall time of a run in lock-step, as a multiple of the simulated time."""

FELL_RAD = 0.5
"""Tilt from which a robot has fallen [rad]."""


LEADS = {
    FLAT: "In real time, on flat ground. targets: stand and lie, without a server.",
    "delays": "In lock-step: each state waits for its command, which acts so many steps later.",
    "g1": f"In real time; in the last step pushes of {G1_PUSH_N:g} N for {G1_PUSH_S:g} s from four sides.",
}


class Setup(NamedTuple):
    """What the runs have in common. folder: of the simulator, with `headless.py`; scene: a file of the robot's, or `FLAT`
    delay: None: in real time; otherwise in lock-step, see `SimulatorSetup`
    """

    folder: Path
    robot: str
    script: str
    scene: str = FLAT
    delay: int | None = None

    @property
    def steps(self) -> list[Step]:
        return parse_script(self.script, "script")


def run_once(setup: Setup, law: str) -> Outcome:
    """Run the script in the simulator once. law: of the server; `TARGETS`: without one, another script"""
    if law == TARGETS:
        setup = setup._replace(script=TARGETS_SCRIPT)
    seconds = sum(step.seconds for step in setup.steps) + SPARE_S
    with TemporaryDirectory(prefix="idyn-") as here:
        place = Path(here)
        log, trace, script, figures = (place / name for name in ("run.mcap", "trace.npz", "steps.txt", "figures.json"))
        script.write_text(setup.script, encoding="utf-8")
        bridge = [sys.executable, "-m", "sim_harness", "bridge", "unitree", "--robot", setup.robot, "--domain", str(DOMAIN)]
        bridge += ["--script", str(script), "--yes", "--json", str(figures)]
        longest = (SLOWEST if setup.delay is not None else 1.0) * seconds + 60.0
        with ExitStack() as server:
            if law != TARGETS:
                bridge += ["--connect", server.enter_context(_server(setup.robot, law, place, log)).endpoint]
                sleep(SETTLE_S)
            with _simulator(setup, seconds, trace) as simulator:
                done = subprocess.run(bridge, capture_output=True, text=True, check=False, timeout=longest)
                if simulator.wait(timeout=longest):
                    raise ConfigError("unitree", f"the simulator ended with exit code {simulator.returncode}, see above")
        if not figures.exists():
            raise ConfigError("bridge", done.stderr.strip() or done.stdout.strip())
        truth = read_truth(trace)
        found = _bridged(json.loads(figures.read_text()), float(truth.t[-1]) / seconds)
        return found if law == TARGETS else _judged(setup, truth, log, found)


def _simulator(setup: Setup, seconds: float, trace: Path) -> "subprocess.Popen[bytes]":
    """Start the simulator: a Go2's in real time as it is, the others in a loop of our own."""
    if setup.robot == "go2" and setup.delay is None:
        command = [str(setup.folder / "headless.py"), "--robot", "go2", "--domain", str(DOMAIN)]
        command += ["--seconds", str(seconds), "--trace", str(trace), "--scene", setup.scene]
    else:
        ours = SimulatorSetup(str(setup.folder), setup.robot, DOMAIN, seconds, str(trace), delay=setup.delay)
        if setup.robot == "g1":
            ours.hold, ours.pushes = True, G1_PUSHES
        file = trace.with_name("simulator.json")
        file.write_bytes(msgspec.json.encode(ours))
        command = ["-m", "sim_harness.studies.unitree.simulator", str(file)]
    environment = os.environ | {"PYTHONPATH": str(setup.folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen([sys.executable, *command], env=environment, stdout=subprocess.DEVNULL)


def _server(robot: str, law: str, place: Path, log: Path) -> ServerProcess:
    settings = load("server", f"{robot}-unitree", ServerSettings)
    return ServerProcess(msgspec.structs.replace(settings, law=law, endpoint=f"ipc://{place}/server"), log_path=log)


def _bridged(said: dict[str, Any], real_time: float) -> Outcome:
    """Return the figures of the bridge. said: by its `--json`"""
    modes, delays = said["modes"], said["delay_us"] or [np.nan] * 3
    median, _, longest = said["period_ms"] or [np.nan] * 3
    return Outcome(
        ended=said["ended"],
        real_time=real_time,
        rate=1e3 / median,
        gap=1e-3 * longest,
        served=modes.get("ok", 0) / max(sum(modes.values()), 1),
        answered=said["answered"],
        missed=said["missed"],
        delays=(1e-6 * delays[0], 1e-6 * delays[1]),
    )


def _judged(setup: Setup, truth: Truth, log: Path, found: Outcome) -> Outcome:
    """Return the figures of a run with a server. found: the bridge's"""
    model, errors = UnitreeModel(setup.folder / "sim/unitree_robots" / setup.robot / MODELS[setup.robot]), []
    with LogBlocks(log) as recorded:
        robot = recorded.controller.robot
        matched = EstimateFinder(model.joints(truth.q, robot.joint_names))
        for block in recorded.blocks():
            matched.add(block.exchanges)
            errors.append(np.abs(tracking_errors(block.trace, robot)))
    if not errors:
        return found
    estimates = matched.found()
    served = truth.taken(np.arange(estimates.rows[0], estimates.rows[-1] + 1))
    walks = tuple(walk_of(served, served.t - served.t[0], [step for step in setup.steps if step.seconds]))
    moving = [walk for walk in walks if np.hypot(walk.asked[0], walk.asked[1]) > SLOW]
    way = sum(float(np.hypot(walk.forward, walk.left)) for walk in moving)
    feet = tuple(key.removesuffix("_foot") for key in robot.spheres.keys) if setup.robot == "go2" else ()
    tilt, dt = float(served.tilt.max()), float(np.median(np.diff(served.t)))
    return found._replace(
        ended="fell" if tilt > FELL_RAD else found.ended,
        walks=walks,
        tilt=tilt,
        torque_rate=float(np.abs(np.diff(served.torques, axis=0)).mean() / dt),
        tracking=float(np.nanmean(np.concatenate(errors))),
        estimates=judge_estimates(estimates, truth.taken(estimates.rows), model, feet, way),
        heights=np.array([served.t - served.t[0], served.q[:, 2]]),
    )


def study(folder: Path, runs: int, what: str = FLAT) -> Study:
    """Return the study. folder: of the simulator, with `headless.py`; runs: of each law, in turns
    what: `FLAT` or a scene of the Go2's; 'g1': a humanoid that stands; 'delays': one run with each of `DELAYS`, in lock-step

    Raises ConfigError for a folder or a scene that is not there.
    """
    if not (folder / "headless.py").exists():
        raise ConfigError("unitree", f"expected a folder with headless.py, which starts Unitree's simulator, got {folder}")
    scenes = sorted(path.name for path in (folder / "sim/unitree_robots/go2").glob("scene*.xml"))
    variants = {scene: Setup(folder, "go2", SCENE_SCRIPT, scene) for scene in scenes} | {
        FLAT: Setup(folder, "go2", SCRIPT),
        "delays": Setup(folder, "go2", DELAYS_SCRIPT),
        "g1": Setup(folder, "g1", G1_SCRIPT),
    }
    if what not in variants:
        raise ConfigError("unitree", f"expected one of {', '.join(variants)}, got '{what}'")
    setup = variants[what]
    sweep = Sweep(
        ([str(k + 1) for k in range(runs)], (*LAWS, TARGETS) if what == FLAT else LAWS), lambda _, law: run_once(setup, law)
    )
    if what == "delays":
        delays = {f"{delay} steps": delay for delay in DELAYS}
        sweep = Sweep((delays, LAWS), lambda delay, law: run_once(setup._replace(delay=delay), law))
    return Study(
        f"A {setup.robot.title()} in Unitree's simulator",
        f"Joints, IMU and torques only, over DDS. {LEADS.get(what, f'In real time; ground: {what}.')} Script: "
        + ", ".join(setup.script.split("\n")),
        sweeps={"runs": sweep},
        tables=(tasks_table, estimates_table, *((loop_table,) if what == FLAT else ())),
        notes=shares,
        pictures=(Picture("heights", "Height of the base, by the simulator's trace.", heights),),
    )
