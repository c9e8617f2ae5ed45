"""Contact-free: inverse dynamics as if nothing were touched, p = 0  [ZD §7.3]."""

from collections.abc import Iterator

import numpy as np

from idyn.contact.ground import RIGID
from idyn.laws.law import LawSolution, polygon
from idyn.status import Conditions, Status
from idyn.terms.reduction import Reduced
from idyn.types import Array


class ContactFree:
    """No contact impulses at all. Right in flight, wrong as soon as something is touched."""

    name = "contact-free"
    conditions = Conditions.FREE
    material = RIGID
    unlimited_friction = False
    directions = polygon(4)
    basis_width = 0
    basis_type: type = np.bool_

    def sticking(self, mu: Array) -> Array:
        return np.zeros(len(mu))

    def attempts(self, problem: Reduced, basis: Array | None) -> Iterator[tuple[str, LawSolution]]:
        n = len(problem.mu)
        none = np.zeros((n, 0), dtype=np.bool_)
        yield "contact-free", LawSolution(p=np.zeros(3 * n), face=None, status=Status.SOLVED, iterations=0, basis=none)
