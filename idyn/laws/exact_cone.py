"""Coulomb friction with the round cone, without a polygon  [De Saxcé & Feng 1998; Alart & Curnier 1991].

    0 ≤ p_N ⟂ w ≥ 0,   w = N v̂ + φ/dt          p_T = the point of the disc of radius μ p_N nearest to p_T − v̂_T
so (v̂_T, w + μ ‖v̂_T‖) and p are complementary in the cone of μ and its dual. With Π doing the same to p − û/ρ, û = D p + b,

    F(p) = p − Π(p − û/ρ) = 0

is solved by Newton's method with a line search. Only Yᵀ p couples the contacts, D = Y Yᵀ, so a step takes one system of nu
equations, however many contacts there are; ε in it keeps impulses that the law leaves open from moving far.

Begun at the last impulses; else at those of Coulomb's law with 4 and with 8 edges, and at what Pinocchio's ADMM and projected
Gauss–Seidel come to. The law is not convex: none of these must lead to an answer, and there may be several.
μ = ∞ is a disc without an edge; contacts that part are let go (`idyn.laws.separating`).

When it is wrong: as Coulomb's law, but for the polygon. With μ of 10⁴ and more it may find no answer where a polygon has one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import numpy as np

from idyn.contact.ground import RIGID
from idyn.jit.compiled import compiled
from idyn.jit.memory import local
from idyn.laws.convex.rays import units
from idyn.laws.coulomb import Coulomb
from idyn.laws.law import (
    FACE_ZERO,
    Attempt,
    Face,
    Kernel,
    LawData,
    LawSolution,
    Rung,
    Solutions,
    Start,
    contact_velocity,
    polygon,
    unlimited_somewhere,
    unsolved,
)
from idyn.laws.separating import without_separating
from idyn.solvers.linalg import copy, lu_refined
from idyn.solvers.proximal import METHODS, solve_cones
from idyn.status import NOT_CERTIFIED, SOLVED, STATUSES, Conditions
from idyn.terms.reduction import Reduced
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

EDGES = (4, 8)
"""Of the polygons whose solutions are where it is begun."""

SOFT, EPSILON = 1e-1, 1e-5
"""ρ as a share of the mean diagonal of D_NN, and ε."""

ENOUGH, ROUNDED = 1e-13, 1e-10
"""‖F‖ is zero below this share of the largest speed over ρ; below the second it is rounding if no step makes it smaller: the
certificate judges what is left."""

STEPS, HALVINGS, LOST = 60, 14, 15
"""Newton steps at the most, how often one that leads nowhere is halved, and so many in a row that are no progress are the end.
Usual: 4, 0, 0."""


class ExactCone:
    """No settings."""

    name = "exact-cone"
    conditions = Conditions.EXACT_CONE
    material = RIGID
    unlimited_friction = False
    max_pivots = 0
    directions = polygon(8)  # in which the selection keeps contacts that stick
    basis_width = 0
    basis_type: np.dtype = np.dtype(np.bool_)

    def __init__(self) -> None:
        self.kernel: Kernel = exact_cone_kernel

    @property
    def rungs(self) -> tuple[Rung, ...]:
        polygons = (Rung(f"from {edges} edges", Start.NOTHING, solve=partial(_rung, _from_polygon, edges)) for edges in EDGES)
        proximal = (Rung(f"from {each}", Start.NOTHING, solve=partial(_rung, _from_proximal, each)) for each in METHODS)
        nowhere = Rung("unlimited friction", Start.NOTHING, solve=_without_limits)
        return (Rung("warm", Start.IMPULSES, 0), nowhere, *polygons, *proximal)

    def sticking(self, mu: Array) -> Array:
        return np.where(np.isinf(mu), 1.0, 0.0)


def _without_limits(problem: Reduced, _basis: Array | None) -> Solutions:
    """Where friction is nowhere limited there are no cones: Coulomb's law answers."""
    if unlimited_somewhere(problem.mu, False)[1]:
        for found in Coulomb().unlimited(problem, None):
            if found is not None:
                yield found[0], msgspec.structs.replace(found[1], basis=_no_basis(problem))
        yield None


def _rung(solve: Callable[[Reduced, Any], LawSolution], setting: Any, problem: Reduced, _basis: Array | None) -> Solutions:
    """One start; where friction is unlimited somewhere, contacts that part are let go first. Pinocchio's has limits."""
    some, _ = unlimited_somewhere(problem.mu, False)
    name = f"from {setting}" + (" edges" if solve is _from_polygon else "")
    if some and solve is _from_proximal:
        return
    solution = solve(problem, setting)
    if some:
        for parted in without_separating(problem, solution, np.isinf(problem.mu), lambda other: solve(other, setting)):
            yield f"{name}, parted", parted
    yield name, solution
    if some and solution.status.ok:
        yield None  # solved to the letter: what is refused then is friction without pressure, not the numbers


def _newton(problem: Reduced, start: Array) -> LawSolution:
    p, flags, friction, status, steps = solve_exact_cone(problem.Y, problem.b, problem.mu, start)
    face = Face(flags, ExactCone.directions, problem.mu, False, friction)
    return LawSolution(p=p, face=face, status=STATUSES[status], iterations=steps, basis=_no_basis(problem))


def _from_polygon(problem: Reduced, edges: int) -> LawSolution:
    """A demand that forces bodies into one another whatever four edges do counts as one that cannot be met."""
    law = Coulomb(edges)
    first = next(law.unlimited(problem, None), None)  # where friction is unlimited somewhere
    begin = law.solution(problem) if first is None else first[1]
    return _newton(problem, begin.p) if begin.status.ok else msgspec.structs.replace(begin, basis=_no_basis(problem))


def _from_proximal(problem: Reduced, method: str) -> LawSolution:
    """It need not have converged: Newton's method does."""
    d, speed = units(problem.Y, problem.b, problem.b)
    return _newton(problem, speed / d * solve_cones(problem.Y @ problem.Y.T / d, problem.b / speed, problem.mu, method))


def _no_basis(problem: Reduced) -> Array:
    return np.zeros((len(problem.mu), 0), dtype=np.bool_)


@compiled
def exact_cone_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """From the last impulses; where friction is nowhere limited there are no cones."""
    given = problem.dynamics.given
    if unlimited_somewhere(given.mu, False)[1]:
        return unsolved(problem, law, basis)
    p, flags, friction, status, steps = solve_exact_cone(problem.Y, problem.b, given.mu, given.last)
    return Attempt(p, Face(flags, law.directions, given.mu, False, friction), given.mu[:0], status, steps)


@compiled
def solve_exact_cone(Y: Array, b: Array, mu: Array, start: Array) -> tuple[Array, Array, Array, int, int]:
    """Impulses (3n), the face's flags (n, 3) and friction (n, 2), status and Newton steps; begun at impulses `start` (3n)."""
    d, speed = units(Y, b, b)
    rho, rows, problem = SOFT * d, len(b), (Y, b, mu)
    p, trial, change = start.copy(), local(rows), local(rows)
    F, G, H = local(rows), local((rows, 3)), local((rows, 3))
    rest, step, lost, small = _distance(problem, rho, p, F, G), 0, 0, speed / rho
    best, least = p.copy(), rest
    while rest > ENOUGH * small and step < STEPS and lost < (LOST if least > ROUNDED * small else 1):
        # Newton's step, halved until ‖F‖ falls
        _change(Y, rho, F, G, H, change)
        share, before = 1.0, rest
        for _ in range(HALVINGS):
            for row in range(rows):
                trial[row] = p[row] + share * change[row]
            rest = _distance(problem, rho, trial, F, G)
            if rest < before:
                break
            share *= 0.5
        # over an edge of Π, if no part of the step leads down; the best p is kept
        copy(trial, p)
        step, lost = step + 1, lost + 1
        if rest < least:
            copy(p, best)
            least, lost = rest, 0
    # exactly 0 where Π(p − û/ρ) is
    _distance(problem, rho, best, F, G)
    for row in range(rows):
        if F[row] == best[row]:
            best[row] = 0.0
    flags, friction = face_of(Y, b, mu, best)
    return best, flags, friction, SOLVED if least <= ROUNDED * small else NOT_CERTIFIED, step


@compiled
def _distance(problem: tuple[Array, Array, Array], rho: float, p: Array, F: Array, G: Array) -> float:
    """‖F‖; fill F = p − Π(p − û/ρ) (3n), and the slopes of Π, a block of three rows for each contact (3n, 3)."""
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
    """p ← Π(p) (3), in place: p_N ≥ 0, then p_T on the disc of radius μ p_N; fill the slope of that map (3, 3)."""
    for r in range(3):
        G[r, 0] = G[r, 1] = G[r, 2] = 0.0
    # p_N ≥ 0
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
    # p_T ← μ p_N p_T/‖p_T‖
    a, c, share = p[0] / friction, p[1] / friction, most / friction
    p[0], p[1] = most * a, most * c
    G[0, 0], G[1, 1] = share * c * c, share * a * a
    G[0, 1] = G[1, 0] = -share * a * c
    G[0, 2], G[1, 2] = mu * a, mu * c


@compiled
def _change(Y: Array, rho: float, F: Array, G: Array, H: Array, change: Array) -> None:
    """Newton's step (3n): Δ with (1 − (1 − ε) G) Δ = −F − G Y z/ρ, z = Yᵀ Δ, so (1 + Yᵀ H Y) z = −Yᵀ A F.

    A = (1 − (1 − ε) G)⁻¹ contact by contact, H = A G/ρ (3n, 3).
    """
    nu = Y.shape[1]
    S, slide = local((nu, nu)), local(nu)
    for i in range(nu):
        slide[i] = 0.0
        for k in range(nu):
            S[i, k] = 1.0 if i == k else 0.0
    # −A F and H contact by contact, S = 1 + Yᵀ H Y, slide = −Yᵀ A F
    for s in range(0, len(F), 3):
        _resolve(G[s : s + 3], F[s : s + 3], rho, H[s : s + 3], change[s : s + 3])
        for r in range(3):
            for e in range(3):
                h = H[s + r, e]
                if h != 0.0:
                    for i in range(nu):
                        for k in range(nu):
                            S[i, k] += Y[s + r, i] * h * Y[s + e, k]
            for i in range(nu):
                slide[i] += Y[s + r, i] * change[s + r]
    # S z = slide, Δ = −A F − H Y z
    z, _ = lu_refined(S, slide)
    for s in range(0, len(F), 3):
        for e in range(3):
            u = 0.0
            for k in range(nu):
                u += Y[s + e, k] * z[k]
            for r in range(3):
                change[s + r] -= H[s + r, e] * u


@compiled
def _resolve(G: Array, F: Array, rho: float, H: Array, change: Array) -> None:
    """Fill A G/ρ (3, 3) and −A F (3) of one contact; the last row of G is 0 but for its last entry."""
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
    """Flags (n, 3) and friction (n, 2) of the `Face` that impulses p (3n) lie on."""
    n, u = len(mu), local(len(b))
    contact_velocity(Y, b, p, u)
    flags, friction = np.zeros((n, 3), dtype=np.bool_), np.zeros((n, 2))
    for i in range(n):
        s, t = 3 * i, 3 * i + 1
        speed, held, touches = np.hypot(u[s], u[t]), np.hypot(p[s], p[t]), u[t + 1] <= FACE_ZERO
        slides = speed > FACE_ZERO
        # friction along p_T, or against v̂_T where there is none
        flags[i, 0], flags[i, 1], flags[i, 2] = touches, slides, touches and not slides
        if held > 0.0:
            friction[i, 0], friction[i, 1] = p[s] / held, p[t] / held
        elif slides:
            friction[i, 0], friction[i, 1] = -u[s] / speed, -u[t] / speed
    return flags, friction
