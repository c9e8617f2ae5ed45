"""The map between OpenSim's coordinates c and the joints q of the robot: q = f(c), joint by joint."""

import numpy as np

from idyn.errors import InputError, nearest
from idyn.model.osim.build import drives_of, ground_in_world
from idyn.model.osim.mechanism import Coordinate, Mechanism, read_mechanism
from idyn.types import Array

LOCKED_ERROR = 1e-3
"""Largest difference of a motion from the value of a locked or coupled coordinate [rad or m]."""


class Coordinates:
    """The free coordinates of an `.osim` file and what they do to the joints of its `Robot`.

    names: of the free coordinates, in the order of the file (n)
    joints: names of the robot's joints, in the order of q and v (nv)
    root: indices of the joints between the ground and its child (6 for a free body)
    ground: rotation from OpenSim's ground to the robot's world, whose z is up (3, 3)
    """

    def __init__(self, text: str, source: str = "osim text") -> None:
        """Read the map from the text of an `.osim` file. Raises ModelError."""
        mechanism = read_mechanism(text, source)
        self._drives = drives_of(mechanism)
        self._all = mechanism.coordinates
        used = {drive.coordinate for drive in self._drives}
        self.names = tuple(name for name in mechanism.coordinates if name in used)
        self.joints = tuple(drive.joint for drive in self._drives)
        self.root = tuple(k for k, drive in enumerate(self._drives) if drive.at_root)
        self.ground = ground_in_world(mechanism.gravity)
        self._index = [self.names.index(drive.coordinate) for drive in self._drives]

    def is_angle(self, name: str) -> bool:
        """Return whether a coordinate is an angle [rad]. Columns that are no coordinates are none."""
        return name in self._all and self._all[name].turns

    def joint_motion(self, c: Array, c1: Array, c2: Array) -> tuple[Array, Array, Array]:
        """Return q, v and dv/dt of the robot, each (T, nv). c, c1, c2: coordinates and their time derivatives, each (T, n)

        q = f(c),   v = f′ ċ,   a = f″ ċ² + f′ c̈
        """
        q, v, a = (np.empty((len(c), len(self._drives))) for _ in range(3))
        for k, (drive, i) in enumerate(zip(self._drives, self._index, strict=True)):
            q[:, k], slope, curvature = drive.function.jet(c[:, i])
            v[:, k] = slope * c1[:, i]
            a[:, k] = curvature * c1[:, i] ** 2 + slope * c2[:, i]
        return q, v, a

    def moments(self, c: Array, tau: Array) -> Array:
        """Return the generalised forces of the coordinates (T, n): those of the robot's joints, times f′.

        c: coordinates (T, n); tau: of the robot's joints [N·m or N] (T, nv)
        """
        out = np.zeros((len(c), len(self.names)))
        for k, (drive, i) in enumerate(zip(self._drives, self._index, strict=True)):
            out[:, i] += drive.function.jet(c[:, i])[1] * tau[:, k]
        return out

    def take(self, columns: dict[str, Array]) -> Array:
        """Return the free coordinates (T, n) from columns by name [rad or m], each (T).

        Raises InputError for missing columns, and for columns that contradict a locked or coupled coordinate.
        """
        missing = [name for name in self.names if name not in columns]
        if missing:
            raise InputError("motion", f"no column '{missing[0]}'{nearest(missing[0], columns)}")
        free = np.column_stack([columns[name] for name in self.names])
        for name, coordinate in self._all.items():
            if name in columns and name not in self.names:
                self._check_bound(coordinate, columns, free)
        return free

    def _check_bound(self, coordinate: Coordinate, columns: dict[str, Array], free: Array) -> None:
        constant = coordinate.function.constant
        if constant is None and coordinate.leader not in self.names:
            return
        wanted = constant if constant is not None else coordinate.function.jet(free[:, self.names.index(coordinate.leader)])[0]
        error = float(np.abs(columns[coordinate.name] - wanted).max())
        if error > LOCKED_ERROR:
            raise InputError(
                f"motion.{coordinate.name}",
                f"expected the value that the model's lock or coupler gives, got one that differs by {error:.3g} rad or m",
            )


def unactuated(mechanism: Mechanism) -> tuple[str, ...]:
    """Return the joints of the robot that have no motor: those between the ground and its child."""
    return tuple(drive.joint for drive in drives_of(mechanism) if drive.at_root)
