"""Coulomb friction with the round cone, by Newton's method with a line search  [De Saxcé & Feng 1998; Alart & Curnier 1991;
MATHEMATICS §3.2]. Starts: the last impulses; Coulomb's law with 4 and with 8 edges; Pinocchio's ADMM and projected
Gauss–Seidel. With μ ≥ 10⁴ it may fail where the polygon does not. μ = ∞: `idyn.laws.no_slip`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from idyn.certificate.certify import Conditions
from idyn.laws.convex_program import units
from idyn.laws.coulomb import Coulomb
from idyn.laws.law import (
    FACE_ZERO,
    Attempt,
    Face,
    Law,
    LawData,
    Rung,
    Solutions,
    Start,
    contact_velocity,
    polygon,
    unlimited_somewhere,
    unsolved,
)
from idyn.laws.no_slip import without_separating
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector
from idyn.solvers.linalg import axpy, copy, dot, lu_refined
from idyn.solvers.qp import METHODS, solve_cones
from idyn.status import NOT_CERTIFIED, SOLVED
from idyn.terms.reduction import Reduced
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

EDGES = (4, 8)  # edges of the polygons whose solutions are starts
RHO, EPSILON = 1e-1, 1e-5  # ρ as a share of the mean diagonal of D_NN, and ε

CONVERGED, STALLED = 1e-13, 1e-10
"""Shares of the largest speed over ρ. Newton's method has converged when ‖F‖ is below the first. Below the second it also ends
when ‖F‖ does not decrease: F consists of rounding errors. The certificate checks the result."""

STEPS, HALVINGS, PATIENCE = 60, 14, 15  # most Newton steps, halvings of a step, steps in a row without progress; usual: 4, 0, 0


class ExactCone(Law):
    """Coulomb's law with the round cone, without settings."""

    name = "exact-cone"
    conditions = Conditions.EXACT_CONE
    sticks = holds_still = round_cones = True
    directions = polygon(8)  # used by the selection for sticking contacts

    def __init__(self) -> None:
        self.kernel = exact_cone_kernel

    @property
    def rungs(self) -> tuple[Rung, ...]:
        polygons = (Rung(f"from {edges} edges", Start.COLD, solve=partial(_rung, _from_polygon, edges)) for edges in EDGES)
        proximal = (Rung(f"from {each}", Start.COLD, solve=partial(_rung, _from_proximal, each)) for each in METHODS)
        unlimited = Rung("unlimited friction", Start.COLD, solve=_without_limits)
        return (Rung("warm", Start.IMPULSES, 0), unlimited, *polygons, *proximal)

    def sticking(self, mu: Array) -> Array:
        return np.where(np.isinf(mu), 1.0, 0.0)


def _without_limits(problem: Reduced, _basis: Array | None) -> Solutions:
    """Solve by Coulomb's law if no friction is limited: then there are no cones."""
    if unlimited_somewhere(problem.mu, False)[1]:
        for found in Coulomb().unlimited(problem, None):
            if found is not None:
                yield found[0], found[1]._replace(basis=_no_basis(problem))
        yield None


def _rung(solve: Callable[[Reduced, Any], Attempt], setting: Any, problem: Reduced, _basis: Array | None) -> Solutions:
    """Solve from one start. With unlimited friction at a contact, solutions with released contacts come first, and the starts
    by Pinocchio are skipped: they need finite μ."""
    some, _ = unlimited_somewhere(problem.mu, False)
    name = f"from {setting}" + (" edges" if solve is _from_polygon else "")
    if some and solve is _from_proximal:
        return
    solution = solve(problem, setting)
    if some:
        for parted in without_separating(problem, solution, np.isinf(problem.mu), lambda other: solve(other, setting)):
            yield f"{name}, parted", parted
    yield name, solution
    if some and solution.status == SOLVED:
        yield None  # the certificate rejects tangential impulses without normal ones; further starts do not help


def _newton(problem: Reduced, start: Array) -> Attempt:
    p, flags, friction, status, steps = solve_exact_cone(problem.Y, problem.b, problem.mu, start)
    face = Face(flags, ExactCone.directions, problem.mu, False, friction)
    return Attempt(p, face, status, steps, _no_basis(problem))


def _from_polygon(problem: Reduced, edges: int) -> Attempt:
    """Start from the solution for a polygon. Return the failure if Coulomb's law fails: a ray means an infeasible demand."""
    law = Coulomb(edges)
    first = next(law.unlimited(problem, None), None)  # for unlimited friction at a contact
    begin = law.solution(problem) if first is None else first[1]
    return _newton(problem, begin.p) if begin.status == SOLVED else begin._replace(basis=_no_basis(problem))


def _from_proximal(problem: Reduced, method: str) -> Attempt:
    d, speed = units(problem.Y, problem.b, problem.b)
    return _newton(problem, speed / d * solve_cones(problem.Y @ problem.Y.T / d, problem.b / speed, problem.mu, method))


def _no_basis(problem: Reduced) -> Array:
    return np.zeros((len(problem.mu), 0), dtype=np.bool_)


@compiled
def exact_cone_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Solve from the last impulses. A Python rung (solver attempt) solves problems without limited friction."""
    given = problem.dynamics.given
    if unlimited_somewhere(given.mu, False)[1]:
        return unsolved(problem, law, basis)
    p, flags, friction, status, steps = solve_exact_cone(problem.Y, problem.b, given.mu, given.last)
    return Attempt(p, Face(flags, law.directions, given.mu, False, friction), status, steps, basis, given.mu[:0], 0.0)


@entry(Matrix, Vector, Vector, Vector)
def solve_exact_cone(Y: Array, b: Array, mu: Array, start: Array) -> tuple[Array, Array, Array, int, int]:
    """Solve F(p) = 0 from impulses `start` (3n). Return impulses (3n), flags (n, 3) and friction (n, 2) of the face, status and
    number of Newton steps."""
    d, speed = units(Y, b, b)
    rho, rows, problem = RHO * d, len(b), (Y, b, mu)
    p, trial, change = start.copy(), stack_array(rows), stack_array(rows)
    F, G, H = stack_array(rows), stack_array((rows, 3)), stack_array((rows, 3))
    rest, step, lost, small = _residual(problem, rho, p, F, G), 0, 0, speed / rho
    best, least = p.copy(), rest
    while rest > CONVERGED * small and step < STEPS and lost < (PATIENCE if least > STALLED * small else 1):
        # Newton's step, halved until ‖F‖ decreases
        _newton_step(Y, rho, F, G, H, change)
        share, before = 1.0, rest
        for _ in range(HALVINGS):
            for row in range(rows):
                trial[row] = p[row] + share * change[row]
            rest = _residual(problem, rho, trial, F, G)
            if rest < before:
                break
            share *= 0.5
        # accepted even without decrease, to pass kinks of Π; the best p is stored
        copy(trial, p)
        step, lost = step + 1, lost + 1
        if rest < least:
            copy(p, best)
            least, lost = rest, 0
    # exactly 0 where Π(p − û/ρ) = 0
    _residual(problem, rho, best, F, G)
    for row in range(rows):
        if F[row] == best[row]:
            best[row] = 0.0
    flags, friction = face_of(Y, b, mu, best)
    return best, flags, friction, SOLVED if least <= STALLED * small else NOT_CERTIFIED, step


@compiled
def _residual(problem: tuple[Array, Array, Array], rho: float, p: Array, F: Array, G: Array) -> float:
    """Fill F = p − Π(p − û/ρ) (3n) and G, the derivative of Π, a block of three rows for each contact (3n, 3). Return ‖F‖."""
    Y, b, mu = problem
    square = 0.0
    contact_velocity(Y, b, p, F)
    for row in range(len(b)):
        F[row] = p[row] - F[row] / rho
    for i in range(len(mu)):
        _project(mu[i], F[3 * i : 3 * i + 3], G[3 * i : 3 * i + 3])
    for row in range(len(b)):
        F[row] = p[row] - F[row]
        square += F[row] * F[row]
    return np.sqrt(square)


@compiled
def _project(mu: float, p: Array, G: Array) -> None:
    """Replace p by Π(p) (3): p_N ≥ 0, then p_T in the disc of radius μ p_N. Fill G with the derivative of Π (3, 3)."""
    for r in range(3):
        G[r, 0] = G[r, 1] = G[r, 2] = 0.0
    # p_N ← max(p_N, 0)
    if p[2] > 0.0:
        G[2, 2] = 1.0
    else:
        p[2] = 0.0
    friction, most = np.hypot(p[0], p[1]), mu * p[2] if mu < np.inf else np.inf
    if friction <= most and most > 0.0:
        G[0, 0] = G[1, 1] = 1.0
        return
    if most == 0.0:
        p[0] = p[1] = 0.0
        return
    # outside the disc: p_T ← μ p_N p_T/‖p_T‖
    a, c, share = p[0] / friction, p[1] / friction, most / friction
    p[0], p[1] = most * a, most * c
    G[0, 0], G[1, 1] = share * c * c, share * a * a
    G[0, 1] = G[1, 0] = -share * a * c
    G[0, 2], G[1, 2] = mu * a, mu * c


@compiled
def _newton_step(Y: Array, rho: float, F: Array, G: Array, H: Array, change: Array) -> None:
    """Fill Newton's step Δ (3n): (1 − (1 − ε) G) Δ = −F − G Y z/ρ, z = Yᵀ Δ, so (1 + Yᵀ H Y) z = −Yᵀ A F.

    A = (1 − (1 − ε) G)⁻¹, block by block; H = A G/ρ (3n, 3), which is overwritten.
    """
    nu = Y.shape[1]
    S, slide = stack_array((nu, nu)), stack_array(nu)
    for i in range(nu):
        slide[i] = 0.0
        for k in range(nu):
            S[i, k] = 1.0 if i == k else 0.0
    # −A F and H contact by contact, S = 1 + Yᵀ H Y, slide = −Yᵀ A F
    for s in range(0, len(F), 3):
        _solve_block(G[s : s + 3], F[s : s + 3], rho, H[s : s + 3], change[s : s + 3])
        for r in range(3):
            for e in range(3):
                h = H[s + r, e]
                if h != 0.0:
                    for i in range(nu):
                        axpy(Y[s + r, i] * h, Y[s + e], S[i])
            axpy(change[s + r], Y[s + r], slide)
    # S z = slide, Δ = −A F − H Y z
    z, _ = lu_refined(S, slide)
    for s in range(0, len(F), 3):
        for e in range(3):
            u = dot(Y[s + e], z)
            for r in range(3):
                change[s + r] -= H[s + r, e] * u


@compiled
def _solve_block(G: Array, F: Array, rho: float, H: Array, change: Array) -> None:
    """Fill H = A G/ρ (3, 3) and −A F (3) of one contact. The last row of G is zero except for its last entry."""
    # 1 − (1 − ε) G = [a, e, ·; e, c, ·; 0, 0, 1/n]: row N first, then S and T
    keep = 1.0 - EPSILON
    a, c, e = 1.0 - keep * G[0, 0], 1.0 - keep * G[1, 1], -keep * G[0, 1]
    det, n = a * c - e * e, 1.0 / (1.0 - keep * G[2, 2])
    change[2] = -n * F[2]
    x, y = -F[0] + keep * G[0, 2] * change[2], -F[1] + keep * G[1, 2] * change[2]
    change[0], change[1] = (c * x - e * y) / det, (a * y - e * x) / det
    H[2, 0] = H[2, 1] = 0.0
    H[2, 2] = n * G[2, 2] / rho
    for k in range(3):
        x, y = G[0, k] / rho + keep * G[0, 2] * H[2, k], G[1, k] / rho + keep * G[1, 2] * H[2, k]
        H[0, k], H[1, k] = (c * x - e * y) / det, (a * y - e * x) / det


@compiled
def face_of(Y: Array, b: Array, mu: Array, p: Array) -> tuple[Array, Array]:
    """Return flags (n, 3) and friction (n, 2) of the `Face` of a solution p (3n)."""
    n, u = len(mu), stack_array(len(b))
    contact_velocity(Y, b, p, u)
    flags, friction = np.zeros((n, 3), dtype=np.bool_), np.zeros((n, 2))
    for i in range(n):
        s, t = 3 * i, 3 * i + 1
        speed, held, touches = np.hypot(u[s], u[t]), np.hypot(p[s], p[t]), u[t + 1] <= FACE_ZERO
        slides = speed > FACE_ZERO
        # friction along p_T; without friction against v̂_T
        flags[i, 0], flags[i, 1], flags[i, 2] = touches, slides, touches and not slides
        if held > 0.0:
            friction[i, 0], friction[i, 1] = p[s] / held, p[t] / held
        elif slides:
            friction[i, 0], friction[i, 1] = -u[s] / speed, -u[t] / speed
    return flags, friction
