"""The drift of contacts and closures for the certificate, column by column of the Jacobians; not used elsewhere.

    J̇ v = Σ_j ± (Ṡ_j v_j)(x) + Ω × ẋ − ω_2 × u,    Ṡ_j = V_b × S_j        S_j: axis of degree of freedom j, b: its joint
    ẋ: slip of the first body + r Ω × n;  rows turn with the second body

What the mechanism can follow: see `idyn.terms.drift`. The laws sum accelerations along the tree, orthogonalise rows and solve
for accelerations; here products of rows are factorised, and residuals are the unknowns.
"""

import numpy as np

from idyn.certificate.motion import Three, body_twists, cross, midpoint, point_velocity, sign_of
from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.terms.stages import Given
from idyn.types import Array

INDEPENDENT = 1e-7
"""A direction of the closures is moved by joints without a motor if this share of it, relative to the largest, is."""

FOLLOWED, SHARE = 1e-3, 1e-3
"""THETA and INDEPENDENT of `idyn.terms.drift`."""


@compiled
def add_contact_drift(g: Given, velocity: Array) -> None:
    """Add dt J̇ v to contact velocities in (s, t, n) (n, 3)."""
    if not g.contact_drift:
        return
    twists, turning, drift = stack_array((len(g.model.parents), 6)), stack_array((len(g.v), 6)), stack_array((len(velocity), 3))
    _axis_rates(g, twists, turning)
    for i in range(len(velocity)):
        s, n, x = g.tangents[i], g.normals[i], g.points[i]
        one, other, r = twists[g.bodies[i]], twists[g.others[i]], g.radii[i]
        spin = one[3] - other[3], one[4] - other[4], one[5] - other[5]
        slip, roll = _slip(g, twists, i), cross(spin, n)
        moved = slip[0] + r * roll[0], slip[1] + r * roll[1], slip[2] + r * roll[2]
        first, second = point_velocity(one, x), point_velocity(other, x)
        turned = cross(other[3:], (first[0] - second[0], first[1] - second[1], first[2] - second[2]))
        rates, carried = _difference(g, turning, (g.bodies[i], g.others[i]), x), cross(spin, moved)
        t = cross(n, s)
        for c in range(3):
            drift[i, c] = 0.0
        for c in range(3):
            change = g.dt * (rates[c] + carried[c] - turned[c])
            drift[i, 0] += s[c] * change
            drift[i, 1] += t[c] * change
            drift[i, 2] += n[c] * change
    if g.dependent:
        _follow(g, drift)
    for i in range(len(velocity)):
        for c in range(3):
            velocity[i, c] += drift[i, c]


@compiled
def closure_drift(g: Given, out: Array) -> None:
    """Fill dt Ġ v of the closures (3m)."""
    twists, turning = stack_array((len(g.model.parents), 6)), stack_array((len(g.v), 6))
    _axis_rates(g, twists, turning)
    for k in range(len(g.ends)):
        (first, second), x = g.model.loops[k], midpoint(g, k)
        one, other = twists[first], twists[second]
        rates = _difference(g, turning, (first, second), x)
        carried, taken = cross(one[3:], point_velocity(one, x)), cross(other[3:], point_velocity(other, x))
        for c in range(3):
            out[3 * k + c] = g.dt * (rates[c] + carried[c] - taken[c])


@compiled
def passive_part(g: Given, out: Array) -> None:
    """Replace velocities of the closures (3m) by the part that joints without a motor can cause, by Gram and Schmidt with
    pivots on the columns of G_u: the demand decides the rest."""
    rows, u = len(out), g.model.u
    columns, kept, largest = np.zeros((len(u), rows)), np.zeros(rows), 0.0
    for i in range(len(u)):
        for row in range(rows):
            columns[i, row] = _closure_entry(g, row, u[i])
    for _ in range(len(u)):
        best, length = -1, 0.0
        for i in range(len(u)):
            square = (columns[i] ** 2).sum()
            if square > length:
                best, length = i, square
        largest = max(largest, length)
        if best < 0 or length <= INDEPENDENT**2 * largest:
            break
        axis = columns[best] / np.sqrt(length)
        kept += axis * (axis * out).sum()
        for _ in range(2):  # the second pass removes rounding errors
            for i in range(len(u)):
                columns[i] -= axis * (axis * columns[i]).sum()
    for row in range(rows):
        out[row] = kept[row]


@compiled
def _closure_entry(g: Given, row: int, j: int) -> float:
    """Return the entry of G in this row and the column of degree of freedom j."""
    k = row // 3
    sign = int(g.model.support[g.model.loops[k, 0], j]) - int(g.model.support[g.model.loops[k, 1], j])
    return sign * point_velocity(g.axes[j], midpoint(g, k))[row % 3] if sign != 0 else 0.0


@compiled
def _follow(g: Given, drift: Array) -> None:
    """Replace the drift of touching contacts (n, 3) in tangential rows T by c − θ² y, with

    (T T⊥ᵀ + θ²) y = c − T Bᵀ (B Bᵀ)⁻¹ b,  T⊥ = T − T Bᵀ (B Bᵀ)⁻¹ B,  B: independent rows of G and N, b: their drift
    """
    nv, n, m = len(g.v), len(drift), len(g.ends)
    B, b, L, count = np.zeros((3 * m + n, nv)), np.zeros(3 * m + n), np.zeros((3 * m + n, 3 * m + n)), 0
    closing, a = np.zeros(3 * m), np.zeros(nv)
    closure_drift(g, closing)
    for row in range(3 * m):
        for j in range(nv):
            a[j] = _closure_entry(g, row, j)
        count = _keep(a, closing[row], (B, b, L), count)
    for i in range(n):
        if g.gaps[i] <= g.touching:
            _contact_row(g, i, g.normals[i], a)
            count = _keep(a, drift[i, 2], (B, b, L), count)
    # T, X = L⁻¹ B Tᵀ, K = T T⊥ᵀ + θ²
    which, T = np.zeros(2 * n, np.int64), np.zeros((2 * n, nv))
    rows = 0
    for i in range(n):
        if g.gaps[i] <= g.touching:
            t = cross(g.normals[i], g.tangents[i])
            _contact_row(g, i, g.tangents[i], T[rows])
            _contact_row(g, i, np.array(t), T[rows + 1])
            which[rows] = which[rows + 1] = i
            rows += 2
    X, known = np.zeros((rows, count)), np.zeros(count)
    _forward(L, b[:count], known)
    K, y = np.dot(T[:rows], T[:rows].T), np.zeros(rows)
    for row in range(rows):
        _forward(L, np.dot(B[:count], T[row]), X[row])
        y[row] = drift[which[row], row % 2] - (X[row] * known).sum()
    K -= np.dot(X, X.T)
    for row in range(rows):
        K[row, row] += FOLLOWED**2
    _eliminate(K, y)
    for row in range(rows):
        drift[which[row], row % 2] -= FOLLOWED**2 * y[row]


@compiled
def _contact_row(g: Given, i: int, direction: Array, row: Array) -> None:
    """Fill the row of J of contact i along a direction (nv)."""
    for j in range(len(row)):
        sign = sign_of(g, i, j)
        at = point_velocity(g.axes[j], g.points[i])
        row[j] = sign * (direction[0] * at[0] + direction[1] * at[1] + direction[2] * at[2]) if sign != 0 else 0.0


@compiled
def _keep(a: Array, c: float, kept: tuple[Array, Array, Array], count: int) -> int:
    """Keep a row a with its drift c, unless it depends on earlier ones. Return the number of rows kept.

    kept: (rows B (·, nv), their drift (·), Cholesky factor of B Bᵀ (·, ·)); the first `count` rows are used
    """
    B, b, L = kept
    x, length2 = np.zeros(count), (a * a).sum()
    _forward(L, np.dot(B[:count], a), x)
    rest2 = length2 - (x * x).sum()
    if count == len(a) or rest2 <= SHARE**2 * length2:
        return count
    B[count], b[count], L[count, count] = a, c, np.sqrt(rest2)
    for k in range(count):
        L[count, k] = x[k]
    return count + 1


@compiled
def _forward(L: Array, y: Array, x: Array) -> None:
    """Fill x with L⁻¹ y for a lower triangle."""
    for k in range(len(x)):
        x[k] = y[k]
        for i in range(k):
            x[k] -= L[k, i] * x[i]
        x[k] /= L[k, k]


@compiled
def _eliminate(K: Array, y: Array) -> None:
    """Replace y by K⁻¹ y, by elimination without pivots: K is positive definite."""
    count = len(y)
    for j in range(count):
        for i in range(j + 1, count):
            f = K[i, j] / K[j, j]
            if f != 0.0:
                for k in range(j, count):
                    K[i, k] -= f * K[j, k]
                y[i] -= f * y[j]
    for i in range(count - 1, -1, -1):
        for k in range(i + 1, count):
            y[i] -= K[i, k] * y[k]
        y[i] /= K[i, i]


@compiled
def _axis_rates(g: Given, twists: Array, turning: Array) -> None:
    """Fill the spatial velocities V of the bodies (njoints, 6) and Ṡ_j v_j = V × S_j v_j of the axes (nv, 6)."""
    body_twists(g, g.v, twists)
    for j in range(len(g.v)):
        V, S, speed, out = twists[g.model.dof_joint[j]], g.axes[j], g.v[j], turning[j]
        linear, swung, turned = cross(V[3:], S[:3]), cross(V[:3], S[3:]), cross(V[3:], S[3:])
        for c in range(3):
            out[c], out[3 + c] = speed * (linear[c] + swung[c]), speed * turned[c]


@compiled
def _difference(g: Given, turning: Array, bodies: tuple[int, int], x: Array | Three) -> Three:
    """Return Σ_j ± (Ṡ_j v_j)(x) over the degrees of freedom that move one of two bodies: + for the first, − for the second."""
    sums, first, second = stack_array(6), g.model.support[bodies[0]], g.model.support[bodies[1]]
    for c in range(6):
        sums[c] = 0.0
    for j in range(len(turning)):
        if first[j] != second[j]:
            for c in range(6):
                sums[c] += turning[j, c] if first[j] else -turning[j, c]
    return point_velocity(sums, x)


@compiled
def _slip(g: Given, twists: Array, i: int) -> Three:
    """Return the velocity of contact i on its first body: of contacts with the ground the body's mean."""
    a, b, c, count = 0.0, 0.0, 0.0, 0
    for k in range(len(g.mu)):
        if k == i or (g.bodies[k] == g.bodies[i] and g.others[k] == 0 and g.others[i] == 0):
            v = point_velocity(twists[g.bodies[k]], g.points[k])
            a, b, c, count = a + v[0], b + v[1], c + v[2], count + 1
    return a / count, b / count, c / count
