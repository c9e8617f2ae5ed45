"""Coulomb friction with the round cone, without a polygon  [De Saxcé & Feng 1998; Alart & Curnier 1991].

    0 ≤ p_N ⟂ w ≥ 0,   w = N v̂ + φ/dt          p_T = the point of the disc of radius μ p_N nearest to p_T − v̂_T
so (v̂_T, w + μ ‖v̂_T‖) and p are complementary in the cone of μ and its dual. With û = Y x + b only x = Yᵀ p couples the
contacts: nu unknowns, however many there are. About impulses p⁰ and with a small ρ [1/kg],

    F(x) = x − Yᵀ p(x) = 0,      p_N = max(p⁰_N − u_N/ρ, 0),     p_T = nearest point of the disc to p⁰_T − u_T/ρ,     u = Y x + b

is solved by Newton's method, whose matrix I + Yᵀ G Y/ρ is regular however redundant contacts are; then p⁰ ← p, and again. At
the end p = p⁰, which is the law. What the law leaves open stays as near as it can to where it was begun.

Begun at the last impulses, at none, at what Coulomb's law has with 4 and 8 edges, and at what Pinocchio's ADMM and projected
Gauss–Seidel come to. The law is not convex: none of these must lead to an answer, and there may be several.
μ = ∞ is a disc without an edge; contacts that part are let go (`idyn.laws.separating`).

When it is wrong: as Coulomb's law, but for the polygon.
"""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import numpy as np

from idyn.compiled import compiled
from idyn.ground import RIGID
from idyn.laws.coulomb import Coulomb
from idyn.laws.law import FACE_ZERO, Face, LawSolution, polygon, unlimited_somewhere
from idyn.laws.rays import units
from idyn.laws.separating import without_separating
from idyn.memory import local
from idyn.reduction import Reduced
from idyn.solvers.linalg import copy, lu_refined
from idyn.solvers.proximal import METHODS, solve_cones
from idyn.status import NOT_CERTIFIED, SOLVED, STATUSES, Conditions
from idyn.types import Array

EDGES = (4, 8)
"""Of the polygons whose solutions are where it is begun."""

SOFT = 1e-5
"""ρ as a share of the mean diagonal of D_NN. Speeds are found to 1e-16/SOFT of the largest."""

ENOUGH = 1e-12
"""‖F‖, and speeds ρ (p − p⁰), are zero below this share of the largest."""

ROUNDED = 1e-9
"""‖F‖ below this share that no step makes smaller is all rounding: the certificate judges what is left."""

ROUNDS, STEPS, HALVINGS = 6, 30, 12
"""So often p⁰ is moved at the most; Newton steps each time; and how often one that leads nowhere is halved."""


class ExactCone:
    """No settings."""

    name = "exact-cone"
    conditions = Conditions.EXACT_CONE
    material = RIGID
    unlimited_friction = False
    directions = polygon(8)  # in which the selection keeps contacts that stick
    basis_width = 0
    basis_type: type = np.bool_

    def sticking(self, mu: Array) -> Array:
        return np.where(np.isinf(mu), 1.0, 0.0)

    def attempts(self, problem: Reduced, basis: Array | None) -> Iterator[tuple[str, LawSolution]]:
        some, nowhere_limited = unlimited_somewhere(problem.mu, False)
        if nowhere_limited:  # there are no cones
            for rung, solution in Coulomb().attempts(problem, None):
                yield rung, msgspec.structs.replace(solution, basis=_no_basis(problem))
            return
        if basis is not None and problem.dynamics is not None:
            yield "warm", _newton(problem, problem.dynamics.last)
        for rung, solve in _ways(some):
            solution = solve(problem)
            if some:
                for parted in without_separating(problem, solution, np.isinf(problem.mu), solve):
                    yield f"{rung}, parted", parted
            yield rung, solution
            if some and solution.status.ok:
                return  # solved to the letter: what is refused then is friction without pressure, not the numbers


def _ways(unlimited: bool) -> Iterator[tuple[str, Callable[[Reduced], LawSolution]]]:
    """How it is solved, one after the other; unlimited: whether friction is somewhere, which Pinocchio's is not."""
    yield "cold", lambda problem: _newton(problem, np.zeros(len(problem.b)))
    for edges in EDGES:
        yield f"from {edges} edges", partial(_from_polygon, edges=edges)
    for method in () if unlimited else METHODS:
        yield f"from {method}", partial(_from_proximal, method=method)


def _newton(problem: Reduced, start: Array) -> LawSolution:
    p, flags, friction, status, steps = solve_exact_cone(problem.Y, problem.b, problem.mu, start)
    face = Face(flags, ExactCone.directions, problem.mu, False, friction)
    return LawSolution(p=p, face=face, status=STATUSES[status], iterations=steps, basis=_no_basis(problem))


def _from_polygon(problem: Reduced, edges: int) -> LawSolution:
    """A demand that forces bodies into one another whatever four edges do counts as one that cannot be met."""
    _, begin = next(Coulomb(edges).attempts(problem, None))
    return _newton(problem, begin.p) if begin.status.ok else msgspec.structs.replace(begin, basis=_no_basis(problem))


def _from_proximal(problem: Reduced, method: str) -> LawSolution:
    """It need not have converged: Newton's method does."""
    d, speed = units(problem.Y, problem.b, problem.b)
    return _newton(problem, speed / d * solve_cones(problem.Y @ problem.Y.T / d, problem.b / speed, problem.mu, method))


def _no_basis(problem: Reduced) -> Array:
    return np.zeros((len(problem.mu), 0), dtype=np.bool_)


@compiled
def solve_exact_cone(Y, b, mu, start):
    """Impulses (3n), the face's flags (n, 3) and friction (n, 2), status and Newton steps; begun at impulses `start` (3n)."""
    d, speed = units(Y, b, b)
    rho, small = SOFT * d, speed / np.sqrt(d)
    before, p, x = start.copy(), np.empty(len(b)), Y.T @ start
    status, steps = NOT_CERTIFIED, 0
    for _ in range(ROUNDS):
        rest, more = _balanced((Y, b, mu), before, rho, ENOUGH * small, x, p)
        steps += more
        moved = 0.0
        for row in range(len(b)):
            moved = max(moved, rho * abs(p[row] - before[row]))
            before[row] = p[row]
        if rest <= ROUNDED * small and moved <= ENOUGH * speed:
            status = SOLVED
            break
    flags, friction = face_of(Y, b, mu, p)
    return p, flags, friction, status, steps


@compiled
def _balanced(problem, before, rho, enough, x, p):
    """Takes x (nu) to where F vanishes and fills p(x) (3n); ‖F‖ that is left, and Newton steps."""
    Y, b, mu = problem
    nu = len(x)
    G, J, F, trial = local((len(b), 3)), local((nu, nu)), local(nu), local(nu)
    rest = _imbalance(problem, before, rho, x, p, G, F)
    for step in range(STEPS):
        if rest <= enough:
            return rest, step
        _slope(Y, G, rho, J)
        change, regular = lu_refined(J, F)
        share, best = 1.0, np.inf
        for _ in range(HALVINGS):
            for i in range(nu):
                trial[i] = x[i] - share * change[i]
            best = _imbalance(problem, before, rho, trial, p, G, F)
            if best < rest or not regular:
                break
            share *= 0.5
        copy(trial, x)
        if not best < rest:
            return best, step + 1
        rest = best
    return rest, STEPS


@compiled
def _imbalance(problem, before, rho, x, p, G, F):
    """Fills p(x) (3n), −ρ ∂p/∂u, a block of three rows for each contact (3n, 3), and F (nu); ‖F‖."""
    Y, b, mu = problem
    nu = len(x)
    for row in range(len(b)):
        s = b[row]
        for c in range(nu):
            s += Y[row, c] * x[c]
        p[row] = before[row] - s / rho
    for i in range(len(mu)):
        _on_cone(mu[i], p[3 * i : 3 * i + 3], G[3 * i : 3 * i + 3])
    copy(x, F)
    for row in range(len(b)):
        if p[row] != 0.0:
            for c in range(nu):
                F[c] -= Y[row, c] * p[row]
    square = 0.0
    for c in range(nu):
        square += F[c] * F[c]
    return np.sqrt(square)


@compiled
def _on_cone(mu, p, G):
    """Takes p (3) to where the law has it, first p_N, then p_T on its disc; fills the slope of that map (3, 3)."""
    for r in range(3):
        G[r, 0] = G[r, 1] = G[r, 2] = 0.0
    if p[2] > 0.0:
        G[2, 2] = 1.0
    else:
        p[2] = 0.0
    friction = np.hypot(p[0], p[1])
    if mu == np.inf or (p[2] > 0.0 and friction <= mu * p[2]):
        G[0, 0] = G[1, 1] = 1.0
        return
    most = mu * p[2]
    if most == 0.0:
        p[0] = p[1] = 0.0
        return
    a, c, share = p[0] / friction, p[1] / friction, most / friction
    p[0], p[1] = most * a, most * c
    G[0, 0], G[1, 1] = share * c * c, share * a * a
    G[0, 1] = G[1, 0] = -share * a * c
    G[0, 2], G[1, 2] = mu * a, mu * c


@compiled
def _slope(Y, G, rho, J):
    """J ← I + Yᵀ G Y / ρ (nu, nu)."""
    nu = len(J)
    for i in range(nu):
        for k in range(nu):
            J[i, k] = 1.0 if i == k else 0.0
    for row in range(len(Y)):
        first = row - row % 3
        for e in range(3):
            g = G[row, e] / rho
            if g != 0.0:
                for i in range(nu):
                    for k in range(nu):
                        J[i, k] += g * Y[row, i] * Y[first + e, k]


@compiled
def face_of(Y, b, mu, p):
    """Flags (n, 3) and friction (n, 2) of the `Face` that impulses p (3n) lie on."""
    n, u = len(mu), b + Y @ (Y.T @ p)
    flags, friction = np.zeros((n, 3), dtype=np.bool_), np.zeros((n, 2))
    for i in range(n):
        s, t = 3 * i, 3 * i + 1
        speed, held, touches = np.hypot(u[s], u[t]), np.hypot(p[s], p[t]), u[t + 1] <= FACE_ZERO
        slides = speed > FACE_ZERO
        flags[i, 0], flags[i, 1], flags[i, 2] = touches, slides, touches and not slides
        if held > 0.0:
            friction[i, 0], friction[i, 1] = p[s] / held, p[t] / held
        elif slides:
            friction[i, 0], friction[i, 1] = -u[s] / speed, -u[t] / speed
    return flags, friction
