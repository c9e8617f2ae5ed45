"""Conditions of the law `mujoco`: MuJoCo's soft constraints, recomputed from the problem data; not used elsewhere."""

import numpy as np

from idyn.certificate.drift import body_twists, eliminate, sign_of
from idyn.certificate.momentum import (
    COMPLEMENTARITY,
    CONE,
    DYNAMICS,
    contact_velocities,
    in_world,
    nearest_in_cone,
    speed_per_impulse,
    worse,
)
from idyn.contact import soft as column
from idyn.contact.soft import LEAST_FRICTION, MOST_FRICTION, SoftConstraints
from idyn.library.kernels import compiled, stack_array
from idyn.model.so3 import cross
from idyn.terms.stages import Given
from idyn.types import Array


@compiled
def soft_constraints(
    g: Given, soft: SoftConstraints, met: Array, answer: tuple[Array, Array, Array, Array], residuals: Array
) -> None:
    """Check all constraints. met: realised demand q̈ (na); answer: (p (3n), v⁺ (nv), load (nv), moments (3n))"""
    p, v_plus, load, moments = answer
    n, left, width = len(g.mu), load.copy(), 6 if soft.turns else 3
    before = _implicit_part(g, soft, met, v_plus, left)
    # dt a = v⁺ − v + dt e, plus dt ω × v of free joints; velocities now
    motion = stack_array(len(v_plus))
    for j in range(len(motion)):
        motion[j] = v_plus[j] - g.v[j] + g.dt * before[j]
    forces, change, now = stack_array((n, width)), stack_array((n, width)), stack_array((n, width))
    contact_velocities(g, motion, change)
    contact_velocities(g, g.v, now)
    _add_turning(g, change)
    if soft.turns:
        _angular_velocities(g, motion, change)
        _angular_velocities(g, g.v, now)
        _take_off_moments(g, moments, left)
    for i in range(n):
        for c in range(width):
            forces[i, c] = p[3 * i + c] if c < 3 else moments[3 * i + c - 3]
        _contact(g, i, soft, (forces[i], change[i], now[i]), residuals)
    _joints(g, soft, met, before, left, residuals)


@compiled
def _contact(g: Given, i: int, soft: SoftConstraints, has: tuple[Array, Array, Array], residuals: Array) -> None:
    """Check contact i. has: impulse, dt J a, J v along s, t, n and, with friction against turning, about them; overwritten"""
    row, (p, y, now), s = soft.contacts[g.bodies[i]], has, speed_per_impulse(g, i)
    w, depth = row[column.WEIGHT] + soft.contacts[g.others[i], column.WEIGHT], row[column.MARGIN] - g.gaps[i]
    if w <= 0.0 or not depth > 0.0:
        for each in p:
            worse(residuals, COMPLEMENTARITY, np.inf if np.isnan(each) else s * abs(each))
        return
    mu = 0.0 if row[column.CONDIM] == 1.0 else min(max(g.mu[i], LEAST_FRICTION), MOST_FRICTION)
    d, k, b = _constants(row, column.SOLREF, column.SOLIMP, depth, g.dt)
    across, pyramid = b, soft.pyramidal and mu > 0.0
    if row[column.FRICTION_SOLREF] != 0.0 and not pyramid:
        _, _, across = _constants(row, column.FRICTION_SOLREF, column.SOLIMP, depth, g.dt)
    # y = dt (J a − a_ref)
    for c in range(len(y)):
        y[c] += g.dt * (across * now[c] if c != 2 else b * now[2] - k * d * depth)
    R = w / d - w
    if soft.turns:
        _make_round(row, (mu, s), p, y, residuals)
    if pyramid:
        _pyramid(g, i, (mu, 2.0 * mu**2 / soft.impratio * (1.0 + mu**2) * R, row[column.CONDIM]), (p, y), residuals)
        return
    # s p is the point of the cone nearest to s p − (R p + y)
    friction = 0.0
    for c in range(len(p)):
        friction += p[c] ** 2 if c != 2 else 0.0
        y[c] = (s - (R / soft.impratio if c != 2 else R)) * p[c] - y[c]
    worse(residuals, CONE, s * max(-p[2], np.sqrt(friction) - mu * p[2]))
    p *= s
    worse(residuals, COMPLEMENTARITY, nearest_in_cone(p, y, mu))


@compiled
def _make_round(row: Array, at: tuple[float, float], p: Array, y: Array, residuals: Array) -> None:
    """Divide moments by their limit μ_j/μ and multiply their y by it: the cone Σ (p_j/μ_j)² ≤ p_n² is then the round one of μ.
    Moments without friction must be 0. at: (μ, `speed_per_impulse`)"""
    mu, s = at
    for c in range(3, 6):
        least = 4.0 if c == 5 else 6.0
        arm = max(row[column.SPIN] if c == 5 else row[column.ROLL], LEAST_FRICTION)
        if row[column.CONDIM] < least:
            worse(residuals, COMPLEMENTARITY, np.inf if np.isnan(p[c]) else s * abs(p[c]))
            p[c] = y[c] = 0.0
        else:
            p[c], y[c] = p[c] * mu / arm, y[c] * arm / mu


@compiled
def _pyramid(g: Given, i: int, law: tuple[float, float, float], at: tuple[Array, Array], residuals: Array) -> None:
    """Check that p is the sum of the forces of all edges. law: (μ, R of an edge, condim); at: (p, y = dt (J a − a_ref))"""
    (mu, R, condim), (p, y), n, s = law, at, g.normals[i], g.tangents[i]
    # MuJoCo's tangents in the world: an axis minus its part along n
    axis = 2 if abs(n[1]) >= 0.5 else 1
    first = np.zeros(3)
    first[axis] = 1.0
    along = n[axis]
    for c in range(3):
        first[c] -= along * n[c]
    first /= np.sqrt(first[0] ** 2 + first[1] ** 2 + first[2] ** 2)
    second, t, sums = cross(n, first), cross(n, s), np.zeros(len(p))
    # edges n ± μ e: e along both tangents, about n, about both tangents
    for edge in range(int(condim) - 1):
        k, e = 0 if edge < 2 else 3, (first[0], first[1], first[2]) if edge % 3 == 0 else second
        if edge == 2:
            e = n[0], n[1], n[2]
        e_s = e[0] * s[0] + e[1] * s[1] + e[2] * s[2]
        e_t = e[0] * t[0] + e[1] * t[1] + e[2] * t[2]
        e_n = e[0] * n[0] + e[1] * n[1] + e[2] * n[2]
        for sign in (mu, -mu):
            push = max(0.0, -(y[2] + sign * (e_s * y[k] + e_t * y[k + 1] + e_n * y[k + 2])) / R)
            sums[k] += sign * push * e_s
            sums[k + 1] += sign * push * e_t
            sums[k + 2] += sign * push * e_n
            sums[2] += push
    scale = speed_per_impulse(g, i)
    for c in range(len(p)):
        error = scale * abs(p[c] - sums[c])
        worse(residuals, COMPLEMENTARITY, np.inf if np.isnan(error) else error)
    worse(residuals, CONE, -scale * p[2])


@compiled
def _angular_velocities(g: Given, v: Array, out: Array) -> None:
    """Fill columns 3 to 5 of `out` (n, 6): relative angular velocity of the two bodies of each contact, about s, t, n."""
    twists = np.empty((len(g.model.parents), 6))
    body_twists(g, v, twists)
    for i in range(len(out)):
        s, n = g.tangents[i], g.normals[i]
        t, one, other = cross(n, s), twists[g.bodies[i]], twists[g.others[i]]
        x = one[3] - other[3], one[4] - other[4], one[5] - other[5]
        out[i, 3] = s[0] * x[0] + s[1] * x[1] + s[2] * x[2]
        out[i, 4] = t[0] * x[0] + t[1] * x[1] + t[2] * x[2]
        out[i, 5] = n[0] * x[0] + n[1] * x[1] + n[2] * x[2]


@compiled
def _take_off_moments(g: Given, moments: Array, load: Array) -> None:
    """Subtract the generalised forces of the contact moments from `load` (nv): their power for unit velocities."""
    world = np.empty((len(g.mu), 3))
    in_world(g, moments, world)
    for i in range(len(world)):
        for j in range(len(load)):
            w = g.axes[j]
            load[j] -= sign_of(g, i, j) * (w[3] * world[i, 0] + w[4] * world[i, 1] + w[5] * world[i, 2]) / g.dt


@compiled
def _constants(row: Array, solref: int, solimp: int, depth: float, h: float) -> tuple[float, float, float]:
    """Return the impedance d at a depth [m or rad], k [1/s²] and b [1/s]. solref, solimp: columns of the row"""
    least, largest = row[solimp], row[solimp + 1]
    least, largest = min(max(least, 1e-4), 0.9999), min(max(largest, 1e-4), 0.9999)
    share = 0.5
    if least != largest and row[solimp + 2] > 1e-15:
        share, middle, power = abs(depth) / row[solimp + 2], min(max(row[solimp + 3], 1e-4), 0.9999), row[solimp + 4]
        if share >= 1.0:
            share = 1.0
        elif share > middle:
            share = 1.0 - (1.0 - middle) * ((1.0 - share) / (1.0 - middle)) ** power
        else:
            share = middle * (share / middle) ** power
    time, ratio = row[solref], row[solref + 1]
    b = -ratio / largest if time <= 0.0 else 2.0 / (largest * max(time, h + h))
    k = -time / largest**2 if time <= 0.0 else (0.5 * b / ratio) ** 2
    return least + share * (largest - least), k, b


@compiled
def _implicit_part(g: Given, soft: SoftConstraints, met: Array, v_plus: Array, left: Array) -> Array:
    """Return e = M⁻¹ N a' (nv) by elimination, and add N a' to `left` (nv). N = M̃ − M: h D, and with the integrator `implicit`
    also h times the slope of the bias forces of MuJoCo's velocities."""
    nv, x = len(g.v), np.zeros(len(g.v))
    if not (soft.damped or soft.implicit):
        return x
    for k in range(len(met)):
        x[g.model.a[k]] = g.dt * soft.joints[g.model.a[k], column.DAMPING] * met[k]
    if soft.implicit:
        # dt a' = v⁺ − v + dt ω × v of free joints; the second term changes with the velocity, too
        change, j = v_plus - g.v, 0
        bias = np.zeros(nv)
        while j + 5 < nv:
            if g.model.dof_joint[j + 5] != g.model.dof_joint[j]:
                j += 1
                continue
            speed, turn = g.v[j : j + 3], g.v[j + 3 : j + 6]
            now = cross(turn, speed)
            for c in range(3):
                change[j + c] += g.dt * now[c]
            one, two = cross(change[j + 3 : j + 6], speed), cross(turn, change[j : j + 3])
            for c in range(3):
                bias[j + c] = one[c] + two[c]
            j += 6
        for i in range(nv):
            for k in range(nv):
                x[i] += g.slope[i, k] * change[k] - g.M[i, k] * bias[k]
    for i in range(nv):
        left[i] += x[i]
    eliminate(g.M.copy(), x)
    return x


@compiled
def _add_turning(g: Given, change: Array) -> None:
    """Add dt ω × v of each free joint, in the world, to the changes of contact velocity (n, 3)."""
    of, j = g.model.dof_joint, 0
    while j + 5 < len(of):
        if of[j + 5] != of[j]:
            j += 1
            continue
        speed, turn = np.zeros(3), np.zeros(3)
        for c in range(3):
            for k in range(3):
                speed[c] += g.axes[j + k, c] * g.v[j + k]
                turn[c] += g.axes[j + 3 + k, 3 + c] * g.v[j + 3 + k]
        a = cross(turn, speed)
        for i in range(len(change)):
            sign, s, n = sign_of(g, i, j), g.tangents[i], g.normals[i]
            t = cross(n, s)
            change[i, 0] += sign * g.dt * (a[0] * s[0] + a[1] * s[1] + a[2] * s[2])
            change[i, 1] += sign * g.dt * (a[0] * t[0] + a[1] * t[1] + a[2] * t[2])
            change[i, 2] += sign * g.dt * (a[0] * n[0] + a[1] * n[1] + a[2] * n[2])
        j += 6


@compiled
def _joints(g: Given, soft: SoftConstraints, met: Array, before: Array, left: Array, residuals: Array) -> None:
    """Check what the load is beside contact moments and the implicit part, `left` (nv), which is overwritten: damping, dry
    friction and limits of the actuated joints; zero of the others."""
    for k in range(len(met)):
        j = g.model.a[k]
        row, v, a = soft.joints[j], g.v[j], met[k] + before[j]
        left[j] += row[column.DAMPING] * v
        # dry friction: the force in ±loss nearest to the one that would stop the motion
        if row[column.LOSS] > 0.0:
            d, _, b = _constants(row, column.LOSS_SOLREF, column.LOSS_SOLIMP, 0.0, g.dt)
            stops = -(a + b * v) * d / (row[column.DOF_WEIGHT] * (1.0 - d))
            left[j] -= np.copysign(min(abs(stops), row[column.LOSS]), stops)
        # ends of the range
        q = g.q[soft.q_index[j]]
        for depth, sign in (
            (row[column.LIMIT_MARGIN] + row[column.LOW] - q, 1.0),
            (row[column.LIMIT_MARGIN] + q - row[column.HIGH], -1.0),
        ):
            if depth > 0.0:
                d, stiff, b = _constants(row, column.LIMIT_SOLREF, column.LIMIT_SOLIMP, depth, g.dt)
                push = (stiff * d * depth - sign * (a + b * v)) * d / (row[column.DOF_WEIGHT] * (1.0 - d))
                left[j] -= sign * max(push, 0.0)
    for j in range(len(left)):
        error = g.dt * abs(left[j])
        worse(residuals, DYNAMICS, np.inf if np.isnan(error) else error)
