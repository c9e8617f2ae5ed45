"""Derivative of the contact Jacobian by the configuration, for contact points and frames that are fixed in the world."""

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Kinematics


def jacobian_slope(robot: Robot, kinematics: Kinematics, contacts: ContactSet) -> Array:
    """Return ∂J/∂q (3n, nv, nv): entry (row, k, j) is the change of J[row, k] by a step along degree of freedom j.

    A joint axis S_k, fixed to its body, turns with every degree of freedom j that moves this body: ∂S_k/∂q_j = S_j × S_k, as
    spatial motions in the world.
    """
    S, tree = kinematics.axes, robot.tree
    linear, angular = S[:, :3], S[:, 3:]
    turned = np.cross(angular[None, :, :], angular[:, None, :])  # (k, j, 3): ω_j × ω_k
    moved = np.cross(angular[None, :, :], linear[:, None, :]) + np.cross(linear[None, :, :], angular[:, None, :])
    above = tree.support[tree.dof_joint]  # (k, j): whether j moves the body of k
    slope = np.zeros((3 * len(contacts), robot.nv, robot.nv))
    for i in range(len(contacts)):
        s, n = contacts.tangents[i], contacts.normals[i]
        axes = np.array([s, np.cross(n, s), n])
        moves = tree.support[contacts.bodies[i]].astype(np.float64) - tree.support[contacts.others[i]]
        at = moved + np.cross(turned, contacts.points[i])
        slope[3 * i : 3 * i + 3] = np.einsum("rc,kjc->rkj", axes, at) * (moves[:, None] * above)
    return slope
