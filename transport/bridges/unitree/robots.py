"""Unitree's robots: which joint each motor drives, and postures."""

from typing import NamedTuple

from transport.bridges.unitree.messages import FAMILIES, Family


class UnitreeRobot(NamedTuple):
    """A robot.

    family: of its messages; model: its robot file in `configs/robots`
    joints: of the motors of a message, in their order; further motors are not used
    lying: angles of these joints when the robot lies on its belly [rad]; empty: it cannot lie, and hangs at the start
    kp: of the motors between postures [N·m/rad]
    """

    family: Family
    model: str
    joints: tuple[str, ...]
    lying: tuple[float, ...]
    kp: float


def _joints(parts: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{part}_{name}_joint" for part in parts for name in names)


GO2 = UnitreeRobot(
    family=FAMILIES["go"],
    model="go2-unitree",
    joints=_joints(("FR", "FL", "RR", "RL"), ("hip", "thigh", "calf")),
    lying=(-0.05, 1.22, -2.44, 0.05, 1.22, -2.44) * 2,
    kp=60.0,
)

LEG = "hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll"
ARM = "shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw"

G1 = UnitreeRobot(
    family=FAMILIES["hg"],
    model="g1-unitree",
    joints=(
        *_joints(("left", "right"), LEG),
        *_joints(("waist",), ("yaw", "roll", "pitch")),
        *_joints(("left", "right"), ARM),
    ),
    lying=(),
    kp=150.0,
)

ROBOTS = {"go2": GO2, "g1": G1}
