"""Motion tasks: linear equations A v̇ + J̇ v = asked for the accelerations v̇ (nv), from targets and the present motion.

A task asks for the acceleration  a + stiffness · (target − position) + damping · (target velocity − velocity)  of its quantity,
so that A is the Jacobian. Without a position target there is no position feedback.
"""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.tasks.read import Numbers, Read, checked_target, gains, mask_of, sized
from idyn.types import Array, Record

_ALL, _LINEAR, _ANGULAR = np.arange(6), np.arange(3), np.arange(3, 6)
"""Rows of a frame task: with targets of both position and rotation or of neither, of position, of rotation."""


PYTHON, JOINTS, WORLD, LOCAL, CENTRE, NORMAL, VECTOR, PRESSURE = range(8)
"""Kinds of tasks: filled by Python; on joints, on a frame in world axes, in its own axes, on the centre of mass; on the sum of
normal forces, of forces in the world, on the centre of pressure."""

NO_OFFSET = np.zeros(12)


class Place(NamedTuple):
    """What the equations of a task depend on besides its numbers.

    kind: `JOINTS` and the others; which: rows of the frame or of the centre of mass, or numbers of the joints (r), or of the
        contacts (k)
    joint: of the frame, or k; offset: axes and origin of the frame in the joint frame (12)
    """

    kind: int
    which: Array
    joint: int = 0
    offset: Array = NO_OFFSET


class Part(NamedTuple):
    """One task among the equations: A x + drift = asked."""

    A: Array  # (r, nv), or (r, 3n)
    asked: Array  # (r)
    drift: Array  # (r)
    roots: Array  # square roots of the weights (r)
    x: Array  # v̇ or f
    level: int  # among those that are present
    of_force: bool


class Task(Record, frozen=True):
    """Fields of all tasks.

    name: in outcomes and messages; "": the default of the kind of task
    weight: factor on the squared error among tasks of the same level, > 0: a number, or one for each row
    level: priority, 0 first; tasks of a level never change what the levels before it achieve
    """

    name: str = ""
    weight: float | Numbers = 1.0
    level: int = 0

    TARGETS: ClassVar[tuple[tuple[str, int], ...]] = ()
    """Targets that kernels read, with their sizes; 0: the number of equations."""
    SELECTS: ClassVar[str]
    """Field that selects rows, joints or contacts."""

    def label(self) -> str:
        """Return the name in outcomes."""
        raise NotImplementedError

    def count(self, robot: Robot) -> int:
        """Return the number of equations."""
        raise NotImplementedError

    def fixed(self) -> bool:
        """Return whether the rows stay the same ones: whether what selects them cannot change in place."""
        return isinstance(getattr(self, self.SELECTS), tuple | str | None)

    def structure(self, robot: Robot) -> Hashable:
        """Return what `place` depends on; None if no kernel fills the equations. Raises InputError."""
        return None

    def place(self, robot: Robot) -> Place:
        """Return what the equations depend on besides numbers. Raises FrameNotFound, InputError."""
        raise NotImplementedError

    def targets(self, count: int) -> list[tuple[str, Any, int]]:
        """Return the targets that kernels read: names, values or None, sizes. count: number of equations"""
        return [(name, getattr(self, name), size or count) for name, size in self.TARGETS]

    def read(self, count: int, out: Read) -> None:
        """Add numbers that kernels read. Raises InputError."""
        for name, given, size in self.targets(count):
            if given is not None:
                out.target(name, given, size)


class MotionTask(Task, frozen=True):
    """Fields of all motion tasks.

    stiffness [1/s²], ≥ 0: a number, or one for each component
    damping [1/s], ≥ 0; None: critical, 2 √stiffness
    """

    stiffness: float | Numbers = 100.0
    damping: float | Numbers | None = None

    COMPONENTS: ClassVar[int] = 3
    """Number of stiffnesses; 0: the number of equations."""
    SELECTS = "mask"

    def fill(self, robot: Robot, q: Array, v: Array, out: Part) -> None:
        """Fill A, `asked` and `drift`, which are zeros, unless kernels do. q: with the base near `robot.origin` (nq); v (nv)"""
        raise NotImplementedError

    def read(self, count: int, out: Read) -> None:
        out.arrays += (both := gains(self.stiffness, self.damping, self.COMPONENTS or count))
        fixed = type(self.stiffness) is float and (self.damping is None or type(self.damping) is float)
        out.lasting = out.lasting and (fixed or (both[0] is self.stiffness and both[1] is self.damping))
        super().read(count, out)

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

    COMPONENTS = 6
    TARGETS = (("position", 3), ("rotation", 9), ("velocity", 6), ("acceleration", 6))

    def label(self) -> str:
        return self.name or self.frame

    def count(self, robot: Robot) -> int:
        return len(self._asked())

    def structure(self, robot: Robot) -> Hashable:
        given = self.position is None, self.rotation is None, self.velocity is None, self.acceleration is None
        return self.frame, self.axes, given, None if self.mask is None else mask_of(self.mask, 6).tobytes()

    def place(self, robot: Robot) -> Place:
        if self.axes not in ("world", "local"):
            raise InputError("axes", f"expected 'world' or 'local', got {self.axes!r}")
        return Place(LOCAL if self.axes == "local" else WORLD, self._asked(), *robot.frames.attached(self.frame))

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

    TARGETS = (("position", 3), ("velocity", 3), ("acceleration", 3))

    def label(self) -> str:
        return self.name or "centre of mass"

    def count(self, robot: Robot) -> int:
        return int(mask_of(self.mask, 3).sum())

    def structure(self, robot: Robot) -> Hashable:
        given = self.position is None, self.velocity is None, self.acceleration is None
        return (given, mask_of(self.mask, 3).tobytes()) if robot.weighs_base else None

    def place(self, robot: Robot) -> Place:
        return Place(CENTRE, np.flatnonzero(mask_of(self.mask, 3)))

    def fill(self, robot: Robot, q: Array, v: Array, out: Part) -> None:
        com, rows = robot.frames.centroidal(q, v), mask_of(self.mask, 3)
        error = np.zeros(3) if self.position is None else sized("position", self.position, 3) - robot.origin - com.position
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

    def fill(self, robot: Robot, q: Array, v: Array, out: Part) -> None:
        if not self.inertia > 0.0:
            raise InputError("inertia", f"expected > 0, got {self.inertia}")
        com, rows = robot.frames.centroidal(q, v), mask_of(self.mask, 3)
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

    COMPONENTS = 0
    TARGETS = (("angles", 0), ("velocity", 0), ("acceleration", 0))
    SELECTS = "joints"

    def label(self) -> str:
        return self.name or ("posture" if self.joints is None else ", ".join(self.joints))

    def count(self, robot: Robot) -> int:
        return robot.na if self.joints is None else len(self.joints)

    def structure(self, robot: Robot) -> Hashable:
        if self.angles is not None and not robot.one_axis_each:
            return None
        joints = None if self.joints is None else tuple(self.joints)
        return joints, self.angles is None, self.velocity is None, self.acceleration is None

    def place(self, robot: Robot) -> Place:
        return Place(JOINTS, _joints_of(robot, self.joints))

    def fill(self, robot: Robot, q: Array, v: Array, out: Part) -> None:
        which, present = _joints_of(robot, self.joints), robot.joint_angles(q)
        wanted = present.copy()
        wanted[which] = checked_target("angles", self.angles, len(which))
        error = robot.joint_error(present, wanted)[which]
        out.A[np.arange(len(which)), robot.tree.a[which]] = 1.0
        out.asked[:] = self._feedback(error, self.velocity, v[robot.tree.a[which]], self.acceleration)


def _joints_of(robot: Robot, joints: Sequence[str] | None) -> Array:
    """Return the indices of joints among the actuated joints, None: all (k). Raises InputError."""
    for name in joints or ():
        if name not in robot.joint_names:
            raise InputError("joints", f"expected actuated joints of the robot, got {name!r}")
    names = robot.joint_names if joints is None else joints
    return np.array([robot.joint_names.index(name) for name in names], np.int64)
