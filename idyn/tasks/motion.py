"""Motion tasks: linear equations A v̇ + J̇ v = asked for the accelerations v̇ (nv), from targets and the present motion.

A task asks for the acceleration  a + stiffness · (target − position) + damping · (target velocity − velocity)  of its quantity,
so that A is the Jacobian. Without a position target there is no position feedback.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.tasks.frames import ACCELERATION, POSITION, ROTATION, TARGETS, VELOCITY, frame_rows, is_rotation
from idyn.tasks.kinematics import TaskKinematics
from idyn.terms.inputs import finite, numbers
from idyn.types import Array, Record

Numbers = Array | Sequence[float]


class Rows(NamedTuple):
    """Equations A x + drift = asked of a task: A (r, nv), or (r, 3n) for tasks on contact forces; asked, drift (r)."""

    A: Array
    asked: Array
    drift: Array


class Task(Record, frozen=True):
    """Fields of all tasks.

    name: in outcomes and messages; "": the default of the kind of task
    weight: factor on the squared error among tasks of the same level, > 0: a number, or one for each row
    level: priority, 0 first; tasks of a level never change what the levels before it achieve
    """

    name: str = ""
    weight: float | Numbers = 1.0
    level: int = 0

    def label(self) -> str:
        """Return the name in outcomes."""
        raise NotImplementedError


class MotionTask(Task, frozen=True):
    """Fields of all motion tasks.

    stiffness [1/s²], ≥ 0: a number, or one for each component
    damping [1/s], ≥ 0; None: critical, 2 √stiffness
    """

    stiffness: float | Numbers = 100.0
    damping: float | Numbers | None = None

    def rows(self, kinematics: TaskKinematics) -> Rows:
        """Return the equations of the task."""
        raise NotImplementedError

    def _gains(self, size: int) -> tuple[Array, Array]:
        """Return stiffness and damping, for each component (size)."""
        stiffness = _sized("stiffness", self.stiffness, size)
        return stiffness, 2.0 * np.sqrt(stiffness) if self.damping is None else _sized("damping", self.damping, size)

    def _feedback(self, error: Array, velocity: Numbers | None, actual: Array, acceleration: Numbers | None) -> Array:
        """Return a + stiffness · error + damping · (velocity − actual)."""
        size = len(error)
        stiffness, damping = self._gains(size)
        wanted = np.zeros(size) if velocity is None else _sized("velocity", velocity, size)
        forward = np.zeros(size) if acceleration is None else _sized("acceleration", acceleration, size)
        return forward + stiffness * error + damping * (wanted - actual)


_ROWS = {
    (linear, angular): np.flatnonzero(np.repeat([linear, angular], 3)) if linear or angular else np.arange(6)
    for linear in (False, True)
    for angular in (False, True)
}
"""(whether there is a target of position, of rotation) → rows of a frame task without mask."""


class FrameTask(MotionTask, frozen=True, kw_only=True):
    """Pose of a frame in the world, as of `pink.FrameTask` and TSID's `TaskSE3Equality`.

    frame: link or joint of the URDF; `root_joint` is the floating base
    position: target of its origin in the world [m] (3); rotation: target, the frame's axes as columns (3, 3)
    velocity, acceleration: targets, linear at the origin, then angular, in `axes` [m/s, rad/s; m/s², rad/s²] (6)
    axes: "world" or "local": axes of velocity, acceleration, stiffness and mask
    mask: rows that are asked for, linear, then angular (6); None: those of the given targets, all if neither position nor
        rotation is given
    """

    frame: str
    position: Numbers | None = None
    rotation: Array | None = None
    velocity: Numbers | None = None
    acceleration: Numbers | None = None
    axes: Literal["world", "local"] = "world"
    mask: Sequence[bool] | None = None

    def label(self) -> str:
        return self.name or self.frame

    def rows(self, kinematics: TaskKinematics) -> Rows:
        if self.axes not in ("world", "local"):
            raise InputError("axes", f"expected 'world' or 'local', got {self.axes!r}")
        joint, offset = kinematics.robot.frames.attached(self.frame)
        which, target = self._asked(), np.zeros(TARGETS)
        if self.position is not None:
            target[POSITION:ROTATION] = _sized("position", self.position, 3)
        if self.rotation is not None:
            target[ROTATION:VELOCITY] = _rotation(self.rotation).ravel()
        if self.velocity is not None:
            target[VELOCITY:ACCELERATION] = _sized("velocity", self.velocity, 6)
        if self.acceleration is not None:
            target[ACCELERATION:] = _sized("acceleration", self.acceleration, 6)
        out = Rows(np.empty((len(which), len(kinematics.v))), np.empty(len(which)), np.empty(len(which)))
        frame_rows()(kinematics.arrays, (offset, target, self._frame_gains(), which), tuple(out), joint, self.axes == "local")
        return out

    def _frame_gains(self) -> Array:
        """Return stiffness and damping of each component (12); without a target position or rotation the stiffness is 0."""
        given = self.position is not None, self.rotation is not None
        if type(self.stiffness) is float and (self.damping is None or type(self.damping) is float):
            return _gains_of(self.stiffness, self.damping, given)
        gains = np.concatenate(self._gains(6))
        gains[:6] *= np.repeat(given, 3)
        return gains

    def _asked(self) -> Array:
        """Return the indices of the rows that are asked for."""
        if self.mask is not None:
            return np.flatnonzero(_mask(self.mask, 6))
        return _ROWS[self.position is not None, self.rotation is not None]


class ComTask(MotionTask, frozen=True, kw_only=True):
    """Centre of mass in the world.

    position [m], velocity [m/s], acceleration [m/s²]: targets (3); mask: rows x, y, z that are asked for
    """

    position: Numbers | None = None
    velocity: Numbers | None = None
    acceleration: Numbers | None = None
    mask: Sequence[bool] = (True, True, True)

    def label(self) -> str:
        return self.name or "centre of mass"

    def rows(self, kinematics: TaskKinematics) -> Rows:
        com = kinematics.centroidal
        error = np.zeros(3) if self.position is None else _sized("position", self.position, 3) - com.position
        wanted, rows = self._feedback(error, self.velocity, com.velocity, self.acceleration), _mask(self.mask, 3)
        return Rows(com.matrix[:3][rows] / com.mass, wanted[rows], com.drift[:3][rows] / com.mass)


class AngularMomentumTask(MotionTask, frozen=True, kw_only=True):
    """Angular momentum about the centre of mass, in world axes. The task asks for its rate
    momentum_rate + damping · (momentum − present momentum), damping None: √stiffness. Its rows are divided by `inertia`.

    momentum [kg·m²/s], momentum_rate [N·m]: targets (3); None: 0
    inertia: scale of the rows, so that weights compare with those of other tasks [kg·m²]
    mask: rows x, y, z that are asked for
    """

    momentum: Numbers | None = None
    momentum_rate: Numbers | None = None
    inertia: float = 1.0
    mask: Sequence[bool] = (True, True, True)

    def label(self) -> str:
        return self.name or "angular momentum"

    def rows(self, kinematics: TaskKinematics) -> Rows:
        if not self.inertia > 0.0:
            raise InputError("inertia", f"expected > 0, got {self.inertia}")
        com = kinematics.centroidal
        wanted = np.zeros(3) if self.momentum is None else _sized("momentum", self.momentum, 3)
        rate = np.zeros(3) if self.momentum_rate is None else _sized("momentum_rate", self.momentum_rate, 3)
        gain = np.sqrt(_sized("stiffness", self.stiffness, 3)) if self.damping is None else _sized("damping", self.damping, 3)
        asked, rows = rate + gain * (wanted - com.angular), _mask(self.mask, 3)
        return Rows(*(each[rows] / self.inertia for each in (com.matrix[3:], asked, com.drift[3:])))


class PostureTask(MotionTask, frozen=True, kw_only=True):
    """Positions of actuated joints.

    joints: names (k); None: all actuated joints in model order, `Robot.joint_names`
    angles [rad], velocity [rad/s], acceleration [rad/s²]: targets (k)
    """

    joints: Sequence[str] | None = None
    angles: Numbers | None = None
    velocity: Numbers | None = None
    acceleration: Numbers | None = None

    def label(self) -> str:
        return self.name or ("posture" if self.joints is None else ", ".join(self.joints))

    def rows(self, kinematics: TaskKinematics) -> Rows:
        robot, v = kinematics.robot, kinematics.v
        which, A = _joint_rows(robot, None if self.joints is None else tuple(self.joints))
        error = np.zeros(len(which))
        if self.angles is not None:
            present, angles = robot.joint_angles(kinematics.q), _sized("angles", self.angles, len(which))
            if robot.one_axis_each:
                error = angles - present[which]
            else:
                wanted = present.copy()
                wanted[which] = angles
                error = robot.joint_error(present, wanted)[which]
        asked = self._feedback(error, self.velocity, v[robot.tree.a[which]], self.acceleration)
        return Rows(A, asked, np.zeros(len(which)))


def _joint_rows(robot: Robot, joints: tuple[str, ...] | None) -> tuple[Array, Array]:
    """Return the indices of actuated joints (k) and the rows that select them (k, nv), for names; None: all. Raises
    InputError."""
    known = robot.scratch.get(("joint rows", joints))
    if isinstance(known, tuple):
        return known
    which = np.arange(robot.na)
    if joints is not None:
        for name in joints:
            if name not in robot.joint_names:
                raise InputError("joints", f"expected actuated joints of the robot, got {name!r}")
        which = np.array([robot.joint_names.index(name) for name in joints], np.int64)
    rows = np.zeros((len(which), robot.nv))
    rows[np.arange(len(which)), robot.tree.a[which]] = 1.0
    robot.scratch["joint rows", joints] = which, rows
    return which, rows


@lru_cache(maxsize=256)
def _gains_of(stiffness: float, damping: float | None, given: tuple[bool, bool]) -> Array:
    """Return `_frame_gains` for two numbers."""
    gains = np.concatenate(MotionTask(stiffness=stiffness, damping=damping)._gains(6))
    gains[:6] *= np.repeat(given, 3)
    return gains


def _sized(field: str, given: float | Numbers, size: int) -> Array:
    """Return `size` finite numbers from an array or a single number. Raises InputError."""
    if type(given) is np.ndarray and given.shape == (size,) and given.dtype == np.float64 and finite(given):
        array: Array = given
        if field not in ("stiffness", "damping"):
            return array
    array = numbers(field, given)
    array = np.full(size, float(array)) if array.ndim == 0 else array
    if array.shape != (size,):
        raise InputError(field, f"expected {size} numbers, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(field, "expected finite numbers")
    if field in ("stiffness", "damping") and (array < 0.0).any():
        raise InputError(field, "expected numbers ≥ 0")
    return array


def _rotation(given: Array) -> Array:
    """Return a rotation matrix (3, 3). Raises InputError."""
    if type(given) is np.ndarray and given.shape == (3, 3) and given.dtype == np.float64 and is_rotation(given):
        return given
    R = numbers("rotation", given)
    if R.shape != (3, 3) or not is_rotation(R):
        raise InputError("rotation", "expected a rotation matrix (3, 3), with the frame's axes as columns")
    return R


def _mask(given: Sequence[bool], size: int) -> Array:
    """Return a mask as an array. Raises InputError."""
    mask = np.asarray(given)
    if mask.shape != (size,) or mask.dtype != np.bool_ or not mask.any():
        raise InputError("mask", f"expected {size} booleans, at least one of them true, got {given!r}")
    return mask
