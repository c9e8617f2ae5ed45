"""All solutions of forward dynamics with Coulomb's law under the same torques, or several of them (MATHEMATICS §7).

`outcomes` starts Lemke's method with many covering vectors; the search is not exhaustive, and for offline use.
`all_outcomes` tries each combination of the modes of few contacts, in which the impulses solve 3n linear equations:

    open:  p = 0        sticking:  û = 0        against d_j:  û_N = 0, p_T = μ p_N d_j
    between d_j and d_{j+1}:  û_N = 0, (d_j − d_{j+1}) · û_T = 0, p_T = a d_j + b d_{j+1} with a + b = μ p_N

Of a singular system a linear program decides whether a solution satisfies the law, and others whether all have one velocity.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import linprog

from idyn.certificate.certify import Contact, coulomb
from idyn.certificate.momentum import CONE, PENETRATION, worse
from idyn.contact.ground import Ground, allowance
from idyn.errors import InputError
from idyn.laws.coulomb import assemble
from idyn.laws.law import polygon
from idyn.library.kernels import entry, interpreted
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.prediction.request import Request, checked_request
from idyn.solvers.lemke import lemke, natural_residual
from idyn.solvers.linalg import axpy, copy, copy_rows, lu_refined
from idyn.status import SOLVED
from idyn.terms.dynamics import evaluate
from idyn.types import Array, ContactSet, Kinematics, Prediction, Record, State

SAME = 1e-6  # velocities that differ by less count as equal [m/s, rad/s]
TOLERANCE = 1e-8  # largest |min(z, w)| of a solution, in units of the problem
RANK = 1e-9  # relative size of the singular values below which rows of closures depend on each other

MOST_PIVOTS = 2000


class Outcome(Record, frozen=True):
    """One solution of forward dynamics.

    v_plus: velocity at the end of the period (nv)
    impulse: contact impulses in rows S, T, N [N·s] (3n)
    """

    v_plus: Array
    impulse: Array


class Forward(NamedTuple):
    """Forward dynamics reduced to the contacts: û = Y Yᵀ p + b, in rows S, T, N, where û_N includes φ/dt."""

    Y: Array  # (3n, nv), with Y Yᵀ = J M⁻¹ Jᵀ
    b: Array  # of the free motion [m/s] (3n)
    free: Array  # velocity without contact impulses (nv)
    response: Array  # M⁻¹ Jᵀ (nv, 3n)

    def outcome(self, impulse: Array) -> Outcome:
        """Return the outcome with these contact impulses [N·s] (3n)."""
        return Outcome(v_plus=self.free + self.response @ impulse, impulse=impulse)


def outcomes(
    robot: Robot, state: State, contacts: ContactSet, tau: Array, dt: float, *, edges: int = 4, samples: int = 60, seed: int = 0
) -> list[Outcome]:
    """Return different solutions on rigid ground under joint torques τ [N·m] (na) over `dt` [s], in the order of discovery. The
    list is empty if Lemke's method finds none.

    edges: number of edges of the friction polygon
    samples: number of covering vectors; the first one consists of ones, the others are random with the seed `seed`
    """
    # LCP of Coulomb's law, solved from each covering vector
    forward, directions = forward_problem(robot, state, contacts, tau, dt), polygon(edges)
    M, q, unit, _ = assemble(forward.Y, forward.b, contacts.mu, directions, 0.0)
    found: list[Outcome] = []
    rng = np.random.default_rng(seed)
    for sample in range(samples):
        cover = np.ones(len(q)) if sample == 0 else np.exp(rng.uniform(-3.0, 3.0, len(q)))
        z, status, _, _ = lemke(M, q, MOST_PIVOTS, cover)
        if status != SOLVED or natural_residual(M, q, z) > TOLERANCE:
            continue
        impulse = unit * _impulse(z, len(contacts), directions)
        if not _held_without_load(forward, contacts.mu, impulse):
            add_if_new(found, forward.outcome(impulse))
    return found


def forward_problem(
    robot: Robot, state: State | Kinematics, contacts: ContactSet, tau: Array, dt: float, applied: Array | None = None
) -> Forward:
    """Return forward dynamics on rigid ground under joint torques τ [N·m] (na) over `dt` [s]. applied: see `predict`"""
    # free motion: v + dt M⁻¹ (Pᵀ τ − h);  D = J M⁻¹ Jᵀ = Y Yᵀ
    dynamics = evaluate(robot, state, contacts, dt=dt, ground=Ground.rigid(), applied=applied).dynamics
    given = dynamics.given
    J, inertia, force = dynamics.J, given.M, -given.h
    force[robot.tree.a] += tau
    L = np.linalg.cholesky(inertia)
    free: Array = state.v + dt * np.linalg.solve(inertia, force)
    Y = np.linalg.solve(L, J.T).T
    if robot.closures.keys:  # u = Lᵀ v:  (G L⁻ᵀ) u⁺ = −rate, where rows of planar chains depend on each other
        U, sizes, V = np.linalg.svd(np.linalg.solve(L, dynamics.G.T), full_matrices=False)
        held = sizes > RANK * sizes[0]
        Q, u = U[:, held], L.T @ free
        u -= Q @ (Q.T @ u + (V[held] @ dynamics.rate) / sizes[held])
        Y, free = Y - (Y @ Q) @ Q.T, np.linalg.solve(L.T, u)
    b = J @ free + dynamics.drift
    b[2::3] += [interpreted(allowance)(given, i) for i in range(len(contacts))]
    return Forward(np.ascontiguousarray(Y), b, free, np.linalg.solve(L.T, Y.T))


def add_if_new(found: list[Outcome], outcome: Outcome) -> None:
    """Append an outcome whose velocity differs from those of all others."""
    if all(np.abs(other.v_plus - outcome.v_plus).max() > SAME for other in found):
        found.append(outcome)


def _held_without_load(forward: Forward, mu: Array, impulse: Array) -> bool:
    """Return whether a contact with unlimited friction opens and still has friction: the LCP allows it, Coulomb's law does
    not."""
    opens = (forward.Y @ (forward.Y.T @ impulse) + forward.b)[2::3] > SAME
    friction = np.hypot(impulse[::3], impulse[1::3])
    return bool((opens & (mu == np.inf) & (friction > SAME * np.abs(impulse).max(initial=0.0))).any())


def _impulse(z: Array, n: int, directions: Array) -> Array:
    """Return rows S, T, N (3n) of an LCP solution in the order p_N, p_F, λ."""
    k = len(directions)
    along = z[n : n + k * n].reshape(n, k) @ directions
    return np.column_stack([along, z[:n]]).ravel()


MOST_COMBINATIONS = 2_000_000
"""Largest number of combinations of modes that are tried: 4 contacts with 16 edges have 1.3 million."""

OPEN, STICK, SLIDE = range(3)  # modes of a contact; SLIDE + j: against corner j, SLIDE + k + j: between the corners j and j + 1
NO_MORE, REGULAR, SINGULAR = range(3)  # results of `advance`

DOUBTFUL = 1e-5
"""A solution of a regular system that violates the law by less than this share is examined like those of a singular one."""

UNDETERMINED = 1e-10  # relative size below which a direction of a singular system counts as undetermined
FARTHEST = 1e4  # bound on coordinates of the solutions of a singular system, relative to those of the free motion


class Outcomes(Record, frozen=True):
    """Outcomes under the same torques.

    found: all motions that were found
    undecided: why there may be others; '' if there are none
    """

    found: tuple[Outcome, ...]
    undecided: str

    @property
    def unique(self) -> bool | None:
        """Whether the motion is proved to be unique; None if other motions were neither found nor excluded."""
        if len(self.found) > 1:
            return False
        return None if self.undecided else True


class Contacts(NamedTuple):
    """The contacts' part of the problem, û = D p + b, with impulses times the mean inverse inertia, so in m/s."""

    D: Matrix  # (3n, 3n)
    b: Vector  # of the free motion (3n)
    mu: Vector  # friction coefficients (n)
    directions: Matrix  # corners of the polygon (k, 2)


def all_outcomes(
    robot: Robot,
    state: State | Kinematics,
    contacts: ContactSet,
    tau: Array,
    dt: float,
    *,
    applied: Array | None = None,
    edges: int = 4,
    budget: int = 100,
) -> Outcomes:
    """Return all outcomes on rigid ground under joint torques τ [N·m] (na) over `dt` [s].

    applied: generalised force in addition to gravity, contacts and joint torques [N, N·m] (nv)
    edges: number of edges of the friction polygon
    budget: largest number of singular combinations of modes that are examined, each by up to 1 + 6n linear programs
    """
    directions, mu, examined = polygon(edges), contacts.mu, 0
    combinations = np.prod([float(modes_of(m, edges)) for m in mu])
    if combinations > MOST_COMBINATIONS:
        return Outcomes(found=(), undecided=f"{len(mu)} contacts have {combinations:.1e} combinations of modes")
    forward, found = forward_problem(robot, state, contacts, tau, dt, applied), list[Outcome]()
    D = forward.Y @ forward.Y.T
    d = float(np.trace(D)) / max(len(D), 1) or 1.0
    problem, p, kinds = Contacts(D / d, forward.b, mu, directions), np.empty(len(D)), np.empty(len(mu), np.int64)
    code, result = advance(problem, -1, kinds, p)
    while result != NO_MORE:
        if result == REGULAR:
            add_if_new(found, forward.outcome(p / d))
        elif examined == budget:
            return Outcomes(found=tuple(found), undecided=f"more than {budget} combinations of modes are singular")
        else:
            examined += 1
            for point in _extremes(problem, kinds):
                add_if_new(found, forward.outcome(point / d))
        code, result = advance(problem, code, kinds, p)
    return Outcomes(found=tuple(found), undecided="")


def with_outcomes(request: Request, answer: Prediction) -> Prediction:
    """Return the answer with `unique` and `others`, by the search of `Options.outcomes`."""
    r = checked_request(request)
    if not 0 < r.options.outcomes <= MOST_COMBINATIONS:
        raise InputError("options.outcomes", f"expected 0 to {MOST_COMBINATIONS}, got {r.options.outcomes}")
    every = all_outcomes(r.robot, r.state, r.contacts, answer.tau, r.dt, applied=r.applied, budget=r.options.outcomes)
    motions = [outcome.v_plus for outcome in every.found]
    own = min(motions, key=lambda v: float(np.abs(v - answer.v_plus).max()), default=None)
    return msgspec.structs.replace(answer, unique=every.unique, others=tuple(v for v in motions if v is not own))


@entry(float, int)
def modes_of(mu: float, k: int) -> int:
    """Return the number of modes of a contact: open or sticking with unlimited friction, open or closed without friction."""
    return 2 if mu in (0.0, np.inf) else 2 + 2 * k


@entry(Contacts, int, written(Indices), written(Vector))
def advance(problem: Contacts, code: int, kinds: Array, p: Array) -> tuple[int, int]:
    """Find the next combination of modes after number `code` that may contain an outcome. Return its number and REGULAR, with
    the impulses in `p`, or SINGULAR; its modes are in `kinds` (n)."""
    n, k = len(problem.mu), len(problem.directions)
    total = 1
    for i in range(n):
        total *= modes_of(problem.mu[i], k)
    A, c = np.empty((3 * n, 3 * n)), np.empty(3 * n)
    for number in range(code + 1, total):
        rest = number
        for i in range(n):
            count = modes_of(problem.mu[i], k)
            kinds[i] = SLIDE if problem.mu[i] == 0.0 and rest % count == 1 else rest % count
            rest //= count
        equations(problem, kinds, A, c)
        solution, regular = lu_refined(A, c)
        error = violation(problem, solution) if regular else 0.0
        copy(solution, p)
        if not regular or TOLERANCE < error < DOUBTFUL:
            return number, SINGULAR
        if error <= TOLERANCE:
            return number, REGULAR
    return total, NO_MORE


@entry(Contacts, Indices, written(Matrix), written(Vector))
def equations(problem: Contacts, kinds: Array, A: Array, c: Array) -> None:
    """Fill the equations A p = c of a combination of modes, see the module."""
    D, b, mu, directions = problem
    k = len(directions)
    for row in range(len(b)):
        c[row] = 0.0
        for column in range(len(b)):
            A[row, column] = 0.0
    for i in range(len(kinds)):
        s, t, n, kind = 3 * i, 3 * i + 1, 3 * i + 2, kinds[i]
        if kind == OPEN:
            A[s, s] = A[t, t] = A[n, n] = 1.0
            continue
        copy(D[n], A[n])
        c[n] = -b[n]
        if kind == STICK:
            copy_rows(D[s:n], A[s:n])
            c[s], c[t] = -b[s], -b[t]
            continue
        x, y = directions[(kind - SLIDE) % k]
        if kind < SLIDE + k:
            A[s, s], A[s, n], A[t, t], A[t, n] = 1.0, -mu[i] * x, 1.0, -mu[i] * y
            continue
        # (d_j − d_{j+1}) · û_T = 0; a + b − μ p_N = 0
        x1, y1 = directions[(kind - SLIDE + 1) % k]
        det = x * y1 - y * x1
        axpy(x - x1, D[s], A[s])
        axpy(y - y1, D[t], A[s])
        c[s] = -(x - x1) * b[s] - (y - y1) * b[t]
        A[t, s], A[t, t], A[t, n] = (y1 - y) / det, (x - x1) / det, -mu[i]


@entry(Contacts, Vector)
def violation(problem: Contacts, p: Array) -> float:
    """Return the largest violation of Coulomb's law by the impulses p (3n), as a share of the largest speed."""
    D, b, mu, directions = problem
    residuals, largest, u = np.zeros(6), 1.0, b.copy()
    for row in range(len(p)):
        for column in range(len(p)):
            u[row] += D[row, column] * p[column]
        largest = max(largest, abs(p[row]), abs(u[row]))
    for i in range(len(mu)):
        s, t, n = 3 * i, 3 * i + 1, 3 * i + 2
        contact = Contact(p[s], p[t], p[n], u[s], u[t], u[n], mu[i], mu[i] == np.inf)
        worse(residuals, PENETRATION, -u[n])
        worse(residuals, CONE, -p[n])
        coulomb(contact, directions, residuals)
    return residuals.max() / largest


def _extremes(problem: Contacts, kinds: Array) -> Iterator[Array]:
    """Yield outcomes of a singular combination of modes: its solutions with the extreme velocities at the contacts, or one of
    them if they have the same velocity."""
    size = len(problem.b)
    A, c = np.empty((size, size)), np.empty(size)
    equations(problem, kinds, A, c)
    some, _, rank, _ = lstsq(A, c, cond=UNDETERMINED)
    if np.abs(A @ some - c).max() > TOLERANCE * max(1.0, np.abs(some).max()):
        return
    null = np.linalg.svd(A)[2][rank:].T
    G, h = _inequalities(problem, kinds)
    bounds = (-FARTHEST, FARTHEST)
    moving = problem.D @ null
    objectives = [np.zeros(null.shape[1])]
    objectives += [sign * row for row in moving if np.abs(row).max() > UNDETERMINED for sign in (1.0, -1.0)]
    for objective in objectives:
        found = linprog(objective, -G @ null, G @ some - h, bounds=bounds, options={"primal_feasibility_tolerance": 1e-10})
        if found.status != 0:
            return
        p = some + null @ found.x
        if violation(problem, p) <= TOLERANCE:
            yield p


def _inequalities(problem: Contacts, kinds: Array) -> tuple[Array, Array]:
    """Return the conditions G p ≥ h of a combination of modes beside its equations."""
    D, b, mu, d = problem
    k, rows, sides = len(d), list[Array](), list[float]()
    after = np.roll(d, -1, axis=0)
    for i, kind in enumerate(kinds):
        tangential, n = slice(3 * i, 3 * i + 2), 3 * i + 2
        load, impulse = np.zeros(len(b)), np.zeros((2, len(b)))
        load[n], impulse[:, tangential] = 1.0, np.eye(2)
        if kind == OPEN:
            rows.append(D[n])
            sides.append(-b[n])
            continue
        rows.append(load)
        sides.append(0.0)
        if kind == STICK:
            if mu[i] < np.inf:  # (d_j + d_{j+1}) · p_T ≤ (1 + d_j · d_{j+1}) μ p_N
                reach = 1.0 + (d * after).sum(axis=1)
                rows += list(mu[i] * reach[:, None] * load - (d + after) @ impulse)
                sides += [0.0] * k
            continue
        # −d_j · û_T ≥ 0 and ≥ −d_i · û_T; a, b ≥ 0
        j = (kind - SLIDE) % k
        against = np.vstack([-d[j], np.delete(d, j, axis=0) - d[j]])
        rows += list(against @ D[tangential])
        sides += list(-against @ b[tangential])
        if kind >= SLIDE + k:
            rows += list(np.linalg.inv(np.column_stack([d[j], after[j]])) @ impulse)
            sides += [0.0, 0.0]
    return np.array(rows), np.array(sides)
