"""Runs as one HTML page that needs nothing else: three.js of the installed Meshcat, our own player, the data."""

import base64
import html
import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from controllers.controller import Controller
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.measure.metrics import GRAVITY
from sim_harness.view.film import Film, film_of, frame_of
from sim_harness.view.ground import Ground, ground_of
from sim_harness.view.runs import Scene, mesh_folders
from sim_harness.view.shapes import Look, Shape, look_of

WEIGHT_LENGTH = 1.2
"""An arrow of the robot's weight is about so many times as long as the robot is large."""

SMALLEST = 0.05
"""A robot is drawn as if it were at least so large [m]."""

LIVE_GROUND = 2.0
"""How far the ground of a live view reaches from where the robot starts [m]."""

LIBRARY = "meshcat/viewer/dist/main.min.js"
"""Where Meshcat keeps three.js and its viewer, below site-packages."""


def page_of(title: str, scenes: Sequence[Scene]) -> str:
    """The page of runs that are over. Raises ConfigError without the extra `[viz]`."""
    controllers = {scene.controller.robot.urdf_sha256: scene.controller for scene in scenes}
    runs = []
    for scene in scenes:
        controller = scene.controller
        film = film_of(controller.robot, controller.terrain, scene.trace)
        path = np.vstack([film.poses[:, _base(controller.robot), :3], film.points.reshape(-1, 3)])
        runs.append(_run(controller, scene.label, film, scene.trace.modes, path))
    return page_with(title, _looks(controllers), runs, live=False)


def live_page(controller: Controller) -> str:
    """The page of a run that goes on: it gets its frames from `frames` beside it. Raises ConfigError without `[viz]`."""
    robot, none = controller.robot, np.zeros((len(controller.robot.contact_names), 3))
    frame = frame_of(robot, controller.terrain, controller.stance, none, none)
    poses, points, world, predicted = (part[None] for part in frame)
    zero = np.zeros(1)
    film = Film(t=zero, poses=poses, points=points, world=world, predicted=predicted, known=True, mode=zero.astype(int))
    path = poses[0, _base(robot), :3] + LIVE_GROUND * np.array([[-1.0, -1.0, 0.0], [1.0, 1.0, 0.0]])
    run = _run(controller, "", film, ("waiting",), path)
    return page_with(robot.name, _looks({robot.urdf_sha256: controller}), [run], live=True)


def _looks(controllers: dict[str, Controller]) -> dict[str, Look]:
    """controllers: one for each robot, by its URDF's digest"""
    return {key: look_of(c.robot, mesh_folders(c)) for key, c in controllers.items()}


def page_with(title: str, looks: dict[str, Look], runs: list[dict[str, Any]], *, live: bool) -> str:
    """The page of runs as the player has them. looks: of each of their robots."""
    robots = {key: _look(look) for key, look in looks.items()}
    data = {"title": title, "live": live, "robots": robots, "runs": runs}
    parts = {
        "title": html.escape(title),
        "style": _part("style.css"),
        "library": library(),
        "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),  # ends no script
        "program": _part("stage.js") + _part("player.js"),
    }
    page = _part("page.html")
    for name, text in parts.items():
        page = page.replace(f"<!-- {name} -->", text.replace("</script", "<\\/script"))
    return page


def library() -> str:
    """The JavaScript that Meshcat brings. Raises ConfigError when it is not installed."""
    try:
        path = Path(str(distribution("meshcat").locate_file(LIBRARY)))
        return path.read_text(encoding="utf-8")
    except (PackageNotFoundError, OSError) as error:
        raise ConfigError("view", f"needs the extra viz: pip install 'idyn[viz]' ({error})") from error


def _part(name: str) -> str:
    return (files("sim_harness.view") / "page" / name).read_text(encoding="utf-8")


def _look(look: Look) -> dict[str, Any]:
    meshes = list({id(shape.mesh): shape.mesh for shape in look.shapes if shape.mesh is not None}.values())
    number = {id(mesh): i for i, mesh in enumerate(meshes)}
    return {
        "note": look.note,
        "meshes": [{"vertices": floats(m.vertices), "triangles": integers(m.triangles)} for m in meshes],
        "shapes": [_shape(shape, number) for shape in look.shapes],
    }


def _shape(shape: Shape, number: dict[int, int]) -> dict[str, Any]:
    return {
        "joint": shape.joint,
        "kind": shape.kind,
        "size": shape.size,
        "placement": shape.placement.tolist(),
        "colour": shape.colour,
        "opacity": shape.opacity,
        "mesh": number.get(id(shape.mesh)),
    }


def _run(controller: Controller, label: str, film: Film, modes: Sequence[str], path: Array) -> dict[str, Any]:
    """path: around which the ground is drawn (n, 3)"""
    robot = controller.robot
    weight, size = robot.total_mass * GRAVITY, size_of(film, _base(robot))
    return {
        "label": label,
        "robot": robot.urdf_sha256,
        "base": _base(robot),
        "places": robot.contact_names,
        "grounded": len(robot.spheres.keys),
        "modes": modes,
        "weight": weight,
        "size": size,
        "newtons": newtons_per_metre(weight, size),
        "ground": ground_data(ground_of(controller.settings.contact, path)),
        "film": film_data(film),
    }


def _base(robot: Robot) -> int:
    """The joint that the camera follows: the floating base, else the world."""
    return 1 if robot.floating else 0


def size_of(film: Film, base: int) -> float:
    """How far the joints and contact places are from the base joint at first [m]."""
    places = np.vstack([film.poses[0, 1:, :3], film.points[0]])
    return max(SMALLEST, float(np.linalg.norm(places - film.poses[0, base, :3], axis=1).max()))


def newtons_per_metre(weight: float, size: float) -> float:
    """The scale of the arrows: 1, 2 or 5 times a power of ten [N] for 10 cm, near that of `WEIGHT_LENGTH`."""
    wanted = 0.1 * weight / (WEIGHT_LENGTH * size)
    power = 10.0 ** np.floor(np.log10(wanted))
    return float(10.0 * power * min((1, 2, 5, 10), key=lambda step: abs(np.log(step * power / wanted))))


def ground_data(ground: Ground) -> dict[str, str]:
    return {"x": floats(ground.x), "y": floats(ground.y), "z": floats(ground.z)}


def film_data(film: Film) -> dict[str, Any]:
    arrays = {name: floats(getattr(film, name)) for name in ("t", "poses", "points", "world", "predicted")}
    return arrays | {"known": film.known, "mode": film.mode.tolist(), "joints": film.poses.shape[1]}


def floats(array: Array) -> str:
    """Little-endian float32, row by row, in base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def integers(array: Array) -> str:
    """Little-endian uint32, row by row, in base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype="<u4").tobytes()).decode()
