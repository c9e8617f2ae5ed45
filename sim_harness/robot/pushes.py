"""Pushes of an experiment for any robot."""

import math

import msgspec

from controllers.config.loading import NonNegative, Settings
from idyn.errors import ConfigError, FrameNotFound
from idyn.model.robot import Robot
from sim_harness.world.world import Push

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
    every: interval at which the push is repeated until the end of the run, ≥ duration [s]; 0: once
    turn: angle about the vertical from each push to the next [rad]
    """

    start: float
    duration: float
    frame: str | None = None
    force: Vector3 | None = None
    weights: Vector3 | None = None
    point: Vector3 = (0.0, 0.0, 0.0)
    every: NonNegative = 0.0
    turn: float = 0.0


def push_of(settings: PushSettings, robot: Robot, where: str) -> Push:
    """Return the first push.

    Raises ConfigError at `where` unless it has exactly one of force and weights and an existing frame, and ends before it is
    repeated.
    """
    unit = 1.0 if settings.weights is None else robot.weight
    forces = [force for force in (settings.force, settings.weights) if force is not None]
    if len(forces) != 1:
        raise ConfigError(f"{where}.force", "expected either force or weights, got both or neither")
    if settings.frame is None and not robot.floating:
        raise ConfigError(f"{where}.frame", "missing field, required for a robot without floating base")
    if 0 < settings.every < settings.duration:
        raise ConfigError(
            f"{where}.every", f"expected 0 or at least the duration {settings.duration:g} s, got {settings.every:g}"
        )
    frame = FLOATING if settings.frame is None else settings.frame
    try:
        robot.joint_of_frame(frame)
    except FrameNotFound as error:
        raise ConfigError(f"{where}.frame", str(error)) from error
    x, y, z = forces[0]
    force = (unit * x, unit * y, unit * z)
    return Push(frame=frame, force=force, point=settings.point, start=settings.start, duration=settings.duration)


def repeated(push: Push, settings: PushSettings, end: float) -> list[Push]:
    """Return the push and its repetitions that start before `end` [s], each turned about the vertical."""
    found, (x, y, z) = [push], push.force
    while settings.every > 0 and push.start + len(found) * settings.every < end:
        c, s = math.cos(len(found) * settings.turn), math.sin(len(found) * settings.turn)
        force, start = (c * x - s * y, s * x + c * y, z), push.start + len(found) * settings.every
        found.append(msgspec.structs.replace(push, force=force, start=start))
    return found
