"""The drift of contacts and closures for the certificate, column by column of the Jacobians; not used elsewhere.

    J̇ v = Σ_j ± (Ṡ_j v_j)(x) + Ω × ẋ − ω_2 × u,    Ṡ_j = V_b × S_j        S_j: axis of degree of freedom j, b: its joint
    ẋ: slip of the first body + r Ω × n;  rows turn with the second body

The laws sum accelerations along the tree instead (`idyn.terms.drift`).
"""

import numpy as np

from idyn.certificate.motion import body_twists, cross, point_velocity
from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.terms.stages import Given
from idyn.types import Array

Three = tuple[float, float, float]

INDEPENDENT = 1e-7
"""A direction of the closures is moved by joints without a motor if this share of it, relative to the largest, is."""


@compiled
def add_contact_drift(g: Given, velocity: Array) -> None:
    """Add dt J̇ v to contact velocities in (s, t, n) (n, 3)."""
    if not g.contact_drift:
        return
    twists, turning = stack_array((len(g.model.parents), 6)), stack_array((len(g.v), 6))
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
            change = g.dt * (rates[c] + carried[c] - turned[c])
            velocity[i, 0] += s[c] * change
            velocity[i, 1] += t[c] * change
            velocity[i, 2] += n[c] * change


@compiled
def closure_drift(g: Given, x: Array, out: Array) -> None:
    """Fill dt Ġ v at the midpoints x (m, 3) of the closures (3m), without the part that no joint without a motor moves: the
    demand decides that."""
    twists, turning = stack_array((len(g.model.parents), 6)), stack_array((len(g.v), 6))
    _axis_rates(g, twists, turning)
    for k in range(len(g.ends)):
        first, second = g.model.loops[k]
        one, other = twists[first], twists[second]
        rates = _difference(g, turning, (first, second), x[k])
        carried, taken = cross(one[3:], point_velocity(one, x[k])), cross(other[3:], point_velocity(other, x[k]))
        for c in range(3):
            out[3 * k + c] = g.dt * (rates[c] + carried[c] - taken[c])
    _keep_reached(g, x, out)


@compiled
def _keep_reached(g: Given, x: Array, out: Array) -> None:
    """Replace `out` (3m) by its part in the span of the columns of G_u, by Gram and Schmidt with pivots."""
    rows, u = len(out), g.model.u
    columns, kept, largest = np.zeros((len(u), rows)), np.zeros(rows), 0.0
    for i in range(len(u)):
        for row in range(rows):
            k = row // 3
            sign = int(g.model.support[g.model.loops[k, 0], u[i]]) - int(g.model.support[g.model.loops[k, 1], u[i]])
            columns[i, row] = sign * point_velocity(g.axes[u[i]], x[k])[row % 3] if sign != 0 else 0.0
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
def _axis_rates(g: Given, twists: Array, turning: Array) -> None:
    """Fill the spatial velocities V of the bodies (njoints, 6) and Ṡ_j v_j = V × S_j v_j of the axes (nv, 6)."""
    body_twists(g, g.v, twists)
    for j in range(len(g.v)):
        V, S, speed, out = twists[g.model.dof_joint[j]], g.axes[j], g.v[j], turning[j]
        linear, swung, turned = cross(V[3:], S[:3]), cross(V[:3], S[3:]), cross(V[3:], S[3:])
        for c in range(3):
            out[c], out[3 + c] = speed * (linear[c] + swung[c]), speed * turned[c]


@compiled
def _difference(g: Given, turning: Array, bodies: tuple[int, int], x: Array) -> Three:
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
