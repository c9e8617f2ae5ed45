"""Complementarity-free convex model: maximal dissipation of kinetic energy, as a QP  [ZD §2.3.4, §6; MATHEMATICS §3.3].

    min_p ½ pᵀ D p + pᵀ J_u (v_u⁰ + M_uu⁻¹ M_ua v_a⁺)
    s.t.  D_N p + b_N + φ/dt ≥ 0,   p_N ≥ 0,   p_T in μ p_N × polygon          (without friction rows for μ = ∞)

Stage II of the paper is the selection that follows every law; the *one-stage* variant adds ε‖p‖². `energy='contact'` (laws
`cone…`) has the contact velocity b instead of the gradient of the energy. Warm start: the last basis, then Lemke's method
with few contacts. Cold start: principal pivoting (contact energy only), a QP back end, Lemke's method.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from idyn.certificate.certify import Conditions
from idyn.laws.convex_basis import basis_of, face_at, solve_basis
from idyn.laws.convex_program import Program, Rays, assemble, cone_rays, units
from idyn.laws.law import (
    FACE_ZERO,
    NOTHING,
    Attempt,
    Face,
    Law,
    LawData,
    Rung,
    Solutions,
    Start,
    is_free,
    polygon,
    single,
    unlimited_somewhere,
)
from idyn.laws.no_slip import ALL_ROWS, DUAL, PRINCIPAL, hold, opening, solve_no_slip, without_separating
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector
from idyn.solvers.lemke import covering, lemke, pivot
from idyn.solvers.linalg import axpy, copy, dot
from idyn.solvers.qp import check_backend, solve_qp
from idyn.status import NOT_CERTIFIED, RAY, SOLVED
from idyn.terms.reduction import Reduced
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

MOST_PIVOTS = 1000  # maximum number of pivots of one attempt
SPREADS = 0.01, 1.0  # see `idyn.solvers.lemke.covering`: 0.01 avoids the ties of standing robots, and half of the pivots
FEW = 8  # maximum number of contacts for which the method of Lemke takes less time than a QP back end


@entry(Matrix, Vector, Vector, bool, Matrix, int, float, int)
def least_contact_energy(
    Y: Array, b: Array, mu: Array, unlimited: bool, directions: Array, rule: int, rank: float, max_pivots: int
) -> tuple[Array, int, int]:
    """Solve the program of the contact energy. Return p (3n), status and pivots. rule, rank: see `idyn.laws.no_slip.hold`"""
    n, k, m = len(mu), len(directions), Y.shape[1]
    rays = 0
    for i in range(n):
        rays += 1 if mu[i] == 0.0 or is_free(mu[i], unlimited) else k
    # G and R b: each ray counts as the normal row of a separate contact; unlimited friction adds tangential rows
    rows, speeds = np.zeros((3 * rays, m)), np.zeros(3 * rays)
    bilateral, row = np.zeros(3 * rays, dtype=np.bool_), 0
    for i in range(n):
        free = is_free(mu[i], unlimited)
        for j in range(1 if mu[i] == 0.0 or free else k):
            copy(Y[3 * i + 2], rows[3 * row + 2])
            speeds[3 * row + 2] = b[3 * i + 2]
            for r in range(2):
                if free:
                    copy(Y[3 * i + r], rows[3 * row + r])
                    speeds[3 * row + r] = b[3 * i + r]
                    bilateral[3 * row + r] = True
                elif mu[i] > 0.0:
                    axpy(mu[i] * directions[j, r], Y[3 * i + r], rows[3 * row + 2])
                    speeds[3 * row + 2] += mu[i] * directions[j, r] * b[3 * i + r]
            row += 1
    # 0 ≤ c ⟂ G Gᵀ c + R b ≥ 0, zero tangential velocity with unlimited friction
    no_contact = np.zeros(rays, dtype=np.bool_)
    loads, _, status, pivots, _ = hold(rows, speeds, bilateral, no_contact, no_contact, rule, rank, max_pivots)
    # p = Rᵀ c
    p, row = np.zeros(3 * n), 0
    for i in range(n):
        free = is_free(mu[i], unlimited)
        for j in range(1 if mu[i] == 0.0 or free else k):
            load = loads[3 * row + 2]
            p[3 * i + 2] += load
            for r in range(2):
                if free:
                    p[3 * i + r] = loads[3 * row + r]
                elif mu[i] > 0.0:
                    p[3 * i + r] += mu[i] * directions[j, r] * load
            row += 1
    return p, status, pivots


@compiled
def pivot_to_basis(program: Program, basis: Array) -> tuple[Array, Array, Array, int, int]:
    """Minimise the kinetic energy by pivoting, for at most `FEW` contacts (otherwise NOT_CERTIFIED). `basis` (n, k + 1)
    receives the final basis.

    Return p (3n), multipliers y (n), flags of the face (n, 2 + k), status and pivots.
    """
    n, k = len(program.mu), len(program.directions)
    if n > FEW:
        return np.zeros(3 * n), np.zeros(n), np.zeros((n, 2 + k), dtype=np.bool_), NOT_CERTIFIED, 0
    # LCP, and the final basis of Lemke's method
    rays, place, sign = cone_rays(program), stack_array(2 * n * k, np.int64), stack_array(2 * n * k)
    count = _list_columns(rays, place, sign)
    M, q = stack_array((count + n, count + n)), stack_array(count + n)
    _fill_problem(program, rays, (place[:count], sign), M, q)
    status, pivots, basic = pivot(M, q, MOST_PIVOTS, covering(len(q), SPREADS[0]))
    # by contact: loaded rays, then y > 0; solution at this basis
    for i in range(n):
        for j in range(k):
            basis[i, j] = False
        basis[i, k] = basic[count + i]
    for i in range(count):
        if basic[i]:
            basis[place[i] // k, place[i] % k] = True
    p, y, flags, solved = solve_basis(program, basis, False)
    return p, y, flags, SOLVED if status == SOLVED and solved else NOT_CERTIFIED, pivots


@entry(Program, int)
def least_kinetic_energy(program: Program, max_pivots: int) -> tuple[Array, Array, int, int]:
    """Minimise the kinetic energy by Lemke's method. Return p (3n), multipliers of non-penetration y (n), status and pivots."""
    n, k = len(program.mu), len(program.directions)
    d, speed = units(program.Y, program.b, program.energy)
    # LCP, by Lemke's method; after a failure with another covering vector
    rays, place, sign = cone_rays(program), stack_array(2 * n * k, np.int64), stack_array(2 * n * k)
    count = _list_columns(rays, place, sign)
    M, q = np.empty((count + n, count + n)), np.empty(count + n)
    _fill_problem(program, rays, (place[:count], sign), M, q)
    z, status, pivots, _ = lemke(M, q, max_pivots, covering(len(q), SPREADS[0]))
    if status != SOLVED:
        z, status, more, _ = lemke(M, q, max_pivots, covering(len(q), SPREADS[1]))
        pivots += more
    # p = Rᵀ c, and y
    p, y = np.zeros(3 * n), np.empty(n)
    for i in range(count):
        for r in range(3):
            p[3 * (place[i] // k) + r] += sign[i] * max(z[i], 0.0) * rays.axes[place[i], r] * speed / d
    for j in range(n):
        y[j] = max(z[count + j], 0.0) * speed / d
    return p, y, status, pivots


@compiled
def _list_columns(rays: Rays, place: Array, sign: Array) -> int:
    """List the load variables of the LCP: fill their ray indices `place` and their signs, both signs for rays of free sign.
    Return their number."""
    count = 0
    for row in range(len(rays.taken)):
        for turn in range((1 if rays.signed[row] else 2) if rays.taken[row] else 0):
            place[count], sign[count] = row, 1.0 - 2.0 * turn
            count += 1
    return count


@compiled
def _fill_problem(program: Program, rays: Rays, columns: tuple[Array, Array], M: Array, q: Array) -> None:
    """Fill the LCP of the kinetic energy in units of order one, loads first, then multipliers.

    columns: indices and signs from `_list_columns`
    """
    place, sign = columns
    Y, size, count = program.Y, len(q), len(place)
    d, speed = units(Y, program.b, program.energy)
    rows = stack_array((size, Y.shape[1]))
    for i in range(size):
        # rows G, Y_N;  q = R e, b_N
        for c in range(Y.shape[1]):
            rows[i, c] = sign[i] * rays.G[place[i], c] if i < count else Y[3 * (i - count) + 2, c]
        q[i] = (sign[i] * rays.slopes[place[i]] if i < count else program.b[3 * (i - count) + 2]) / speed
        # M = [G Gᵀ, −G Y_Nᵀ; Y_N Gᵀ, 0]
        for j in range(i + 1):
            s = dot(rows[i], rows[j])
            M[i, j] = 0.0 if j >= count else s / d
            M[j, i] = -M[i, j] if i >= count else M[i, j]


ONE_STAGE = 1e-8  # ε over the mean diagonal of D_NN: impulses within 1e-4 N of least norm; if smaller, back ends differ
MAX_RELAXATION = 4e-9  # maximum contact velocity ε p due to the one-stage term [m/s]


class Convex(Law):
    """The convex laws.

    energy: 'kinetic' or 'contact', see above; one_stage: add ε‖p‖²
    infinite_friction: every μ > 0 counts as ∞, ID(t)_{QP,∞}
    edges: k, even, ≥ 4; circumscribed: whether the polygon encloses the friction circle; backend: QP solver
    """

    def __init__(
        self,
        *,
        energy: Literal["kinetic", "contact"] = "kinetic",
        one_stage: bool = False,
        infinite_friction: bool = False,
        edges: int = 4,
        circumscribed: bool = False,
        backend: str = "daqp",
    ) -> None:
        check_backend(backend)
        family = "convex" if energy == "kinetic" else "cone"
        self.name = family + ("-one-stage" if one_stage else "-infinite" if infinite_friction else "")
        self.conditions = Conditions.CONVEX if energy == "kinetic" else Conditions.CONE
        self._kinetic = energy == "kinetic"
        self.releases, self.holds_still = not self._kinetic, not (self._kinetic or one_stage)
        self.directions = polygon(edges, circumscribed)
        self._regularisation = ONE_STAGE if one_stage else 0.0
        self.one_stage = one_stage
        self.unlimited_friction = infinite_friction
        self._backend = backend
        self._others = [other for other in ("daqp", "quadprog") if other != backend]
        self.basis_width = 0 if one_stage else edges + 1
        self.kernel = convex_kernel

    def sticking(self, mu: Array) -> Array:
        """Return positive values for contacts of unlimited friction if the objective is the contact energy: the program is
        unbounded when such a contact must slip (n)."""
        free = (mu > 0.0) & (np.isinf(mu) | self.unlimited_friction) & (not self._kinetic)
        return np.where(free, 1.0, 0.0)

    @property
    def rungs(self) -> tuple[Rung, ...]:
        programs = [self._python(name, partial(self._by_program, backend=name)) for name in (self._backend, *self._others)]
        warm = () if self.one_stage else (Rung("warm", Start.BASIS, 0),)
        if self.one_stage:
            if self._kinetic:
                return tuple(programs)
            before, after = (self._python("pivoting", self._one_stage_by_pivoting, free) for free in (True, False))
            return (before, *programs, after)
        if self._kinetic:
            before = self._python("lemke", self._by_lemke_before_program, True)
            after = self._python("lemke", self._by_lemke, False)
            return (*warm, Rung("lemke", Start.BASIS, 1), before, programs[0], after, *programs[1:])
        dual = self._python("dual active set", partial(self._by_pivoting, rule=DUAL, rank=ALL_ROWS))
        return (*warm, self._python("cold", self._by_pivoting), dual, *programs)

    def _python(self, name: str, solve: Callable[[Reduced], Attempt], when: bool | None = None) -> Rung:
        """Return a Python rung.

        when: when the rung is tried; None: always
            contact energy: True: if a contact has unlimited friction; False: if none has
            kinetic energy: True: if there is a last basis and there are few contacts; False: otherwise
        """

        def attempts(problem: Reduced, basis: Array | None) -> Solutions:
            some = bool(unlimited_somewhere(problem.mu, self.unlimited_friction)[0]) and not self._kinetic
            case = basis is not None and len(problem.mu) <= FEW if self._kinetic else some
            if when is not None and when is not case:
                return
            solution, may_part = solve(problem), some and not (name == "cold" and self._rigid(problem))
            if may_part:
                for parted in without_separating(problem, solution, self.sticking(problem.mu) > 0.0, solve):
                    yield f"{name}, parted", parted
            yield name, solution
            if may_part and solution.status == SOLVED:
                yield None  # the certificate rejects tangential impulses without normal ones; further rungs do not help

        return Rung(name, Start.COLD, solve=attempts)

    def _rigid(self, problem: Reduced) -> bool:
        """Return whether the law reduces to the no-slip law: contact energy, and no contact has limited friction."""
        free = self.unlimited_friction or bool(np.isinf(problem.mu).all())
        return free and not self._kinetic and not self.one_stage

    def _by_pivoting(self, problem: Reduced, rule: int = PRINCIPAL, rank: float | None = None) -> Attempt:
        rank = problem.independent if rank is None else rank
        if self._rigid(problem) and rule == PRINCIPAL:
            open_ = np.zeros((len(problem.mu), 1), dtype=np.bool_)
            p, _, status, pivots, _ = solve_no_slip(problem.Y, problem.b, problem.mu, open_, rule, rank, MOST_PIVOTS)
        else:
            p, status, pivots = self._pivoted(problem, problem.Y, rule, rank)
        return self._with_face(problem, p, np.zeros(len(problem.mu)), status, pivots)

    def _one_stage_by_pivoting(self, problem: Reduced) -> Attempt:
        """Solve the one-stage program by pivoting: columns are added to Y so that Y Yᵀ becomes D + ε I. For large impulses ε is
        reduced so that the contact velocity ε p stays small (`MAX_RELAXATION`)."""
        epsilon, identity = self._regularisation * units(problem.Y, problem.b, problem.b)[0], np.eye(len(problem.b))
        for _ in range(2):
            p, status, pivots = self._pivoted(problem, np.hstack([problem.Y, np.sqrt(epsilon) * identity]), PRINCIPAL, ALL_ROWS)
            gives = epsilon * float(np.abs(p).max(initial=0.0))
            if gives <= MAX_RELAXATION:
                break
            epsilon *= 0.5 * MAX_RELAXATION / gives
        return self._plain(p, np.zeros(len(problem.mu)), status, pivots, epsilon)

    def _pivoted(self, problem: Reduced, Y: Array, rule: int, rank: float) -> tuple[Array, int, int]:
        free, corners = self.unlimited_friction, self.directions
        return least_contact_energy(Y, problem.b, problem.mu, free, corners, rule, rank, MOST_PIVOTS)

    def _by_lemke(self, problem: Reduced) -> Attempt:
        p, y, status, pivots = least_kinetic_energy(self._program(problem), MOST_PIVOTS)
        return self._with_face(problem, p, y, status, pivots)

    def _by_lemke_before_program(self, problem: Reduced) -> Attempt:
        """Solve by Lemke's method. A ray is not yet accepted: with large friction it may be due to rounding errors."""
        solution = self._by_lemke(problem)
        return solution._replace(status=NOT_CERTIFIED) if solution.status == RAY else solution

    def _by_program(self, problem: Reduced, backend: str) -> Attempt:
        n = len(problem.mu)
        H, f, A, lower, unit, epsilon = assemble(self._program(problem), self._regularisation)
        qp = solve_qp(H, f, A, lower, backend=backend)
        p, y = unit * qp.x, NOTHING if qp.multipliers is None else -unit * qp.multipliers[:n]
        if self.one_stage or qp.multipliers is None:
            return self._plain(p, y, qp.status, qp.iterations, epsilon)
        return self._with_face(problem, p, y, qp.status, qp.iterations)

    def _plain(self, p: Array, y: Array, status: int, iterations: int, epsilon: float = 0.0) -> Attempt:
        basis = np.zeros((len(p) // 3, self.basis_width), dtype=np.bool_)
        return Attempt(p, single(len(basis)), status, iterations, basis, y, epsilon)

    def _with_face(self, problem: Reduced, p: Array, y: Array, status: int, iterations: int) -> Attempt:
        """Return the solution for impulses p. Face and multipliers are those of the basis determined from p, if it is found."""
        plain, program = self._plain(p, y, status, iterations), self._program(problem)
        if status != SOLVED:
            return plain
        apart = (opening(problem, p) > FACE_ZERO) & ~p.reshape(-1, 3).any(axis=1)  # contacts that separate without an impulse
        basis = basis_of(program._replace(mu=problem.mu if self._kinetic else np.where(apart, 0.0, problem.mu)), p, y)
        _, exact, flags, solved = solve_basis(program, basis, not self._kinetic)
        if solved:
            return Attempt(p, self._face(problem, flags), SOLVED, iterations, basis, exact)
        return plain._replace(face=self._face(problem, face_at(program, p, y, not self._kinetic)))

    def _program(self, problem: Reduced) -> Program:
        gradient = problem.energy if self._kinetic else problem.b
        return Program(problem.Y, problem.b, gradient, problem.mu, self.unlimited_friction, self.directions)

    def _face(self, problem: Reduced, flags: Array) -> Face:
        return Face(flags=flags, directions=self.directions, mu=problem.mu, unlimited=self.unlimited_friction)


@compiled
def convex_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Solve at the last basis (rung 0), or pivot to a basis (rung 1)."""
    given, contact_energy = problem.dynamics.given, law.conditions == Conditions.CONE
    gradient = problem.b if contact_energy else problem.energy
    program = Program(problem.Y, problem.b, gradient, given.mu, law.unlimited, law.directions)
    if rung == 0:
        p, multipliers, flags, solved = solve_basis(program, basis, contact_energy)
        status, pivots = SOLVED if solved else NOT_CERTIFIED, 0
    else:
        p, multipliers, flags, status, pivots = pivot_to_basis(program, basis)
    face = Face(flags, law.directions, given.mu, law.unlimited, law.directions[:0])
    return Attempt(p, face, status, pivots, basis, multipliers, 0.0)
