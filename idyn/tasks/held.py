"""Held motion and forces: all accelerations v̇ and contact forces f that the contact modes and the unactuated dynamics permit.

    M_u v̇ + h_u = J_uᵀ ((1 + ρ) f − ρ f⁻) + G_uᵀ λ,   f = B ζ         unactuated rows; f⁻: forces of the last tick
    W (J v̇ + J̇ v + J v/T_r + φ/dt²) = 0,   G (v̇ dt + v) = −rate             held rows of contacts; closures

v̇ is the acceleration without the memory of the contact compliance model (ρ = T_p/dt), f are the forces that act. Both are
affine in coordinates x = (y, w):  v̇ = v̇₀ + V x,  f = f₀ + F x,  τ = τ₀ + T x. Inconsistent held rows are met in the sense of
least squares.

The program of a tick has the equations of each level and the limits in these coordinates. Rows of the limits, in the order of
`idyn.tasks.modes.names_of`: facets of the contact modes, torques, joint accelerations, distances between links. Equations of
forces are divided by the mass. After the levels of the tasks, joints that no task moves come to rest, and forces are least.
"""

from typing import NamedTuple

import numpy as np

from idyn.contact.ground import allowance
from idyn.library.kernels import compiled, entry
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.solvers.linalg import axpy, backward, cholesky, copy, dot, fill_rows, forward, multiply
from idyn.solvers.rows import solve_all, solve_and_span
from idyn.tasks.follow import REST, ROWS
from idyn.tasks.modes import ModeRows
from idyn.terms.stages import Dynamics
from idyn.types import Array


class Affine(NamedTuple):
    """value(x) = offset + slope x."""

    offset: Array
    slope: Array

    def at(self, x: Array) -> Array:
        """Return the value at x."""
        value: Array = self.offset + self.slope @ x
        return value


class HeldMotion(NamedTuple):
    """Motion and forces as functions of the coordinates."""

    # offsets in the first column, then slopes: of v̇, f and τ, one below the other (nv + 3n + na, 1 + coordinates)
    values: Array
    acceleration: Affine  # v̇ (nv)
    force: Affine  # f, rows S, T, N of each contact (3n): parts of `values`
    rows: Array  # left sides of the equations for v̇, first those of held contact rows (·, nv)


def held_motion(d: Dynamics, modes: ModeRows) -> HeldMotion:
    """Return the accelerations and forces that the modes permit."""
    rows, nv, nu, na = modes.B.shape[0], len(d.given.own["v"]), len(d.given.model.own["u"]), len(d.given.model.own["a"])
    closures = len(d.own["G"])
    count, most = nv + rows + na, 1 + nv + modes.B.shape[1] + closures
    values, held, sizes = np.empty(count * most), np.empty((len(modes.held) + closures + nu, nv)), np.empty(2, np.int64)
    fill_held(d, (modes.B, modes.held), (values, held, sizes))
    width, equations = sizes.tolist()
    values = values[: count * width].reshape(count, width)
    motion, force = values[:nv], values[nv : nv + rows]
    return HeldMotion(values, Affine(motion[:, 0], motion[:, 1:]), Affine(force[:, 0], force[:, 1:]), held[:equations])


@entry(Dynamics, (Matrix, Indices), written((Vector, Matrix, Indices)))
def fill_held(d: Dynamics, modes: tuple[Array, Array], out: tuple[Array, Array, Array]) -> None:
    """Fill the arrays of a `HeldMotion`. modes: (B (3n, m), held (r)), see `ModeRows`

    out: (values, in the first elements; rows; (width of values, number of rows))
    """
    g, (B, held), (memory, rows, sizes) = d.given, modes, out
    u, (n3, m), nv = g.model.u, B.shape, len(g.v)
    nu, closures, rho = len(u), len(d.G), g.rho if len(u) > 0 else 0.0
    # forces: columns of the unactuated rows, with closures: inverse (m, nu); directions z that no force reaches
    count = m + closures
    pushes, one, inverse = np.zeros((nu, count)), np.zeros((nu, nu)), np.empty((count, nu))
    free, unreached = np.empty((count, count)), np.empty((nu, nu))
    for i in range(nu):
        one[i, i] = 1.0
        for row in range(n3):
            axpy(d.J[row, u[i]], B[row], pushes[i, :m])
        for k in range(closures):
            pushes[i, m + k] = d.G[k, u[i]]
    internal, missing = solve_all(pushes, one, inverse, (free, unreached))
    # equations for v̇, then v̇₀ and the motions that they leave
    equations = len(held) + closures + missing
    bias, targets, start = np.empty(nu), np.empty(equations), np.empty(nv)
    for i in range(nu):
        bias[i] = g.h[u[i]]
        for row in range(n3 if rho > 0.0 else 0):
            bias[i] += rho * d.J[row, u[i]] * g.last[row] / g.dt
    _fill_equations(d, held, (unreached, bias), rows, targets)
    columns, motions = np.empty((nv, equations)), np.empty((nv, nv))
    for row in range(equations):
        for j in range(nv):
            columns[j, row] = rows[row, j]
    moving = nv - solve_and_span((columns, targets), (start, motions), 0.0)
    # coordinates x = (y, w)
    width = 1 + moving + internal
    sizes[0], sizes[1] = width, equations
    values = memory[: (nv + n3 + len(g.model.a)) * width].reshape((nv + n3 + len(g.model.a), width))
    fill_rows(values, 0.0)
    for j in range(nv):
        values[j, 0] = start[j]
        copy(motions[j, :moving], values[j, 1 : 1 + moving])
    load, parts = np.zeros((nu, width)), np.zeros((count, width))
    for i in range(nu):
        for j in range(nv):
            axpy(g.M[u[i], j] / (1.0 + rho), values[j], load[i])
        load[i, 0] += bias[i] / (1.0 + rho)
    multiply(inverse, load, 1.0, parts)
    for c in range(count):
        for k in range(internal):
            parts[c, 1 + moving + k] += free[k, c]
    multiply(B, parts[:m], 1.0, values[nv : nv + n3])
    _fill_torque(d, values)


@compiled
def _fill_equations(d: Dynamics, held: Array, unreached: tuple[Array, Array], rows: Array, targets: Array) -> None:
    """Fill the equations for v̇. unreached: (directions that no force reaches, as rows; h_u + ρ J_uᵀ f⁻)"""
    g, (directions, bias), c = d.given, unreached, 0
    u, nv = g.model.u, len(g.v)
    for row in held:
        copy(d.J[row], rows[c])
        speed = d.drift[row] + (allowance(g, row // 3) if row % 3 == 2 else 0.0)
        targets[c] = -((1.0 - g.keep) * dot(d.J[row], g.v) + speed) / g.dt
        c += 1
    for k in range(len(d.G)):
        copy(d.G[k], rows[c])
        targets[c] = -(d.rate[k] + dot(d.G[k], g.v)) / g.dt
        c += 1
    for k in range(len(targets) - c):
        z, row = directions[k], rows[c + k]
        for j in range(nv):
            row[j] = 0.0
        for i in range(len(u)):
            axpy(z[i], g.M[u[i]], row)
        targets[c + k] = -dot(z, bias)


@compiled
def _fill_torque(d: Dynamics, values: Array) -> None:
    """Fill the last rows with τ = M_au v̇_u + M_aa v̇_a + h_a − J_aᵀ f − G_aᵀ λ, with v̇_u and λ from the unactuated rows and the
    closures."""
    g, n3, (_, width) = d.given, len(d.J), values.shape
    u, a, nv = g.model.u, g.model.a, len(g.v)
    nu, closures, force = len(u), len(d.G), values[nv : nv + n3]
    # push = Jᵀ f − h;  motion: v̇_a, and v̇_u by M_uu v̇_u = push_u − M_ua v̇_a
    push, motion, L = np.zeros((nv, width)), np.zeros((nv, width)), np.empty((nu, nu))
    for row in range(n3):
        for j in range(nv):
            if d.J[row, j] != 0.0:
                axpy(d.J[row, j], force[row], push[j])
    for j in range(nv):
        push[j, 0] -= g.h[j]
    for j in a:
        copy(values[j], motion[j])
    for i in range(nu):
        for j in range(nu):
            L[i, j] = g.M[u[i], u[j]]
    cholesky(L)
    base = np.empty((width, nu))
    for i in range(nu):
        for c in range(width):
            base[c, i] = push[u[i], c]
            for j in a:
                base[c, i] -= g.M[u[i], j] * motion[j, c]
    for c in range(width):
        forward(L, base[c])
        backward(L, base[c])
        for i in range(nu):
            motion[u[i], c] = base[c, i]
    if closures > 0:
        _close(d, L, motion, push)
    torque = values[nv + n3 :]
    for k in range(len(a)):
        for j in range(nv):
            axpy(g.M[a[k], j], motion[j], torque[k])
        axpy(-1.0, push[a[k]], torque[k])


@compiled
def _close(d: Dynamics, L: Array, motion: Array, push: Array) -> None:
    """Add Gᵀ λ to `push`, and its effect to v̇_u in `motion`. L: Cholesky factor of M_uu"""
    g, closures, width = d.given, len(d.G), motion.shape[1]
    u, nu = g.model.u, len(g.model.u)
    asked, closing, moved = np.zeros((closures, width)), np.empty((closures, width)), np.empty((closures, nu))
    S, spare, other = np.empty((closures, closures)), np.empty((closures, closures)), np.empty((closures, closures))
    for k in range(closures):
        asked[k, 0] = -(d.rate[k] + dot(d.G[k], g.v)) / g.dt
        for j in range(len(g.v)):
            axpy(-d.G[k, j], motion[j], asked[k])
        for i in range(nu):
            moved[k, i] = d.G[k, u[i]]
        forward(L, moved[k])
        backward(L, moved[k])
    for k in range(closures):
        for j in range(closures):
            S[k, j] = 0.0
            for i in range(nu):
                S[k, j] += d.G[k, u[i]] * moved[j, i]
    solve_all(S, asked, closing, (spare, other))
    for k in range(closures):
        for i in range(nu):
            axpy(moved[k, i], closing[k], motion[u[i]])
        for j in range(len(g.v)):
            axpy(d.G[k, j], closing[k], push[j])


Arrays = tuple[Array, ...]


class Program(NamedTuple):
    """Level by level, the x with the smallest ‖A x − b‖² within lower ≤ G x ≤ upper."""

    equations: Array  # (b, A), weighted by the square roots of the weights, in the order of the levels (r, 1 + size)
    ends: Array  # end of the rows of each level
    G: Array  # (k, size)
    # lower, upper: (k); ±inf: no limit
    lower: Array
    upper: Array


def program_of(
    d: Dynamics, held: HeldMotion, modes: ModeRows, tasks: tuple[Arrays, Arrays], limits: Arrays, mass: float
) -> Program:
    """Return the program of a tick.

    tasks: of motion and of forces, each (A, wanted, roots, ends), see `idyn.tasks.follow`, with an end for each level
    limits: (least, largest accelerations, largest torques), each (na); then (rows (k, nv), least (k)) of `LinkDistances`
    """
    (motion, forces), na, n3, width = tasks, len(limits[0]), len(modes.B), held.values.shape[1]
    levels, facets = len(motion[3]), len(modes.least)
    count, rows = facets + 2 * na + len(limits[4]), len(motion[0]) + len(forces[0]) + na + n3
    out = Program(np.empty((rows, width)), np.empty(levels + 2, np.int64), np.empty((count, width - 1)), *np.empty((2, count)))
    fill_program(d, (held.values, modes.facets, modes.least), motion, forces, limits, tuple(out), mass)
    return out


@entry(
    Dynamics,
    (Matrix, Matrix, Vector),
    ROWS,
    ROWS,
    (Vector, Vector, Vector, Matrix, Vector),
    written((Matrix, Indices, Matrix, Vector, Vector)),
    float,
)
def fill_program(
    d: Dynamics,
    held: tuple[Array, Array, Array],
    motion: tuple[Array, ...],
    forces: tuple[Array, ...],
    limits: tuple[Array, ...],
    out: tuple[Array, ...],
    mass: float,
) -> None:
    """Fill a `Program`. held: (values of the `HeldMotion`, facets, least forces); the others are those of `program_of`"""
    (values, facets, least), (slowest, fastest, most, apart, nearest) = held, limits
    equations, ends, G, lower, upper = out
    (n3, nv), a = d.J.shape, d.given.model.a
    row, first, second = 0, 0, 0
    fill_rows(equations, 0.0)
    for level in range(len(motion[3])):
        for i in range(first, motion[3][level]):
            _fill_equation((motion[0][i], values[:nv]), motion[2][i], motion[1][i], equations[row])
            row += 1
        for i in range(second, forces[3][level]):
            _fill_equation((forces[0][i], values[nv : nv + n3]), forces[2][i] / mass, forces[1][i], equations[row])
            row += 1
        first, second, ends[level] = motion[3][level], forces[3][level], row
    for k in range(len(a)):
        axpy(1.0, values[a[k]], equations[row + k])
        equations[row + k, 0] = -REST * d.given.v[a[k]] - values[a[k], 0]
    ends[len(ends) - 2] = row = row + len(a)
    for i in range(n3):
        axpy(1.0 / mass, values[nv + i], equations[row + i])
        equations[row + i, 0] = -equations[row + i, 0]
    ends[len(ends) - 1] = row + n3
    # limits
    bound = np.zeros((len(least), values.shape[1]))
    for k in range(len(least)):
        for i in range(n3):
            if facets[k, i] != 0.0:
                axpy(facets[k, i], values[nv + i], bound[k])
        _fill_limit(bound[k], (least[k], np.inf), k, (G, lower, upper))
    for k in range(len(a)):
        _fill_limit(values[nv + n3 + k], (-most[k], most[k]), len(least) + k, (G, lower, upper))
        _fill_limit(values[a[k]], (slowest[k], fastest[k]), len(least) + len(a) + k, (G, lower, upper))
    bound = np.zeros((len(nearest), values.shape[1]))
    for k in range(len(nearest)):
        for j in range(nv):
            axpy(apart[k, j], values[j], bound[k])
        _fill_limit(bound[k], (nearest[k], np.inf), len(least) + 2 * len(a) + k, (G, lower, upper))


@compiled
def _fill_equation(affine: tuple[Array, Array], root: float, wanted: float, equation: Array) -> None:
    """Fill an equation A · value = wanted for the coordinates, which is zero. affine: (A, offsets and slopes of the value)"""
    A, values = affine
    for j in range(len(A)):
        if A[j] != 0.0:
            axpy(root * A[j], values[j], equation)
    equation[0] = root * wanted - equation[0]


@compiled
def _fill_limit(value: Array, between: tuple[float, float], k: int, out: tuple[Array, Array, Array]) -> None:
    """Fill row k of the limits, from offset and slope of the limited value."""
    G, lower, upper = out
    for j in range(len(value) - 1):
        G[k, j] = value[1 + j]
    lower[k], upper[k] = between[0] - value[0], between[1] - value[0]
