"""The arrays of one differentiation."""

from functools import lru_cache
from typing import NamedTuple

from idyn.jit.compiled import compiled
from idyn.types import Array

NONE, FORCES, TORQUES = range(3)
"""Objectives of the selection."""

CODES = 4
"""Place of the first contact's code in `Expansion.marks`."""

V_HAT, PULL, HELD_Y, ACCELERATION, STIRRED, VELOCITY = range(6)
"""Rows of `Expansion.motions`."""

P, CHANGE, HOLDING = range(3)
"""Rows of `Expansion.impulses`."""

DIMENSION, OBJECTIVE, RANK, DRIFTS = range(4)
"""First entries of `Expansion.marks`; then the codes of the contacts, then the order of the held rows."""


class Expansion(NamedTuple):
    """Operators of one differentiation: views of one array.

    base: M_u (nu, nv); joints: M_a (na, nv); J (3n, nv), axes (nv, 6): see `Dynamics`
    frames: those of `motions.Places`, then radius, point of slip (`idyn.terms.drift`), 1 if it touches (n, 14)
    ends: see `Places` (n, 2)
    inertia: M_uu⁻¹ (nu, nu); push: M_uu⁻¹ J_uᵀ (nu, 3n); Y (3n, nu)
    law: dp by db, of the law and the selection; below it dv_u⁺ by db at fixed dv_u⁰ (3n + nu, 3n)
    chosen: A C⁻ᵀ with Aᵀ K A = C Cᵀ, its first columns (3n, 3n); lever: (A C⁻ᵀ)ᵀ J_a (3n, na)
    factor (3n, 3n), held (3n, nv): of the projection of the demand, see `idyn.differentiation.projection`
    friction: change of p by μ at fixed coordinates, then that of the selection's gradient by μ in the normal (n, 4)
    impulses (3, 3n): P: p; CHANGE: p − p⁻; HOLDING: multipliers of the projection
    motions (6, nv)
        V_HAT: v̂; PULL: ∂(gradient)/∂q = −∂(J y)/∂q for this y; HELD_Y: velocity of the projection
        ACCELERATION: (v⁺ − v)/dt; STIRRED: y with M_uu y_u = J_uᵀ (p − p⁻), y_a = 0; VELOCITY: v
    marks: dimension of the choice, objective, rank of the projection, drift of contacts (0: none; 1; 2: only
        what the mechanism can follow), codes of the contacts (n), held
        rows (3n), bodies (2n)
    """

    motions: Array
    base: Array
    joints: Array
    J: Array
    axes: Array
    frames: Array
    inertia: Array
    push: Array
    Y: Array
    law: Array
    chosen: Array
    lever: Array
    factor: Array
    held: Array
    friction: Array
    impulses: Array
    marks: Array
    ends: Array


@lru_cache
def extent(n: int, nu: int, na: int) -> tuple[int, int]:
    """Return the lengths of the arrays of an `Expansion` for n contacts."""
    rows, nv = 3 * n, nu + na
    words = 6 * nv + nv * nv + 2 * rows * nv + 6 * nv + 18 * n + nu * nu + 3 * nu * rows
    return words + 3 * rows * rows + rows * na + 3 * rows, CODES + n + rows + 2 * n


@compiled
def carve(values: Array, marks: Array, n: int, sizes: tuple[int, int]) -> Expansion:
    """Return the views of an `Expansion`; see `extent`."""
    nu, na = sizes
    rows, nv = 3 * n, nu + na
    a = 6 * nv
    b = a + nu * nv
    c = b + na * nv
    d = c + rows * nv
    e = d + 6 * nv
    f = e + 14 * n
    g = f + nu * nu
    h = g + nu * rows
    i = h + rows * nu
    j = i + (rows + nu) * rows
    k = j + rows * rows
    m = k + rows * na
    o = m + rows * rows
    q = o + rows * nv
    r = q + 4 * n
    s = r + 3 * rows
    return Expansion(
        values[:a].reshape((6, nv)),
        values[a:b].reshape((nu, nv)),
        values[b:c].reshape((na, nv)),
        values[c:d].reshape((rows, nv)),
        values[d:e].reshape((nv, 6)),
        values[e:f].reshape((n, 14)),
        values[f:g].reshape((nu, nu)),
        values[g:h].reshape((nu, rows)),
        values[h:i].reshape((rows, nu)),
        values[i:j].reshape((rows + nu, rows)),
        values[j:k].reshape((rows, rows)),
        values[k:m].reshape((rows, na)),
        values[m:o].reshape((rows, rows)),
        values[o:q].reshape((rows, nv)),
        values[q:r].reshape((n, 4)),
        values[r:s].reshape((3, rows)),
        marks,
        marks[CODES + n + rows :].reshape((n, 2)),
    )
