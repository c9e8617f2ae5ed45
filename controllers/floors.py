"""Map of the floors on which a controller stands without oscillating, from the linearised vertical leg."""

import msgspec
import numpy as np

from controllers.controller import Controller
from controllers.monitor.stability import VerticalLeg, critical_damping, vertical_leg
from controllers.settings import PidSettings
from idyn.laws.settings import MujocoLawSettings, SapSettings

STIFFNESSES = (1e3, 1e4, 1e5, 1e6)
"""Stiffness of the floor per foot [N/m]."""

DELAYS = (0, 1, 2, 3, 4, 5)
"""Actuation delays [ticks]."""

LIGHT = 10.0 / 1.2
"""A lightly damped floor, for each kilogram of a foot's share of the robot [N·s/(m kg)]: 10 N·s/m for the quadruped."""

USUAL = {"period": ("period", 0.001), "relaxation": ("ground.relaxation", 0.05), "memory": ("ground.memory", 0.005)}
"""Fields of the leg → their settings, and values with which robots stand on all floors [s]."""

Map = dict[int, tuple[float, ...]]


def floor_map(controller: Controller) -> tuple[Map, float] | None:
    """Return the least stable damping of the floor per foot [N·s/m] by delay and stiffness, and that of a lightly damped floor.

    None if the model does not apply: no free base on feet, or a law that knows no relaxation.
    """
    leg = _leg_of(controller)
    if leg is None:
        return None
    found = {delay: tuple(critical_damping(leg, k, delay) for k in STIFFNESSES) for delay in DELAYS}
    return found, LIGHT * (leg.base + leg.foot)


def floor_text(found: Map, light: float) -> tuple[str, str]:
    """Return the map as a table, and a warning about lightly damped floors, '' if the loop is stable on them."""
    lines = ["least damping of the floor per foot [N·s/m] with which the robot stands without oscillating,"]
    lines.append("by delay of the torques [ticks] and stiffness of the floor [N/m]:")
    lines.append("  delay " + "".join(f"{k:>9.0e}" for k in STIFFNESSES))
    for delay, row in found.items():
        lines.append(f"  {delay:>5} " + "".join(f"{'never' if np.isinf(d) else format(d, '.3g'):>9}" for d in row))
    bad = [delay for delay, row in found.items() if max(row) > light]
    if not bad:
        return "\n".join(lines), ""
    ticks = ", ".join(map(str, bad))
    floor = f"on a lightly damped floor ({light:.3g} N·s/m per foot)"
    return "\n".join(lines), f"if torques act {ticks} ticks late, the robot may oscillate {floor}"


def floor_warning(controller: Controller) -> str:
    """Return on which lightly damped floor a controller may oscillate even without delay, and which of its settings cause it;
    '' if on none.

    The cause is a setting with whose usual value the loop is stable, else several of them together, else the feedback.
    """
    leg = _leg_of(controller)
    stiffness = None if leg is None else _oscillating(leg)
    if leg is None or stiffness is None:
        return ""
    usual = {field: value for field, (_, value) in USUAL.items() if getattr(leg, field) != value}
    causes = [each for each in usual if _oscillating(msgspec.structs.replace(leg, **{each: usual[each]})) is None]
    if not causes and _oscillating(msgspec.structs.replace(leg, **usual)) is None:
        causes = list(usual)
    why = " and ".join(f"{USUAL[each][0]} = {getattr(leg, each):g} s (stable with {usual[each]:g} s)" for each in causes)
    why = why or f"feedback.kp = {leg.kp:g}, feedback.kd = {leg.kd:g} on a foot of {leg.foot:.3g} kg (with armature)"
    light = LIGHT * (leg.base + leg.foot)
    return f"{why}: on a floor of {stiffness:.0e} N/m and {light:.3g} N·s/m per foot the robot may oscillate, see `idyn check`"


def _oscillating(leg: VerticalLeg) -> float | None:
    """Return the softest floor [N/m] on which the loop without delay is unstable at light damping; None without any."""
    light = LIGHT * (leg.base + leg.foot)
    return next((k for k in STIFFNESSES if critical_damping(leg, k, 0) > light), None)


def _leg_of(controller: Controller) -> VerticalLeg | None:
    """Return the leg of a controller; None if the model does not apply."""
    robot, settings = controller.robot, controller.settings
    if isinstance(settings.law, PidSettings | SapSettings | MujocoLawSettings):
        return None
    gains, torque = settings.feedback, settings.torque_feedback
    contacts = controller.contacts(controller.stance, robot.contact_names)
    return vertical_leg(
        robot,
        controller.stance,
        contacts,
        settings.ground.build(),
        (gains.kp, gains.kd, torque.kp, torque.kd),
        settings.period,
    )
