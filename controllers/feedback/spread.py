"""Feet that crept apart, brought back by the forces with which they hold against one another.

On ground that yields a foot that is held sideways creeps, and a push leaves feet where they slid to. The motion that the feet
allow does not include bringing them back, and their joints' errors are taken out of the demand (`Consistency.HOLD`). What is
free are the contacts' internal forces: they are chosen so that each foot leans towards where it should stand as the base sees
it, f = k m g (x − x_ref) along the ground, up to a share of the weight that friction can always bear. Ground that creeps then
lets the feet come back; ground that does not, holds them by as much.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from controllers.config.loading import NonNegative, Settings
from idyn.contact.contacts import fill_centres
from idyn.jit.compiled import INDICES, MATRIX, REAL, compiled
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.jit.memory import local
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Kinematics, Selection


class SpreadSettings(Settings, frozen=True):
    """Acts with `selection = "force"` on robots with a floating base.

    stiffness: k, share of the weight per distance of a foot from its place [1/m]; 0: off
    most: the largest such force, share of the weight that a foot bears on average
    """

    stiffness: NonNegative = 5.0
    most: NonNegative = 0.2


class Spread:
    """Forces that lean feet towards their places. Keeps no memory."""

    def __init__(self, settings: SpreadSettings, robot: Robot, selection: Selection) -> None:
        self._robot = robot
        weight = robot.weight
        self._stiffness, self._most = settings.stiffness * weight, settings.most * weight
        self.active = settings.stiffness > 0.0 and robot.floating and selection is Selection.FORCE

    def preferred(self, at: Kinematics, contacts: ContactSet, angles: Array) -> Array:
        """Contact forces on the robot in the world [N] (n, 3), for joint angles that are to be [rad] (na)."""
        robot, keys = self._robot, contacts.keys
        force, places = np.zeros((len(keys), 3)), robot.spheres
        if keys != places.keys:
            places = places.among(keys)
        if 0 < len(keys) == len(places.keys):
            if robot.one_axis_each:
                q = at.q.copy()
                q[robot.tree.q_index] = angles
            else:
                q = robot.with_joint_angles(at.q, angles)
            robot.place(q)
            normals = np.ascontiguousarray(contacts.normals, np.float64)
            given = at.placements, robot.placements, places.offsets, normals
            _lean_there()(given, (places.joints,), (force,), self._stiffness, self._most / len(keys))
        return force


@cache
def _lean_there() -> Callable[..., None]:
    return entrance(_lean, Lent(MATRIX, MATRIX, MATRIX, MATRIX), Lent(INDICES), Filled(MATRIX), REAL, REAL)


@compiled
def _lean(places: tuple[Array, ...], joints: tuple[Array], out: tuple[Array], stiffness: float, most: float) -> None:
    """Fill forces along the ground, in proportion to the distance from the wanted place, up to `most` [N] (n, 3).

    places: `Kinematics.placements` where they are and where they are wanted, offsets and normals (n, 3); joints (n)
    """
    (placements, wanted_placements, offsets, normals), (force,) = places, out
    here, wanted = local(offsets.shape), local(offsets.shape)
    fill_centres((placements, offsets), joints, (here,))
    fill_centres((wanted_placements, offsets), joints, (wanted,))
    for i in range(len(force)):
        # k (x − x_ref) without its part along the normal
        off, square = 0.0, 0.0
        for c in range(3):
            force[i, c] = here[i, c] - wanted[i, c]
            off += force[i, c] * normals[i, c]
        for c in range(3):
            force[i, c] = stiffness * (force[i, c] - off * normals[i, c])
            square += force[i, c] ** 2
        if square > most * most:
            force[i] *= most / np.sqrt(square)
