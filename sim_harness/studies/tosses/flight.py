"""Scale and centre of mass of the block from free flights, without any contact model.

In flight the centre of mass moves on a parabola. The geometric centre at time t of a toss is

    x(t) = a + b t − ½ g t² ẑ − R(t) c
with a and b of each toss and gravity g and centre c common to all: linear least squares. Gravity other than 9.81 m/s² is the
scale of the measured lengths.
"""

from collections.abc import Sequence

import numpy as np

from controllers.config.loading import NonNegative, Positive, Settings
from idyn.types import Array
from sim_harness.judge.tosses import EDGE, MASS, RATE, Toss
from sim_harness.studies.tosses.block import Block

STANDARD_GRAVITY = 9.81
"""[m/s²]"""

ABOVE = 0.003
"""A block flies while its lowest corner, for the nominal edge, is higher than this [m]."""

FEWEST = 8
"""Shortest flight that is used [samples]."""


class Flight(Settings, frozen=True):
    """What the flights say. Every value is in measured lengths.

    gravity: [m/s²]; centre: centre of mass from the geometric centre, body axes [m]
    gravity_error, centre_error: standard errors, by the scatter between tosses
    residual: root mean square [m]; tosses: number of flights
    """

    gravity: Positive
    centre: tuple[float, float, float]
    gravity_error: NonNegative = 0.0
    centre_error: tuple[float, float, float] = (0.0, 0.0, 0.0)
    residual: NonNegative = 0.0
    tosses: int = 0

    @property
    def scale(self) -> float:
        """Return measured lengths divided by metres."""
        return self.gravity / STANDARD_GRAVITY

    def block(self, inertia: float) -> Block:
        """Return the block in measured lengths. inertia: moment of inertia in units of m h²"""
        half = 0.5 * EDGE * self.scale
        return Block(
            half=half,
            mass=MASS,
            inertia=inertia * MASS * half**2,
            centre=np.array(self.centre),
            gravity=self.gravity,
        )


def flight_samples(toss: Toss) -> int:
    """Return the number of samples before the block comes near the floor."""
    lowest = toss.position[:, 2] - 0.5 * EDGE * np.abs(toss.rotation[:, 2]).sum(axis=1)
    low = np.flatnonzero(lowest <= ABOVE)
    return int(low[0]) if len(low) else len(toss)


def identify_flight(tosses: Sequence[Toss]) -> Flight:
    """Return gravity and the centre of mass from the flights of tosses."""
    used = [(toss, n) for toss in tosses if (n := flight_samples(toss)) >= FEWEST]
    blocks = [_without_line(toss, n) for toss, n in used]
    normal = np.array([A.T @ A for A, _ in blocks])
    total = normal.sum(axis=0)
    found = np.linalg.solve(total, np.sum([A.T @ y for A, y in blocks], axis=0))
    scores = np.array([A.T @ (y - A @ found) for A, y in blocks])
    inverse = np.linalg.inv(total)
    errors = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))  # the sandwich estimate, toss by toss
    residuals = np.concatenate([y - A @ found for A, y in blocks])
    return Flight(
        gravity=float(found[0]),
        centre=tuple(found[1:].tolist()),
        gravity_error=float(errors[0]),
        centre_error=tuple(errors[1:].tolist()),
        residual=float(np.sqrt(np.mean(residuals**2))),
        tosses=len(used),
    )


def _without_line(toss: Toss, samples: int) -> tuple[Array, Array]:
    """Return A (3N, 4) and y (3N) with y ≈ A (g, c), from which a straight line of each axis is removed."""
    t = np.arange(samples) / RATE
    basis, _ = np.linalg.qr(np.column_stack([np.ones(samples), t]))
    A = np.zeros((samples, 3, 4))
    A[:, 2, 0] = -0.5 * t**2
    A[:, :, 1:] = -toss.rotation[:samples]
    free = np.eye(samples) - basis @ basis.T
    y = free @ toss.position[:samples]
    return np.einsum("nm,mac->nac", free, A).reshape(-1, 4), y.ravel()
