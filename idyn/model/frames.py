"""Kinematics of frames, of the centre of mass and of the centroidal momentum, by Pinocchio."""

from math import isfinite
from typing import Literal, NamedTuple, get_args

import numpy as np
import pinocchio as pin

from idyn.errors import FrameNotFound, InputError
from idyn.types import Array

FAR = 1000.0  # largest coordinate of a base at which terms are computed [m]


def exponential(vector: Array) -> Array:
    """Return the rotation matrix of a rotation vector [rad]."""
    return np.array(pin.exp3(vector))


def logarithm(R: Array) -> Array:
    """Return the rotation vector of a rotation matrix, of an angle up to π [rad]."""
    return np.array(pin.log3(R))


def left_jacobian(vector: Array) -> Array:
    """Return J so that the angular velocity in the world of `exponential(x)` is J ẋ."""
    return np.array(pin.Jexp3(-vector))


def nearby(q: Array) -> Array:
    """Return a configuration (nq) of a floating base: q itself, or with a coordinate beyond `FAR` a copy with the base at the
    origin. Coordinates that are not finite stay."""
    x, y, z = q[:3].tolist()
    if max(abs(x), abs(y), abs(z)) <= FAR or not isfinite(x + y + z):
        return q
    moved = q.copy()
    moved[:3] = 0.0
    return moved


Axes = Literal["local_world_aligned", "local", "world"]
"""Where a velocity is expressed: at the frame's origin in world axes; there in the frame's axes; at the world's origin in world
axes (Pinocchio's `ReferenceFrame`)."""

ON_AXIS = 1e-3  # distance from the axis of a joint up to which a frame counts as on it [m]

_REFERENCE = {name: getattr(pin.ReferenceFrame, name.upper()) for name in get_args(Axes)}


class Placement(NamedTuple):
    """Pose of a frame in the world: rotation, with the frame's axes as columns (3, 3); translation, its origin [m] (3)."""

    rotation: Array
    translation: Array


class Momentum(NamedTuple):
    """Momentum in world axes: linear [kg·m/s] (3); angular, about the centre of mass [kg·m²/s] (3)."""

    linear: Array
    angular: Array


class Attached(NamedTuple):
    """Where a frame is fixed: joint index, and its axes by rows of the rotation matrix, then its origin [m], in the frame of
    that joint (12)."""

    joint: int
    offset: Array


class Centroidal(NamedTuple):
    """Centre of mass and momentum about it, in world axes."""

    mass: float  # [kg]
    position: Array  # [m] (3)
    velocity: Array  # [m/s] (3)
    angular: Array  # angular momentum [kg·m²/s] (3)
    matrix: Array  # A: linear, then angular momentum is A v (6, nv)
    drift: Array  # Ȧ v [N, N·m] (6)


def _links(model: pin.Model) -> dict[str, str]:
    """Return `Frames.links`: Pinocchio's frames have the joint between two links as a frame of its own."""
    frames = list(model.frames)
    parents = {}
    for frame in frames:
        if frame.type == pin.FrameType.BODY:
            above = frames[frame.parentFrame]
            while above.type != pin.FrameType.BODY and above.parentFrame != 0:
                above = frames[above.parentFrame]
            parents[frame.name] = above.name if above.type == pin.FrameType.BODY else ""
    return parents


class Frames:
    """Kinematics of a robot as functions of q (nq) and v (nv), each result in arrays of its own. `Robot.frames`

    names: of all frames: links and joints of the URDF
    links: name of each link → name of its parent link; of the root link: ''

    Velocities, and so the rows of Jacobians, are linear [m/s], then angular [rad/s]. Unknown names raise FrameNotFound, arrays
    of a wrong size InputError. Use a robot in one thread only, see `Robot.twin`.
    """

    def __init__(self, model: pin.Model, floating: bool) -> None:
        self._model, self._data, self._floating = model, model.createData(), floating
        self._ids = {frame.name: i for i, frame in enumerate(model.frames)}
        self.names = tuple(self._ids)
        self.links = _links(model)
        poses = {frame.name: (int(frame.parentJoint), frame.placement) for frame in model.frames}
        self._attached = {
            name: Attached(joint, np.concatenate([pose.rotation.ravel(), pose.translation]))
            for name, (joint, pose) in poses.items()
        }

    def attached(self, name: str) -> Attached:
        """Return where a frame is fixed."""
        self._id(name)
        return self._attached[name]

    def placement(self, name: str, q: Array) -> Placement:
        """Return the pose of a frame."""
        frame = self._id(name)
        pin.forwardKinematics(self._model, self._data, self._q(q))
        pose = pin.updateFramePlacement(self._model, self._data, frame)
        return Placement(np.array(pose.rotation), np.array(pose.translation))

    def jacobian(self, name: str, q: Array, *, axes: Axes = "local_world_aligned") -> Array:
        """Return the Jacobian of a frame: its velocity is J v (6, nv)."""
        if axes not in _REFERENCE:
            raise InputError("axes", f"expected one of {', '.join(_REFERENCE)}, got {axes!r}")
        frame = self._id(name)
        return np.array(pin.computeFrameJacobian(self._model, self._data, self._q(q), frame, _REFERENCE[axes]))

    def velocity(self, name: str, q: Array, v: Array, *, axes: Axes = "local_world_aligned") -> Array:
        """Return the velocity of a frame (6)."""
        return self.jacobian(name, q, axes=axes) @ self._v(v)

    def drift(self, name: str, q: Array, v: Array, *, axes: Axes = "local_world_aligned") -> Array:
        """Return J̇ v, the rate of the velocity's components in these axes at v̇ = 0 [m/s², rad/s²] (6)."""
        frame = self._id(name)
        near = self._q(q) if axes == "world" else self._near(q)
        pin.computeJointJacobians(self._model, self._data, near)
        pin.computeJointJacobiansTimeVariation(self._model, self._data, near, self._v(v))
        rate = pin.getFrameJacobianTimeVariation(self._model, self._data, frame, _REFERENCE[axes])
        return np.array(rate @ v)

    def center_of_mass(self, q: Array) -> Array:
        """Return the centre of mass in the world [m] (3)."""
        return np.array(pin.centerOfMass(self._model, self._data, self._q(q)))

    def center_of_mass_jacobian(self, q: Array) -> Array:
        """Return the Jacobian of the centre of mass, world axes (3, nv)."""
        return np.array(pin.jacobianCenterOfMass(self._model, self._data, self._q(q)))

    def momentum_matrix(self, q: Array) -> Array:
        """Return A (6, nv): A v is the linear, then the angular momentum about the centre of mass, world axes."""
        return np.array(pin.computeCentroidalMap(self._model, self._data, self._near(q)))

    def momentum(self, q: Array, v: Array) -> Momentum:
        """Return the momentum of the robot."""
        both = self.momentum_matrix(q) @ self._v(v)
        return Momentum(both[:3], both[3:])

    def centroidal(self, q: Array, v: Array) -> Centroidal:
        """Return centre of mass, momentum and their derivatives."""
        data, at = self._data, self._q(q)
        near = self._near(at)
        pin.computeCentroidalMapTimeVariation(self._model, data, near, self._v(v))
        A, drift, place = np.array(data.Ag), np.array(data.dAg @ v), np.array(data.com[0])
        if near is not at:
            place += at[:3]
        mass = float(pin.computeTotalMass(self._model))
        momentum = A @ v
        return Centroidal(mass, place, momentum[:3] / mass, momentum[3:], A, drift)

    def _id(self, name: str) -> int:
        if name not in self._ids:
            raise FrameNotFound(name, self._ids)
        return self._ids[name]

    def _q(self, q: Array) -> Array:
        return self._sized("q", q, self._model.nq)

    def _near(self, q: Array) -> Array:
        return nearby(self._q(q)) if self._floating else self._q(q)

    def _v(self, v: Array) -> Array:
        return self._sized("v", v, self._model.nv)

    @staticmethod
    def _sized(field: str, values: Array, size: int) -> Array:
        array = np.asarray(values, np.float64)
        if array.shape != (size,):
            raise InputError(field, f"expected an array of shape {(size,)}, got {array.shape}")
        return array


def wheel_frames(model: pin.Model, data: pin.Data) -> frozenset[str]:
    """Return the frames on the axis of a joint that turns without limits, to `ON_AXIS`: what they touch, they roll on."""
    pin.computeJointJacobians(model, data, pin.neutral(model))
    pin.updateFramePlacements(model, data)
    found, axes = set(), data.J.T.reshape(-1, 6)  # the bindings return one column as a vector
    for frame, placed in zip(model.frames, data.oMf, strict=True):
        joint = model.joints[frame.parentJoint]
        if frame.parentJoint == 0 or joint.nv != 1 or joint.nq != 1:
            continue
        lower, upper = model.lowerPositionLimit[joint.idx_q], model.upperPositionLimit[joint.idx_q]
        turns = not lower < upper or (np.isinf(lower) and np.isinf(upper))
        axis = axes[joint.idx_v]
        moved = axis[:3] + np.cross(axis[3:], placed.translation)
        if turns and axis[3:].any() and np.linalg.norm(moved) < ON_AXIS:
            found.add(frame.name)
    return frozenset(found)
