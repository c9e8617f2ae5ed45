"""Coulomb friction with a friction polygon, as an LCP  [ZD §5, after Anitescu–Potra; MATHEMATICS §3.2]: at the last basis if
that is still complementary, else by Lemke's method. A contact with μ = ∞ has no λ: its opposite directions imply S v⁺ = T v⁺
= 0. If no friction is limited, this is the no-slip law and solved as such."""

from collections.abc import Iterator

import numpy as np

from idyn.certificate.certify import Conditions
from idyn.laws.law import FACE_ZERO, Attempt, Face, Law, LawData, Rung, Solutions, Start, polygon, unlimited_somewhere, unsolved
from idyn.laws.no_slip import MOST_SEARCHED, NoSlip, barely_loaded, without_separating
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Mask, Matrix, Vector
from idyn.solvers.lemke import covering, lemke
from idyn.solvers.linalg import affine, copy_rows, dot, fill, least, lu_refined
from idyn.status import NOT_CERTIFIED, RAY, SINGULAR, SOLVED
from idyn.terms.reduction import Reduced
from idyn.terms.stages import ReducedProblem
from idyn.types import Array


@compiled
def inner(G: Array, i: int, j: int, d: float) -> float:
    """Return G_i · G_j / d."""
    return dot(G[i], G[j]) / d


@compiled
def at_basis(G: Array, q: Array, mu: Array, d: float, regularisation: float, basis: Array) -> tuple[Array, Array, bool]:
    """Return z and w at a complementary basis, and whether the basis is regular. Signs are not checked. The results are those
    of `idyn.solvers.lemke.basis_solution`, computed without M."""
    n, size = len(mu), len(q)
    k = len(G) // max(n, 1) - 1
    z, w, index, m = np.zeros(size), q.copy(), stack_array(size, np.int64), 0
    # the basic z
    for i in range(size):
        if basis[i]:
            index[m] = i
            m += 1
    # M_BB z_B = −q_B
    A, b, x = stack_array((m, m)), stack_array(m), stack_array(G.shape[1])
    for r in range(m):
        i = index[r]
        b[r] = -q[i]
        for c in range(m):
            j = index[c]
            A[r, c] = inner(G, i, j, d) if max(i, j) < len(G) else _friction(mu, k, i, j)
        A[r, r] += regularisation if i < len(G) else 0.0
    answer, regular = lu_refined(A, b)
    if not regular:
        return z, w, False
    # x = G_Bᵀ z_B
    fill(x, 0.0)
    for r in range(m):
        i = index[r]
        z[i] = answer[r]
        if i < len(G):
            for c in range(len(x)):
                x[c] += G[i, c] * z[i]
    # w_N, w_F = G x/d + q
    for i in range(len(G)):
        s = dot(G[i], x)
        w[i] += s / d + regularisation * z[i]
    # + E λ;  w_λ = μ p_N − Eᵀ p_F
    for i in range(n):
        row, friction = len(G) + i, 0.0
        if mu[i] < np.inf:
            for j in range(n + k * i, n + k * (i + 1)):
                w[j] += z[row]
                friction += z[j]
            w[row] += mu[i] * z[i] - friction
    # w_B = 0, without rounding errors
    for r in range(m):
        w[index[r]] = 0.0
    return z, w, True


@compiled
def _friction(mu: Array, k: int, i: int, j: int) -> float:
    """Return entry (i, j) of M, in a row or a column of λ: μ, −Eᵀ or E."""
    n = len(mu)
    if i >= (k + 1) * n:
        contact = i - (k + 1) * n
        if mu[contact] == np.inf:
            return 0.0
        return mu[contact] if j == contact else -1.0 if n + k * contact <= j < n + k * (contact + 1) else 0.0
    contact = j - (k + 1) * n
    return 1.0 if mu[contact] < np.inf and n + k * contact <= i < n + k * (contact + 1) else 0.0


NEGATIVE = 1e-10  # a basis is accepted if no variable of the normalised problem is below −NEGATIVE
REGULARISATIONS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # shares of ‖D‖ that regularised rungs add to its diagonal


class Coulomb(Law):
    """Coulomb's law with a friction polygon.

    edges: k, even, ≥ 4; circumscribed: whether the polygon encloses the friction circle; max_pivots: limit for one attempt
    """

    name = "coulomb"
    conditions = Conditions.COULOMB
    sticks = holds_still = True

    def __init__(self, edges: int = 4, circumscribed: bool = False, max_pivots: int = 5000) -> None:
        self.directions = polygon(edges, circumscribed)
        self.max_pivots = max_pivots
        self.basis_width = edges + 2
        self.kernel = coulomb_kernel

    @property
    def rungs(self) -> tuple[Rung, ...]:
        shares = (Rung(f"regularised {share:.0e}", Start.COLD, 2 + k) for k, share in enumerate(REGULARISATIONS))
        unlimited = Rung("unlimited friction", Start.COLD, solve=self.unlimited)
        return (Rung("warm", Start.BASIS, 0), Rung("cold", Start.COLD, 1), *shares, unlimited)

    def sticking(self, mu: Array) -> Array:
        return np.where(np.isinf(mu), 1.0, 0.0)

    def unlimited(self, problem: Reduced, basis: Array | None) -> Solutions:
        """Solve problems with unlimited friction at a contact. Separating contacts of unlimited friction are released."""
        some, nowhere_limited = unlimited_somewhere(problem.mu, False)
        if not some:
            return
        if nowhere_limited:
            yield from self._by_no_slip(problem, basis)
        if basis is not None:
            yield "warm", self.solution(problem, basis, True)
        solution, free = self.solution(problem), np.isinf(problem.mu)
        for parted in without_separating(problem, solution, free, self.solution):
            parted.basis[free, -1] = False  # λ is not basic: these contacts were solved without friction
            yield "parted", parted
        yield "cold", solution
        if solution.status == SOLVED:
            return  # the certificate rejects tangential impulses without normal ones; regularisation does not help
        for share in REGULARISATIONS:
            yield f"regularised {share:.0e}", self.solution(problem, None, False, share)

    def _by_no_slip(self, problem: Reduced, basis: Array | None) -> Iterator[tuple[str, Attempt]]:
        """Yield solutions of the no-slip law, to which Coulomb's law reduces if no friction is limited. Skip solutions with
        friction at barely loaded contacts: `unlimited` releases these contacts."""
        law, start = NoSlip(self.max_pivots), None if basis is None else basis[:, :1].copy()
        for number, rung in enumerate(law.rungs):
            solution = law.solution(problem, start if number == 0 else None, number)
            searched = solution.status == RAY and len(problem.mu) <= MOST_SEARCHED
            if not searched and (solution.status != SOLVED or barely_loaded(solution.p).any()):
                return  # Lemke's method may still solve it
            pressing = np.zeros((len(problem.mu), self.basis_width), dtype=np.bool_)
            pressing[:, :1] = solution.basis
            yield rung.cold if start is None and number == 0 else rung.name, solution._replace(basis=pressing)

    def solution(
        self, problem: Reduced, basis: Array | None = None, warm: bool = False, regularisation: float = 0.0
    ) -> Attempt:
        """Solve at the given basis (warm) or by Lemke's method."""
        start = np.zeros((len(problem.mu), self.basis_width), dtype=np.bool_) if basis is None else basis
        p, flags, status, pivots, after = solve_coulomb(
            problem.Y, problem.b, problem.mu, self.directions, start, warm, regularisation, self.max_pivots
        )
        face = Face(flags, self.directions, problem.mu, False)
        return Attempt(p, face, status, pivots, after)


@entry(Matrix, Vector, Vector, Matrix, float)
def assemble(Y: Array, b: Array, mu: Array, directions: Array, regularisation: float) -> tuple[Array, Array, float, float]:
    """Return M and q of the LCP in the order p_N, p_F (contact by contact), λ, and the units of impulse and speed."""
    n, k = len(mu), len(directions)
    G, q = stack_array(((k + 1) * n, Y.shape[1])), np.empty((k + 2) * n)
    d, speed = scaled(Y, b, mu, directions, G, q)
    M = np.zeros((len(q), len(q)))
    # D_NN, D_NF, D_FN, D_FF in units of d
    for i in range(len(G)):
        for j in range(i + 1):
            M[i, j] = M[j, i] = inner(G, i, j, d)
        M[i, i] += regularisation
    # μ, −Eᵀ and E, where friction is limited
    for i in range(n):
        if mu[i] < np.inf:
            row = (k + 1) * n + i
            M[row, i] = mu[i]
            for j in range(n + k * i, n + k * (i + 1)):
                M[row, j], M[j, row] = -1.0, 1.0
    return M, q, speed / d, speed


@compiled
def scaled(Y: Array, b: Array, mu: Array, directions: Array, G: Array, q: Array) -> tuple[float, float]:
    """Fill G, the rows of the factor Y for normals, then for friction directions, and q in units of speed. Return d, the mean
    diagonal of D_NN, and the unit of speed. With p = speed/d · z, λ = speed · z all entries of M and q are of order one."""
    n, k, m = len(mu), len(directions), Y.shape[1]
    d = speed = 0.0
    # G_N = Y_N, q_N = b_N + φ/dt;  G_F = d_j · (Y_S, Y_T), q_F = d_j · (b_S, b_T) for the polygon's corners d_j
    for i in range(n):
        q[i] = b[3 * i + 2]
        for c in range(m):
            G[i, c] = Y[3 * i + 2, c]
            d += G[i, c] * G[i, c] / n
        for j in range(k):
            row, x, y = n + k * i + j, directions[j, 0], directions[j, 1]
            q[row] = x * b[3 * i] + y * b[3 * i + 1]
            for c in range(m):
                G[row, c] = x * Y[3 * i, c] + y * Y[3 * i + 1, c]
    # q in units of the largest speed; w_λ = 1 ensures λ = 0 for unlimited friction
    for row in range(len(G)):
        speed = max(speed, abs(q[row]))
    speed = speed if speed > 0.0 else 1.0
    for row in range(len(G)):
        q[row] /= speed
    for i in range(n):
        q[len(G) + i] = 1.0 if mu[i] == np.inf else 0.0
    return d if d > 0.0 else 1.0, speed


@entry(Matrix, Vector, Vector, Matrix, Mask, bool, float, int)
def solve_coulomb(
    Y: Array, b: Array, mu: Array, directions: Array, guess: Array, warm: bool, regularisation: float, max_pivots: int
) -> tuple[Array, Array, int, int, Array]:
    """Solve at the basis `guess` (warm) or by Lemke's method.

    Return p (3n), flags of the face, status, pivots and basis (n, k + 2) in the order N, F, λ.
    """
    n, k = len(mu), len(directions)
    size = (k + 2) * n
    basis, parts = stack_array(size, np.bool_), stack_array(n, np.bool_)
    status, pivots = SOLVED, 0
    if warm:
        # z, w at the last basis
        for i in range(n):
            basis[i] = guess[i, 0]
            for j in range(k):
                basis[n + k * i + j] = guess[i, 1 + j]
            basis[(k + 1) * n + i] = guess[i, k + 1]
        G, q = stack_array(((k + 1) * n, Y.shape[1])), stack_array(size)
        d, speed = scaled(Y, b, mu, directions, G, q)
        z, w, regular = at_basis(G, q, mu, d, regularisation, basis)
        unit, status = speed / d, SOLVED if regular else SINGULAR
        # z ≥ 0, w ≥ 0; except w_F of separating contacts of unlimited friction
        for i in range(n):
            parts[i] = mu[i] == np.inf and speed * w[i] > FACE_ZERO
            if parts[i] and guess[i].any():
                status = NOT_CERTIFIED  # tangential impulse at a separating contact
        for i in range(size):
            idle = n <= i < (k + 1) * n and parts[(i - n) // k]
            if not (z[i] >= -NEGATIVE and (idle or w[i] >= -NEGATIVE)):
                status = NOT_CERTIFIED
    else:
        # Lemke's method; after a failure with another covering vector
        M, q, unit, speed = assemble(Y, b, mu, directions, regularisation)
        fill(parts, False)
        z, status, pivots, basis = lemke(M, q, max_pivots, covering(len(q), 0.0))
        w = np.empty(size)
        affine(M, z, q, w)
        if size > 0 and (status != SOLVED or least(z) < -NEGATIVE or least(w) < -NEGATIVE):
            z, status, more, basis = lemke(M, q, max_pivots, covering(len(q), 1.0))
            affine(M, z, q, w)
            pivots += more

    # p from z; the face: w_N = 0, λ > 0, w_F = 0
    p, flags, after = np.zeros(3 * n), np.empty((n, k + 2), dtype=np.bool_), np.empty((n, k + 2), dtype=np.bool_)
    for i in range(n):
        p[3 * i + 2] = unit * max(z[i], 0.0)
        flags[i, 0] = speed * w[i] <= FACE_ZERO
        flags[i, 1] = speed * z[(k + 1) * n + i] > FACE_ZERO
        after[i, 0] = basis[i]
        after[i, k + 1] = basis[(k + 1) * n + i]
        for j in range(k):
            f = unit * max(z[n + k * i + j], 0.0)
            p[3 * i] += directions[j, 0] * f
            p[3 * i + 1] += directions[j, 1] * f
            flags[i, 2 + j] = speed * w[n + k * i + j] <= 3 * FACE_ZERO and not parts[i]
            after[i, 1 + j] = basis[n + k * i + j]
    return p, flags, status, pivots, after


@compiled
def coulomb_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Make one solver attempt (rung): warm, cold or regularised. A Python rung solves problems with unlimited
    friction."""
    mu = problem.dynamics.given.mu
    if unlimited_somewhere(mu, False)[0]:
        return unsolved(problem, law, basis)
    share = REGULARISATIONS[rung - 2] if rung > 1 else 0.0
    p, flags, status, pivots, after = solve_coulomb(
        problem.Y, problem.b, mu, law.directions, basis, rung == 0, share, law.max_pivots
    )
    copy_rows(after, basis)
    return Attempt(p, Face(flags, law.directions, mu, False, law.directions[:0]), status, pivots, basis, mu[:0], 0.0)
