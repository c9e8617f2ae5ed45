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

from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.view.film import Film, film_of
from sim_harness.view.ground import Ground, ground_of
from sim_harness.view.runs import Scene, mesh_folders
from sim_harness.view.shapes import Look, Shape, look_of

WEIGHT_LENGTH = 2.0
"""An arrow of the robot's weight is about so many times as long as the robot is high at first."""

LIBRARY = "meshcat/viewer/dist/main.min.js"
"""Where Meshcat keeps three.js and its viewer, below site-packages."""


def page_of(title: str, scenes: Sequence[Scene]) -> str:
    """The page. Raises ConfigError without the extra `[viz]`."""
    robots: dict[str, dict[str, Any]] = {}
    runs = []
    for scene in scenes:
        robot = scene.controller.robot
        if robot.urdf_sha256 not in robots:
            robots[robot.urdf_sha256] = _look(look_of(robot, mesh_folders(scene.controller)))
        runs.append(_run(scene))
    data = json.dumps({"title": title, "robots": robots, "runs": runs}, separators=(",", ":"), allow_nan=False)
    parts = {
        "title": html.escape(title),
        "style": _part("style.css"),
        "library": library(),
        "data": data,
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
        "mesh": number.get(id(shape.mesh)),
    }


def _run(scene: Scene) -> dict[str, Any]:
    controller = scene.controller
    robot = controller.robot
    film = film_of(robot, controller.terrain, scene.trace)
    base = 1 if robot.base == "free_flyer" else 0
    ground = ground_of(controller.settings.contact, np.vstack([film.poses[:, base, :3], film.points.reshape(-1, 3)]))
    return {
        "label": scene.label,
        "robot": robot.urdf_sha256,
        "base": base,
        "places": scene.trace.places,
        "grounded": len(robot.contact_keys),
        "modes": scene.trace.modes,
        "weight": robot.total_mass * 9.81,
        "newtons": newtons_per_metre(robot.total_mass * 9.81, film),
        "ground": _ground(ground),
        "film": _film(film),
    }


def newtons_per_metre(weight: float, film: Film) -> float:
    """The scale of the arrows: 1, 2 or 5 times a power of ten [N] for 10 cm, near that of `WEIGHT_LENGTH`."""
    heights = np.concatenate([film.poses[0, 1:, 2], film.points[0, :, 2]])
    wanted = 0.1 * weight / (WEIGHT_LENGTH * float(np.ptp(heights)))
    power = 10.0 ** np.floor(np.log10(wanted))
    return float(10.0 * power * min((1, 2, 5, 10), key=lambda step: abs(np.log(step * power / wanted))))


def _ground(ground: Ground) -> dict[str, str]:
    return {"x": floats(ground.x), "y": floats(ground.y), "z": floats(ground.z)}


def _film(film: Film) -> dict[str, Any]:
    arrays = {name: floats(getattr(film, name)) for name in ("t", "poses", "points", "world", "predicted")}
    return arrays | {"known": film.known, "mode": film.mode.tolist(), "joints": film.poses.shape[1]}


def floats(array: Array) -> str:
    """Little-endian float32, row by row, in base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def integers(array: Array) -> str:
    """Little-endian uint32, row by row, in base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype="<u4").tobytes()).decode()
