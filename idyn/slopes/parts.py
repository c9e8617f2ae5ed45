"""Derivatives by each quantity, from the operators of a differentiation (`idyn.slopes.expansion`).

    dv_u⁰ = −M_uu⁻¹ (M_ua dv_a + dR_u),   R = M (v⁺ − v) + dt h − Jᵀ p at fixed v⁺ and p
    dv_u⁺ = dv_u⁰ + M_uu⁻¹ J_uᵀ dp,   dτ = [M_a dv⁺ + dR_a − J_aᵀ dp]/dt
"""

from typing import NamedTuple

from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.slopes.dense import axpy, multiply, multiply_transposed, scale
from idyn.slopes.layout import (
    CHANGE,
    CHOICE,
    DIMENSION,
    FORCES,
    LAW,
    NONE,
    OBJECTIVE,
    PULL,
    TORQUES,
    V_HAT,
    Expansion,
    P,
)
from idyn.slopes.motions import Places, turn_forces, turn_velocities
from idyn.slopes.projection import demand_by_demand, demand_by_place, demand_by_velocity
from idyn.solvers.vectors import copy, fill, fill_rows
from idyn.terms.stages import Model
from idyn.types import Array

Arrays = tuple[Array, ...]

Numbers = tuple[float, float, float]
"""Period dt [s], keep = 1 − dt/T_r, ρ = T_p/dt."""


class Seeds(NamedTuple):
    """Direct changes by k components; without rows: none. v_a: of v_a⁺ (na, k); R: at fixed v⁺ and p (nv, k); b: besides
    (3n, k); p: of p at fixed ζ (3n, k); gradient: of the selection's gradient at fixed p of the law (3n, k)"""

    v_a: Array
    R: Array
    b: Array
    p: Array
    gradient: Array


@compiled
def propagate(model: Model, x: Expansion, seeds: Seeds, dt: float, out: Array) -> None:
    """Fill the rows τ, p, v⁺ of `out` (na + 3n + nv, k)."""
    (v_a, R, b, direct, gradient), u, a, k = seeds, model.u, model.a, out.shape[1]
    nu, na, rows, d = len(u), len(a), len(x.J), x.marks[DIMENSION]
    first, M, J, change = na + rows, x.M, x.J, stack_array((rows, k))
    force, free, p = stack_array((nu, k)), stack_array((nu, k)), stack_array((rows, k))
    # dv_u⁰
    fill_rows(force, 0.0)
    fill_rows(free, 0.0)
    for i in range(nu):
        if len(R) > 0:
            copy(R[u[i]], force[i])
        for j in range(len(v_a)):
            axpy(M[u[i], a[j]], v_a[j], force[i])
    multiply(x.inertia, force, -1.0, free)
    # db, then dp of the law and the selection at fixed gradient and torques
    fill_rows(change, 0.0)
    for row in range(rows):
        if len(b) > 0:
            copy(b[row], change[row])
        for i in range(nu):
            if J[row, u[i]] != 0.0:
                axpy(J[row, u[i]], free[i], change[row])
        for j in range(len(v_a)):
            if J[row, a[j]] != 0.0:
                axpy(J[row, a[j]], v_a[j], change[row])
    fill_rows(p, 0.0)
    for row in range(len(direct)):
        copy(direct[row], p[row])
    multiply(x.operators[LAW], change, 1.0, p)
    # v⁺
    multiply(x.response, change, 1.0, free)
    if len(direct) > 0:
        multiply(x.push, direct, 1.0, free)
    for i in range(nu):
        copy(free[i], out[first + u[i]])
    for j in range(na):
        if len(v_a) > 0:
            copy(v_a[j], out[first + a[j]])
        else:
            fill(out[first + a[j]], 0.0)
    # dt τ without the part of p
    for j in range(na):
        tau, row = out[j], M[a[j]]
        if len(R) > 0:
            copy(R[a[j]], tau)
        else:
            fill(tau, 0.0)
        for i in range(nu):
            axpy(row[u[i]], free[i], tau)
        for i in range(len(v_a)):
            if row[a[i]] != 0.0:
                axpy(row[a[i]], v_a[i], tau)
    # the selection's answer to changed torques and gradients; τ
    if d > 0 and (len(gradient) > 0 or x.marks[OBJECTIVE] == TORQUES):
        _answer(x, (out, gradient), d, p)
    for row in range(rows):
        copy(p[row], out[na + row])
        for j in range(na):
            if J[row, a[j]] != 0.0:
                axpy(-J[row, a[j]], p[row], out[j])
    for j in range(na):
        scale(1.0 / dt, out[j])


@compiled
def _answer(x: Expansion, given: tuple[Array, Array], d: int, p: Array) -> None:
    """Add A (Aᵀ K A)⁻¹ Aᵀ (J_a dτ − dgradient) to p. given: (dt dτ at fixed p in the first rows, dgradient)"""
    (tau, gradient), chosen, k = given, x.operators[CHOICE], p.shape[1]
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
def by_demand(model: Model, given: Arrays, numbers: Numbers, out: Arrays) -> None:
    """Fill the derivatives by the demand (k = na)."""
    x, na, nothing = Expansion(*given), len(model.a), stack_array((0, 0))
    v_a = stack_array((na, na))
    demand_by_demand(x, model.a, numbers[0], v_a)
    propagate(model, x, Seeds(v_a, nothing, nothing, nothing, nothing), numbers[0], out[0])


@compiled
def by_velocity(model: Model, given: Arrays, inverse: Arrays, numbers: Numbers, out: Arrays) -> None:
    """Fill the derivatives by the velocity (k = nv). inverse: (slope of the inverse dynamics by v (nv, nv))"""
    x, (by_v,), (dt, keep, _), nothing = Expansion(*given), inverse, numbers, stack_array((0, 0))
    rows, nv = x.J.shape
    v_a, R, b = stack_array((len(model.a), nv)), stack_array((nv, nv)), stack_array((rows, nv))
    demand_by_velocity(x, model.a, keep, v_a)
    for j in range(nv):
        for c in range(nv):
            R[j, c] = dt * by_v[j, c] - x.M[j, c]
    for row in range(rows):
        for c in range(nv):
            b[row, c] = -keep * x.J[row, c]
    propagate(model, x, Seeds(v_a, R, b, nothing, nothing), dt, out[0])


@compiled
def by_place(model: Model, given: Arrays, inverse: Arrays, numbers: Numbers, out: Arrays) -> None:
    """Fill the derivatives by the configuration (k = nv). inverse: (slopes of the inverse dynamics by q (nv, nv) at the
    accelerations ACCELERATION and STIRRED)"""
    x, (at, stirred), (dt, _, rho) = Expansion(*given), inverse, numbers
    (rows, nv), u, nothing = x.J.shape, model.u, stack_array((0, 0))
    places, nu, chooses = Places(x.axes, x.frames, x.ends), len(u), x.marks[DIMENSION] > 0
    v_a, R, b = stack_array((len(model.a), nv)), stack_array((nv, nv)), stack_array((rows, nv))
    turned, pushes, gradient = stack_array((nv, nv)), stack_array((nu, nv)), stack_array((rows if chooses else 0, nv))
    demand_by_place(model, x, v_a)
    # R = dt ∂(inverse dynamics) − ∂(Jᵀp)
    turn_forces(model, places, x.impulses[P], R)
    for j in range(nv):
        for c in range(nv):
            R[j, c] = dt * at[j, c] - R[j, c]
    # b = ∂(J v̂) + ρ J_u M_uu⁻¹ [∂(Jᵀπ) − ∂(M y)]_u,  M_uu y = J_uᵀ π
    turn_velocities(model, places, x.motions[V_HAT], b)
    if rho > 0.0:
        turn_forces(model, places, x.impulses[CHANGE], turned)
        for i in range(nu):
            for c in range(nv):
                pushes[i, c] = turned[u[i], c] - (stirred[u[i], c] - at[u[i], c])
        multiply_transposed(x.push, pushes, rho, b)
    if chooses:
        turn_velocities(model, places, x.motions[PULL], gradient)
        for row in range(rows):
            scale(-1.0, gradient[row])
    propagate(model, x, Seeds(v_a, R, b, nothing, gradient), dt, out[0])


@compiled
def by_friction(model: Model, given: Arrays, numbers: Numbers, out: Arrays) -> None:
    """Fill the derivatives by the friction coefficients (k = n). The impulses change directly, by dp at fixed coordinates:
    db = D̂ dp."""
    x, n, nothing, slope = Expansion(*given), len(given[4]), stack_array((0, 0)), out[0]
    rows, na, nu, a, kind = len(x.J), len(model.a), len(model.u), model.a, x.marks[OBJECTIVE]
    direct, loads, b = stack_array((rows, n)), stack_array((nu, n)), stack_array((rows, n))
    gradient, torque = stack_array((rows, n)), stack_array((na, n))
    fill_rows(direct, 0.0)
    fill_rows(loads, 0.0)
    fill_rows(b, 0.0)
    for i in range(n):
        for r in range(3):
            direct[3 * i + r, i] = x.friction[i, r]
    multiply_transposed(x.Y, direct, 1.0, loads)
    multiply(x.Y, loads, 1.0, b)
    # gradient: K dp, minus the turning of the facets
    fill_rows(gradient, 0.0)
    fill_rows(torque, 0.0)
    for row in range(rows):
        if kind == FORCES:
            copy(direct[row], gradient[row])
        for j in range(na if kind != NONE else 0):
            axpy(x.J[row, a[j]], direct[row], torque[j])
    for row in range(rows):
        for j in range(na if kind == TORQUES else 0):
            axpy(x.J[row, a[j]], torque[j], gradient[row])
    for i in range(n):
        gradient[3 * i + 2, i] -= x.friction[i, 3]
    propagate(model, x, Seeds(nothing, nothing, b, direct, gradient), numbers[0], slope)


@compiled
def by_preferred(model: Model, given: Arrays, numbers: Numbers, out: Arrays) -> None:
    """Fill the derivatives by the preferred forces [N] in contact rows (k = 3n)."""
    x, (slope,), dt = Expansion(*given), out, numbers[0]
    rows, na, a, chosen = len(x.J), len(model.a), model.a, x.operators[CHOICE]
    fill_rows(slope, 0.0)
    if x.marks[OBJECTIVE] != FORCES:
        return
    for i in range(x.marks[DIMENSION]):
        for row in range(rows):
            for c in range(rows):
                slope[na + row, c] += dt * chosen[row, i] * chosen[c, i]
    for row in range(rows):
        for j in range(na):
            if x.J[row, a[j]] != 0.0:
                axpy(-x.J[row, a[j]] / dt, slope[na + row], slope[j])
