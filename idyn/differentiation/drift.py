"""Derivatives of the contacts' drift dt J̇ v by v and by q, for contact points and frames that are fixed in the world
(MATHEMATICS §3.7).
"""

from typing import NamedTuple

import numpy as np

from idyn.differentiation.arrays import DRIFTS, VELOCITY, Expansion
from idyn.differentiation.motions import Places, turn_forces, turn_velocities
from idyn.library.kernels import compiled, stack_array
from idyn.model.so3 import Three, cross
from idyn.solvers.linalg import apply, apply_transposed, axpy, backward, cholesky, copy, dot, forward, product_transposed, scale
from idyn.terms.drift import INDEPENDENT, THETA, Motions, body_motions
from idyn.terms.stages import Model
from idyn.types import Array

Six = tuple[float, float, float, float, float, float]

FOLLOWS = 2  # value of `Expansion.marks[DRIFTS]` where rows may depend on each other


class Followed(NamedTuple):
    """What the mechanism can follow, see `idyn.terms.drift`: min ‖T w − c_T‖² + θ² ‖w‖² − 2 fᵀ w  s.t.  B w = c_B."""

    bound: Array  # rows of J that are B
    tangents: Array  # rows of J that are T
    product: Array  # Cholesky factor of B Bᵀ
    across: Array  # 1 − Bᵀ (B Bᵀ)⁻¹ B (nv, nv)
    stiffness: Array  # Cholesky factor of S = across TᵀT across + θ² (nv, nv)


@compiled
def drift_by_velocity(model: Model, x: Expansion, dt: float, out: Array) -> None:
    """Fill the slope of dt J̇ v by v (3n, nv)."""
    _fill(model, x, (dt, False), out)
    if x.marks[DRIFTS] == FOLLOWS:
        f = _followed(x)
        w = _follow(x, f, out, np.zeros((out.shape[1], out.shape[1])))
        for row in f.tangents:
            apply_transposed(w, x.J[row], out[row])


@compiled
def drift_by_place(model: Model, x: Expansion, dt: float, out: Array) -> None:
    """Fill the slope of dt J̇ v by q (3n, nv).

    Of T w, with r = c_T − T w and Bᵀ λ = Tᵀ r − θ² w:  ∂T w + T ∂w, and ∂w is w for ∂c − ∂A w instead of c, A = (B, T), and
    f = ∂Tᵀ r − ∂Bᵀ λ
    """
    _fill(model, x, (dt, True), out)
    if x.marks[DRIFTS] != FOLLOWS:
        return
    (rows, nv), v, places = x.J.shape, x.motions[VELOCITY], Places(x.axes, x.frames, x.ends)
    by_v, turned, pushed = stack_array((rows, nv)), stack_array((rows, nv)), stack_array((nv, nv))
    c, p, g, f = np.empty((rows, 1)), np.zeros(rows), np.zeros(nv), _followed(x)
    # c = ½ ∂c/∂v v, quadratic in v; w
    _fill(model, x, (dt, False), by_v)
    for row in range(rows):
        c[row, 0] = 0.5 * dot(by_v[row], v)
    w = np.ascontiguousarray(_follow(x, f, c, np.zeros((nv, 1)))[:, 0])
    # p = (r, −λ)
    for j in range(nv):
        g[j] = -THETA * THETA * w[j]
    for row in f.tangents:
        p[row] = c[row, 0] - dot(x.J[row], w)
        axpy(p[row], x.J[row], g)
    multipliers = np.empty(len(f.bound))
    for k in range(len(f.bound)):
        multipliers[k] = dot(x.J[f.bound[k]], g)
    forward(f.product, multipliers)
    backward(f.product, multipliers)
    for k in range(len(f.bound)):
        p[f.bound[k]] = -multipliers[k]
    turn_velocities(model, places, w, turned)
    turn_forces(model, places, p, pushed)
    for row in range(rows):
        for j in range(nv):
            by_v[row, j] = out[row, j] - turned[row, j]
    change = _follow(x, f, by_v, pushed)
    for row in f.tangents:
        apply_transposed(change, x.J[row], out[row])
        axpy(1.0, turned[row], out[row])


@compiled
def _followed(x: Expansion) -> Followed:
    (rows, nv), count, rank = x.J.shape, 0, 0
    bound, tangents, Q = np.empty(rows, np.int64), np.empty(rows, np.int64), np.zeros((nv, nv))
    for row in range(2, rows, 3):
        if x.frames[row // 3, 13] > 0.0 and rank < nv:
            copy(x.J[row], Q[rank])
            for _ in range(2):
                for k in range(rank):
                    axpy(-dot(Q[k], Q[rank]), Q[k], Q[rank])
            square = dot(Q[rank], Q[rank])
            if square > INDEPENDENT * INDEPENDENT * dot(x.J[row], x.J[row]):
                scale(1.0 / np.sqrt(square), Q[rank])
                bound[rank] = row
                rank += 1
    across, S, rest = np.eye(nv), np.zeros((nv, nv)), stack_array(nv)
    for k in range(rank):
        for j in range(nv):
            axpy(-Q[k, j], Q[k], across[j])
    for row in range(rows):
        if row % 3 < 2 and x.frames[row // 3, 13] > 0.0:
            tangents[count] = row
            count += 1
            apply(across, x.J[row], rest)
            for j in range(nv):
                axpy(rest[j], rest, S[j])
    product = np.empty((rank, rank))
    for k in range(rank):
        for i in range(rank):
            product[k, i] = dot(x.J[bound[k]], x.J[bound[i]])
    for j in range(nv):
        S[j, j] += THETA * THETA
    cholesky(product)
    cholesky(S)
    return Followed(bound[:rank], tangents[:count], product, across, S)


@compiled
def _follow(x: Expansion, f: Followed, c: Array, force: Array) -> Array:
    """Return w (nv, k) for drifts c (3n, k) and forces f (nv, k), see `Followed`."""
    w, rest, left = np.zeros(force.shape), force.copy(), np.empty(c.shape[1])
    columns, more = np.empty((c.shape[1], len(f.bound))), np.empty((c.shape[1], len(w)))
    for k in range(len(f.bound)):
        for j in range(len(columns)):
            columns[j, k] = c[f.bound[k], j]
    for each in columns:
        forward(f.product, each)
        backward(f.product, each)
    for k in range(len(f.bound)):
        for j in range(len(w)):
            axpy(x.J[f.bound[k], j], np.ascontiguousarray(columns[:, k]), w[j])
    for row in f.tangents:
        apply_transposed(w, x.J[row], left)
        for k in range(len(left)):
            left[k] = c[row, k] - left[k]
        for j in range(len(w)):
            axpy(x.J[row, j], left, rest[j])
    product_transposed(rest, f.across, more)  # (across rest)ᵀ, as across is symmetric
    for each in more:
        forward(f.stiffness, each)
        backward(f.stiffness, each)
    return w + more.T


@compiled
def _fill(model: Model, x: Expansion, how: tuple[float, bool], out: Array) -> None:
    """Fill the slope of dt J̇ v before rows that may depend on each other are treated. how: (dt, whether it is by q)"""
    joints, (dt, by_place) = len(model.parents), how
    motions = Motions(stack_array((joints, 6)), stack_array((joints, 6)))
    body_motions(model, x.axes, x.motions[VELOCITY], motions)
    zero = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(x.ends)):
        first, second = x.ends[i]
        place = x.frames[i]
        s, n = (place[6], place[7], place[8]), (place[3], place[4], place[5])
        t = cross(n, s)
        for j in range(out.shape[1]):
            one, other = (zero, zero), (zero, zero)
            if model.support[first, j]:
                one = _change(model, x.axes, motions, (first, j), by_place)
            if model.support[second, j]:
                other = _change(model, x.axes, motions, (second, j), by_place)
            change = _contact_change(motions, (first, second), place, one, other)
            out[3 * i, j] = dt * _dot(s, change)
            out[3 * i + 1, j] = dt * _dot(t, change)
            out[3 * i + 2, j] = dt * _dot(n, change)


@compiled
def _change(model: Model, axes: Array, motions: Motions, of: tuple[int, int], by_place: bool) -> tuple[Six, Six]:
    """Return ∂V_i and ∂A_i. of: (body i, degree of freedom j that moves it)"""
    (V, A), (i, j) = motions, of
    b = model.dof_joint[j]
    before, S = model.parents[b], _six(axes[j])
    relative = _minus(_six(V[i]), _six(V[before]))
    if by_place:
        turned = _motion_cross(_motion_cross(_six(V[before]), S), relative)
        return _motion_cross(S, relative), _plus(_motion_cross(S, _minus(_six(A[i]), _six(A[before]))), turned)
    return S, _plus(_motion_cross(_six(V[b]), S), _motion_cross(S, relative))


@compiled
def _contact_change(
    motions: Motions, ends: tuple[int, int], place: Array, one: tuple[Six, Six], other: tuple[Six, Six]
) -> Three:
    """Return the change of A_O + α × x + Ω × ẋ − ω_2 × u in the world.

    place: row of `Expansion.frames`; one, other: (∂V, ∂A) of the two bodies
    """
    V, _ = motions
    first, second = _six(V[ends[0]]), _six(V[ends[1]])
    x, n, r, y = (place[0], place[1], place[2]), (place[3], place[4], place[5]), place[9], (place[10], place[11], place[12])
    relative, moved, pushed = _minus(first, second), _minus(one[0], other[0]), _minus(one[1], other[1])
    spin, turn = relative[3:], moved[3:]
    slip, slipped = _at(first, y), _at(one[0], y)
    roll, rolled = cross(spin, n), cross(turn, n)
    dx = slip[0] + r * roll[0], slip[1] + r * roll[1], slip[2] + r * roll[2]
    ddx = slipped[0] + r * rolled[0], slipped[1] + r * rolled[1], slipped[2] + r * rolled[2]
    a, b, c = _at(pushed, x), cross(turn, dx), cross(spin, ddx)
    d, e = cross(other[0][3:], _at(relative, x)), cross(second[3:], _at(moved, x))
    return a[0] + b[0] + c[0] - d[0] - e[0], a[1] + b[1] + c[1] - d[1] - e[1], a[2] + b[2] + c[2] - d[2] - e[2]


@compiled
def _six(V: Array) -> Six:
    return V[0], V[1], V[2], V[3], V[4], V[5]


@compiled
def _plus(a: Six, b: Six) -> Six:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5]


@compiled
def _minus(a: Six, b: Six) -> Six:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3], a[4] - b[4], a[5] - b[5]


@compiled
def _dot(a: Three, b: Three) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def _at(V: Six, x: Three) -> Three:
    return V[0] + V[4] * x[2] - V[5] * x[1], V[1] + V[5] * x[0] - V[3] * x[2], V[2] + V[3] * x[1] - V[4] * x[0]


@compiled
def _motion_cross(a: Six, b: Six) -> Six:
    one, other, turned = cross(a[3:], b[:3]), cross(a[:3], b[3:]), cross(a[3:], b[3:])
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], turned[0], turned[1], turned[2]
