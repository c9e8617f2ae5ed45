"""Motion of frames and of the centre of mass at one state, from the joint axes of `Kinematics`."""

from collections.abc import Callable
from functools import cache, cached_property

import numpy as np

from idyn.jit.compiled import INDICES, MATRIX, VECTOR, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.model.frames import Centroidal
from idyn.model.robot import Robot
from idyn.types import Array, Kinematics


class TaskKinematics:
    """Kinematics of tasks at one state.

    robot, q (nq), v (nv), axes (nv, 6), placements (njoints, 12): the robot, the state and its `Kinematics`, about `origin`
    origin: the world's, or the base's position if that is far from it [m] (3)
    velocities, biases: spatial velocity and J̇ v of the body of each joint, linear at `origin`, then angular
        (njoints, 6)
    arrays: those for `idyn.tasks.frames`
    """

    def __init__(self, robot: Robot, kinematics: Kinematics) -> None:
        kinematics = robot.kinematics(kinematics)  # the buffers hold it
        self.robot, self.q, self.v, tree = robot, robot.near(kinematics.q), kinematics.v, robot.tree
        self.axes, self.placements, self.origin = robot.own_terms.axes, kinematics.placements, robot.origin
        if self.q is not kinematics.q:
            robot.place(self.q)
            self.placements, self.origin = robot.placements.copy(), robot.origin.copy()
        self.velocities, self.biases = np.empty((2, len(tree.parents), 6))
        _fill_motion()((self.axes, self.v), (tree.parents, tree.dof_joint), (self.velocities, self.biases))
        self.arrays = self.axes, self.placements, self.velocities, self.biases, tree.support

    @cached_property
    def centroidal(self) -> Centroidal:
        """Centre of mass and momentum."""
        return self.robot.frames.centroidal(self.q, self.v)


@cache
def _fill_motion() -> Callable[..., None]:
    return entry_point(body_motion, Borrowed(MATRIX, VECTOR), Borrowed(INDICES, INDICES), Output(MATRIX, MATRIX))


@compiled
def body_motion(motion: tuple[Array, Array], tree: tuple[Array, Array], out: tuple[Array, Array]) -> None:
    """Fill the velocity of each body, V = Σ S v, and its bias Σ Ṡ v with Ṡ = V × S, S the joint axes in the world.

    motion: (axes S (nv, 6), v (nv)); tree: (parents (njoints), joint of each degree of freedom (nv)); out: (V, biases), each
    (njoints, 6)
    """
    (axes, v), (parents, dof_joint), (velocities, biases) = motion, tree, out
    for c in range(6):
        velocities[0, c] = biases[0, c] = 0.0
    first = 0
    for joint in range(1, len(parents)):
        V, bias, above = velocities[joint], biases[joint], parents[joint]
        for c in range(6):
            V[c], bias[c] = velocities[above, c], biases[above, c]
        last = first
        while last < len(v) and dof_joint[last] == joint:
            for c in range(6):
                V[c] += axes[last, c] * v[last]
            last += 1
        for k in range(first, last):
            S, speed = axes[k], v[k]
            for c in range(3):
                i, j = (c + 1) % 3, (c + 2) % 3
                bias[c] += speed * (V[3 + i] * S[j] - V[3 + j] * S[i] + V[i] * S[3 + j] - V[j] * S[3 + i])
                bias[3 + c] += speed * (V[3 + i] * S[3 + j] - V[3 + j] * S[3 + i])
        first = last
