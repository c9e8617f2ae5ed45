"""Jacobians and velocity products J̇ v of frames and of the centre of mass at one state, from the joint axes of `Kinematics`."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from idyn.model.frames import Centroidal
from idyn.model.robot import Robot
from idyn.types import Array, Kinematics


class FrameMotion(NamedTuple):
    """Pose, Jacobian and motion of a frame: linear at its origin, then angular, in world axes.

    rotation (3, 3): axes as columns; translation [m] (3); J (6, nv); velocity [m/s, rad/s] (6); drift: J̇ v [m/s², rad/s²] (6)
    """

    rotation: Array
    translation: Array
    J: Array
    velocity: Array
    drift: Array


class TaskKinematics:
    """Kinematics of tasks at one state. robot, q (nq), v (nv): the robot and the state"""

    def __init__(self, robot: Robot, kinematics: Kinematics) -> None:
        self.robot, self.q, self.v = robot, kinematics.q, kinematics.v
        self._axes, self._placements = kinematics.axes, kinematics.placements
        self._frames: dict[str, FrameMotion] = {}
        support = robot.tree.support
        # velocity V of each joint's body, linear at the world origin, then angular; rate of each axis, Ṡ = V × S; bias Σ Ṡ v
        weighted = self._axes * self.v[:, None]
        self._velocities = support @ weighted
        V = self._velocities[robot.tree.dof_joint]
        turned = np.empty_like(weighted)
        turned[:, :3] = _cross(V[:, 3:], weighted[:, :3]) + _cross(V[:, :3], weighted[:, 3:])
        turned[:, 3:] = _cross(V[:, 3:], weighted[:, 3:])
        self._biases = support @ turned

    def frame(self, name: str) -> FrameMotion:
        """Return the motion of a frame. Raises FrameNotFound."""
        if name not in self._frames:
            self._frames[name] = self._motion(name)
        return self._frames[name]

    def _motion(self, name: str) -> FrameMotion:
        joint, R0, x0 = self.robot.frames.attached(name)
        placed = self._placements[joint]
        R_joint = placed[:9].reshape(3, 3).T
        R, x = R_joint @ R0, placed[9:] + R_joint @ x0
        J = np.where(self.robot.tree.support[joint][:, None], self._axes, 0.0)
        J[:, :3] += _cross(J[:, 3:], x)
        (v_O, w), (a_O, alpha) = np.split(self._velocities[joint], 2), np.split(self._biases[joint], 2)
        at = v_O + _cross(w, x)
        drift = np.concatenate([a_O + _cross(alpha, x) + _cross(w, at), alpha])
        return FrameMotion(R, x, J.T, np.concatenate([at, w]), drift)

    @cached_property
    def centroidal(self) -> Centroidal:
        """Centre of mass and momentum."""
        return self.robot.frames.centroidal(self.q, self.v)


def rotation_vector(R: Array) -> Array:
    """Return the rotation vector of a rotation matrix [rad] (3), of length ≤ π."""
    sines = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2.0
    cosine, sine = (np.trace(R) - 1.0) / 2.0, float(np.linalg.norm(sines))
    angle = float(np.arctan2(sine, cosine))
    if sine > 1e-6:
        return sines * (angle / sine)
    if cosine > 0.0:
        return sines
    # near π: the axis from R + Rᵀ = 2 (cos 1 + (1 − cos) n nᵀ)
    outer = (R + R.T) / 4.0 + np.eye(3) / 2.0
    column = int(np.argmax(np.diag(outer)))
    axis: Array = outer[:, column] / np.linalg.norm(outer[:, column])
    return axis * (angle if axis @ sines >= 0.0 else -angle)


def _cross(a: Array, b: Array) -> Array:
    """Return a × b along the last axis; `np.cross` takes several times as long."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape))
    out[..., 0] = a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1]
    out[..., 1] = a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2]
    out[..., 2] = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return out
