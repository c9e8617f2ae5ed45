"""Motion in, forces out: the entry point, see `idyn.explain`."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from idyn.errors import ModelError
from idyn.explain.cadence import pace_of, scaled
from idyn.explain.distribution import Distribution, distribute
from idyn.explain.floor import Floor, find_floor
from idyn.explain.frames import Frames, Motion, frames_of, joint_forces, motion_of
from idyn.explain.soles import Soles, feet_of
from idyn.model.osim.coordinates import Coordinates
from idyn.model.robot import Robot
from idyn.motion.smoothing import Filter
from idyn.motion.storage import Table
from idyn.types import Array, Record

WALKING = Filter(cutoff=5.0, order=2)
"""Filter for forces from motion, at the cadence `STEPS` of `idyn.explain.cadence`. 6 Hz of order 3, as OpenSim's inverse
dynamics has it, fits the plates slightly worse."""

PRESSED = 20.0
"""Vertical force from which a centre of pressure is given [N]."""


LANDING = 3.0
"""A foot that lands or leaves may be this many times `Distribution.height` above the floor."""


class Settings(Record, frozen=True):
    """Settings of `explain`. filter: None: `WALKING`, with the cutoff scaled by the cadence, which is found from the motion

    floor: height in the ground frame [m]; None: found from the motion
    """

    filter: Filter | None = None
    soles: Soles = Soles()
    distribution: Distribution = Distribution()
    floor: float | None = None


class Walker(NamedTuple):
    """A model of a person: robot, its coordinates by OpenSim's names."""

    robot: Robot
    coordinates: Coordinates


class Explanation(NamedTuple):
    """Forces that explain a motion. Wrenches: force [N], then moment about the origin [N·m], in OpenSim's ground frame.

    time: [s] (T); feet: frames of their heel bones
    wrenches: of the ground on each foot (feet, T, 6)
    residual: what no force of the ground explains (T, 6)
    moments: generalised forces of the coordinates with these wrenches [N·m or N] (T, n); names: of the coordinates
    floor: height in the ground frame [m]; belt: its velocity in the ground frame [m/s] (3)
    """

    time: Array
    feet: tuple[str, ...]
    wrenches: Array
    residual: Array
    moments: Array
    names: tuple[str, ...]
    floor: float
    belt: Array

    def force(self, foot: str) -> Array:
        """Return the force on a foot [N] (T, 3)."""
        return self.wrenches[self.feet.index(foot)][:, :3]

    def pressure(self, foot: str) -> tuple[Array, Array]:
        """Return centre of pressure [m] (T, 3) and free moment [N·m] (T) of a foot; NaN below `PRESSED`."""
        return centre_of_pressure(self.wrenches[self.feet.index(foot)], self.floor)


def force_table(found: Explanation) -> Table:
    """Return the forces of the feet as OpenSim's external loads have them: `ground_force_calcn_r_vx`, `…_px`, and so on.

    Where a foot does not press, its force, point and free moment are 0.
    """
    columns: dict[str, Array] = {}
    for foot in found.feet:
        centre, free = found.pressure(foot)
        pressed = np.isfinite(free)
        parts = (("force", "v", found.force(foot)), ("force", "p", centre), ("torque", "", _about_y(free)))
        for kind, letter, values in parts:
            for axis, column in zip("xyz", values.T, strict=True):
                columns[f"ground_{kind}_{foot}_{letter}{axis}"] = np.where(pressed, column, 0.0)
    return Table(found.time, columns, False)


def moment_table(found: Explanation) -> Table:
    """Return the generalised forces of the coordinates by name [N·m or N]."""
    return Table(found.time, dict(zip(found.names, found.moments.T, strict=True)), False)


def _about_y(moment: Array) -> Array:
    return np.outer(moment, [0.0, 1.0, 0.0])


def load_walker(path: str | Path) -> Walker:
    """Return the walker of an `.osim` file. Raises ModelError, also where gravity is not along −y of the ground."""
    robot = Robot.from_osim(path)
    coordinates = Coordinates(robot.description.urdf, str(path))
    if robot.weight == 0.0 or not np.allclose(coordinates.ground[:, 1], [0.0, 0.0, 1.0], atol=1e-9):
        raise ModelError(f"{path}: gravity: expected a vector along −y, since forces are told in a ground frame with y up")
    return Walker(robot, coordinates)


def explain(walker: Walker, table: Table, settings: Settings | None = None) -> Explanation:
    """Return the forces of the feet that explain a motion with the least residual wrench and obey friction.

    table: motion by coordinates, as `.mot` files have it
    Raises InputError for a motion that does not fit the model or cannot be filtered, FrameNotFound for missing feet.
    """
    settings = settings or Settings()
    motion, _ = paced_motion(walker, table, settings.filter, WALKING)
    feet = feet_of(walker.robot, settings.soles)
    frames = frames_of(walker.robot, walker.coordinates.root, feet, motion)
    floor = find_floor(frames, motion.time, settings.floor)
    return concluded(walker, motion, frames, shared(frames, floor, settings.distribution), floor)


def paced_motion(walker: Walker, table: Table, filter: Filter | None, usual: Filter) -> tuple[Motion, float]:
    """Return the smooth motion, and its cadence in units of `STEPS`. filter: None: the usual one, scaled by the cadence"""
    pace = pace_of(walker.robot, walker.coordinates, table)
    return motion_of(table, walker.coordinates, scaled(usual, pace) if filter is None else filter), pace


def carrying(frames: Frames, floor: Floor, distribution: Distribution) -> Array:
    """Return which points may carry: low, and slow against the floor (T, feet, n)."""
    heights = frames.points[..., 2] - floor.height
    slips = np.linalg.norm(frames.speeds - floor.velocity, axis=-1)
    slow: Array = slips < max(distribution.speed, distribution.pace * floor.pace)
    return (heights < distribution.height) & slow


def available(frames: Frames, floor: Floor, distribution: Distribution) -> Array:
    """Return which points are used (T, feet, n): those that may carry.

    In frames without any, as when a runner lands, the low part of the lowest foot, if it is not higher than `LANDING` heights:
    its points up to one height above its lowest one.
    """
    carries = carrying(frames, floor, distribution)
    heights = frames.points[..., 2] - floor.height
    lowest = heights.min(axis=2, keepdims=True)
    least = lowest.min(axis=1, keepdims=True)
    lands = (lowest == least) & (least < LANDING * distribution.height) & (heights < lowest + distribution.height)
    none = ~np.any(carries, axis=(1, 2), keepdims=True)
    found: Array = carries | (none & lands)
    return found


def shared(frames: Frames, floor: Floor, distribution: Distribution) -> Array:
    """Return the wrenches on the feet about the world's origin, in the world (T, feet, 6), shared by `distribute`."""
    count, feet = frames.points.shape[:2]
    out = np.zeros((count, feet, 6))
    heights = frames.points[..., 2] - floor.height
    carries = available(frames, floor, distribution)
    for k, (required, centre) in enumerate(zip(frames.required, frames.centre, strict=True)):
        at = np.nonzero(carries[k])
        points = frames.points[k][at]
        about = np.append(required[:3], required[3:] - np.cross(centre, required[:3]))
        forces = distribute(points, heights[k][at], about, centre, distribution)
        np.add.at(out[k], at[0], np.hstack([forces, np.cross(points, forces)]))
    return out


def concluded(walker: Walker, motion: Motion, frames: Frames, wrenches: Array, floor: Floor) -> Explanation:
    """Return the explanation that belongs to wrenches on the feet about the world's origin, in the world (T, feet, 6)."""
    robot, coordinates = walker
    feet = frames.feet
    tau = joint_forces(robot, frames, tuple(foot.joint for foot in feet), wrenches)
    return Explanation(
        time=motion.time,
        feet=tuple(foot.frame for foot in feet),
        wrenches=in_ground(wrenches, coordinates).transpose(1, 0, 2),
        residual=in_ground(frames.required - wrenches.sum(axis=1), coordinates),
        moments=coordinates.moments(motion.values, tau),
        names=coordinates.names,
        floor=floor.height,
        belt=floor.velocity @ coordinates.ground,
    )


def in_ground(wrenches: Array, coordinates: Coordinates) -> Array:
    """Return wrenches in OpenSim's ground frame (…, 6), from the world."""
    return np.concatenate([wrenches[..., :3] @ coordinates.ground, wrenches[..., 3:] @ coordinates.ground], axis=-1)


def centre_of_pressure(wrenches: Array, floor: float) -> tuple[Array, Array]:
    """Return centre of pressure [m] (T, 3) and free moment about y [N·m] (T), NaN where the vertical force is below `PRESSED`.

    wrenches: in the ground frame, y up (T, 6); floor: height of the plane of the centre of pressure [m]
    """
    fx, fy, fz, mx, my, mz = np.where(wrenches[:, 1] >= PRESSED, wrenches.T, np.nan)
    x = (mz + floor * fx) / fy
    z = (floor * fz - mx) / fy
    return np.column_stack([x, floor + 0.0 * x, z]), my - (z * fx - x * fz)
