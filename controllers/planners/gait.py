"""Settings of gaits: stance and swing of each foot  [ZD §7.2.1]. Their kernels: `controllers.planners.steps`."""

from typing import Annotated, Literal

import msgspec
import numpy as np

from controllers.command import GaitChange
from controllers.config.loading import Pattern, Settings
from controllers.config.tables import within
from idyn.errors import ConfigError, InputError
from idyn.types import Array

TOUCHDOWN = {
    "trot": (0.25, 0.75, 0.75, 0.25),
    "walk": (0.25, 0.75, 0.0, 0.5),
    "pace": (0.25, 0.75, 0.25, 0.75),
    "bound": (0.25, 0.25, 0.75, 0.75),
}
"""Touchdown phases of the feet left front, right front, left hind, right hind: the trot of the paper (diagonal pairs), a walk
of four beats, a pace (pairs of one side) and a bound (front and hind pair)."""


LIMITS = {"period": (0.15, 2.0, "s"), "duty": (0.5, 0.95, ""), "step_height": (0.005, 0.3, "m")}
"""Range of each number of a commanded gait. The legs may reach less than the largest step height."""

SHORTEST_SWING = 0.05  # shortest swing of a commanded gait [s]
WALK_DUTY = 0.75  # smallest duty factor of a commanded walk: three feet stand


class FastSettings(Settings, frozen=True):
    """Gait at high speed. Between the two speeds, period, duty factor and step height change in proportion."""

    # largest speed of a hip over the ground at which the gait begins to change, and at which it has changed [m/s]
    speeds: tuple[float, float] = (0.4, 1.2)
    # period, duty, step_height: as in `GaitSettings`, at and above the second speed
    period: Annotated[float, within(0.05, 60, "s")] = 0.3
    duty: float = 0.5
    step_height: Annotated[float, within(0.001, 10, "m")] = 0.05


class GaitSettings(Settings, frozen=True):
    """Timing and shape of the steps."""

    # 'trot', 'walk', 'pace' or 'bound' of four feet; 'stand': never step; 'table': the phases in `touchdown`
    pattern: Literal[Pattern, "table"] = "trot"
    # touchdown phase of each foot, as a share of the period, in the order of the robot's contacts
    touchdown: tuple[float, ...] = ()
    period: Annotated[float, within(0.05, 60, "s")] = 0.3  # period of the gait [s]
    duty: float = 0.75  # duty factor, the share of the period in which a foot stands
    step_height: Annotated[float, within(0.001, 10, "m")] = 0.015  # height of the swing's highest point [m]
    fast: FastSettings | None = None  # gait at high speed; None: the same at all speeds
    # distance of a foothold from the hip per deviation of the measured velocity, in multiples of √(height / g), which stops an
    # inverted pendulum; 0: the plan does not follow the measured velocity
    capture: Annotated[float, within(0, 10, "")] = 1.0
    # longest time for which a lift-off waits for feet that are planned to stand but do not touch yet [s]
    patience: Annotated[float, within(0, 60, "s")] = 0.1

    def phases(self, n: int, where: str = "reference.gait") -> Array:
        """Return the touchdown phases of n feet (n). Raises ConfigError if the settings are not a gait of n feet."""
        _check(self, where)
        phases = self.touchdown if self.pattern == "table" else TOUCHDOWN.get(self.pattern, (0.0,) * n)
        if len(phases) != n:
            raise ConfigError(f"{where}.touchdown", f"expected {n} phases, one per foot, got {len(phases)}")
        return np.array(phases)


def commanded(configured: GaitSettings, change: GaitChange | None, n: int) -> GaitSettings:
    """Return the gait of n feet after a commanded change; it is then the same at all speeds.

    Raises InputError, with the field of a command, for a gait that the planner cannot realise.
    """
    if change is None:
        return configured
    given = {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not None}
    for name, (low, high, unit) in LIMITS.items():
        if name in given and not low <= given[name] <= high:
            raise InputError(f"gait.{name}", f"expected {low:g} to {high:g} {unit}".rstrip() + f", got {given[name]:g}")
    pattern = given.get("pattern", configured.pattern)
    touchdown = configured.touchdown if pattern == "table" else ()
    gait = msgspec.structs.replace(configured, touchdown=touchdown, fast=None if given else configured.fast, **given)
    try:
        gait.phases(n, "gait")
    except ConfigError as error:
        raise InputError("gait.pattern", f"'{pattern}': {error.message}") from error
    swing = (1.0 - gait.duty) * gait.period
    if swing < SHORTEST_SWING:
        field = "gait.duty" if change.period is None else "gait.period"
        raise InputError(field, f"expected a swing of at least {SHORTEST_SWING:g} s, got (1 − duty) period = {swing:.3g} s")
    if pattern == "walk" and gait.duty < WALK_DUTY:
        raise InputError("gait.duty", f"expected ≥ {WALK_DUTY:g} for a walk, so that three feet stand, got {gait.duty:g}")
    return gait


def _check(s: GaitSettings, where: str) -> None:
    for field in ("period", "step_height"):
        if not 0 < getattr(s, field) < np.inf:
            raise ConfigError(f"{where}.{field}", f"expected a finite number > 0, got {getattr(s, field)}")
    if s.fast is not None:
        if not 0 < s.fast.duty < 1:
            raise ConfigError(f"{where}.fast.duty", f"expected 0 < x < 1, got {s.fast.duty}")
        if not 0 <= s.fast.speeds[0] < s.fast.speeds[1] < np.inf:
            raise ConfigError(f"{where}.fast.speeds", f"expected 0 ≤ first < second, got {list(s.fast.speeds)}")
    if s.touchdown and s.pattern != "table":
        raise ConfigError(f"{where}.touchdown", f"requires pattern = 'table', got pattern = '{s.pattern}'")
    if not 0 < s.duty < 1:
        raise ConfigError(f"{where}.duty", f"expected 0 < x < 1, got {s.duty}")
    for i, phase in enumerate(s.touchdown):
        if not 0 <= phase < 1:
            raise ConfigError(f"{where}.touchdown[{i}]", f"expected 0 ≤ x < 1, got {phase}")
