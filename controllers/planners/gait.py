"""Settings of gaits: when each foot stands and when it swings (`controllers.planners.steps` does it)  [ZD §7.2.1]."""

from typing import Literal

import numpy as np

from controllers.config.loading import NonNegative, Settings
from idyn.errors import ConfigError
from idyn.types import Array

TOUCHDOWN = {"trot": (0.25, 0.75, 0.75, 0.25), "walk": (0.25, 0.75, 0.0, 0.5)}
"""Touchdown phases of left front, right front, left hind, right hind feet: the paper's trot, and one foot after another."""


class GaitSettings(Settings, frozen=True):
    """Timing and shape of the steps.

    pattern: 'trot' or 'walk' of four feet, 'stand' whatever the path, or 'table' for the phases of `touchdown`
    touchdown: share of the period at which each foot touches down, in the order of the robot's contacts
    period: of the gait [s]; duty: share of it in which a foot stands
    step_height: of the swing's highest point [m]
    swing_speed: largest horizontal speed of a swinging foot over the ground; longer steps are cut short [m/s]
    patience: so long feet that are to lift wait for those that are to stand meanwhile but do not touch [s]
    """

    pattern: Literal["trot", "walk", "stand", "table"] = "trot"
    touchdown: tuple[float, ...] = ()
    period: float = 0.3
    duty: float = 0.75
    step_height: float = 0.015
    swing_speed: float = 3.0
    patience: NonNegative = 0.1

    def phases(self, n: int, where: str = "reference.gait") -> Array:
        """Touchdown phases of n feet (n). Raises ConfigError for settings that are no gait of n feet."""
        _check(self, where)
        phases = self.touchdown if self.pattern == "table" else TOUCHDOWN.get(self.pattern, (0.0,) * n)
        if len(phases) != n:
            raise ConfigError(f"{where}.touchdown", f"expected a phase for each of the {n} feet, got {len(phases)}")
        return np.array(phases)


def _check(s: GaitSettings, where: str) -> None:
    for field in ("period", "step_height", "swing_speed"):
        if not 0 < getattr(s, field) < np.inf:
            raise ConfigError(f"{where}.{field}", f"expected a finite number > 0, got {getattr(s, field)}")
    if s.touchdown and s.pattern != "table":
        raise ConfigError(f"{where}.touchdown", f"goes with pattern = 'table', got '{s.pattern}'")
    if not 0 < s.duty < 1:
        raise ConfigError(f"{where}.duty", f"expected 0 < x < 1, got {s.duty}")
    for i, phase in enumerate(s.touchdown):
        if not 0 <= phase < 1:
            raise ConfigError(f"{where}.touchdown[{i}]", f"expected 0 ≤ x < 1, got {phase}")
