"""What there is to look at: runs by their folders, or recorded logs."""

import json
from pathlib import Path

from controllers.build import controller_from_snapshot
from controllers.config.loading import find, load
from controllers.controller import Controller
from controllers.robot.load import RobotSettings, urdf_path
from idyn.errors import ConfigError
from idyn.types import Record
from sim_harness.measure.trace import Trace
from sim_harness.run.experiment import CONTROLLER, TRACE
from sim_harness.run.logs import traces_of


class Scene(Record, frozen=True):
    """A run with what it takes to show it: label for the reader; controller: its robot, and the ground it believes in."""

    label: str
    controller: Controller
    trace: Trace


def read_scenes(path: Path) -> list[Scene]:
    """The run in a folder, or those in its folders; or the sessions of a log.

    Raises ConfigError where there is none, LogError for a log that cannot be read.
    """
    if path.suffix == ".mcap":
        scenes = [Scene(label=label, controller=controller, trace=trace) for label, controller, trace, _ in traces_of(path)]
    else:
        folders = [path] if (path / TRACE).is_file() else sorted(file.parent for file in path.glob(f"*/{TRACE}"))
        scenes = [read_scene(folder) for folder in folders]
    shown = [scene for scene in scenes if len(scene.trace)]
    if not shown:
        raise ConfigError(str(path), f"expected a log.mcap, or a folder with {TRACE} in it or in its folders")
    return shown


def read_scene(folder: Path) -> Scene:
    """The run that `Run.save` left in a folder. Raises ConfigError."""
    try:
        controller = controller_from_snapshot(json.loads((folder / CONTROLLER).read_text(encoding="utf-8")))
        trace = Trace.load_npz(folder / TRACE)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(str(folder), f"expected {TRACE} and {CONTROLLER} of a run ({error})") from error
    return Scene(label=folder.name, controller=controller, trace=trace)


def mesh_folders(controller: Controller) -> list[Path]:
    """The folders above the URDF of the controller's robot; none when that is not on this machine."""
    name = controller.settings.robot
    try:
        urdf = load("robots", name, RobotSettings).urdf
        return list(urdf_path(urdf, find("robots", name).parent).resolve().parents)
    except ConfigError:
        return []
