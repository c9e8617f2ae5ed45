"""Tasks of a command, from and to their form on the wire."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from controllers.planners.targets import LAST_LEVEL
from idyn.errors import FrameNotFound, InputError, nearest
from idyn.model.robot import Robot
from idyn.model.so3 import rotation
from idyn.tasks import AngularMomentumTask, CenterOfPressureTask, ComTask, ForceTask, FrameTask, PostureTask, TaskStack
from idyn.tasks.forces import ContactTask
from idyn.tasks.motion import MotionTask
from idyn.types import Array
from transport.protocol.codec import vector
from transport.protocol.errors import ProtocolError, printable
from transport.protocol.messages.base import Code, Vector
from transport.protocol.messages.command import AnyTask, ComPart, ForcePart, FramePart, MomentumPart, PosturePart, PressurePart

MOST_TASKS = 32

LARGEST = 1e6  # largest gain, weight, position [m] and angle [rad]

MULTIPLE, GRAVITY, ARM, TIME = 100.0, 9.81, 0.1, 0.1
"""Larger targets are errors: accelerations of `MULTIPLE` times gravity [m/s²], turning about an `ARM` [m]; speeds that they
give in `TIME` [s]; forces of as many weights, their moments with an arm of 1 m, and angular momenta that these give in 1 s."""

UNIT = 1e-3  # largest deviation of a quaternion's length from 1; it is normalised

SIZES = {"position": 3, "point": 3, "force": 3, "momentum": 3, "momentum_rate": 3, "rotation": 4}
"""Vector fields of fixed length → length. `velocity` and `acceleration` depend on the kind."""

RECORDS: dict[type, type[MotionTask | ContactTask]] = {
    FramePart: FrameTask,
    ComPart: ComTask,
    MomentumPart: AngularMomentumTask,
    PosturePart: PostureTask,
    ForcePart: ForceTask,
    PressurePart: CenterOfPressureTask,
}
PARTS = {record: part for part, record in RECORDS.items()}


def read_tasks(robot: Robot, parts: Sequence[AnyTask], modes: Mapping[str, str]) -> TaskStack:
    """Return the tasks of a command. Raises ProtocolError, naming the field."""
    if len(parts) > MOST_TASKS:
        raise ProtocolError(Code.BAD_SCHEMA, "tasks", f"expected at most {MOST_TASKS} tasks, got {len(parts)}")
    for key in modes:
        _check_contact(robot, key, f"modes.{key}")
    tasks = [_read(robot, part, f"tasks[{i}]") for i, part in enumerate(parts)]
    for i, part in enumerate(parts):
        if not 0 <= part.level < LAST_LEVEL:
            raise ProtocolError(Code.BAD_SCHEMA, f"tasks[{i}].level", f"expected 0 to {LAST_LEVEL - 1}, got {part.level}")
    try:
        return TaskStack(tasks=tasks, modes=dict(modes))
    except InputError as error:
        raise ProtocolError(Code.BAD_SCHEMA, error.field, error.message) from error


def _read(robot: Robot, part: AnyTask, where: str) -> Any:
    refuse = partial(ProtocolError, Code.BAD_SCHEMA)
    size = 6 if isinstance(part, FramePart) else 3
    if isinstance(part, PosturePart):
        names = robot.joint_names if part.joints is None else part.joints
        for name in names:
            if name not in robot.joint_names:
                raise refuse(f"{where}.joints", f"no motor '{name}'{nearest(name, robot.joint_names)}")
        size = len(names)
    if isinstance(part, FramePart):
        try:
            robot.frames.attached(part.frame)
        except FrameNotFound as error:
            raise refuse(f"{where}.frame", str(error)) from error
        moves = part.velocity is not None or part.acceleration is not None
        if part.axes == "local" and part.position is not None and part.rotation is None and moves:
            raise refuse(f"{where}.rotation", "expected beside a position that moves along local axes, to extrapolate it")
    if isinstance(part, ForcePart) and (part.normal is None) == (part.force is None):
        raise refuse(f"{where}.normal", "expected exactly one of `normal` and `force`")
    if isinstance(part, (ForcePart, PressurePart)):
        if not part.contacts:
            raise refuse(f"{where}.contacts", "expected at least one contact")
        for key in part.contacts:
            _check_contact(robot, key, f"{where}.contacts")
    fields: dict[str, Any] = {}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, float):
            _check_number(name, value, f"{where}.{name}")
        if value is not None:
            fields[name] = _value(name, value, size, f"{where}.{name}")
            if isinstance(fields[name], np.ndarray) or name == "normal":
                _check_size(robot, part, name, fields[name], f"{where}.{name}")
    return RECORDS[type(part)](**fields)


def _value(name: str, value: Any, size: int, field: str) -> Any:
    """Return the value of a field for the task's record."""
    if name == "name":
        return printable(value)
    if name == "mask":
        if len(value) != size or not any(value):
            raise ProtocolError(Code.BAD_SCHEMA, field, f"expected {size} booleans, at least one of them true, got {value}")
        return tuple(value)
    if name in SIZES or name in ("velocity", "acceleration", "angles"):
        array = vector(value, SIZES.get(name, size), field)
        return _rotation(array, field) if name == "rotation" else array
    return tuple(value) if isinstance(value, list) else value


def _check_number(name: str, value: float, field: str) -> None:
    low = 0.0 if name in ("stiffness", "damping") else -LARGEST if name == "normal" else 1e-12
    if not low <= value <= LARGEST:
        raise ProtocolError(Code.BAD_SCHEMA, field, f"expected {low:g} to {LARGEST:g}, got {value}")


def _check_size(robot: Robot, part: AnyTask, name: str, value: Any, field: str) -> None:
    """Raise ProtocolError for a target beyond what this robot can do."""
    most = np.full(np.shape(value), LARGEST)
    if name in ("velocity", "acceleration"):
        linear = MULTIPLE * GRAVITY * (1.0 if name == "acceleration" else TIME)
        most.fill(linear / ARM)
        most[: 0 if isinstance(part, PosturePart) else 3] = linear
    elif name in ("normal", "force", "momentum", "momentum_rate"):
        most.fill(MULTIPLE * GRAVITY * robot.total_mass)
    if not (np.abs(value) <= most).all():
        sent = np.array(value).tolist()
        raise ProtocolError(Code.BAD_SCHEMA, field, f"expected at most {np.round(most, 1).tolist()} of this robot, got {sent}")


def _check_contact(robot: Robot, key: str, field: str) -> None:
    if key not in robot.contact_names:
        raise ProtocolError(Code.BAD_SCHEMA, field, f"no contact '{key}'{nearest(key, robot.contact_names)}")


def _rotation(quaternion: Array, field: str) -> Array:
    """Return the rotation matrix of a quaternion x, y, z, w. Raises ProtocolError if it is not of unit length."""
    length = float(np.linalg.norm(quaternion))
    if not abs(length - 1.0) <= UNIT:
        raise ProtocolError(Code.BAD_SCHEMA, field, f"expected a unit quaternion, got length {length:.6g}")
    return rotation(quaternion / length)


def write_tasks(tasks: Sequence[MotionTask | ContactTask]) -> list[AnyTask]:
    """Return tasks in their form on the wire. Raises InputError for a task that cannot be sent: weights or gains by row."""
    return [_write(task, f"tasks[{i}]") for i, task in enumerate(tasks)]


def _write(task: Any, where: str) -> AnyTask:
    fields: dict[str, Any] = {}
    for name in task.__struct_fields__:
        value = getattr(task, name)
        if value is None:
            continue
        if name in ("stiffness", "damping", "weight", "normal", "inertia") and np.ndim(value):
            raise InputError(f"{where}.{name}", "expected one number for all rows of a task that is sent")
        if name == "rotation":
            fields[name] = _quaternion(np.asarray(value, np.float64))
        elif name in ("contacts", "joints"):
            fields[name] = [value] if isinstance(value, str) else list(value)
        elif name == "mask":
            fields[name] = [bool(each) for each in value]
        else:
            fields[name] = np.asarray(value, np.float64).tolist() if np.ndim(value) else value
    part: AnyTask = PARTS[type(task)](**fields)
    return part


def _quaternion(R: Array) -> Vector:
    """Return the quaternion x, y, z, w of a rotation matrix, as an eigenvector of a symmetric matrix."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = R
    K = np.array(
        [
            [xx - yy - zz, xy + yx, xz + zx, zy - yz],
            [xy + yx, yy - xx - zz, yz + zy, xz - zx],
            [xz + zx, yz + zy, zz - xx - yy, yx - xy],
            [zy - yz, xz - zx, yx - xy, xx + yy + zz],
        ]
    )
    quaternion: list[float] = np.linalg.eigh(K)[1][:, -1].tolist()
    return quaternion
