"""Coulomb friction with a friction polygon, as an LCP  [ZD §5, after Anitescu–Potra; MATHEMATICS §3.2]. Polygons with four
edges are boxes, solved by Newton's method (`idyn.solvers.boxed`) or, where that does not end, by Lemke's. Others are solved at
the last basis if that is still complementary, else by Lemke's method. A contact with μ = ∞ has no λ: its opposite directions
imply S v⁺ = T v⁺ = 0. If no friction is limited, this is the no-slip law and solved as such."""

from collections.abc import Iterator

import numpy as np

from idyn.certificate.certify import Conditions
from idyn.laws.law import FACE_ZERO, Attempt, Face, Law, LawData, Rung, Solutions, Start, polygon, unlimited_somewhere, unsolved
from idyn.laws.no_slip import MOST_SEARCHED, NoSlip, barely_loaded, without_separating
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Mask, Matrix, Vector
from idyn.solvers.boxed import FREE, Boxed, solve_boxed
from idyn.solvers.lemke import basis_solution, covering, lemke
from idyn.solvers.linalg import affine, copy_rows, dot, fill, least
from idyn.status import NOT_CERTIFIED, RAY, SINGULAR, SOLVED
from idyn.terms.reduction import Reduced
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

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
    """Return M and q of the LCP in the order p_N, p_F (contact by contact), λ, and the units of impulse and speed: with
    p = speed/d · z, λ = speed · z and d, the mean diagonal of D_NN, all entries of M and q are of order one."""
    n, k, m = len(mu), len(directions), Y.shape[1]
    G, q, d, speed = stack_array(((k + 1) * n, m)), np.empty((k + 2) * n), 0.0, 0.0
    # rows of the factor Y: G_N = Y_N, q_N = b_N + φ/dt;  G_F = d_j · (Y_S, Y_T), q_F = d_j · (b_S, b_T) for the corners d_j
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
    for row in range(len(G)):
        speed = max(speed, abs(q[row]))
    d, speed, M = d if d > 0.0 else 1.0, speed if speed > 0.0 else 1.0, np.zeros((len(q), len(q)))
    # q in units of the largest speed; D_NN, D_NF, D_FN, D_FF in units of d
    for i in range(len(G)):
        q[i] /= speed
        for j in range(i + 1):
            M[i, j] = M[j, i] = dot(G[i], G[j]) / d
        M[i, i] += regularisation
    # μ, −Eᵀ and E, where friction is limited; otherwise w_λ = 1 ensures λ = 0
    for i in range(n):
        row = (k + 1) * n + i
        q[row] = 1.0 if mu[i] == np.inf else 0.0
        if mu[i] < np.inf:
            M[row, i] = mu[i]
            for j in range(n + k * i, n + k * (i + 1)):
                M[row, j], M[j, row] = -1.0, 1.0
    return M, q, speed / d, speed


ROOT = 0.5**0.5  # coordinates a = ROOT (s + t) and c = ROOT (t − s) are along the edges of a polygon with four corners


@compiled
def solve_as_box(Y: Array, b: Array, mu: Array, reach: float, basis: Array, warm: bool) -> tuple[Array, Array, int, int, Array]:
    """Solve a problem with four edges, corners of length `reach`, and finite friction. Results: see `solve_coulomb`."""
    n, rows, d, speed = len(mu), len(b), 0.0, 0.0
    G, q, slope, inverse = stack_array(Y.shape), stack_array(rows), stack_array(n), stack_array(rows)
    p, u, mode = np.empty(rows), stack_array(rows), stack_array(rows)
    for i in range(n):
        s, t, r = 3 * i, 3 * i + 1, 3 * i + 2
        slope[i] = ROOT * reach * mu[i]
        q[s], q[t], q[r] = b[r], ROOT * (b[s] + b[t]), ROOT * (b[t] - b[s])
        for c in range(Y.shape[1]):
            G[s, c], G[t, c], G[r, c] = Y[r, c], ROOT * (Y[s, c] + Y[t, c]), ROOT * (Y[t, c] - Y[s, c])
        speed = max(speed, -q[s], abs(q[t]), abs(q[r]))  # speeds that friction or non-penetration has to stop
        # modes: a sliding contact is at the limits that its loaded directions +s, +t, −s, −t have in common
        x, y = int(basis[i, 1]) - int(basis[i, 3]), int(basis[i, 2]) - int(basis[i, 4])
        for e in range(3):
            inverse[s + e] = dot(G[s + e], G[s + e])
            d = max(d, inverse[s + e])
            side = 0 if e == 0 or not basis[i, 5] else x + y if e == 1 else y - x
            mode[s + e] = 1.0 if side > 0 else -1.0 if side < 0 or (e > 0 and slope[i] == 0.0) else FREE if basis[i, 0] else 0.0
    for r in range(rows):
        inverse[r] = 1.0 / inverse[r] if inverse[r] > 0.0 else 0.0
    problem = Boxed(G, q, slope, inverse, d if d > 0.0 else 1.0, speed if speed > 0.0 else 1.0)
    status, iterations = solve_boxed(problem, mode, warm, p, u)
    flags, after = np.empty((n, 6), dtype=np.bool_), np.empty((n, 6), dtype=np.bool_)
    for i in range(n):
        s, t, r = 3 * i, 3 * i + 1, 3 * i + 2
        for e in range(s, s + 3):
            u[e] = 0.0 if mode[e] == FREE else u[e]  # without rounding errors
        # λ = max −d_j · û_T, w_F = d_j · û_T + λ
        along, across, normal = ROOT * reach * (u[t] - u[r]), ROOT * reach * (u[t] + u[r]), max(p[s], 0.0)
        slide, most = max(abs(along), abs(across)), slope[i] * normal
        flags[i, 0], flags[i, 1] = u[s] <= FACE_ZERO, slide > FACE_ZERO
        flags[i, 2], flags[i, 4] = along + slide <= 3 * FACE_ZERO, slide - along <= 3 * FACE_ZERO
        flags[i, 3], flags[i, 5] = across + slide <= 3 * FACE_ZERO, slide - across <= 3 * FACE_ZERO
        p_a, p_c = min(max(p[t], -most), most), min(max(p[r], -most), most)
        after[i, 0], after[i, 5] = mode[s] == FREE, mode[s] == FREE and not (mode[t] == mode[r] == FREE)
        p[s], p[t], p[r] = ROOT * (p_a - p_c), ROOT * (p_a + p_c), normal
        after[i, 1], after[i, 2], after[i, 3], after[i, 4] = p[s] > 0.0, p[t] > 0.0, p[s] < 0.0, p[t] < 0.0
    return p, flags, status, iterations, after


@entry(Matrix, Vector, Vector, Matrix, Mask, bool, float, int)
def solve_coulomb(
    Y: Array, b: Array, mu: Array, directions: Array, guess: Array, warm: bool, regularisation: float, max_pivots: int
) -> tuple[Array, Array, int, int, Array]:
    """Solve at the basis `guess` (warm) or by Lemke's method; boxes by Newton's method, if that ends. Return p (3n), flags of
    the face, status, pivots and basis (n, k + 2) in the order N, F, λ."""
    n, k = len(mu), len(directions)
    if k == 4 and regularisation == 0.0 and not unlimited_somewhere(mu, False)[0]:
        solution = solve_as_box(Y, b, mu, directions[0, 0], guess, warm)
        if warm or solution[2] == SOLVED:
            return solution
    size, status, pivots = (k + 2) * n, SOLVED, 0
    basis, parts, w = stack_array(size, np.bool_), stack_array(n, np.bool_), np.empty(size)
    M, q, unit, speed = assemble(Y, b, mu, directions, regularisation)
    fill(parts, False)
    if warm:
        # z, w at the last basis
        for i in range(n):
            basis[i] = guess[i, 0]
            for j in range(k):
                basis[n + k * i + j] = guess[i, 1 + j]
            basis[(k + 1) * n + i] = guess[i, k + 1]
        z, w, regular = basis_solution(M, q, basis)
        status = SOLVED if regular else SINGULAR
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
        for spread in (0.0, 1.0):
            z, status, more, basis = lemke(M, q, max_pivots, covering(size, spread))
            affine(M, z, q, w)
            pivots += more
            if status == SOLVED and least(z) >= -NEGATIVE and least(w) >= -NEGATIVE:
                break
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
