"""Motion tasks: linear equations A v̇ + J̇ v = asked for the accelerations v̇ (nv), from targets and the present motion.

A task asks for the acceleration  a + stiffness · (target − position) + damping · (target velocity − velocity)  of its quantity,
so that A is the Jacobian. Without a position target there is no position feedback.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self

import msgspec
import numpy as np

from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.tasks.frames import TaskKinematics, fill_frame_rows, fill_joint_rows, is_rotation
from idyn.terms.inputs import finite, numbers
from idyn.types import Array, Record

Numbers = Array | Sequence[float]

_FLOAT64 = np.dtype(np.float64)


def sized(field: str, given: float | Numbers, size: int) -> Array:
    """Return `size` finite numbers from an array or a single number. Raises InputError."""
    if type(given) is np.ndarray and given.dtype is _FLOAT64 and given.shape == (size,) and finite(given):
        return given
    array = numbers(field, given)
    array = np.full(size, float(array)) if array.ndim == 0 else array
    if array.shape != (size,):
        raise InputError(field, f"expected {size} numbers, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(field, "expected finite numbers")
    return array


def gains(stiffness: float | Numbers, damping: float | Numbers | None, size: int) -> tuple[Array, Array]:
    """Return stiffness and damping for each component (size), critical damping for None. Raises InputError."""
    if type(stiffness) is float and (damping is None or type(damping) is float):
        return _equal_gains(stiffness, damping, size)
    k = _not_negative("stiffness", stiffness, size)
    return k, 2.0 * np.sqrt(k) if damping is None else _not_negative("damping", damping, size)


def frame_gains(stiffness: float | Numbers, damping: float | Numbers | None) -> Array:
    """Return stiffness (6), then damping (6) of a frame task. Raises InputError."""
    if type(stiffness) is float and (damping is None or type(damping) is float):
        return _equal_frame_gains(stiffness, damping)
    return np.concatenate(gains(stiffness, damping, 6))


@lru_cache(maxsize=256)
def _equal_gains(stiffness: float, damping: float | None, size: int) -> tuple[Array, Array]:
    return gains(np.full(size, stiffness), None if damping is None else np.full(size, damping), size)


@lru_cache(maxsize=256)
def _equal_frame_gains(stiffness: float, damping: float | None) -> Array:
    return np.concatenate(_equal_gains(stiffness, damping, 6))


def _not_negative(field: str, given: float | Numbers, size: int) -> Array:
    array = sized(field, given, size)
    if (array < 0.0).any():
        raise InputError(field, "expected numbers ≥ 0")
    return array


def rotation(field: str, given: Array) -> Array:
    """Return a rotation matrix (3, 3). Raises InputError."""
    R = numbers(field, given)
    if R.shape != (3, 3) or not is_rotation(R):
        raise InputError(field, "expected a rotation matrix (3, 3), with the frame's axes as columns")
    return R


def mask_of(given: Sequence[bool], size: int) -> Array:
    """Return a mask as an array. Raises InputError."""
    mask = np.asarray(given)
    if mask.shape != (size,) or mask.dtype != np.bool_ or not mask.any():
        raise InputError("mask", f"expected {size} booleans, at least one of them true, got {given!r}")
    return mask


def fill_roots(weight: float | Numbers, roots: Array) -> None:
    """Fill the square roots of the weight of each row. Raises InputError."""
    if type(weight) is float:
        roots.fill(weight**0.5)
        return
    array = np.asarray(weight, dtype=np.float64)
    if array.ndim and array.shape != roots.shape:
        raise InputError("weight", f"expected a number or {len(roots)} numbers, got shape {array.shape}")
    roots[:] = np.sqrt(array)


NONE, NO_ROTATION = np.zeros(0), np.zeros((0, 3))
"""Targets that are not given, in kernels."""

_ALL, _LINEAR, _ANGULAR = np.arange(6), np.arange(3), np.arange(3, 6)
"""Rows of a frame task: with targets of both position and rotation or of neither, of position, of rotation."""


class Rows(NamedTuple):
    """Equations A x + drift = asked of a task: A (r, nv), or (r, 3n) for tasks on contact forces; asked, drift (r).
    roots: square roots of the weights (r)"""

    A: Array
    asked: Array
    drift: Array
    roots: Array

    @classmethod
    def zeros(cls, count: int, columns: int) -> Self:
        """Return zeros for `count` rows."""
        asked, drift, roots = np.zeros((3, count))
        return cls(np.zeros((count, columns)), asked, drift, roots)

    def part(self, start: int, end: int) -> "Rows":
        """Return views of some rows."""
        return Rows(self.A[start:end], self.asked[start:end], self.drift[start:end], self.roots[start:end])


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

    def count(self, robot: Robot) -> int:
        """Return the number of equations."""
        raise NotImplementedError

    def fill(self, given: Any, out: Rows) -> None:
        """Fill A, `asked` and `drift`, which are zeros. given: what the equations depend on besides the task"""
        raise NotImplementedError


class MotionTask(Task, frozen=True):
    """Fields of all motion tasks.

    stiffness [1/s²], ≥ 0: a number, or one for each component
    damping [1/s], ≥ 0; None: critical, 2 √stiffness
    """

    stiffness: float | Numbers = 100.0
    damping: float | Numbers | None = None

    def _with_arrays(self, sizes: dict[str, int], changes: dict[str, Array]) -> Self:
        """Return the task with these targets as arrays, and with other changes. Raises InputError for malformed targets."""
        targets = ((name, getattr(self, name), size) for name, size in sizes.items())
        arrays = {name: np.array(sized(name, value, size)) for name, value, size in targets if value is not None}
        return msgspec.structs.replace(self, **arrays, **changes)

    def _feedback(self, error: Array, velocity: Numbers | None, actual: Array, acceleration: Numbers | None) -> Array:
        """Return a + stiffness · error + damping · (velocity − actual)."""
        size = len(error)
        stiffness, damping = gains(self.stiffness, self.damping, size)
        rate = -actual if velocity is None else sized("velocity", velocity, size) - actual
        value = stiffness * error + damping * rate
        return value if acceleration is None else value + sized("acceleration", acceleration, size)


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

    def count(self, robot: Robot) -> int:
        return len(self._asked())

    def fill(self, given: TaskKinematics, out: Rows) -> None:
        if self.axes not in ("world", "local"):
            raise InputError("axes", f"expected 'world' or 'local', got {self.axes!r}")
        if not self._filled(given, out):
            turned = {} if self.rotation is None else {"rotation": rotation("rotation", self.rotation)}
            checked = self._with_arrays({"position": 3, "velocity": 6, "acceleration": 6}, turned)
            if not checked._filled(given, out):
                raise AssertionError("compiled code rejected checked targets")

    def _filled(self, given: TaskKinematics, out: Rows) -> bool:
        """Fill the equations. Return False if a target is no sound array."""
        joint, offset = given.robot.frames.attached(self.frame)
        task = offset, frame_gains(self.stiffness, self.damping), self._asked()
        position, velocity, acceleration = map(_or_none, (self.position, self.velocity, self.acceleration))
        try:
            R = NO_ROTATION if self.rotation is None else np.ascontiguousarray(self.rotation)
            targets = position, R, velocity, acceleration
            return bool(fill_frame_rows(given.arrays, task, targets, out[:3], joint, self.axes == "local"))
        except (TypeError, ValueError, AttributeError):  # not an array of float64
            return False

    def _asked(self) -> Array:
        """Return the indices of the rows that are asked for."""
        if self.mask is not None:
            return np.flatnonzero(mask_of(self.mask, 6))
        linear, angular = self.position is not None, self.rotation is not None
        return _ALL if linear == angular else _LINEAR if linear else _ANGULAR


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

    def count(self, robot: Robot) -> int:
        return int(mask_of(self.mask, 3).sum())

    def fill(self, given: TaskKinematics, out: Rows) -> None:
        com, rows = given.centroidal, mask_of(self.mask, 3)
        error = np.zeros(3) if self.position is None else sized("position", self.position, 3) - given.origin - com.position
        out.asked[:] = self._feedback(error, self.velocity, com.velocity, self.acceleration)[rows]
        out.A[:], out.drift[:] = com.matrix[:3][rows] / com.mass, com.drift[:3][rows] / com.mass


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

    def count(self, robot: Robot) -> int:
        return int(mask_of(self.mask, 3).sum())

    def fill(self, given: TaskKinematics, out: Rows) -> None:
        if not self.inertia > 0.0:
            raise InputError("inertia", f"expected > 0, got {self.inertia}")
        com, rows = given.centroidal, mask_of(self.mask, 3)
        wanted = np.zeros(3) if self.momentum is None else sized("momentum", self.momentum, 3)
        rate = np.zeros(3) if self.momentum_rate is None else sized("momentum_rate", self.momentum_rate, 3)
        stiffness, damping = gains(self.stiffness, self.damping, 3)
        gain = np.sqrt(stiffness) if self.damping is None else damping
        asked = rate + gain * (wanted - com.angular)
        for part, value in ((out.A, com.matrix[3:]), (out.asked, asked), (out.drift, com.drift[3:])):
            part[:] = value[rows] / self.inertia


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

    def count(self, robot: Robot) -> int:
        return robot.na if self.joints is None else len(self.joints)

    def fill(self, given: TaskKinematics, out: Rows) -> None:
        if not self._filled(given, out):
            size = len(out.asked)
            checked = self._with_arrays({"angles": size, "velocity": size, "acceleration": size}, {})
            if not checked._filled(given, out):
                raise AssertionError("compiled code rejected checked targets")

    def _filled(self, given: TaskKinematics, out: Rows) -> bool:
        """Fill the equations. Return False if a target is no sound array."""
        robot, angles, q, size = given.robot, _or_none(self.angles), given.q, len(out.asked)
        which, places, dofs = _joints_of(robot, None if self.joints is None else tuple(self.joints))
        try:
            if not robot.one_axis_each and self.angles is not None:
                present = robot.joint_angles(q)
                wanted = present.copy()
                wanted[which] = angles
                angles, q, places = robot.joint_error(present, wanted)[which], np.zeros(size), np.arange(size)
            targets = angles, _or_none(self.velocity), _or_none(self.acceleration)
            at, both = (q, given.v, places, dofs), gains(self.stiffness, self.damping, size)
            return bool(fill_joint_rows(at, targets, both, (out.A, out.asked)))
        except (TypeError, ValueError, AttributeError):  # not an array of float64
            return False


def _or_none(given: Any) -> Any:
    return NONE if given is None else given


def _joints_of(robot: Robot, joints: tuple[str, ...] | None) -> tuple[Array, Array, Array]:
    """Return for joints by name, None: all, their indices among the actuated joints, in q and in v, each (k). Raises
    InputError."""
    known = robot.scratch.get(("joints", joints))
    if isinstance(known, tuple):
        return known
    which = np.arange(robot.na)
    if joints is not None:
        for name in joints:
            if name not in robot.joint_names:
                raise InputError("joints", f"expected actuated joints of the robot, got {name!r}")
        which = np.array([robot.joint_names.index(name) for name in joints], np.int64)
    found = which, robot.tree.q_index[which], robot.tree.a[which]
    robot.scratch["joints", joints] = found
    return found
