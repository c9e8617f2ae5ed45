"""Phases of the feet and their swings of the model-predictive planner."""

from typing import NamedTuple

import numpy as np

from controllers.planners.gait import GaitSettings
from controllers.planners.two_legs.swing import Swing
from idyn.types import Array

LATE, TOUCHES = 0.6, 1e-3
"""Share of a swing after which a foot lower than this above its goal has landed [m]."""


class Phases:
    """Which foot stands when: phases run evenly."""

    def __init__(self, gait: GaitSettings, feet: int) -> None:
        """Raises ConfigError if the settings are not a gait of these feet."""
        self._touchdown, self._walks = gait.phases(feet), gait.pattern != "stand"
        self.gait, self._cycle = gait, 0.0

    def advance(self, dt: float) -> None:
        """Go on by a time [s]."""
        self._cycle += dt / self.gait.period

    def at(self, ahead: float | Array) -> Array:
        """Return the phases of the feet a time ahead [s]: share of the period since touchdown (…, n)."""
        phases: Array = (self._cycle + np.asarray(ahead)[..., None] / self.gait.period - self._touchdown) % 1.0
        return phases

    def stands(self, ahead: float | Array) -> Array:
        """Return which feet stand a time ahead [s] (…, n)."""
        return np.asarray((self.at(ahead) < self.gait.duty) | (not self._walks))

    @property
    def swing_time(self) -> float:
        """Return the duration of a swing [s]."""
        return (1.0 - self.gait.duty) * self.gait.period


class Step(NamedTuple):
    """A foot in the air. swing: its path; share: of the swing time since lift-off"""

    swing: Swing
    share: float

    @property
    def motion(self) -> tuple[Array, Array, Array]:
        """Return position [m], velocity [m/s] and acceleration [m/s²] now (3 each)."""
        return self.swing.x[:3], self.swing.v[:3], self.swing.a[:3]


class Feet:
    """Swings of the feet.

    steps: of each foot, None while it stands; landed: whether a foot touched before its planned time (n)
    """

    def __init__(self, count: int) -> None:
        self.steps: list[Step | None] = [None] * count
        self.landed = np.zeros(count, np.bool_)

    def update(self, phases: Phases, places: Array, goals: Array) -> None:
        """Lift, aim and land feet. places: where the feet are [m] (n, 3); goals: where those in the air shall land (n, 3)"""
        stands, lasts, gait = phases.stands(0.0), phases.swing_time, phases.gait
        shares = (phases.at(0.0) - gait.duty) / (1.0 - gait.duty)
        for i, (step, share) in enumerate(zip(self.steps, shares.tolist(), strict=True)):
            low = step is not None and step.share > LATE and places[i, 2] < goals[i, 2] + TOUCHES
            self.landed[i] = not stands[i] and (low or self.landed[i])
            if stands[i] or self.landed[i]:
                self.steps[i] = None
                continue
            if step is None:
                swing = Swing(_four(places[i]), _four(goals[i]), lasts, gait.step_height)
            else:
                swing = step.swing
                swing.aim(_four(goals[i]), share * lasts)
            swing.move(share * lasts)
            self.steps[i] = Step(swing, share)


def _four(place: Array) -> Array:
    return np.array([*place, 0.0])
