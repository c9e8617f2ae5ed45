"""Tosses in three dimensions: the measured block and its forecast side by side in one view."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from scipy.spatial.transform import Rotation

from idyn.types import Array
from sim_harness.judge.tosses import EDGE, MASS, RATE, Toss
from sim_harness.scenes.bodies.model import SceneModel
from sim_harness.scenes.bodies.settings import BodySettings, SceneSettings, Shape
from sim_harness.shapes.shapes import look_of
from sim_harness.studies.tosses.forecast import Forecast
from sim_harness.view.film import Film
from sim_harness.view.ground import Ground
from sim_harness.view.page import film_data, ground_data, newtons_per_metre, page_with

NAMES = ("measured", "forecast")

GLASS = 0.5
"""Opacity of the forecast block."""

STEP, AROUND = 0.1, 0.3
"""Spacing of the grid lines of the ground, and distance to which it is drawn beyond the blocks [m]."""


def tosses_page(shown: Mapping[str, tuple[Toss, Forecast]]) -> str:
    """Return a page with an animation for each label. Raises ConfigError without the extra `viz`."""
    blocks = tuple(BodySettings(name=name, shape=Shape(box=(EDGE,) * 3), mass=MASS, touches=False) for name in NAMES)
    model = SceneModel(SceneSettings(about="", engines=("lcp",), dt=1.0 / RATE, duration=1.0, body=blocks))
    look = look_of(model.robot, [])
    forecast = int(model.joints[1])
    shapes = [msgspec.structs.replace(each, opacity=GLASS) if each.joint == forecast else each for each in look.shapes]
    looks = {model.robot.urdf_sha256: msgspec.structs.replace(look, shapes=shapes)}
    runs = [_run(label, model, film_of(model, *each)) for label, each in shown.items()]
    return page_with("measured tosses and their forecasts", looks, runs, live=False)


def film_of(model: SceneModel, toss: Toss, forecast: Forecast) -> Film:
    """Return the animation of a toss: the world, the joints of both blocks, and a pose without shape for the camera."""
    count = len(toss)
    poses = np.zeros((count, len(model.robot.tree.support) + 1, 7))
    poses[..., 6] = 1.0
    for joint, position, rotation in zip(
        model.joints, (toss.position, forecast.position), (toss.rotation, forecast.rotation), strict=True
    ):
        poses[:, joint] = np.hstack([position, Rotation.from_matrix(rotation).as_quat()])
    poses[:, -1, :3] = toss.position[0]
    centres = np.stack([toss.position, forecast.position], axis=1)
    nothing = np.zeros_like(centres)
    return Film(
        t=np.arange(count) / RATE,
        poses=poses,
        points=centres,
        normals=nothing,
        friction=np.zeros((count, 2)),
        centre=toss.position,
        world=nothing,
        predicted=nothing,
        known=False,
        mode=np.zeros(count, dtype=np.int64),
    )


def _run(label: str, model: SceneModel, film: Film) -> dict[str, Any]:
    """Return an animation in the format of the player."""
    size, weight = 2.0 * EDGE, 2.0 * MASS * 9.81
    return {
        "label": label,
        "robot": model.robot.urdf_sha256,
        "base": film.poses.shape[1] - 1,
        "places": NAMES,
        "grounded": len(NAMES),
        "modes": (label,),
        "weight": weight,
        "size": size,
        "newtons": newtons_per_metre(weight, size),
        "ground": ground_data(_ground(film.points)),
        "film": film_data(film),
        "unpredicted": True,
    }


def _ground(points: Array) -> Ground:
    """Return the floor around the blocks."""
    near = points.reshape(-1, 3)[:, :2]
    low, high = np.floor((near.min(axis=0) - AROUND) / STEP), np.ceil((near.max(axis=0) + AROUND) / STEP)
    x, y = (np.arange(low[i], high[i] + 1) * STEP for i in range(2))
    return Ground(x=x, y=y, z=np.zeros((len(x), len(y))))
