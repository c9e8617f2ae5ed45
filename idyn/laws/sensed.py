"""Laws that predict no contact forces: none act, p = 0, or measured ones  [ZD §7.3: ID(t−1), ID(t−2)]."""

import numpy as np

from idyn.certificate.certify import Conditions
from idyn.laws.law import Attempt, Face, Law, LawData, Rung, Solutions, Start, no_kernel, single
from idyn.library.kernels import compiled
from idyn.status import SOLVED
from idyn.terms.reduction import Reduced
from idyn.terms.stages import ReducedProblem
from idyn.types import Array


@compiled
def contact_free_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Return p = 0, the only solution."""
    mu = problem.dynamics.given.mu
    return Attempt(
        np.zeros(len(problem.b)), Face(basis, law.directions, mu, False, law.directions[:0]), SOLVED, 0, basis, mu[:0], 0.0
    )


class ContactFree(Law):
    """No contact impulses: exact in flight, wrong in contact."""

    name = "contact-free"
    conditions = Conditions.FREE
    predicts = False
    sticks = True
    kernel = staticmethod(contact_free_kernel)
    rungs = (Rung("contact-free", Start.COLD, 0),)


class Sensed(Law):
    """Law with given contact impulses. The caller constructs a new law for each measurement.

    p: contact impulses of one period in rows S, T, N [N·s] (3n); None: zero
    """

    name = "sensed"
    conditions = Conditions.GIVEN
    predicts = False
    kernel = staticmethod(no_kernel)

    def __init__(self, p: Array | None = None) -> None:
        self.p = p

    def __eq__(self, other: object) -> bool:
        """Return True for every instance of the class, so that all measurements share one compiled `Method`."""
        return isinstance(other, Sensed)

    def __hash__(self) -> int:
        return hash(Sensed)

    @property
    def rungs(self) -> tuple[Rung, ...]:
        return (Rung("sensed", Start.COLD, solve=self._measured),)

    def _measured(self, problem: Reduced, _basis: Array | None) -> Solutions:
        n = len(problem.mu)
        p = np.zeros(3 * n) if self.p is None else self.p
        yield "sensed", Attempt(p, single(n), SOLVED, 0, np.zeros((n, 0), dtype=np.bool_))
