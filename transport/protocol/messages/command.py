"""Commands: what the robot should do, from its client or from a planner, at a rate of their own; and their tasks."""

from typing import Any, Literal

from controllers.config.loading import Pattern
from transport.protocol.messages.base import ClientMessage, Count, Part, ServerMessage, ServerPart, Vector


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


class PlanHello(ClientMessage, tag="plan_hello"):
    """Starts a session of a planner, which sends commands and no states. It needs no model of the robot."""

    name: str  # of the planner, as in the server's setting `planners`


class SeenState(ServerPart):
    """The last state of the controlling client that was accepted, in the server's order of the joints."""

    t_robot: int
    q: Vector  # (nq)
    vel: Vector  # linear and angular velocity of the base along its axes, then the joints (nv)


class PlanWelcome(ServerMessage, tag="plan_welcome"):
    """The answer to `plan_hello`."""

    session: Count  # below 2⁵³, for commands
    model_name: str
    joint_names: list[str]  # motors, in the server's order
    contact_frames: list[str]
    controller: dict[str, Any]  # controller settings in use
    state: SeenState | None = None  # absent before the first one


class GaitPart(Part):
    """Steps of the feet; absent fields as configured, see `controllers.planners.gait.GaitSettings`. The gait changes when all
    feet stand."""

    pattern: Pattern | None = None
    period: float | None = None  # [s]
    duty: float | None = None  # share of the period in which a foot stands
    step_height: float | None = None  # [m]


class CommandMessage(ClientMessage, tag="command"):
    """Applies from the next state on, until it expires or the next command replaces it as a whole. When it expires, the robot
    slows down and stands: height and attitude return to those of the stance, motion tasks keep their last targets, contact
    tasks and modes end, and feet with a mode go down.

    Commands come from one client at a time: another one is refused until the last command has expired. An old command is
    refused by its `seq` or, without one, if its bytes are those of one that has expired.
    """

    session: Count  # from `welcome` or `plan_welcome`
    valid_for: float  # time from its arrival until it expires [s]
    velocity: Vector | None = None  # of the base: forward, left [m/s], turn [rad/s] (3); replaces the path of the gait
    height: float | None = None  # of the base, relative to its stance [m]
    attitude: Vector | None = None  # of the base over the ground: roll, pitch [rad] (2)
    gait: GaitPart | None = None  # of a controller whose reference is a gait
    tasks: list[AnyTask] | None = None  # the controller's reference stays as the last level
    modes: dict[str, Literal["stick", "slide", "open"]] | None = None  # of contacts, by key, for `tasks`
    seq: Count = 0  # once it was sent, each command of the session needs a larger one


class CommandAck(ServerMessage, tag="command_ack"):
    session: Count
    valid_until: int  # server clock [ns]
    state: SeenState | None = None  # absent before the first one
