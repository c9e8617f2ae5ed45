"""Force plates: forces, points and free moments in the columns of a `.mot`, in the ground frame."""

import re
from typing import NamedTuple

import numpy as np

from idyn.errors import InputError
from idyn.motion.storage import Table
from idyn.types import Array

FORCE = re.compile(r"(.*ground_force_.*?)v([xyz])")
"""Names of the force columns: `ground_force_vx`, `1_ground_force_vx`, `ground_force_r_vx`."""


class Plate(NamedTuple):
    """What one plate measured. name: what its columns begin with; time: [s] (T)

    force [N], point [m], moment: free moment about the point [N·m], in the ground frame (T, 3)
    """

    name: str
    time: Array
    force: Array
    point: Array
    moment: Array

    def wrench(self, time: Array, rotation: Array) -> Array:
        """Return force and moment about the origin at some times, turned into the world (len(time), 6).

        Between the samples force, point and free moment are interpolated linearly; outside they are zero.
        rotation: from the ground to the world (3, 3)
        """
        force, point, moment = (
            np.column_stack([np.interp(time, self.time, column, left=0.0, right=0.0) for column in part.T])
            for part in (self.force, self.point, self.moment)
        )
        return np.hstack([force @ rotation.T, (moment + np.cross(point, force)) @ rotation.T])


def plates_of(table: Table, rate: float | None = None) -> tuple[Plate, ...]:
    """Return the plates of a table. rate: samples per second, where the times in the file are rounded; None: use its times

    Raises InputError for a table without plates, and for plates with missing columns.
    """
    prefixes = dict.fromkeys(match[1] for name in table.columns if (match := FORCE.fullmatch(name)))
    if not prefixes:
        raise InputError("plates", "expected columns such as ground_force_vx, ground_force_px and ground_torque_x, got none")
    time = table.time if rate is None else table.time[0] + np.arange(len(table.time)) / rate
    return tuple(_plate(table, prefix, time) for prefix in prefixes)


def _plate(table: Table, prefix: str, time: Array) -> Plate:
    turns = prefix.replace("ground_force_", "ground_torque_")
    force, point = ([f"{prefix}{kind}{axis}" for axis in "xyz"] for kind in "vp")
    moment = next(
        (names for kind in ("", "m") if (names := [f"{turns}{kind}{axis}" for axis in "xyz"])[0] in table.columns), None
    )
    if moment is None:
        raise InputError("plates", f"expected a column '{turns}x' beside '{prefix}vx'")
    missing = [name for name in (*force, *point, *moment) if name not in table.columns]
    if missing:
        raise InputError("plates", f"expected a column '{missing[0]}' beside '{prefix}vx'")
    parts = [np.column_stack([table.columns[name] for name in names]) for names in (force, point, moment)]
    return Plate(prefix, time, *parts)


def even_rate(time: Array) -> float:
    """Return the rate of samples whose times are rounded [1/s]: the mean rate, as a whole number where it is near one."""
    rate = (len(time) - 1) / float(time[-1] - time[0])
    return float(round(rate)) if abs(rate - round(rate)) < 1e-3 * rate else rate
