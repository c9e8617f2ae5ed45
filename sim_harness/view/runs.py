"""Recorded runs to show, read from folders or logs."""

import json
from pathlib import Path

import msgspec

from controllers.build import controller_from_snapshot
from controllers.config.loading import find, load
from controllers.controller import Controller
from controllers.robot.load import RobotSettings, urdf_path
from idyn.errors import ConfigError
from idyn.types import Record
from sim_harness.measure.trace import Trace
from sim_harness.measure.verdict import Verdict
from sim_harness.run.experiment import CONTROLLER, SUMMARY, TRACE
from sim_harness.run.logs import logged_runs


class Judged(msgspec.Struct, frozen=True):
    """The part of the figures of a run that a view shows."""

    verdict: Verdict


class RecordedRun(Record, frozen=True):
    """A run to show. controller: its robot and the ground in its settings are drawn; verdict: how it ended"""

    label: str
    controller: Controller
    trace: Trace
    verdict: Verdict


def read_runs(path: Path) -> list[RecordedRun]:
    """Read the run in a folder, the runs in its subfolders, or the sessions of a log.

    Raises ConfigError without a run, LogError for a malformed log.
    """
    if path.suffix == ".mcap":
        runs = [
            RecordedRun(label=run.label, controller=run.controller, trace=run.trace, verdict=run.verdict)
            for run in logged_runs(path)
        ]
    else:
        folders = [path] if (path / TRACE).is_file() else sorted(file.parent for file in path.glob(f"*/{TRACE}"))
        runs = [read_run(folder) for folder in folders]
    found = [run for run in runs if len(run.trace)]
    if not found:
        raise ConfigError(str(path), f"expected a log.mcap with states, or a folder with {TRACE} in it or in a subfolder")
    return found


def read_run(folder: Path) -> RecordedRun:
    """Read the run that `Run.save` wrote to a folder. Raises ConfigError."""
    try:
        controller = controller_from_snapshot(json.loads((folder / CONTROLLER).read_text(encoding="utf-8")))
        trace = Trace.load_npz(folder / TRACE)
        verdict = msgspec.json.decode((folder / SUMMARY).read_bytes(), type=Judged).verdict
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(str(folder), f"expected {TRACE}, {CONTROLLER} and {SUMMARY} of a run ({error})") from error
    return RecordedRun(label=folder.name, controller=controller, trace=trace, verdict=verdict)


def mesh_folders(controller: Controller) -> list[Path]:
    """Return all parent folders of the URDF of the controller's robot; [] if this machine does not have the file."""
    name = controller.settings.robot
    try:
        urdf = load("robots", name, RobotSettings).urdf
        return list(urdf_path(urdf, find("robots", name).parent).resolve().parents)
    except ConfigError:
        return []
