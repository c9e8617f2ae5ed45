"""What was measured of a person who walks or runs: model, motion, and force plates, each matched with a foot."""

import os
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from idyn.errors import ConfigError
from idyn.explain.explain import Walker, centre_of_pressure, load_walker
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

EDGE = 4
"""Frames at each end that are left out: there the filter sees its own continuation of the motion."""

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
    if len(plates) != 2:
        raise ConfigError("--data", f"expected two force plates in {FILES[2]}, got {len(plates)}")
    wrenches = np.stack([plate.wrench(motion.time, np.eye(3)) for plate in plates])
    pressed = [plate.force[:, 1] > STANDS for plate in plates]
    surface = float(np.median(np.concatenate([plate.point[on, 1] for plate, on in zip(plates, pressed, strict=True)])))
    opensim = read_table(folder / MOMENTS) if (folder / MOMENTS).is_file() else None
    judged = slice(EDGE, len(motion.time) - EDGE)
    return Person(walker, motion, _by_foot(walker, motion, wrenches, surface), surface, opensim, judged)


def _by_foot(walker: Walker, motion: Table, wrenches: Array, surface: float) -> Array:
    """Return the plates in the order of the feet: that with the least distances between soles and centres of pressure."""
    feet = feet_of(walker.robot, Soles())
    moves = motion_of(motion, walker.coordinates, Filter())
    frames: Frames = frames_of(walker.robot, walker.coordinates.root, feet, moves)
    middles = frames.points.mean(axis=2) @ walker.coordinates.ground
    centres = [centre_of_pressure(wrench, surface)[0] for wrench in wrenches]

    def distance(order: Iterable[int]) -> float:
        gaps = [np.linalg.norm((middles[:, i] - centres[k])[:, [0, 2]], axis=1) for i, k in enumerate(order)]
        return float(np.nanmean(np.concatenate(gaps)))

    return wrenches[list(min(permutations(range(len(centres))), key=distance))]
