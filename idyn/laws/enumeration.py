"""Coulomb friction by enumeration: of all basic solutions the one nearest to the last impulses [N·s]  [ZD §5.3, Alg. 3].
Bases that cannot be regular, or have the impulses of another one, are skipped: 36 are left for one contact, 1296 for two (k
= 4); more contacts are refused. Convex combinations are not considered, so the result may jump."""

import numpy as np

from idyn.laws.coulomb import NEGATIVE, Coulomb, assemble
from idyn.laws.law import Attempt, Rung, Solutions, Start, no_kernel, single
from idyn.library.kernels import compiled, entry
from idyn.library.records import Matrix, Vector
from idyn.solvers.lemke import basis_solution, natural_residual
from idyn.solvers.linalg import copy
from idyn.status import SINGULAR, SOLVED, TOO_MANY_CONTACTS
from idyn.terms.reduction import Reduced
from idyn.types import Array

MOST_CONTACTS = 2  # maximum number of contacts: three would have 2^18 bases
EDGES = 4  # number of edges of the friction polygon: each further pair of edges increases the time twentyfold


class Enumeration(Coulomb):
    """Coulomb's law by enumeration. `basis` contains the last impulses instead, in S, T, N of each contact [N·s] (n, 3)."""

    name = "enumeration"
    basis_type: np.dtype = np.dtype(np.float64)
    holds_still = False  # the basic solution nearest to the last one is not the selection's

    def __init__(self) -> None:
        super().__init__(EDGES)
        self.basis_width, self.kernel = 3, no_kernel

    @property
    def rungs(self) -> tuple[Rung, ...]:
        return (Rung("enumeration", Start.IMPULSES, solve=self._nearest),)

    def _nearest(self, problem: Reduced, basis: Array | None) -> Solutions:
        last = np.zeros((len(problem.mu), 3)) if basis is None else basis
        p, status, tried = nearest_solution(problem.Y, problem.b, problem.mu, self.directions, last.ravel())
        yield ("enumeration", Attempt(p, single(len(last)), status, tried, p.reshape(-1, 3)))


@entry(Matrix, Vector, Vector, Matrix, Vector)
def nearest_solution(Y: Array, b: Array, mu: Array, directions: Array, last: Array) -> tuple[Array, int, int]:
    """Return the basic solution p (3n) with the smallest ‖p − last‖, its status, and the number of bases solved."""
    n, k = len(mu), len(directions)
    best = np.zeros(3 * n)
    if n > MOST_CONTACTS:
        return best, TOO_MANY_CONTACTS, 0
    M, q, unit, _ = assemble(Y, b, mu, directions, 0.0)
    size = len(q)
    distance, tried = np.inf, 0
    basis, p = np.empty(size, dtype=np.bool_), np.empty(3 * n)
    for code in range(1 << size):
        # basis number `code`
        for i in range(size):
            basis[i] = (code >> i) & 1
        if not _worth_trying(basis, mu, n, k):
            continue
        # M_BB z_B = −q_B; z ≥ 0, w ≥ 0
        z, _, regular = basis_solution(M, q, basis)
        tried += 1
        if not regular or natural_residual(M, q, z) > NEGATIVE:
            continue
        # p, ‖p − last‖²
        apart = 0.0
        for i in range(n):
            p[3 * i], p[3 * i + 1], p[3 * i + 2] = 0.0, 0.0, unit * max(z[i], 0.0)
            for j in range(k):
                f = unit * max(z[n + k * i + j], 0.0)
                p[3 * i] += directions[j, 0] * f
                p[3 * i + 1] += directions[j, 1] * f
            for r in range(3):
                apart += (p[3 * i + r] - last[3 * i + r]) ** 2
        if apart < distance:
            distance = apart
            copy(p, best)
    return best, SOLVED if distance < np.inf else SINGULAR, tried


@compiled
def _worth_trying(basis: Array, mu: Array, n: int, k: int) -> bool:
    """Return whether a basis may be regular and give impulses that no other basis gives. If p_N of a contact is not basic,
    either no variable of the contact is, or λ and one direction are. λ > 0 requires limited friction and a loaded direction."""
    for i in range(n):
        loaded = 0
        for j in range(k):
            loaded += basis[n + k * i + j]
        slides = basis[(k + 1) * n + i]
        if mu[i] == np.inf:
            if slides:
                return False
        elif (slides and loaded == 0) or (not basis[i] and loaded != slides):
            return False
    return True
