"""Pushes of an experiment for any robot."""

from controllers.config.loading import Settings
from idyn.errors import ConfigError, FrameNotFound
from idyn.model.robot import Robot
from sim_harness.world.world import Push

GRAVITY = 9.81
"""[m/s²]"""

FLOATING = "root_joint"
"""Pinocchio's name of the floating base joint."""

Vector3 = tuple[float, float, float]


class PushSettings(Settings, frozen=True):
    """A push: see `sim_harness.world.world.Push`.

    start, duration: interval [s]
    frame: any frame of the pushed body; absent: the floating base
    force: [N] (3)
    weights: force in multiples of the modelled robot's weight (3); instead of `force`
    point: point of action in the frame of the joint that carries the body [m] (3)
    """

    start: float
    duration: float
    frame: str | None = None
    force: Vector3 | None = None
    weights: Vector3 | None = None
    point: Vector3 = (0.0, 0.0, 0.0)


def push_of(settings: PushSettings, robot: Robot, where: str) -> Push:
    """Return the push. Raises ConfigError at `where` unless it has exactly one of force and weights and an existing frame."""
    unit = 1.0 if settings.weights is None else robot.total_mass * GRAVITY
    forces = [force for force in (settings.force, settings.weights) if force is not None]
    if len(forces) != 1:
        raise ConfigError(f"{where}.force", "expected either force or weights, got both or neither")
    if settings.frame is None and not robot.floating:
        raise ConfigError(f"{where}.frame", "missing field, required for a robot without floating base")
    frame = FLOATING if settings.frame is None else settings.frame
    try:
        robot.joint_of_frame(frame)
    except FrameNotFound as error:
        raise ConfigError(f"{where}.frame", str(error)) from error
    x, y, z = forces[0]
    force = (unit * x, unit * y, unit * z)
    return Push(frame=frame, force=force, point=settings.point, start=settings.start, duration=settings.duration)
