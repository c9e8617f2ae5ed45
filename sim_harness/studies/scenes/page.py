"""Animation of runs of scenes in three dimensions: the bodies, and the total contact force on each moving body."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from scipy.spatial.transform import Rotation

from idyn.types import Array
from sim_harness.shapes import Look, Mesh, Shape, look_of
from sim_harness.studies.scenes.contacts import half_extents
from sim_harness.studies.scenes.measures import SavedRun
from sim_harness.studies.scenes.polyhedra import hull_of
from sim_harness.studies.scenes.scene_model import COLOURS, SceneModel
from sim_harness.view.film import RATE, Film, Ground, frames, poses_of
from sim_harness.view.page import drawn, page_with

AROUND = 0.3  # distance to which the ground is drawn beyond the bodies [m]
STEP = 0.1  # spacing of the grid lines of the ground [m]
FURTHEST = 10.0  # largest coordinate to which the ground is drawn [m]
GLASS = 0.25  # opacity of fixed bodies
MODES = ("solved", "NOT SOLVED")  # texts of a step that the engine solved, and of one that it did not solve


def scene_page(title: str, runs: Sequence[SavedRun]) -> str:
    """Return the page of runs of scenes. Raises ConfigError without the extra `[viz]`."""
    models = [SceneModel(kept.settings) for kept in runs]
    looks = {model.robot.urdf_sha256: _look(model) for model in models}
    return page_with(title, looks, [_run(kept, model) for kept, model in zip(runs, models, strict=True)], live=False)


def _look(model: SceneModel) -> Look:
    """Return the shapes of the bodies; fixed bodies are transparent. Convex hulls are added, since a URDF cannot have them."""
    hulls = [_hull(model, i) for i, body in enumerate(model.settings.body) if body.shape.hull is not None]
    look = look_of(model.robot, []) if len(hulls) < len(model.names) else Look(shapes=[], note="")
    shapes = [shape if shape.joint else msgspec.structs.replace(shape, opacity=GLASS) for shape in [*look.shapes, *hulls]]
    return msgspec.structs.replace(look, shapes=shapes)


def _hull(model: SceneModel, body: int) -> Shape:
    corners = model.settings.body[body].shape.hull
    assert corners is not None
    hull = hull_of(corners)
    placement = np.concatenate([model.offsets[body], Rotation.from_matrix(model.rotations[body]).as_quat()])
    red, green, blue = (float(part) for part in COLOURS[body % len(COLOURS)].split())
    mesh = Mesh(vertices=hull.corners, triangles=hull.triangles)
    joint = int(model.joints[body])
    return Shape(joint=joint, kind="mesh", size=(), placement=placement, colour=(red, green, blue), mesh=mesh)


def film_of_scene(kept: SavedRun, model: SceneModel) -> Film:
    """Return the animation of a run of a scene.

    In place of contacts the film has the moving bodies, each with its total contact force. After the poses of the joints comes
    one more pose without shapes, which the camera looks at: the initial centre of the moving bodies.
    """
    r, moving = kept.recording, np.flatnonzero(model.masses)
    rows = frames(r.t, RATE)
    steps = np.minimum(rows, r.steps - 1)
    force, middle = r.force[steps][:, moving], np.zeros((len(rows), 1, 7))
    middle[..., :3], middle[..., 6] = r.centres[0, moving].mean(axis=0), 1.0
    return Film(
        t=r.t[rows],
        poses=np.concatenate([np.array([poses_of(model.robot, q) for q in r.q[rows]]), middle], axis=1),
        points=r.centres[rows][:, moving],
        normals=np.zeros_like(force),
        friction=np.zeros(force.shape[:2]),
        centre=np.array([np.average(model.mass_centres(q)[moving], axis=0, weights=model.masses[moving]) for q in r.q[rows]]),
        world=force,
        predicted=np.zeros_like(force),
        known=True,
        mode=np.where(r.ok[steps], 0, 1),
    )


def _run(kept: SavedRun, model: SceneModel) -> dict[str, Any]:
    film = film_of_scene(kept, model)
    moving = np.flatnonzero(model.masses)
    weight = float(model.masses.sum() * (kept.settings.gravity or 9.81))
    extents = [half_extents(body.shape, np.eye(3)).max() for body in kept.settings.body]
    away = np.linalg.norm(kept.recording.centres[0] - film.poses[0, -1, :3], axis=1) + extents
    size = max(0.1, 0.8 * float(away[moving].max()))
    return {
        "label": f"{kept.outcome.scene}, {kept.outcome.engine}",
        "robot": model.robot.urdf_sha256,
        "base": film.poses.shape[1] - 1,
        "places": [model.names[i] for i in moving],
        "grounded": 0 if kept.settings.ground is None else len(moving),
        "modes": MODES,
        "unpredicted": True,
    } | drawn(film, _ground(kept, film.points), weight, size)


def _ground(kept: SavedRun, points: Array) -> Ground:
    """Return the plane z = 0 around the bodies; empty for a scene without ground."""
    if kept.settings.ground is None:
        return Ground(x=np.zeros(0), y=np.zeros(0), z=np.zeros((0, 0)))
    near = np.clip(points.reshape(-1, 3)[:, :2], -FURTHEST, FURTHEST)
    low, high = (np.floor((near.min(axis=0) - AROUND) / STEP), np.ceil((near.max(axis=0) + AROUND) / STEP))
    x, y = (np.arange(low[i], high[i] + 1) * STEP for i in range(2))
    return Ground(x=x, y=y, z=np.zeros((len(x), len(y))))
