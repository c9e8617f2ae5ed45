"""Derivatives by each quantity, from the operators of a differentiation (MATHEMATICS §3.7)."""

from typing import NamedTuple

from idyn.differentiation.arrays import (
    CHANGE,
    CODES,
    DIMENSION,
    DRIFTS,
    EXPANSION,
    FORCES,
    OBJECTIVE,
    PULL,
    TORQUES,
    V_HAT,
    Expansion,
    P,
    carve,
)
from idyn.differentiation.drift import drift_by_place, drift_by_velocity
from idyn.differentiation.motions import (
    Places,
    demand_by_demand,
    demand_by_place,
    demand_by_velocity,
    turn_forces,
    turn_velocities,
)
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, written
from idyn.solvers.linalg import axpy, copy, fill_rows, product, product_by_rows, product_transposed, scale
from idyn.terms.stages import Model
from idyn.types import Array

Arrays = tuple[Array, ...]

Numbers = tuple[float, float, float]  # period dt [s], keep = 1 − dt/T_r, ρ = T_p/dt


class Seeds(NamedTuple):
    """Direct changes by k components; without rows: none. v_a: of v_a⁺ (na, k); R: at fixed v⁺ and p (nv, k); b: besides
    (3n, k); p: of p at fixed ζ (3n, k); gradient: of the selection's gradient at fixed p of the law (3n, k)"""

    v_a: Array
    R: Array
    b: Array
    p: Array
    gradient: Array


@compiled
def opened(model: Model, given: Arrays) -> Expansion:
    """Return the expansion in the arrays (values, marks)."""
    nu, na = len(model.u), len(model.a)
    return carve(given[0], given[1], (len(given[1]) - CODES) // 6, (nu, na))


@compiled
def propagate(model: Model, x: Expansion, seeds: Seeds, dt: float, out: Array) -> None:
    """Fill the rows τ, p, v⁺ of `out` (na + 3n + nv, k)."""
    (v_a, R, b, direct, gradient), u, a, k = seeds, model.u, model.a, out.shape[1]
    nu, na, rows, d = len(u), len(a), len(x.J), x.marks[DIMENSION]
    tau, p, v, joints = out[:na], out[na : na + rows], out[na + rows :], stack_array((rows, na))
    force, free, change, moved = stack_array((nu, k)), stack_array((nu, k)), stack_array((rows, k)), stack_array((rows + nu, k))
    # dv_u⁰ = −M_uu⁻¹ (M_ua dv_a + dR_u)
    fill_rows(v, 0.0)
    for j in range(len(v_a)):
        copy(v_a[j], v[a[j]])
    product(x.base, v, force)
    for i in range(nu if len(R) > 0 else 0):
        axpy(1.0, R[u[i]], force[i])
    product(x.inertia, force, free)
    for i in range(nu):
        axpy(-1.0, free[i], v[u[i]])
    # db, then dp and dv_u⁺ of the law and the selection at fixed gradient and torques
    product(x.J, v, change)
    for row in range(len(b)):
        axpy(1.0, b[row], change[row])
    product(x.law, change, moved)
    for row in range(rows):
        copy(moved[row], p[row])
    for i in range(nu):
        axpy(1.0, moved[rows + i], v[u[i]])
    if len(direct) > 0:
        product(x.push, direct, free)
        for row in range(rows):
            axpy(1.0, direct[row], p[row])
        for i in range(nu):
            axpy(1.0, free[i], v[u[i]])
    # dt τ without the part of p, then the selection's answer to changed torques and gradients, then τ
    product(x.joints, v, tau)
    for j in range(na if len(R) > 0 else 0):
        axpy(1.0, R[a[j]], tau[j])
    if d > 0 and (len(gradient) > 0 or x.marks[OBJECTIVE] == TORQUES):
        _answer(x, (tau, gradient), d, p)
    _finish(model, x, dt, (tau, p, joints))


@compiled
def _finish(model: Model, x: Expansion, dt: float, given: tuple[Array, Array, Array]) -> None:
    """Replace dt τ without the part of p by τ. given: (dt τ, p, a buffer (3n, na))"""
    (tau, p, joints), a = given, model.a
    pulled = stack_array(tau.shape)
    for row in range(len(p)):
        for j in range(len(a)):
            joints[row, j] = x.J[row, a[j]]
    product_transposed(joints, p, pulled)
    for j in range(len(a)):
        for c in range(tau.shape[1]):
            tau[j, c] = (tau[j, c] - pulled[j, c]) / dt


@compiled
def _answer(x: Expansion, given: tuple[Array, Array], d: int, p: Array) -> None:
    """Add A (Aᵀ K A)⁻¹ Aᵀ (J_a dτ − dgradient) to p. given: (dt dτ at fixed p in the first rows, dgradient)"""
    (tau, gradient), chosen, k = given, x.chosen, p.shape[1]
    moved, na = stack_array((d, k)), x.lever.shape[1]
    fill_rows(moved, 0.0)
    for i in range(d):
        if x.marks[OBJECTIVE] == TORQUES:
            for j in range(na):
                axpy(x.lever[i, j], tau[j], moved[i])
        for row in range(len(gradient)):
            axpy(-chosen[row, i], gradient[row], moved[i])
    for row in range(len(p)):
        for i in range(d):
            axpy(chosen[row, i], moved[i], p[row])


@compiled
def by_demand(model: Model, x: Expansion, dt: float, out: Array) -> None:
    """Fill the derivatives by the demand (k = na)."""
    na, nothing = len(model.a), stack_array((0, 0))
    v_a = stack_array((na, na))
    demand_by_demand(x, model.a, dt, v_a)
    propagate(model, x, Seeds(v_a, nothing, nothing, nothing, nothing), dt, out)


@entry(Model, EXPANSION, (Matrix,), (float,) * 3, written((Matrix,)))
def by_velocity(model: Model, given: Arrays, inverse: Arrays, numbers: Numbers, out: Arrays) -> None:
    """Fill the derivatives by the velocity (k = nv). inverse: (slope of the inverse dynamics by v (nv, nv))"""
    x, (by_v,), (dt, keep, _), nothing = opened(model, given), inverse, numbers, stack_array((0, 0))
    rows, nv = x.J.shape
    v_a, R, b = stack_array((len(model.a), nv)), stack_array((nv, nv)), stack_array((rows, nv))
    drift = stack_array((rows, nv))
    fill_rows(drift, 0.0)
    if x.marks[DRIFTS]:
        drift_by_velocity(model, x, dt, drift)
    demand_by_velocity(x, model.a, keep, drift, v_a)
    for j in range(nv):
        for c in range(nv):
            R[j, c] = dt * by_v[j, c]
    for i in range(len(model.u)):
        axpy(-1.0, x.base[i], R[model.u[i]])
    for i in range(len(model.a)):
        axpy(-1.0, x.joints[i], R[model.a[i]])
    for row in range(rows):
        for c in range(nv):
            b[row, c] = drift[row, c] - keep * x.J[row, c]
    propagate(model, x, Seeds(v_a, R, b, nothing, nothing), dt, out[0])


@entry(Model, EXPANSION, (Matrix, Matrix), (float,) * 3, written((Matrix,)))
def by_place(model: Model, given: Arrays, inverse: Arrays, numbers: Numbers, out: Arrays) -> None:
    """Fill the derivatives by the configuration (k = nv). inverse: (slope of the inverse dynamics by q, and the same at
    the acceleration plus y/dt (nv, nv))"""
    x, (at, beyond), (dt, _, rho) = opened(model, given), inverse, numbers
    (rows, nv), u, nothing = x.J.shape, model.u, stack_array((0, 0))
    places, nu, chooses = Places(x.axes, x.frames, x.ends), len(u), x.marks[DIMENSION] > 0
    v_a, R, b = stack_array((len(model.a), nv)), stack_array((nv, nv)), stack_array((rows, nv))
    turned, pushes, pulled = stack_array((nv, nv)), stack_array((nu, nv)), stack_array((rows, nv))
    gradient = stack_array((rows if chooses else 0, nv))
    drift = stack_array((rows, nv))
    fill_rows(drift, 0.0)
    if x.marks[DRIFTS]:
        drift_by_place(model, x, dt, drift)
    demand_by_place(model, x, drift, v_a)
    # R = dt ∂(inverse dynamics) − ∂(Jᵀp)
    turn_forces(model, places, x.impulses[P], R)
    for j in range(nv):
        for c in range(nv):
            R[j, c] = dt * at[j, c] - R[j, c]
    # b = ∂(J v̂) + dt ∂(J̇ v) + ρ J_u M_uu⁻¹ [∂(Jᵀπ) − ∂(M y)]_u,  M_uu y = J_uᵀ π
    turn_velocities(model, places, x.motions[V_HAT], b)
    for row in range(rows):
        axpy(1.0, drift[row], b[row])
    if rho > 0.0:
        turn_forces(model, places, x.impulses[CHANGE], turned)
        for i in range(nu):
            for c in range(nv):
                pushes[i, c] = turned[u[i], c] - dt * (beyond[u[i], c] - at[u[i], c])
        product_transposed(x.push, pushes, pulled)
        for row in range(rows):
            axpy(rho, pulled[row], b[row])
    if chooses:
        turn_velocities(model, places, x.motions[PULL], gradient)
        for row in range(rows):
            scale(-1.0, gradient[row])
    propagate(model, x, Seeds(v_a, R, b, nothing, gradient), dt, out[0])


@entry(Model, EXPANSION, (float,) * 3, written((Matrix,)))
def by_friction(model: Model, given: Arrays, numbers: Numbers, out: Arrays) -> None:
    """Fill the derivatives by the friction coefficients (k = n). The impulses change directly, by dp at fixed coordinates:
    db = D̂ dp."""
    x, nothing, slope = opened(model, given), stack_array((0, 0)), out[0]
    n = len(x.ends)
    rows, na, nu, a, kind = len(x.J), len(model.a), len(model.u), model.a, x.marks[OBJECTIVE]
    direct, loads, b = stack_array((rows, n)), stack_array((nu, n)), stack_array((rows, n))
    gradient, torque = stack_array((rows, n)), stack_array((na, n))
    fill_rows(direct, 0.0)
    for i in range(n):
        for r in range(3):
            direct[3 * i + r, i] = x.friction[i, r]
    product_transposed(x.Y, direct, loads)
    product(x.Y, loads, b)
    # gradient: K dp, minus the turning of the facets
    fill_rows(gradient, 0.0)
    fill_rows(torque, 0.0)
    for row in range(rows):
        if kind == FORCES:
            copy(direct[row], gradient[row])
        for j in range(na if kind == TORQUES else 0):
            axpy(x.J[row, a[j]], direct[row], torque[j])
    for row in range(rows):
        for j in range(na if kind == TORQUES else 0):
            axpy(x.J[row, a[j]], torque[j], gradient[row])
    for i in range(n):
        gradient[3 * i + 2, i] -= x.friction[i, 3]
    propagate(model, x, Seeds(nothing, nothing, b, direct, gradient), numbers[0], slope)


@entry(Model, EXPANSION, (float,) * 3, written((Matrix,)))
def by_preferred(model: Model, given: Arrays, numbers: Numbers, out: Arrays) -> None:
    """Fill the derivatives by the preferred forces [N] in contact rows (k = 3n)."""
    x, (slope,), dt = opened(model, given), out, numbers[0]
    rows, na, d = len(x.J), len(model.a), x.marks[DIMENSION]
    fill_rows(slope, 0.0)
    if x.marks[OBJECTIVE] != FORCES or d == 0:
        return
    A, p = stack_array((rows, d)), slope[na : na + rows]
    for row in range(rows):
        for i in range(d):
            A[row, i] = x.chosen[row, i]
    product_by_rows(A, A, p)
    for row in range(rows):
        scale(dt, p[row])
    _finish(model, x, dt, (slope[:na], p, stack_array((rows, na))))
