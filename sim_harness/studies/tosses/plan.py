"""Rules of the comparison: split, loss, bounds and budget. They are the same for every engine and precede every fit.

- Split: tosses are numbered in the order of the file from 0. Those with number % 4 == 3 are for the judge, the others for fits.
- Body: scale and centre of mass come from the free flights of all tosses for fits, without any contact model.
- Start: the measured state of the first sample, nothing of what follows.
- Loss: mean over samples after the first, then over tosses, of position error [block widths] + rotation error [rad].
- Parameters: those that `entries` lists for an engine, within `BOUNDS`, from the start values there.
- Budget: `EVALUATIONS` evaluations of the loss by the Nelder-Mead method in the logarithms of the parameters, on every
  `EVERY`-th toss for fits. The best evaluated point counts.
- Judge: the tosses that no fit has seen.
"""

from typing import NamedTuple

import numpy as np

from idyn.types import Array

JUDGED_OF, JUDGED = 4, 3
"""A toss is for the judge if its number modulo the first is the second."""

EVALUATIONS = 50
"""Evaluations of the loss per engine."""

EVERY = 6
"""The loss uses every sixth toss for fits, 50 of 300, so that all fits end within minutes."""


class Range(NamedTuple):
    """Bounds and start value of a parameter. low > 0"""

    low: float
    start: float
    high: float
    unit: str


BOUNDS = {
    "mu": Range(0.05, 0.2, 0.6, ""),
    "inertia": Range(0.4, 1.0, 2.5, "m h²"),
    "stiffness": Range(3e3, 3e4, 1e6, "N/m"),
    "dissipation": Range(5e-4, 5e-3, 5e-2, "s"),
    "restitution": Range(5e-3, 0.1, 0.5, ""),
    "drag": Range(0.02, 0.5, 20.0, "N·s/m"),
    "time_constant": Range(2e-3, 8e-3, 5e-2, "s"),
    "damping_ratio": Range(0.2, 1.0, 3.0, ""),
}
"""Parameters of all engines.

mu: friction coefficient
inertia: moment of inertia about the centre of mass in units of mass times half edge squared, the same about all axes; a solid
    cube has 0.667, a hollow one 1.11
stiffness: of each contact point; dissipation: damping over stiffness
restitution: of rigid contacts, ratio of the speeds after and before an impact
drag: viscous friction of each contact point
time_constant, damping_ratio: `solref` of MuJoCo
"""


def rules() -> str:
    """Return the rules of a fit that may change, as text."""
    return f"{EVALUATIONS} evaluations on every {EVERY}th toss"


def split(count: int) -> tuple[Array, Array]:
    """Return the numbers of the tosses for fits and of those for the judge, of `count` tosses."""
    numbers = np.arange(count)
    judged = numbers % JUDGED_OF == JUDGED
    return numbers[~judged], numbers[judged]
