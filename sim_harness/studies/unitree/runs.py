"""A Go2 in Unitree's own simulator, which reads joints, IMU and torques only: `idyn compare unitree FOLDER`.

Every run has a simulator, a server and a bridge (`idyn bridge unitree`) of its own, in real time, over DDS. The simulator's
trace is the judge; the controlled side does not read it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import NamedTuple

import msgspec
import numpy as np

from controllers.config.loading import load
from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.compare.study import Figures, Picture, Study, Sweep
from sim_harness.measure.metrics import tracking_errors
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, listed
from sim_harness.run.log_blocks import LogBlocks
from sim_harness.run.server_process import ServerProcess
from sim_harness.studies.unitree.judge import EstimateFigures, EstimateFinder, Walk, judge_estimates, walk_of
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

LAWS = ("coulomb", "no-slip")

DOMAIN = 41
"""DDS domain of the runs."""

REAL_TIME = 0.98
"""A run counts if the simulator has kept this share of real time."""

SETTLE_S, SPARE_S = 10.0, 14.0
"""Time for a server to load its fallback [s], and time of a simulator beside the steps of a script [s]."""

SLOW = 0.01
"""A lower speed is commanded to trot in place [m/s]."""

FELL_RAD = 0.5
"""Tilt from which a robot has fallen [rad]."""


class Outcome(NamedTuple):
    """A run.

    ended: '' if the script was completed, otherwise why not; real_time: share of real time of the simulator
    rate: answered states per second [1/s]; gap: longest time between two of them [s]; served: share answered with `ok`
    walks: by step of the script; tilt: largest [rad]; torque_rate: mean |dτ/dt| [N·m/s]; tracking: mean |error| [rad]
    estimates: None if no state was served; heights: time [s] and height of the base [m] (2, n), for the picture
    """

    ended: str
    real_time: float
    rate: float = 0.0
    gap: float = np.nan
    served: float = 0.0
    walks: tuple[Walk, ...] = ()
    tilt: float = np.nan
    torque_rate: float = np.nan
    tracking: float = np.nan
    estimates: EstimateFigures | None = None
    heights: Array | None = None


def run_once(folder: Path, law: str, steps: list[Step]) -> Outcome:
    """Run the steps in the simulator once. folder: of the simulator, with `headless.py`"""
    with TemporaryDirectory(prefix="idyn-") as here:
        place = Path(here)
        log, trace, script, figures = (place / name for name in ("run.mcap", "trace.npz", "steps.txt", "figures.json"))
        script.write_text("".join(_line(step) for step in steps), encoding="utf-8")
        settings = load("server", "go2-unitree", ServerSettings)
        settings = msgspec.structs.replace(settings, law=law, endpoint=f"ipc://{place}/server")
        seconds = sum(step.seconds for step in steps) + SPARE_S
        command = [sys.executable, str(folder / "headless.py"), "--robot", "go2", "--domain", str(DOMAIN)]
        command += ["--seconds", str(seconds), "--trace", str(trace)]
        environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        with ServerProcess(settings, log_path=log) as server:
            sleep(SETTLE_S)
            with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as simulator:
                bridge = [sys.executable, "-m", "sim_harness", "bridge", "unitree", "--robot", "go2", "--domain", str(DOMAIN)]
                bridge += ["--script", str(script), "--yes", "--connect", server.endpoint, "--json", str(figures)]
                done = subprocess.run(bridge, capture_output=True, text=True, check=False, timeout=seconds + 60.0)
                simulator.wait(timeout=seconds + 60.0)
        if not figures.exists():
            raise ConfigError("bridge", done.stderr.strip() or done.stdout.strip())
        truth = read_truth(trace)
        return _judged(folder, truth, float(truth.t[-1]) / seconds, log, json.loads(figures.read_text()), steps)


def _line(step: Step) -> str:
    numbers = (*step.velocity, step.seconds) if step.seconds else ()
    return " ".join([step.word, *(f"{value:g}" for value in numbers)]) + "\n"


def _judged(folder: Path, truth: Truth, real_time: float, log: Path, said: dict[str, object], steps: list[Step]) -> Outcome:
    """Return the figures of a run. said: by the bridge"""
    modes: dict[str, int] = said["modes"]  # type: ignore[assignment]
    answered, periods = int(said["answered"]), said["period_ms"]  # type: ignore[call-overload]
    found = Outcome(str(said["ended"]), real_time)
    model, errors = UnitreeModel(folder / "sim/unitree_robots/go2/go2.xml"), []
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
    walks = tuple(walk_of(served, served.t - served.t[0], [step for step in steps if step.seconds]))
    moving = [walk for walk in walks if np.hypot(walk.asked[0], walk.asked[1]) > SLOW]
    way = sum(float(np.hypot(walk.forward, walk.left)) for walk in moving)
    feet = tuple(key.removesuffix("_foot") for key in robot.spheres.keys)
    tilt, dt = float(served.tilt.max()), float(np.median(np.diff(served.t)))
    return found._replace(
        ended="fell" if tilt > FELL_RAD else found.ended,
        rate=answered / (1e-3 * periods[0] * answered) if periods else 0.0,  # type: ignore[index]
        gap=1e-3 * periods[2] if periods else np.nan,  # type: ignore[index]
        served=modes.get("ok", 0) / max(sum(modes.values()), 1),
        walks=walks,
        tilt=tilt,
        torque_rate=float(np.abs(np.diff(served.torques, axis=0)).mean() / dt),
        tracking=float(np.nanmean(np.concatenate(errors))),
        estimates=judge_estimates(estimates, truth.taken(estimates.rows), model, feet, way),
        heights=np.array([served.t - served.t[0], served.q[:, 2]]),
    )


def tasks_table(found: Figures) -> Table:
    """Return what the robot did in each run."""
    columns = {
        "ended": lambda o: o.ended or "complete",
        "× real time": lambda o: f"{o.real_time:.3f}",
        "states/s": lambda o: f"{o.rate:.0f}",
        "longest gap ms": lambda o: _n(1e3 * o.gap),
        "ok %": lambda o: f"{100 * o.served:.2f}",
        "way of the steps": lambda o: "; ".join(map(_walk, o.walks)),
        "tilt mrad": lambda o: _n(1e3 * o.tilt),
        "mean abs dτ/dt N·m/s": lambda o: _n(o.torque_rate),
        "tracking mrad": lambda o: _n(1e3 * o.tracking),
    }
    return listed("run", [(", ".join(labels), o) for labels, o in found["runs"].items()], columns)


def _walk(walk: Walk) -> str:
    """Return the way along the commanded velocity, of a step with one; otherwise the displacement."""
    forward, left, turn = walk.asked
    if abs(turn) > max(abs(forward), abs(left)):
        return f"{walk.turned:.2f} rad"
    if abs(left) > abs(forward):
        return f"{walk.left:.2f} m left"
    return f"{walk.forward:.2f} m" if abs(forward) > SLOW else f"{100 * np.hypot(walk.forward, walk.left):.1f} cm"


def estimates_table(found: Figures) -> Table:
    """Return the errors of the estimates of each run."""
    columns = {
        "v_x, v_y, v_z mm/s rms": lambda e: _list(e.velocity),
        "tilt mrad": lambda e: _n(1e3 * e.tilt),
        "height mm": lambda e: _n(1e3 * e.height),
        "drift % of way": lambda e: _n(100 * e.drift),
        "feet right % trotting": lambda e: f"{100 * e.right:.2f}",
        "touchdown ms p50, p95": lambda e: _list(e.touchdown),
        "lift-off ms p50, p95": lambda e: _list(e.liftoff),
    }
    served = [(", ".join(labels), o.estimates) for labels, o in found["runs"].items() if o.estimates is not None]
    return listed("run", served, columns)


def _list(values: Array) -> str:
    return ", ".join(_n(1e3 * value) for value in values)


def _n(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "–"


def shares(found: Figures) -> list[str]:
    """Return how many runs of each law were complete."""
    texts = []
    for law in LAWS:
        outcomes = [o for (_, each), o in found["runs"].items() if each == law]
        kept = [o for o in outcomes if o.real_time >= REAL_TIME]
        complete = sum(not o.ended for o in kept)
        slower = f"; {len(outcomes) - len(kept)} more below {REAL_TIME:g} of real time" if len(kept) < len(outcomes) else ""
        texts.append(f"{law}: {complete} of {len(kept)} runs complete{slower}")
    return texts


def heights(found: Figures) -> bytes:
    """Draw the height of the base over time, one line for each run, and a panel for each law."""
    panels = []
    for law in LAWS:
        lines = {run: tuple(o.heights) for (run, each), o in found["runs"].items() if each == law and o.heights is not None}
        panels.append(Plot(lines=lines, width=0.6, axes={"title": law, "ylabel": "height of the base [m]"}))
    return picture(panels)


def study(folder: Path, runs: int, script: Path | None = None) -> Study:
    """Return the study. folder: of the simulator, with `headless.py`; runs: of each law, in turns; script: None: `SCRIPT`

    Raises ConfigError for a folder without it.
    """
    if not (folder / "headless.py").exists():
        raise ConfigError("unitree", f"expected a folder with headless.py, which starts Unitree's simulator, got {folder}")
    steps = parse_script(SCRIPT, "script") if script is None else parse_script(script.read_text(encoding="utf-8"), str(script))
    numbers = [str(k + 1) for k in range(runs)]
    return Study(
        "A Go2 in Unitree's simulator",
        "Joints, IMU and torques only, over DDS, in real time: " + ", ".join(_line(step).strip() for step in steps) + ".",
        sweeps={"runs": Sweep((numbers, LAWS), lambda _, law: run_once(folder, law, steps))},
        tables=(tasks_table, estimates_table),
        notes=shares,
        pictures=(Picture("heights", "Height of the base, by the simulator's trace.", heights),),
    )
