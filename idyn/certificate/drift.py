"""The drift of contacts and closures for the certificate, column by column of the Jacobians; not used elsewhere (MATHEMATICS
§5.4).

    J̇ v = Σ_j ± (Ṡ_j v_j)(x) + Ω × ẋ − ω_2 × u,    Ṡ_j = V_b × S_j        S_j: axis of degree of freedom j, b: its joint
    ẋ: slip of the first body + r Ω × n;  rows turn with the second body
"""

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.model.so3 import Three, cross
from idyn.terms.stages import Given
from idyn.types import Array


@compiled
def dot(x: Array, y: Array) -> float:
    """Return x · y."""
    total = 0.0
    for k in range(len(x)):
        total += x[k] * y[k]
    return total


@compiled
def point_velocity(twist: Array, x: Array | tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the velocity v_O + ω × x of the point x of a body with spatial velocity `twist` at the world origin."""
    return (
        twist[0] + twist[4] * x[2] - twist[5] * x[1],
        twist[1] + twist[5] * x[0] - twist[3] * x[2],
        twist[2] + twist[3] * x[1] - twist[4] * x[0],
    )


@compiled
def body_twists(g: Given, v: Array, twists: Array) -> None:
    """Fill the spatial velocities of the bodies at the world origin (njoints, 6), summed along the tree."""
    axes, parents, dof_joint, dof = g.axes, g.model.parents, g.model.dof_joint, 0
    for c in range(6):
        twists[0, c] = 0.0
    for j in range(1, len(twists)):
        for c in range(6):
            twists[j, c] = twists[parents[j], c]
        while dof < len(v) and dof_joint[dof] == j:
            for c in range(6):
                twists[j, c] += axes[dof, c] * v[dof]
            dof += 1


@compiled
def sign_of(g: Given, k: int, j: int) -> int:
    """Return +1 if degree of freedom j moves only the first body of contact k, −1 if only the second, 0 if both or neither."""
    return int(g.model.support[g.bodies[k], j]) - int(g.model.support[g.others[k], j])


@compiled
def unit_velocity(g: Given, k: int, j: int) -> Three:
    """Return the velocity at contact k of a body that degree of freedom j moves by v_j = 1: a column of given rows, or that of
    the axis in the world."""
    if len(g.rows) > 0:
        return g.rows[3 * k, j], g.rows[3 * k + 1, j], g.rows[3 * k + 2, j]
    return point_velocity(g.axes[j], g.points[k])


@compiled
def eliminate(A: Array, x: Array) -> None:
    """Replace x by A⁻¹ x, by Gaussian elimination without pivots: A, which is overwritten, is positive definite."""
    count = len(x)
    for j in range(count):
        for i in range(j + 1, count):
            f = A[i, j] / A[j, j]
            for k in range(j, count):
                A[i, k] -= f * A[j, k]
            x[i] -= f * x[j]
    for i in range(count - 1, -1, -1):
        for k in range(i + 1, count):
            x[i] -= A[i, k] * x[k]
        x[i] /= A[i, i]


@compiled
def divide_by_inertia(g: Given, x: Array) -> None:
    """Replace x by M_uu⁻¹ x."""
    nu = len(g.model.u)
    A = np.empty((nu, nu))
    for i in range(nu):
        for j in range(nu):
            A[i, j] = g.M[g.model.u[i], g.model.u[j]]
    eliminate(A, x)


@compiled
def midpoint(g: Given, k: int) -> tuple[float, float, float]:
    """Return the midpoint of the two points of closure k in the world [m]."""
    one, other = g.ends[k, 0], g.ends[k, 1]
    return 0.5 * (one[0] + other[0]), 0.5 * (one[1] + other[1]), 0.5 * (one[2] + other[2])


INDEPENDENT = 1e-7  # passive joints move a direction of closures if this share of it, relative to the largest, is moved
FOLLOWED, SHARE = 1e-3, 1e-3  # THETA and INDEPENDENT of `idyn.terms.drift`


@compiled
def add_contact_drift(g: Given, velocity: Array) -> None:
    """Add dt J̇ v to contact velocities in (s, t, n) (n, 3)."""
    if not g.contact_drift:
        return
    drift = stack_array((len(velocity), 3))
    if len(g.rows) > 0:
        for row in range(len(g.rows)):
            drift[row // 3, row % 3] = g.dt * g.rows_dot_v[row]
    else:
        _drift_of_axes(g, drift)
    if g.dependent:
        _follow(g, drift)
    for i in range(len(velocity)):
        for c in range(3):
            velocity[i, c] += drift[i, c]


@compiled
def _drift_of_axes(g: Given, drift: Array) -> None:
    """Fill dt J̇ v of the contacts in (s, t, n) (n, 3)."""
    joints = len(g.model.parents)
    twists, rates = stack_array((joints, 6)), stack_array((joints, 6))
    _axis_rates(g, twists, rates)
    for i in range(len(drift)):
        s, n, x = g.tangents[i], g.normals[i], g.points[i]
        one, other, r = twists[g.bodies[i]], twists[g.others[i]], g.radii[i]
        spin = one[3] - other[3], one[4] - other[4], one[5] - other[5]
        slip, roll = _slip(g, twists, i), cross(spin, n)
        moved = slip[0] + r * roll[0], slip[1] + r * roll[1], slip[2] + r * roll[2]
        turned = 0.0, 0.0, 0.0
        if g.others[i] != 0:
            first, second = point_velocity(one, x), point_velocity(other, x)
            turned = cross(other[3:], (first[0] - second[0], first[1] - second[1], first[2] - second[2]))
        own, carried = _difference(rates, (g.bodies[i], g.others[i]), x), cross(spin, moved)
        t = cross(n, s)
        for c in range(3):
            drift[i, c] = 0.0
        for c in range(3):
            change = g.dt * (own[c] + carried[c] - turned[c])
            drift[i, 0] += s[c] * change
            drift[i, 1] += t[c] * change
            drift[i, 2] += n[c] * change


@compiled
def closure_drift(g: Given, out: Array) -> None:
    """Fill dt Ġ v of the closures (3m)."""
    twists, rates = stack_array((len(g.model.parents), 6)), stack_array((len(g.model.parents), 6))
    _axis_rates(g, twists, rates)
    for k in range(len(g.ends)):
        (first, second), x = g.model.loops[k], midpoint(g, k)
        one, other = twists[first], twists[second]
        own = _difference(rates, (first, second), x)
        carried, taken = cross(one[3:], point_velocity(one, x)), cross(other[3:], point_velocity(other, x))
        for c in range(3):
            out[3 * k + c] = g.dt * (own[c] + carried[c] - taken[c])


@compiled
def passive_part(g: Given, out: Array) -> None:
    """Replace velocities of the closures (3m) by the part that joints without a motor can cause, by Gram and Schmidt with
    pivots on the columns of G_u: the demand decides the rest."""
    rows, u = len(out), g.model.u
    columns, squares, left = stack_array((len(u), rows)), stack_array(len(u)), stack_array(rows)
    for i in range(len(u)):
        for row in range(rows):
            columns[i, row] = _closure_entry(g, row, u[i])
        squares[i] = dot(columns[i], columns[i])
    for row in range(rows):
        left[row] = out[row]
    largest = 0.0
    for _ in range(len(u)):
        best = 0
        for i in range(len(u)):
            best = i if squares[i] > squares[best] else best
        axis, square = columns[best], dot(columns[best], columns[best])
        largest = max(largest, square)
        if square <= INDEPENDENT**2 * largest:
            break
        _reduce(left, axis, square)
        for i in range(len(u)):
            if i != best and squares[i] > INDEPENDENT**2 * largest:
                for _ in range(2):  # the second pass removes rounding errors
                    _reduce(columns[i], axis, square)
                squares[i] = dot(columns[i], columns[i])
        squares[best] = 0.0
    for row in range(rows):
        out[row] -= left[row]


@compiled
def _reduce(x: Array, axis: Array, square: float) -> None:
    """Subtract from x its part along an axis of this squared length."""
    share = dot(x, axis) / square
    if share != 0.0:
        for k in range(len(x)):
            x[k] -= share * axis[k]


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
    B, b, L, count = stack_array((3 * m + n, nv)), stack_array(3 * m + n), stack_array((3 * m + n, 3 * m + n)), 0
    closing, a = stack_array(3 * m), stack_array(nv)
    closure_drift(g, closing)
    for row in range(3 * m):
        for j in range(nv):
            a[j] = _closure_entry(g, row, j)
        count = _keep(a, closing[row], (B, b, L), count)
    for i in range(n):
        if g.gaps[i] <= g.touching:
            _contact_row(g, i, (g.normals[i, 0], g.normals[i, 1], g.normals[i, 2]), a)
            count = _keep(a, drift[i, 2], (B, b, L), count)
    # T, X = L⁻¹ B Tᵀ, K = T T⊥ᵀ + θ²
    T, X, known = stack_array((2 * n, nv)), stack_array((2 * n, count)), stack_array(count)
    K, y, which, rows = stack_array((2 * n, 2 * n)), stack_array(2 * n), stack_array(2 * n, np.int64), 0
    _forward(L, b, known)
    for i in range(n):
        if g.gaps[i] <= g.touching:
            s, t = g.tangents[i], cross(g.normals[i], g.tangents[i])
            for r in range(2):
                _contact_row(g, i, (s[0], s[1], s[2]) if r == 0 else t, T[rows])
                for k in range(count):
                    X[rows, k] = dot(B[k], T[rows])
                _forward(L, X[rows], X[rows])
                which[rows], y[rows] = i, drift[i, r] - dot(X[rows], known)
                for k in range(rows + 1):
                    K[rows, k] = K[k, rows] = dot(T[rows], T[k]) - dot(X[rows], X[k])
                K[rows, rows] += FOLLOWED**2
                rows += 1
    eliminate(K, y[:rows])
    for row in range(rows):
        drift[which[row], row % 2] -= FOLLOWED**2 * y[row]


@compiled
def _contact_row(g: Given, i: int, direction: Three, row: Array) -> None:
    """Fill the row of J of contact i along a direction (nv)."""
    for j in range(len(row)):
        sign = sign_of(g, i, j)
        at = unit_velocity(g, i, j)
        row[j] = sign * (direction[0] * at[0] + direction[1] * at[1] + direction[2] * at[2]) if sign != 0 else 0.0


@compiled
def _keep(a: Array, c: float, kept: tuple[Array, Array, Array], count: int) -> int:
    """Keep a row a with its drift c, unless it depends on earlier ones. Return the number of rows kept.

    kept: (rows B (·, nv), their drift (·), Cholesky factor of B Bᵀ (·, ·)); the first `count` rows are used
    """
    B, b, L = kept
    x, length2 = L[min(count, len(L) - 1), :count], dot(a, a)
    if count == len(a):
        return count
    for k in range(count):
        x[k] = dot(B[k], a)
    _forward(L, x, x)
    rest2 = length2 - dot(x, x)
    if rest2 <= SHARE**2 * length2:
        return count
    b[count], L[count, count] = c, np.sqrt(rest2)
    for j in range(len(a)):
        B[count, j] = a[j]
    return count + 1


@compiled
def _forward(L: Array, y: Array, x: Array) -> None:
    """Fill x with L⁻¹ y for a lower triangle; they may be the same array."""
    for k in range(len(x)):
        x[k] = y[k]
        for i in range(k):
            x[k] -= L[k, i] * x[i]
        x[k] /= L[k, k]


@compiled
def _axis_rates(g: Given, twists: Array, rates: Array) -> None:
    """Fill V of the bodies and Σ_j Ṡ_j v_j, Ṡ_j = V_b × S_j, over the axes that move each, both (njoints, 6)."""
    body_twists(g, g.v, twists)
    dof, dof_joint = 0, g.model.dof_joint
    for c in range(6):
        rates[0, c] = 0.0
    for i in range(1, len(rates)):
        V, rate, above = twists[i], rates[i], rates[g.model.parents[i]]
        for c in range(6):
            rate[c] = above[c]
        while dof < len(g.v) and dof_joint[dof] == i:
            S, x = g.axes[dof], g.v[dof]
            rate[0] += x * (V[4] * S[2] - V[5] * S[1] + V[1] * S[5] - V[2] * S[4])
            rate[1] += x * (V[5] * S[0] - V[3] * S[2] + V[2] * S[3] - V[0] * S[5])
            rate[2] += x * (V[3] * S[1] - V[4] * S[0] + V[0] * S[4] - V[1] * S[3])
            rate[3] += x * (V[4] * S[5] - V[5] * S[4])
            rate[4] += x * (V[5] * S[3] - V[3] * S[5])
            rate[5] += x * (V[3] * S[4] - V[4] * S[3])
            dof += 1


@compiled
def _difference(rates: Array, bodies: tuple[int, int], x: Array | Three) -> Three:
    """Return (Σ_j Ṡ_j v_j)(x) of the first body minus that of the second one."""
    one, other = point_velocity(rates[bodies[0]], x), point_velocity(rates[bodies[1]], x)
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]


@compiled
def _slip(g: Given, twists: Array, i: int) -> Three:
    """Return the velocity of contact i on its first body: of contacts with the ground the body's mean."""
    a, b, c, count = 0.0, 0.0, 0.0, 0
    for k in range(len(g.mu)):
        if k == i or (g.bodies[k] == g.bodies[i] and g.others[k] == 0 and g.others[i] == 0):
            v = point_velocity(twists[g.bodies[k]], g.points[k])
            a, b, c, count = a + v[0], b + v[1], c + v[2], count + 1
    return a / count, b / count, c / count
