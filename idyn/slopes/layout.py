"""The arrays of one differentiation."""

from typing import NamedTuple

from idyn.types import Array

NONE, FORCES, TORQUES = range(3)
"""Objectives of the selection."""

LAW, CHOICE, FACTOR = range(3)
"""Matrices of `Expansion.operators`."""

CODES = 3
"""Place of the first contact's code in `Expansion.marks`."""

V_HAT, PULL, HELD_Y, ACCELERATION, STIRRED = range(5)
"""Rows of `Expansion.motions`."""

P, CHANGE, HOLDING = range(3)
"""Rows of `Expansion.impulses`."""

DIMENSION, OBJECTIVE, RANK = range(3)
"""First entries of `Expansion.marks`; then the codes of the contacts, then the order of the held rows."""


class Expansion(NamedTuple):
    """Operators of one differentiation; every array is a copy.

    M (nv, nv), J (3n, nv), axes (nv, 6), frames (n, 9), ends (n, 2): see `Dynamics`, and `idyn.slopes.motions.Places`
    inertia: M_uu⁻¹ (nu, nu); push: M_uu⁻¹ J_uᵀ (nu, 3n); Y (3n, nu); response: M_uu⁻¹ J_uᵀ dp by db, of the law (nu, 3n)
    operators (3, 3n, 3n)
        LAW: dp by db, of the law and the selection
        CHOICE: A C⁻ᵀ with Aᵀ K A = C Cᵀ, its first columns
        FACTOR: Cholesky factor of the projection of the demand, see `idyn.slopes.projection`
    lever: (A C⁻ᵀ)ᵀ J_a (3n, na); held: factored rows of the projection (3n, nv)
    friction: change of p by μ at fixed coordinates, then that of the selection's gradient by μ in the normal (n, 4)
    impulses (3, 3n): P: p; CHANGE: p − p⁻; HOLDING: multipliers of the projection
    motions (5, nv)
        V_HAT: v̂; PULL: ∂(gradient)/∂q = −∂(J y)/∂q for this y; HELD_Y: velocity of the projection
        ACCELERATION: (v⁺ − v)/dt; STIRRED: the same plus M_uu⁻¹ J_uᵀ (p − p⁻)
    marks: dimension of the choice, objective, rank of the projection, codes of the contacts (n), held rows (3n)
    """

    M: Array
    J: Array
    axes: Array
    frames: Array
    ends: Array
    inertia: Array
    push: Array
    Y: Array
    response: Array
    operators: Array
    lever: Array
    held: Array
    friction: Array
    impulses: Array
    motions: Array
    marks: Array
