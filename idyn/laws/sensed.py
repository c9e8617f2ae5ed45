"""Sensed forces: inverse dynamics with contact impulses that were measured, not predicted  [ZD §7.3: ID(t−1), ID(t−2)].

When it is wrong: a measurement is at least one period old, and between contacts it is simply believed. What the contacts hold
against one another is carried on from tick to tick, so that it drifts: the more friction there is, the further.
"""

import numpy as np

from idyn.contact.ground import RIGID
from idyn.laws.law import LawSolution, Rung, Solutions, Start, no_kernel, polygon
from idyn.status import Conditions, Status
from idyn.terms.reduction import Reduced
from idyn.types import Array


class Sensed:
    """Whoever knows the measurement makes one for each tick; without one nothing pushes.

    p: contact impulses of one period in S, T, N rows [N·s] (3n)
    """

    name = "sensed"
    conditions = Conditions.GIVEN
    material = RIGID
    unlimited_friction = False
    directions = polygon(4)
    basis_width = 0
    basis_type: np.dtype = np.dtype(np.bool_)
    max_pivots = 0
    kernel = staticmethod(no_kernel)

    def __init__(self, p: Array | None = None) -> None:
        self.p = p

    def __eq__(self, other: object) -> bool:
        """What is compiled for one measurement serves all."""
        return isinstance(other, Sensed)

    def __hash__(self) -> int:
        return hash(Sensed)

    @property
    def rungs(self) -> tuple[Rung, ...]:
        return (Rung("sensed", Start.NOTHING, solve=self._measured),)

    def sticking(self, mu: Array) -> Array:
        return np.zeros(len(mu))

    def _measured(self, problem: Reduced, _basis: Array | None) -> Solutions:
        n = len(problem.mu)
        p = np.zeros(3 * n) if self.p is None else self.p
        none = np.zeros((n, 0), dtype=np.bool_)
        yield "sensed", LawSolution(p=p, face=None, status=Status.SOLVED, iterations=0, basis=none)
