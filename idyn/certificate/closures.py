"""Terms of the certificate for closed chains and compliant contacts; not used elsewhere."""

import numpy as np

from idyn.certificate.drift import (
    body_twists,
    closure_drift,
    divide_by_inertia,
    midpoint,
    passive_part,
    point_velocity,
    sign_of,
)
from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.terms.stages import Given
from idyn.types import Array


@compiled
def closure_error(g: Given, v_plus: Array) -> float:
    """Return the largest error of the closures' relative velocities G v⁺ + dt Ġ v [m/s].

    A closure whose gap exceeds the noise must close it within the period, but not faster than the recovery speed.
    """
    worst, twists = 0.0, stack_array((len(g.model.parents), 6))
    drift = stack_array(3 * len(g.ends))
    for row in range(len(drift)):
        drift[row] = 0.0
    if len(g.ends) > 0:
        body_twists(g, v_plus, twists)
        if g.drift:
            closure_drift(g, drift)
            passive_part(g, drift)
    for k in range(len(g.ends)):
        # velocities of the two bodies at the midpoint
        one = point_velocity(twists[g.model.loops[k, 0]], midpoint(g, k))
        other = point_velocity(twists[g.model.loops[k, 1]], midpoint(g, k))
        # their difference should be −speed along the gap
        x, y, z = g.ends[k, 0, 0] - g.ends[k, 1, 0], g.ends[k, 0, 1] - g.ends[k, 1, 1], g.ends[k, 0, 2] - g.ends[k, 1, 2]
        apart, length = (x, y, z), np.sqrt(x * x + y * y + z * z)
        speed = 0.0 if length <= g.noise else min(length / g.dt, g.recovery_speed)
        for c in range(3):
            required = -drift[3 * k + c] - (speed * apart[c] / length if speed > 0.0 else 0.0)
            error = abs(one[c] - other[c] - required)
            worst = np.inf if np.isnan(error) else max(worst, error)
    return worst


@compiled
def keep_closures(g: Given, x: Array) -> None:
    """Project x (nu) onto the motions that satisfy the closures: replace it by x − M_uu⁻¹ G_uᵀ λ, with λ such that G_u x = 0.

    λ is found by elimination with diagonal pivots. Rows whose pivots are rounding errors of the largest pivot are dependent and
    are skipped.
    """
    rows, nu = 3 * len(g.ends), len(x)
    G, A = np.zeros((rows, nu)), np.zeros((rows, rows + 1))
    # G_u: relative velocity of the two bodies of each closure
    for row in range(rows):
        k = row // 3
        for i in range(nu):
            j = g.model.u[i]
            sign = int(g.model.support[g.model.loops[k, 0], j]) - int(g.model.support[g.model.loops[k, 1], j])
            if sign != 0:
                G[row, i] = sign * point_velocity(g.axes[j], midpoint(g, k))[row % 3]
    # A = G_u M_uu⁻¹ G_uᵀ, last column G_u x
    answers = G.copy()
    for row in range(rows):
        divide_by_inertia(g, answers[row])
    for row in range(rows):
        for i in range(nu):
            A[row, rows] += G[row, i] * x[i]
            for other in range(rows):
                A[row, other] += G[row, i] * answers[other, i]
    # A λ = G_u x
    largest, done = 0.0, np.zeros(rows, dtype=np.bool_)
    for row in range(rows):
        largest = max(largest, A[row, row])
    for _ in range(rows):
        pivot = -1
        for row in range(rows):
            if not done[row] and A[row, row] > 1e-12 * largest and (pivot < 0 or A[row, row] > A[pivot, pivot]):
                pivot = row
        if pivot < 0:
            break
        done[pivot] = True
        for row in range(rows):
            f = A[row, pivot] / A[pivot, pivot]
            if row != pivot and f != 0.0:
                for c in range(rows + 1):
                    A[row, c] -= f * A[pivot, c]
    # x ← x − M_uu⁻¹ G_uᵀ λ
    for row in range(rows):
        if done[row]:
            impulse = A[row, rows] / A[row, row]
            for i in range(nu):
                x[i] -= impulse * answers[row, i]


@compiled
def effective_inverse_mass(g: Given, k: int) -> float:
    """Return ‖J_k M⁻¹ J_kᵀ‖_F / 3 of contact k with free joints, its effective inverse mass [1/kg]."""
    nv = len(g.v)
    # X = [J_kᵀ, J_kᵀ], the generalised impulses of unit impulses along the world axes
    A, X = g.M.copy(), np.zeros((nv, 6))
    for j in range(nv):
        sign = sign_of(g, k, j)
        if sign != 0:
            at = point_velocity(g.axes[j], g.points[k])
            for c in range(3):
                X[j, c] = X[j, 3 + c] = sign * at[c]
    # X = [J_kᵀ, M⁻¹ J_kᵀ], by elimination without pivoting: M is positive definite
    for j in range(nv):
        for i in range(j + 1, nv):
            f = A[i, j] / A[j, j]
            for c in range(j, nv):
                A[i, c] -= f * A[j, c]
            for c in range(3, 6):
                X[i, c] -= f * X[j, c]
    for i in range(nv - 1, -1, -1):
        for c in range(3, 6):
            for j in range(i + 1, nv):
                X[i, c] -= A[i, j] * X[j, c]
            X[i, c] /= A[i, i]
    # ‖J_k M⁻¹ J_kᵀ‖_F²
    square = 0.0
    for a in range(3):
        for b in range(3):
            s = 0.0
            for j in range(nv):
                s += X[j, a] * X[j, 3 + b]
            square += s * s
    return np.sqrt(square) / 3.0
