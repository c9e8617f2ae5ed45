"""Derivatives of contact Jacobians by the configuration, for contact points and frames that are fixed in the world.

A joint axis S_k, fixed to its body, turns with every degree of freedom j that moves this body: ∂S_k/∂q_j = S_j × S_k, as
spatial motions in the world (linear at its origin, then angular). Jacobians are needed in two products only:

    ∂(Jᵀ p)_k/∂q_j = (S_j × S_k) · W_k,              W_k: wrench of the contacts that move with k
    ∂(J y)/∂q_j    = E (S_j × (V_b − V_λ)),          V_b: velocity of the contact's body for y, V_λ: of the body before joint j
"""

from typing import NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.solvers.vectors import fill_rows
from idyn.terms.stages import Model
from idyn.types import Array

Six = tuple[float, float, float, float, float, float]


class Places(NamedTuple):
    """Contacts and joint axes. axes (nv, 6); frames: point, normal, first tangent of each contact (n, 9); ends: joints of its
    two bodies (n, 2)"""

    axes: Array
    frames: Array
    ends: Array


@compiled
def turn_forces(model: Model, places: Places, p: Array, slope: Array) -> None:
    """Fill ∂(Jᵀ p)/∂q (nv, nv) for impulses p in contact rows (3n)."""
    axes, support, nv = places.axes, model.support, len(places.axes)
    wrenches = stack_array((nv, 6))
    fill_rows(wrenches, 0.0)
    for i in range(len(places.ends)):
        x0, x1, x2, n0, n1, n2, s0, s1, s2 = places.frames[i]
        a, b, c = p[3 * i], p[3 * i + 1], p[3 * i + 2]
        f0 = a * s0 + b * (n1 * s2 - n2 * s1) + c * n0
        f1 = a * s1 + b * (n2 * s0 - n0 * s2) + c * n1
        f2 = a * s2 + b * (n0 * s1 - n1 * s0) + c * n2
        m0, m1, m2 = x1 * f2 - x2 * f1, x2 * f0 - x0 * f2, x0 * f1 - x1 * f0
        one, other = support[places.ends[i, 0]], support[places.ends[i, 1]]
        for k in range(nv):
            if one[k] == other[k]:
                continue
            sign, w = 1.0 if one[k] else -1.0, wrenches[k]
            w[0] += sign * f0
            w[1] += sign * f1
            w[2] += sign * f2
            w[3] += sign * m0
            w[4] += sign * m1
            w[5] += sign * m2
    # S_j · c_k, with c_k the rate of W_k along S_k
    for k in range(nv):
        v0, v1, v2, w0, w1, w2 = axes[k]
        f0, f1, f2, m0, m1, m2 = wrenches[k]
        c = wrenches[k]
        c[0], c[1], c[2] = w1 * f2 - w2 * f1, w2 * f0 - w0 * f2, w0 * f1 - w1 * f0
        c[3] = v1 * f2 - v2 * f1 + w1 * m2 - w2 * m1
        c[4] = v2 * f0 - v0 * f2 + w2 * m0 - w0 * m2
        c[5] = v0 * f1 - v1 * f0 + w0 * m1 - w1 * m0
    np.dot(wrenches, axes.T, slope)
    for k in range(nv):
        above = support[model.dof_joint[k]]
        for j in range(nv):
            slope[k, j] = slope[k, j] if above[j] else 0.0


@compiled
def turn_velocities(model: Model, places: Places, y: Array, slope: Array) -> None:
    """Fill ∂(J y)/∂q (3n, nv) for a velocity y (nv)."""
    axes, support, nv, joints = places.axes, model.support, len(places.axes), len(model.parents)
    V, dof = stack_array((joints, 6)), 0
    for c in range(6):
        V[0, c] = 0.0
    for i in range(1, joints):
        for c in range(6):
            V[i, c] = V[model.parents[i], c]
        while dof < nv and model.dof_joint[dof] == i:
            for c in range(6):
                V[i, c] += axes[dof, c] * y[dof]
            dof += 1
    for i in range(len(places.ends)):
        x0, x1, x2, n0, n1, n2, s0, s1, s2 = places.frames[i]
        t0, t1, t2 = n1 * s2 - n2 * s1, n2 * s0 - n0 * s2, n0 * s1 - n1 * s0
        first, second = places.ends[i]
        one, other = support[first], support[second]
        for j in range(nv):
            if not (one[j] or other[j]):
                slope[3 * i, j] = slope[3 * i + 1, j] = slope[3 * i + 2, j] = 0.0
                continue
            d0, d1, d2, d3, d4, d5 = _relative(V, (first, second), (one[j], other[j]), model.parents[model.dof_joint[j]])
            a0, a1, a2, w0, w1, w2 = axes[j]
            # S_j × d, at x
            r0, r1, r2 = w1 * d5 - w2 * d4, w2 * d3 - w0 * d5, w0 * d4 - w1 * d3
            v0 = w1 * d2 - w2 * d1 + a1 * d5 - a2 * d4 + r1 * x2 - r2 * x1
            v1 = w2 * d0 - w0 * d2 + a2 * d3 - a0 * d5 + r2 * x0 - r0 * x2
            v2 = w0 * d1 - w1 * d0 + a0 * d4 - a1 * d3 + r0 * x1 - r1 * x0
            slope[3 * i, j] = s0 * v0 + s1 * v1 + s2 * v2
            slope[3 * i + 1, j] = t0 * v0 + t1 * v1 + t2 * v2
            slope[3 * i + 2, j] = n0 * v0 + n1 * v1 + n2 * v2


@compiled
def _relative(V: Array, bodies: tuple[int, int], moved: tuple[bool, bool], before: int) -> Six:
    """Return the velocity of the first body relative to the second one; of a body that is not moved that of `before`."""
    a, b = V[bodies[0] if moved[0] else before], V[bodies[1] if moved[1] else before]
    return a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3], a[4] - b[4], a[5] - b[5]
