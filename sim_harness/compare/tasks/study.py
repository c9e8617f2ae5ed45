"""Task controllers on the same robot, references, gains, limits and world: `idyn compare tasks`.

`idyn.tasks` runs in this process, TSID and placo in processes with an interpreter of their own: their versions of Pinocchio
differ, and must not be loaded together.
"""

from pathlib import Path

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.compare.studies import PEERS
from sim_harness.compare.study import Figures, Picture, Study, Sweep
from sim_harness.compare.tasks.peer import PeerController
from sim_harness.compare.tasks.runs import (
    DT,
    RUNS,
    SECONDS,
    SETTLED,
    OwnController,
    TaskFigures,
    TaskRun,
    run_controller,
    stance,
    targets_of,
)
from sim_harness.report.plots import Line, Plot, picture
from sim_harness.report.tables import Table

OWN = "idyn"

HEAD = (
    "run",
    "controller",
    "tracking, rms [mm]",
    "tilt, rms [mrad]",
    "forces, rms [N]",
    "asked force [N]",
    "mean |dτ/dt| [N·m/s]",
    "upright",
    "run time [µs]",
)


def figures_of(at: tuple[Robot, Array], run: TaskRun, python: Path | None, name: str) -> TaskFigures | None:
    """Return the figures of a controller; None for a run that it has no task for.

    python: interpreter of another project's environment; None for `idyn.tasks`
    """
    robot, q = at
    targets = targets_of(run, robot, q, SECONDS)
    if python is None:
        return run_controller(robot, q, run, targets, OwnController(robot, q, run, targets))
    if run.presses is not None and name == "placo":
        return None
    controller = PeerController(name, python, robot, q, run, targets)
    try:
        return run_controller(robot, q, run, targets, controller)
    finally:
        controller.close()


def task_table(found: Figures) -> Table:
    """Return the table of all runs and controllers."""
    body = []
    for (run, name), f in found["tasks"].items():
        if f is None:
            body.append([run, name, "no task for contact forces", *["–"] * (len(HEAD) - 3)])
            continue
        figures = [_short(x) for x in (f.tracking, f.tilt, f.force, f.pressing, f.rate)]
        upright = "yes" if f.fell == np.inf else f"fell at {f.fell:.1f} s"
        body.append([run, name, *figures, upright, f"{1e6 * f.seconds:.0f}"])
    return [[*HEAD], *body]


def _short(value: float) -> str:
    """Return a number with two digits, or with all digits before the point; a dash for NaN."""
    if np.isnan(value):
        return "–"
    return f"{value:.2g}" if value < 100.0 else f"{value:.0f}"


def error_picture(found: Figures) -> bytes:
    """Draw the position errors over time, one panel for each run."""
    panels = []
    for run in dict.fromkeys(run for run, _ in found["tasks"]):
        lines: dict[str, Line] = {
            name: (SETTLED + DT * np.arange(len(f.errors)), f.errors)
            for (other, name), f in found["tasks"].items()
            if other == run and f is not None and f.fell == np.inf
        }
        axes = {"title": run, "xlabel": "time [s]", "ylabel": "position error [mm]"}
        panels.append(Plot(lines=lines, legend=True, axes=axes, log="y", width=0.8))
    return picture(panels, size=(7.0, 2.4 * len(panels)))


def study(tsid: Path | None, placo: Path | None) -> Study:
    """Return the study. tsid, placo: interpreters of environments with these projects; None: without them"""
    peers, at = {name: path for name, path in zip(PEERS, (tsid, placo), strict=True) if path is not None}, stance()
    controllers = {OWN: (None, OWN), **{name: (peers[name], name) for name in PEERS if name in peers}}
    missing = [name for name in PEERS if name not in peers]
    notes = [
        "Forces: normal forces of the feet in the world minus those that the controller computes. Asked force: largest error "
        "of the force that is asked of a foot. Run time: median, from state and targets to torques, with calls from "
        "Python. Figures of a robot that falls are those of the second half of its time, or from 3 s on."
    ]
    if missing:
        notes.append(f"Left out: {', '.join(missing)} ({' and '.join(f'--{name} PYTHON' for name in missing)} not given).")
    return Study(
        "Tasks",
        "go2 in MuJoCo with its default ground, 1 kHz; the same references, gains (100, 20), friction margin (5 %) and limits.",
        sweeps={"tasks": Sweep((RUNS, controllers), lambda run, which: figures_of(at, run, *which))},
        tables=(task_table,),
        pictures=(Picture("tasks", "Position error of the trunk, or of the free foot.", error_picture),),
        notes=lambda _: notes,
    )
