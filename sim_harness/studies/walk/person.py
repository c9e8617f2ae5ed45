"""What was measured of a person who walks or runs: model, motion, and force plates, each matched with a foot."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from idyn.errors import ConfigError
from idyn.explain.explanation import Walker, centre_of_pressure, load_walker
from idyn.explain.frames import Frames, frames_of, motion_of
from idyn.explain.soles import Soles, feet_of
from idyn.motion.plates import even_rate, plates_of
from idyn.motion.smoothing import Filter
from idyn.motion.storage import Table, read_table
from idyn.types import Array

FOLDER = "human-walk"

FILES = ("subject01.osim", "walk_ik.mot", "walk_grf.mot")
"""Model, joint angles, force plates."""

MOMENTS = "walk_inverse_dynamics.sto"
"""OpenSim's own inverse dynamics; optional."""

EDGE = 0.06
"""Time at each end that is left out: there the filter sees its own continuation of the motion [s]."""

ROUNDED = 1e-3
"""Times that differ by less are the same [s]."""

STANDS = 20.0
"""Vertical force from which a foot stands [N]."""


class Person(NamedTuple):
    """A person. motion: coordinates; wrenches: of the plate under each foot, about the origin, in the ground frame (feet, T, 6)

    surface: height of the plates in the ground frame [m]; opensim: its moments, None where they are missing
    judged: the frames that count (slice)
    """

    walker: Walker
    motion: Table
    wrenches: Array
    surface: float
    opensim: Table | None
    judged: slice

    @property
    def total(self) -> Array:
        """Force of both plates [N] (T, 3)."""
        total: Array = self.wrenches[..., :3].sum(axis=0)
        return total

    def stands(self, foot: int) -> Array:
        """Return the judged frames in which a foot stands: indices."""
        frames = np.arange(len(self.motion.time))
        return frames[self.judged][self.wrenches[foot, self.judged, 1] > STANDS]


def measured_folder(data: Path | None) -> Path:
    """Return the folder with the files of a person. data: `--data`; None: `IDYN_DATA`, or `../shared/data` beside the project

    Raises ConfigError where the files are missing.
    """
    base = data or Path(os.environ.get("IDYN_DATA") or Path(__file__).resolve().parents[4] / "shared" / "data")
    folders = [base / FOLDER, base]
    for folder in folders:
        if all((folder / name).is_file() for name in FILES):
            return folder
    raise ConfigError("--data", f"expected a folder with {', '.join(FILES)} (and {MOMENTS}), found none in {base}")


def read_person(folder: Path) -> Person:
    """Return a person from the files of a folder. Raises ModelError and InputError for files that are wrong."""
    walker = load_walker(folder / FILES[0])
    motion, forces = read_table(folder / FILES[1]), read_table(folder / FILES[2])
    plates = plates_of(forces, even_rate(forces.time))
    wrenches = np.stack([plate.wrench(motion.time, np.eye(3)) for plate in plates])
    pressed = [plate.force[:, 1] > STANDS for plate in plates]
    heights = np.concatenate([plate.point[on, 1] for plate, on in zip(plates, pressed, strict=True)])
    if len(heights) == 0:
        raise ConfigError("--data", f"expected vertical forces of more than {STANDS:g} N in {FILES[2]}, got none")
    surface = float(np.median(heights))
    opensim = read_table(folder / MOMENTS) if (folder / MOMENTS).is_file() else None
    feet = _by_foot(walker, motion, wrenches, surface)
    return Person(walker, motion, feet, surface, _at(motion.time, opensim), _judged(motion.time, plates[0].time))


def _at(time: Array, table: Table | None) -> Table | None:
    """Return a table at the times of the motion; where it has them, but for rounding, unchanged."""
    if table is None or (len(table.time) == len(time) and np.abs(table.time - time).max() < ROUNDED):
        return table
    inside = (time >= table.time[0] - ROUNDED) & (time <= table.time[-1] + ROUNDED)
    columns = {name: np.where(inside, np.interp(time, table.time, column), np.nan) for name, column in table.columns.items()}
    return Table(time, columns, table.degrees)


def _judged(time: Array, measured: Array) -> slice:
    """Return the frames that count: those away from the ends of the motion, while the plates measured."""
    edge = int(np.ceil(EDGE * (len(time) - 1) / (time[-1] - time[0])))
    inside = np.flatnonzero((time >= measured[0] - ROUNDED) & (time <= measured[-1] + ROUNDED))
    if len(inside) == 0:
        raise ConfigError("--data", f"expected {FILES[1]} and {FILES[2]} at common times")
    found = slice(max(edge, int(inside[0])), min(len(time) - edge, int(inside[-1]) + 1))
    if found.stop - found.start < 2:
        raise ConfigError("--data", f"expected at least two common frames away from the ends of {FILES[1]}")
    return found


def _by_foot(walker: Walker, motion: Table, wrenches: Array, surface: float) -> Array:
    """Return the wrench on each foot: each contact of a plate goes to the foot that is nearest to its centre of pressure.

    A contact is an interval with more than `STANDS`; frames between contacts belong to the nearest one in time.
    """
    feet = feet_of(walker.robot, Soles())
    moves = motion_of(motion, walker.coordinates, Filter())
    frames: Frames = frames_of(walker.robot, walker.coordinates.root, feet, moves)
    middles = (frames.points.mean(axis=2) @ walker.coordinates.ground)[..., [0, 2]]
    out = np.zeros((len(feet), *wrenches.shape[1:]))
    for wrench in wrenches:
        centre = centre_of_pressure(wrench, surface)[0][:, [0, 2]]
        contacts = _intervals(wrench[:, 1] > STANDS)
        if not contacts:
            continue
        owner = [int(np.nanmean(np.linalg.norm(middles[on] - centre[on, None], axis=2), axis=0).argmin()) for on in contacts]
        nearest = np.array([[np.abs(on - k).min() for on in contacts] for k in range(len(wrench))]).argmin(axis=1)
        out[np.array(owner)[nearest], np.arange(len(wrench))] += wrench
    return out


def _intervals(on: Array) -> list[Array]:
    """Return the indices of each interval in which a flag is set."""
    frames = np.flatnonzero(on)
    return [part for part in np.split(frames, np.flatnonzero(np.diff(frames) > 1) + 1) if len(part)]
