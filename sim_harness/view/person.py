"""A person in three dimensions: sticks between the joints, the soles, and arrows of found and of measured forces."""

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from idyn.explain.explanation import Explanation, Walker, centre_of_pressure
from idyn.explain.soles import Foot
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.shapes.shapes import GREY, Look, Shape
from sim_harness.view.film import Film, poses_of
from sim_harness.view.ground import Ground
from sim_harness.view.page import film_data, ground_data, newtons_per_metre, page_with, size_of

THICK = 0.02
"""Radius of a stick [m]."""

AROUND = 0.8
"""Distance to which the ground is drawn beyond the person [m]."""

STEP = 0.1
"""Spacing of the grid lines of the ground [m]."""


class Shown(NamedTuple):
    """What is shown. q: of the robot (T, nq); found: forces; plates: measured wrenches in the ground frame, or None"""

    walker: Walker
    feet: tuple[Foot, ...]
    q: Array
    found: Explanation
    plates: Array | None


def person_page(title: str, shown: Shown) -> str:
    """Return the page of a person in motion. Raises ConfigError without the extra `[viz]`."""
    robot = shown.walker.robot
    film = _film(shown)
    size = size_of(film, _base(robot))
    weight = robot.weight
    places = [f"{foot}, found" for foot in shown.found.feet]
    if shown.plates is not None:
        places += [f"{foot}, plate" for foot in shown.found.feet]
    run = {
        "label": title,
        "robot": robot.urdf_sha256,
        "base": _base(robot),
        "places": places,
        "grounded": len(places),
        "modes": ("measured motion",),
        "weight": weight,
        "size": size,
        "newtons": newtons_per_metre(weight, size),
        "ground": ground_data(_ground(film, shown.found.floor)),
        "film": film_data(film),
    }
    look = Look(shapes=_sticks(robot, shown.q[len(shown.q) // 2]) + _soles(shown.feet), note="sticks between the joints")
    return page_with(title, {robot.urdf_sha256: look}, [run], live=False)


def _base(robot: Robot) -> int:
    """Return the first joint with a mass: the root body's."""
    return int(np.flatnonzero(robot.bodies.masses[1:] > 0.0)[0]) + 1


def _film(shown: Shown) -> Film:
    """Return the animation: for each foot the found force at its centre of pressure, then the measured one at its own."""
    robot, rotation, found = shown.walker.robot, shown.walker.coordinates.ground, shown.found
    wrenches = found.wrenches if shown.plates is None else np.concatenate([found.wrenches, shown.plates])
    count, feet = len(wrenches), len(found.feet)
    points, forces = np.zeros((len(found.time), count, 3)), np.zeros((len(found.time), count, 3))
    for k, wrench in enumerate(wrenches):
        centre, _ = centre_of_pressure(wrench, found.floor)
        pressed = np.isfinite(centre[:, 0])
        points[:, k] = np.where(pressed[:, None], centre, [0.0, found.floor, 0.0]) @ rotation.T
        forces[:, k] = np.where(pressed[:, None], wrench[:, :3], 0.0) @ rotation.T
    ours = (np.arange(count) < feet)[None, :, None]
    return Film(
        t=found.time - found.time[0],
        poses=np.array([poses_of(robot, q) for q in shown.q]),
        points=points,
        normals=np.tile([0.0, 0.0, 1.0], (len(found.time), count, 1)),
        friction=np.zeros((len(found.time), count)),
        centre=np.array([robot.center_of_mass(q) for q in shown.q]),
        world=np.where(ours, 0.0, forces),
        predicted=np.where(ours, forces, 0.0),
        known=shown.plates is not None,
        mode=np.zeros(len(found.time), dtype=np.int64),
    )


def _sticks(robot: Robot, q: Array) -> list[Shape]:
    """Return cylinders from each body to the bodies behind it, and from bodies at an end to their centres of mass.

    q: configuration that gives the lengths: where joints also slide, as knees do, sticks are as long as there (nq)
    """
    rotations, origins = (part.copy() for part in robot.place(q))
    heavy = robot.bodies.masses > 0.0
    shapes, inner = [], set()
    for joint in np.flatnonzero(heavy[1:]) + 1:
        above = int(robot.tree.parents[joint])
        while above and not heavy[above]:
            above = int(robot.tree.parents[above])
        if above:
            inner.add(above)
            shapes += _stick(above, rotations[above].T @ (origins[joint] - origins[above]))
    for joint in np.flatnonzero(heavy[1:]) + 1:
        if int(joint) not in inner or int(joint) == _base(robot):
            shapes += _stick(int(joint), robot.bodies.centres[joint])
    return shapes


def _stick(joint: int, end: Array) -> list[Shape]:
    length = float(np.linalg.norm(end))
    if length < THICK:
        return []
    turn, _ = Rotation.align_vectors(end[None] / length, [[0.0, 0.0, 1.0]])
    placement = np.concatenate([0.5 * end, turn.as_quat()])
    return [Shape(joint=joint, kind="cylinder", size=(THICK, length), placement=placement, colour=GREY)]


def _soles(feet: tuple[Foot, ...]) -> list[Shape]:
    """Return a small sphere at each point of the soles."""
    straight = np.array([0.0, 0.0, 0.0, 1.0])
    return [
        Shape(joint=foot.joint, kind="sphere", size=(0.5 * THICK,), placement=np.append(point, straight), colour=GREY)
        for foot in feet
        for point in foot.points_in_joint
    ]


def _ground(film: Film, height: float) -> Ground:
    near = film.centre[:, :2]
    low, high = np.floor((near.min(axis=0) - AROUND) / STEP), np.ceil((near.max(axis=0) + AROUND) / STEP)
    x, y = (np.arange(low[i], high[i] + 1) * STEP for i in range(2))
    return Ground(x=x, y=y, z=np.full((len(x), len(y)), height))
