"""Tasks of a command: the tasks of `idyn.tasks` on the wire."""

from typing import Literal

from transport.protocol.messages.base import Part, Vector


class TaskPart(Part, tag_field="kind"):
    """Fields of all tasks, see `idyn.tasks.motion.Task`."""

    name: str = ""
    weight: float = 1.0
    level: int = 0


class MotionPart(TaskPart):
    """Fields of all motion tasks. Targets are extrapolated by their derivatives until the command expires; those without
    derivatives pass smoothly from the previous command to this one (`controllers.planners.targets`)."""

    stiffness: float = 100.0  # [1/s²]
    damping: float | None = None  # [1/s]; absent: critical


class FramePart(MotionPart, kw_only=True, tag="frame"):
    """Pose of a frame; `root_joint` is the floating base."""

    frame: str
    position: Vector | None = None  # of its origin in the world [m] (3)
    rotation: Vector | None = None  # quaternion x, y, z, w (4)
    velocity: Vector | None = None  # linear, angular, in `axes` [m/s, rad/s] (6)
    acceleration: Vector | None = None  # linear, angular, in `axes` [m/s², rad/s²] (6)
    axes: Literal["world", "local"] = "world"
    mask: list[bool] | None = None  # rows that are asked for (6); absent: those of the given targets


class ComPart(MotionPart, kw_only=True, tag="com"):
    """Centre of mass."""

    position: Vector | None = None  # [m] (3)
    velocity: Vector | None = None  # [m/s] (3)
    acceleration: Vector | None = None  # [m/s²] (3)
    mask: list[bool] | None = None  # rows that are asked for (3); absent: all


class MomentumPart(MotionPart, kw_only=True, tag="momentum"):
    """Angular momentum about the centre of mass."""

    momentum: Vector | None = None  # [kg·m²/s] (3)
    momentum_rate: Vector | None = None  # [N·m] (3)
    inertia: float = 1.0  # scale of its rows [kg·m²]
    mask: list[bool] | None = None  # rows that are asked for (3); absent: all


class PosturePart(MotionPart, kw_only=True, tag="posture"):
    """Positions of joints."""

    joints: list[str] | None = None  # (k); absent: all motors in the server's order
    angles: Vector | None = None  # [rad] (k)
    velocity: Vector | None = None  # [rad/s] (k)
    acceleration: Vector | None = None  # [rad/s²] (k)


class ForcePart(TaskPart, kw_only=True, tag="force"):
    """Sum of contact forces on the robot; exactly one of `normal` and `force` is given."""

    contacts: list[str]
    normal: float | None = None  # sum of the normal forces [N]
    force: Vector | None = None  # in the world [N] (3)


class PressurePart(TaskPart, kw_only=True, tag="pressure"):
    """Centre of pressure of contacts on a common plane."""

    contacts: list[str]
    point: Vector  # in the world [m] (3)


AnyTask = FramePart | ComPart | MomentumPart | PosturePart | ForcePart | PressurePart
