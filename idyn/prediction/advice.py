"""Warnings about settings with which robots do not stand on ground that yields. The figures were measured in MuJoCo (default
ground, go2 and quadruped, 1 kHz, joint accelerations −100 e − 20 ė; docs/concepts/ground-compliance.md).
"""

import logging
from functools import cache

from idyn.laws.law import Law, is_compliant
from idyn.options import Options
from idyn.status import Conditions
from idyn.types import Consistency, Selection

log = logging.getLogger("idyn.options")

SHORTEST_RELAXATION = 0.02
"""Relaxation time T_r from which standing is smooth [s]."""


def advice(law: Law, options: Options, dt: float) -> list[str]:
    """Return what to expect on ground that yields from each unsuitable setting, which it names. Period: dt [s]"""
    found: list[str] = []
    ground = options.ground
    if law.conditions is Conditions.FREE:
        return found
    if is_compliant(law):
        found.append(f"law {law.name}: it takes the ground for as stiff as its material says; on softer ground robots fall")
    elif ground.relaxation <= dt:
        found.append(
            f"ground.relaxation = {ground.relaxation:g} s: up to the period of {dt:g} s contacts are rigid; robots fall within "
            f"seconds"
        )
    elif ground.relaxation < SHORTEST_RELAXATION:
        found.append(f"ground.relaxation = {ground.relaxation:g} s: below {SHORTEST_RELAXATION:g} s feet may bounce")
    if not is_compliant(law) and options.consistency is not Consistency.HOLD:
        found.append(f"consistency = '{options.consistency}': torques chatter by hundreds of N·m/s and more")
    elif options.selection in (Selection.TORQUE, Selection.TORQUE_CHANGE):
        found.append(f"selection = '{options.selection}': feet brace against each other and creep apart")
    elif options.selection is Selection.OFF:
        found.append("selection = 'off': torques jump between equivalent solutions")
    return found


def warn(law: Law, options: Options, dt: float) -> None:
    """Log the advice for these settings, the same words once in this process."""
    found = advice(law, options, dt)
    if found:
        _log_once("; ".join(found))


@cache
def _log_once(words: str) -> None:
    log.warning("on ground that yields: %s. With Options() robots stand in MuJoCo", words)
