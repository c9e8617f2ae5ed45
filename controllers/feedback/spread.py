"""Spread: brings displaced feet back by internal contact forces.

On compliant ground, feet under tangential load creep, and after a push feet stay where they slid. Joint feedback cannot bring
them back: contacts do not permit this motion, and the projection removes it from the demand (`Consistency.HOLD`). The internal
contact forces, however, can be chosen. They are chosen so that each foot pushes along the ground towards
its reference position relative to the base. The force on the robot is f = k m g (x − x_ref), up to a share of the weight that
friction can always carry. On ground that creeps the feet return; elsewhere friction balances these forces.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from controllers.config.loading import NonNegative, Settings
from idyn.contact.contacts import fill_centres
from idyn.jit.compiled import INDICES, MATRIX, REAL, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.jit.stack import stack_array
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Kinematics, Selection


class SpreadSettings(Settings, frozen=True):
    """Settings of the spread. Active with `selection = "force"` on robots with a floating base.

    stiffness: k, share of the weight per displacement of a foot [1/m]; 0: off
    most: largest such force, as a share of the mean weight per foot
    """

    stiffness: NonNegative = 5.0
    most: NonNegative = 0.2


class Spread:
    """Internal forces that push displaced feet towards their reference positions. Stateless."""

    def __init__(self, settings: SpreadSettings, robot: Robot, selection: Selection) -> None:
        self._robot = robot
        weight = robot.weight
        self._stiffness, self._most = settings.stiffness * weight, settings.most * weight
        self.active = settings.stiffness > 0.0 and robot.floating and selection is Selection.FORCE

    def preferred(self, at: Kinematics, contacts: ContactSet, angles: Array) -> Array:
        """Return the preferred contact forces on the robot, world frame [N] (n, 3).

        angles: reference joint angles [rad] (na)
        """
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
            _lean_entry()(given, (places.joints,), (force,), self._stiffness, self._most / len(keys))
        return force


@cache
def _lean_entry() -> Callable[..., None]:
    return entry_point(_lean, Borrowed(MATRIX, MATRIX, MATRIX, MATRIX), Borrowed(INDICES), Output(MATRIX), REAL, REAL)


@compiled
def _lean(places: tuple[Array, ...], joints: tuple[Array], out: tuple[Array], stiffness: float, most: float) -> None:
    """Fill contact forces along the ground, k m g (x − x_ref), at most `most` [N] (n, 3).

    places: `Kinematics.placements` measured and at the reference, sphere offsets [m] (n, 3), contact normals (n, 3)
    joints: joint of each sphere (n)
    stiffness: k m g [N/m]
    """
    (placements, wanted_placements, offsets, normals), (force,) = places, out
    here, wanted = stack_array(offsets.shape), stack_array(offsets.shape)
    fill_centres((placements, offsets), joints, (here,))
    fill_centres((wanted_placements, offsets), joints, (wanted,))
    for i in range(len(force)):
        # f = k m g (I − n nᵀ) (x − x_ref), then limited to ‖f‖ ≤ most
        off, square = 0.0, 0.0
        for c in range(3):
            force[i, c] = here[i, c] - wanted[i, c]
            off += force[i, c] * normals[i, c]
        for c in range(3):
            force[i, c] = stiffness * (force[i, c] - off * normals[i, c])
            square += force[i, c] ** 2
        if square > most * most:
            for c in range(3):
                force[i, c] *= most / np.sqrt(square)
