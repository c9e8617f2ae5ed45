"""Soles of a walker: points under each foot, as shares of the foot's length."""

from typing import NamedTuple

import numpy as np

from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.types import Array, Record

FEET = (("calcn_r", "toes_r"), ("calcn_l", "toes_l"))
"""Frames of the heel and of the toes of the right and the left foot, as OpenSim's models of gait name them."""


class Soles(Record, frozen=True):
    """Six points under each foot, fixed to its heel bone: heel, ball and toe tip, each on both sides.

    Lengths are shares of the distance ℓ from the origin of the heel bone to that of the toes (0.18 m for an adult), along the
    heel bone's axes: x forward, y up, z to the right. The shares are those of a shoe about the Gait2354 model.

    feet: frames of heel bone and toes of each foot
    heel, ball, toe: (x, y) of the points [ℓ]
    width: half distances of the points at heel, ball and toe [ℓ]

    Raises InputError for values that are not finite.
    """

    feet: tuple[tuple[str, str], ...] = FEET
    heel: tuple[float, float] = (-0.16, -0.29)
    ball: tuple[float, float] = (1.09, -0.29)
    toe: tuple[float, float] = (1.55, -0.19)
    width: tuple[float, float, float] = (0.16, 0.27, 0.19)

    def __post_init__(self) -> None:
        for name in ("heel", "ball", "toe", "width"):
            if not np.isfinite(getattr(self, name)).all():
                raise InputError(f"soles.{name}", f"expected finite numbers, got {getattr(self, name)!r}")


class Foot(NamedTuple):
    """A foot. frame: of its heel bone; joint: index of its parent joint

    points: of the sole, in the frame; points_in_joint: the same in the frame of the joint [m] (n, 3)
    """

    frame: str
    joint: int
    points: Array
    points_in_joint: Array


def feet_of(robot: Robot, soles: Soles) -> tuple[Foot, ...]:
    """Return the feet of a robot. Raises FrameNotFound for frames that it does not have."""
    return tuple(_foot(robot, heel, toes, soles) for heel, toes in soles.feet)


def _foot(robot: Robot, heel: str, toes: str, soles: Soles) -> Foot:
    joint = robot.joint_of_frame(heel)
    robot.joint_of_frame(toes)
    ends = [robot.frames.placement(name, robot.neutral()).translation for name in (heel, toes)]
    length = float(np.linalg.norm(ends[1] - ends[0]))
    places = zip((soles.heel, soles.ball, soles.toe), soles.width, strict=True)
    points = [(x, y, side * half) for (x, y), half in places for side in (-1.0, 1.0)]
    pose = robot.frames.attached(heel).offset
    placed = length * np.array(points) @ pose[:9].reshape(3, 3).T + pose[9:]
    return Foot(heel, joint, length * np.array(points), placed)
