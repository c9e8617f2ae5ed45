"""Self-contained HTML page of runs: three.js from the installed Meshcat, our own player, the data."""

import base64
import html
import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from controllers.build import controller_from_snapshot
from controllers.config.loading import find, load
from controllers.controller import Controller
from controllers.robot.load import RobotSettings, urdf_path
from idyn.errors import ConfigError, missing_extra
from idyn.model.robot import Robot
from idyn.types import Array, Record
from sim_harness.measure.trace import Trace
from sim_harness.measure.verdict import Verdict
from sim_harness.run.experiment import CONTROLLER, SUMMARY, TRACE
from sim_harness.run.logs import logged_runs
from sim_harness.shapes import Look, look_of
from sim_harness.view.film import FRAME, Film, Ground, film_of, frame_of, ground_of


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


POINTS = 1000
"""Largest number of intervals of a curve. A run with more ticks keeps the least and the largest value of each interval."""


class Panel(Record, frozen=True):
    """Curves on common axes, in one variant for each choice."""

    title: str
    unit: str
    choices: tuple[str, ...]  # names of the joints or contacts; (''): there is no choice (m)
    lines: dict[str, Array]  # label → values, NaN where unknown (n, m)
    bounds: Array  # lowest and highest permitted value, ±inf: unlimited (m, 2)
    log: bool = False  # whether the axis of the values is logarithmic; they are positive then


def panels_of(controller: Controller, trace: Trace) -> list[Panel]:
    """Return the panels of a run. Contacts that never carry a force are left out, and so are panels without values."""
    robot, free = controller.robot, np.array([[-np.inf, np.inf]])
    most, forces = robot.limits.tau_max, {"world": trace.simulated, "predicted": trace.predicted}
    carries = [i for i in range(len(trace.places)) if any((f[:, i, 0] > 0).any() for f in forces.values())]
    monitor, period = controller.settings.reality.degraded, 1e3 * controller.settings.period
    mismatch = trace.mismatch if len(trace.mismatch) else np.full((len(trace), 2), np.nan)
    misfits = {"motion [g]": mismatch[:, :1], "force [weights]": mismatch[:, 1:]}
    times = {"round trip": 1e3 * trace.round_trip[:, None], "controller": 1e3 * trace.solve_time[:, None]}
    panels = [
        Panel("torque", "N·m", robot.joint_names, {"applied": trace.tau}, np.stack([-most, most], axis=1)),
        Panel(
            "normal force",
            "N",
            tuple(trace.places[i] for i in carries),
            {name: f[:, carries, 0] for name, f in forces.items()},
            np.repeat(free, len(carries), axis=0),
        ),
        Panel("model mismatch", "", ("",), misfits, np.array([[-np.inf, monitor]])),
        Panel("time", "ms", ("",), times, np.array([[-np.inf, period]]), log=True),
    ]
    return [panel for panel in panels if any(np.isfinite(values).any() for values in panel.lines.values())]


def intervals(count: int) -> Array:
    """Return the first rows of at most `POINTS` intervals of equal length, the last of which may be shorter."""
    return np.arange(0, count, -(-count // POINTS))


def extremes(values: Array, starts: Array) -> tuple[Array, Array]:
    """Return the least and the largest value of each column and interval; NaN where there is none."""
    known = np.isfinite(values)
    low = np.minimum.reduceat(np.where(known, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(known, values, -np.inf), starts)
    none = low > high
    return np.where(none, np.nan, low), np.where(none, np.nan, high)


WEIGHT_LENGTH = 1.2  # approximate length of the arrow of a force equal to the robot's weight, as a multiple of the robot's size
SMALLEST = 0.05  # least size of a robot that is used for the camera and the arrows [m]
LIVE_GROUND = 2.0  # distance to which the ground of a live view extends from the robot's initial position [m]
LIBRARY = "meshcat/viewer/dist/main.min.js"  # path of Meshcat's viewer with three.js, below site-packages


PROGRAM = ("stage.js", "marks.js", "plots.js", "player.js")  # files of the player's program, in order


def page_of(title: str, runs: Sequence[RecordedRun], beside: int | None = None) -> str:
    """Return the page of recorded runs. Raises ConfigError without the extra `[viz]`.

    beside: index of the run that is shown with the first one
    """
    controllers = {run.controller.robot.urdf_sha256: run.controller for run in runs}
    data = []
    for run in runs:
        controller = run.controller
        film = film_of(controller.robot, controller.terrain, run.trace, mu=controller.settings.contact.mu)
        path = np.vstack([film.poses[:, _base(controller.robot), :3], film.points.reshape(-1, 3)])
        curves = curves_data(controller, run.trace, int(np.searchsorted(run.trace.t, film.t[-1])) + 1)
        shown = _run(controller, run.label, film, run.trace.modes, path)
        data.append(shown | {"verdict": run.verdict.whole, "curves": curves})
    return page_with(title, _looks(controllers), data, live=False, beside=beside)


def live_page(controller: Controller) -> str:
    """Return the page of a live run, which receives its frames from the URL `frames`. Raises ConfigError without `[viz]`."""
    robot, no_force = controller.robot, np.zeros((len(controller.robot.contact_names), 3))
    frame = frame_of(robot, controller.terrain, controller.stance, (no_force, no_force), controller.settings.contact.mu)
    zero = np.zeros(1)
    film = Film(t=zero, known=True, mode=zero.astype(int), **{name: part[None] for name, part in frame.items()})
    path = film.poses[0, _base(robot), :3] + LIVE_GROUND * np.array([[-1.0, -1.0, 0.0], [1.0, 1.0, 0.0]])
    run = _run(controller, "", film, ("waiting",), path)
    return page_with(robot.name, _looks({robot.urdf_sha256: controller}), [run], live=True)


def _looks(controllers: dict[str, Controller]) -> dict[str, Look]:
    """Return the shapes of all robots. controllers: one for each robot, by the digest of its URDF"""
    return {key: look_of(c.robot, mesh_folders(c)) for key, c in controllers.items()}


def page_with(title: str, looks: dict[str, Look], runs: list[dict[str, Any]], *, live: bool, beside: int | None = None) -> str:
    """Return the page of runs, which are in the format of the player.

    looks: shapes of the robots, by digest of the URDF; beside: see `page_of`
    """
    robots = {key: _look(look) for key, look in looks.items()}
    data = {"title": title, "live": live, "robots": robots, "runs": runs, "beside": beside}
    encoded = json.dumps(data, separators=(",", ":"), allow_nan=False)
    parts = {
        "title": html.escape(title),
        "style": _part("style.css"),
        "library": library(),
        "data": encoded.replace("<", "\\u003c"),  # "</script>" in the data must not end the script
        "program": "".join(map(_part, PROGRAM)),
    }
    page = _part("page.html")
    for name, text in parts.items():
        page = page.replace(f"<!-- {name} -->", text.replace("</script", "<\\/script"))
    return page


def library() -> str:
    """Return the JavaScript of Meshcat. Raises ConfigError if it is not installed."""
    try:
        path = Path(str(distribution("meshcat").locate_file(LIBRARY)))
        return path.read_text(encoding="utf-8")
    except (PackageNotFoundError, OSError) as error:
        raise missing_extra("view", "the 3-D view", "meshcat", "viz") from error


def _part(name: str) -> str:
    return (files("sim_harness.view") / "page" / name).read_text(encoding="utf-8")


def _look(look: Look) -> dict[str, Any]:
    meshes = list({id(shape.mesh): shape.mesh for shape in look.shapes if shape.mesh is not None}.values())
    number = {id(mesh): i for i, mesh in enumerate(meshes)}
    return {
        "note": look.note,
        "meshes": [{"vertices": floats(m.vertices), "triangles": integers(m.triangles)} for m in meshes],
        "shapes": [
            {name: getattr(shape, name) for name in ("joint", "kind", "size", "colour", "opacity")}
            | {"placement": shape.placement.tolist(), "mesh": number.get(id(shape.mesh))}
            for shape in look.shapes
        ],
    }


def _run(controller: Controller, label: str, film: Film, modes: Sequence[str], path: Array) -> dict[str, Any]:
    """Return a run in the format of the player. path: points around which the ground is drawn [m] (n, 3)"""
    robot = controller.robot
    return {
        "label": label,
        "robot": robot.urdf_sha256,
        "base": _base(robot),
        "places": robot.contact_names,
        "grounded": len(robot.spheres.keys),
        "modes": modes,
    } | drawn(film, ground_of(controller.settings.contact, path), robot.weight, size_of(film, _base(robot)))


def _base(robot: Robot) -> int:
    """Return the joint that the camera follows: the floating base, or else the world."""
    return 1 if robot.floating else 0


def size_of(film: Film, base: int) -> float:
    """Return the largest initial distance of joints and contacts from the base joint [m]."""
    places = np.vstack([film.poses[0, 1:, :3], film.points[0]])
    return max(SMALLEST, float(np.linalg.norm(places - film.poses[0, base, :3], axis=1).max()))


def newtons_per_metre(weight: float, size: float) -> float:
    """Return the scale of the arrows [N/m], rounded so that 10 cm are 1, 2 or 5 times a power of ten [N].

    With it, the arrow of the robot's weight is about `WEIGHT_LENGTH` · size long.
    """
    wanted = 0.1 * weight / (WEIGHT_LENGTH * size)
    power = 10.0 ** np.floor(np.log10(wanted))
    return float(10.0 * power * min((1, 2, 5, 10), key=lambda step: abs(np.log(step * power / wanted))))


def drawn(film: Film, ground: Ground, weight: float, size: float) -> dict[str, Any]:
    """Return film, ground and scales in the format of the player. weight: [N]; size: of what moves [m]"""
    arrays = {name: floats(getattr(film, name)) for name in ("t", *FRAME)}
    return {
        "weight": weight,
        "size": size,
        "newtons": newtons_per_metre(weight, size),
        "ground": {name: floats(getattr(ground, name)) for name in ("x", "y", "z")},
        "film": arrays | {"known": film.known, "mode": film.mode.tolist(), "joints": film.poses.shape[1]},
    }


def curves_data(controller: Controller, trace: Trace, count: int) -> dict[str, Any]:
    """Return the curves of the first `count` ticks of a run in the format of the player."""
    starts = intervals(count)
    return {"t": floats(trace.t[starts]), "panels": [_panel(panel, starts, count) for panel in panels_of(controller, trace)]}


def _panel(panel: Panel, starts: Array, count: int) -> dict[str, Any]:
    lines = []
    for label, values in panel.lines.items():
        low, high = (floats(part.T) for part in extremes(values[:count], starts))
        lines.append({"label": label, "low": low} | ({} if low == high else {"high": high}))
    bounds = [[float(bound) if np.isfinite(bound) else None for bound in both] for both in panel.bounds]
    axes = {"title": panel.title, "unit": panel.unit, "choices": panel.choices, "log": panel.log}
    return axes | {"lines": lines, "bounds": bounds}


def floats(array: Array) -> str:
    """Encode an array as little-endian float32, row by row, in base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def integers(array: Array) -> str:
    """Encode an array as little-endian uint32, row by row, in base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype="<u4").tobytes()).decode()
