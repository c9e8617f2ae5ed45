"""Contact-free law: inverse dynamics without contact impulses, p = 0  [ZD §7.3]."""

import numpy as np

from idyn.certificate.conditions import Conditions
from idyn.jit.compiled import compiled
from idyn.laws.law import Attempt, Face, Law, LawData, Rung, Start
from idyn.status import SOLVED
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
