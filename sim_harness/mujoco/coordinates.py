"""Conversion of states between Pinocchio's coordinates, which `idyn` uses, and MuJoCo's.

Pinocchio: a free joint has position and quaternion xyzw relative to the joint placement, and linear and angular velocity in the
body frame. MuJoCo: position and quaternion wxyz relative to the world, linear velocity in the world frame, angular velocity in
the body frame. All other joints have one angle or length in both.
"""

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array, Record
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.robot_model import body_name, quaternion_of

XYZW = [1, 2, 3, 0]
"""Indices that convert a quaternion wxyz to xyzw."""
WXYZ = [3, 0, 1, 2]
"""Indices that convert a quaternion xyzw to wxyz."""


class FreeJoint(Record, frozen=True):
    """Indices of a free joint: q[place] and v[speed] in Pinocchio's, qpos[address] and qvel[dof] in MuJoCo's coordinates.

    rotation: placement of the joint in the world at neutral q (3, 3)
    origin: position of the joint in the world at neutral q [m] (3)
    """

    place: slice
    speed: slice
    address: slice
    dof: slice
    rotation: Array
    origin: Array


class Coordinates:
    """Coordinate conversion for one robot and its MuJoCo model.

    dofs: MuJoCo's index of each of Pinocchio's velocities (nv)
    """

    def __init__(self, robot: Robot, model: mujoco.MjModel, joint: Array | None = None) -> None:
        """joint: MuJoCo's joint of each velocity (nv); default: those of a model of `robot_model`"""
        self._robot, self._start, self._nv = robot, np.array(model.qpos0), model.nv
        self._neutral = robot.neutral()
        if joint is None:
            joint = np.array([model.body(body_name(i)).jntadr[0] for i in robot.tree.dof_joint])
        first = np.searchsorted(robot.tree.dof_joint, robot.tree.dof_joint)  # first velocity of the same joint
        self.dofs = model.jnt_dofadr[joint] + np.arange(robot.nv) - first
        free = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
        self._single = np.flatnonzero(~free)
        self._addresses = model.jnt_qposadr[joint[self._single]]
        starts = [int(d) for d in np.flatnonzero(free & (first == np.arange(robot.nv)))]
        rotations, origins = robot.place(self._neutral)
        self._free = [
            FreeJoint(
                place=slice(quaternion - 3, quaternion + 4),
                speed=slice(d, d + 6),
                address=slice(int(model.jnt_qposadr[joint[d]]), int(model.jnt_qposadr[joint[d]]) + 7),
                dof=slice(int(self.dofs[d]), int(self.dofs[d]) + 6),
                rotation=np.array(rotations[robot.tree.dof_joint[d]]),
                origin=np.array(origins[robot.tree.dof_joint[d]]),
            )
            for d, quaternion in zip(starts, robot.tree.unit_spans[:, 0].tolist(), strict=True)
        ]

    def to_mujoco(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return qpos and qvel for (q, v). What is beside the robot is at rest in its reference position."""
        qpos, qvel = self._start.copy(), np.zeros(self._nv)
        qpos[self._addresses] = self._robot.difference(self._neutral, q)[self._single]
        qvel[self.dofs] = v
        for joint in self._free:
            position, quaternion = q[joint.place][:3], q[joint.place][3:][WXYZ]
            qpos[joint.address] = np.concatenate(
                [joint.origin + joint.rotation @ position, _product(quaternion_of(joint.rotation), quaternion)]
            )
            qvel[joint.dof][:3] = _rotation(qpos[joint.address][3:]) @ v[joint.speed][:3]
        return qpos, qvel

    def from_mujoco(self, qpos: Array, qvel: Array) -> tuple[Array, Array]:
        """Return (q, v) for qpos and qvel."""
        step = np.zeros(self._robot.nv)
        step[self._single] = qpos[self._addresses]
        q, v = self._robot.integrate(self._neutral, step), np.array(qvel[self.dofs])
        for joint in self._free:
            position, quaternion = qpos[joint.address][:3], qpos[joint.address][3:]
            q[joint.place][:3] = joint.rotation.T @ (position - joint.origin)
            q[joint.place][3:] = _product(quaternion_of(joint.rotation.T), quaternion)[XYZW]
            v[joint.speed][:3] = _rotation(quaternion).T @ qvel[joint.dof][:3]
        return q, v


def _product(a: Array, b: Array) -> Array:
    """Return the quaternion product a b (4), all wxyz."""
    result = np.empty(4)
    mujoco.mju_mulQuat(result, a, np.ascontiguousarray(b))
    return result


def _rotation(quaternion: Array) -> Array:
    """Return the rotation matrix of a quaternion wxyz (3, 3)."""
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, np.ascontiguousarray(quaternion))
    return matrix.reshape(3, 3)
