"""Map of the floors on which a controller stands without oscillating, from the linearised vertical leg."""

import numpy as np

from controllers.controller import Controller
from controllers.monitor.stability import critical_damping, vertical_leg
from controllers.settings import PidSettings
from idyn.laws.settings import SapSettings

STIFFNESSES = (1e3, 1e4, 1e5, 1e6)
"""Stiffness of the floor per foot [N/m]."""

DELAYS = (0, 1, 2, 3, 4, 5)
"""Actuation delays [ticks]."""

LIGHT = 10.0 / 1.2
"""A lightly damped floor, for each kilogram of a foot's share of the robot [N·s/(m kg)]: 10 N·s/m for the quadruped."""

Map = dict[int, tuple[float, ...]]


def floor_map(controller: Controller) -> tuple[Map, float] | None:
    """Return the least stable damping of the floor per foot [N·s/m] by delay and stiffness, and that of a lightly damped floor.

    None if the model does not apply: no free base on feet, or a law that knows no relaxation.
    """
    robot, settings = controller.robot, controller.settings
    if isinstance(settings.law, PidSettings | SapSettings):
        return None
    gains, torque = settings.feedback, settings.torque_feedback
    contacts = controller.contacts(controller.stance, robot.contact_names)
    leg = vertical_leg(
        robot,
        controller.stance,
        contacts,
        settings.ground.build(),
        (gains.kp, gains.kd, torque.kp, torque.kd),
        settings.period,
    )
    if leg is None:
        return None
    found = {delay: tuple(critical_damping(leg, k, delay) for k in STIFFNESSES) for delay in DELAYS}
    return found, LIGHT * (leg.base + leg.foot)


def floor_text(found: Map, light: float) -> tuple[str, str]:
    """Return the map as a table, and a warning about lightly damped floors, '' if the loop is stable on them."""
    lines = ["least damping of the floor per foot [N·s/m] for which the vertical loop is stable, by delay and stiffness [N/m]:"]
    lines.append("  delay " + "".join(f"{k:>9.0e}" for k in STIFFNESSES))
    for delay, row in found.items():
        lines.append(f"  {delay:>5} " + "".join(f"{'never' if np.isinf(d) else format(d, '.3g'):>9}" for d in row))
    bad = [delay for delay, row in found.items() if max(row) > light]
    if not bad:
        return "\n".join(lines), ""
    ticks = ", ".join(map(str, bad))
    return "\n".join(lines), f"on a floor of {light:.3g} N·s/m per foot the robot may oscillate with a delay of {ticks} ticks"
