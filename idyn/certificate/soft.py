"""Conditions of the law `mujoco`: MuJoCo's soft constraints, recomputed from the problem data; not used elsewhere."""

import numpy as np

from idyn.certificate.conditions import COMPLEMENTARITY, CONE, DYNAMICS, nearest_in_cone, worse
from idyn.certificate.momentum import contact_velocities, speed_per_impulse
from idyn.certificate.motion import cross, sign_of
from idyn.contact.soft import (
    CONDIM,
    DAMPING,
    DOF_WEIGHT,
    FRICTION_SOLREF,
    HIGH,
    LEAST_FRICTION,
    LIMIT_MARGIN,
    LIMIT_SOLIMP,
    LIMIT_SOLREF,
    LOSS,
    LOSS_SOLIMP,
    LOSS_SOLREF,
    LOW,
    MARGIN,
    MOST_FRICTION,
    SOLIMP,
    SOLREF,
    WEIGHT,
    SoftConstraints,
)
from idyn.jit.compiled import compiled
from idyn.terms.stages import Given
from idyn.types import Array


@compiled
def soft_constraints(g: Given, soft: SoftConstraints, met: Array, answer: tuple[Array, Array, Array], residuals: Array) -> None:
    """Check all constraints. met: realised demand q̈ (na); answer: (p (3n), v⁺ (nv), load (nv))"""
    p, v_plus, load = answer
    n, before = len(g.mu), _implicit_part(g, soft, met)
    _joints(g, soft, met, before, load, residuals)
    # dt a = v⁺ − v + dt e, plus dt ω × v of free joints; velocities now
    motion = np.empty(len(v_plus))
    for j in range(len(motion)):
        motion[j] = v_plus[j] - g.v[j] + g.dt * before[j]
    change, now = np.empty((n, 3)), np.empty((n, 3))
    contact_velocities(g, motion, change)
    contact_velocities(g, g.v, now)
    _add_turning(g, change)
    for i in range(n):
        _contact(g, i, soft, p[3 * i : 3 * i + 3], (change[i], now[i]), residuals)


@compiled
def _contact(g: Given, i: int, soft: SoftConstraints, p: Array, moves: tuple[Array, Array], residuals: Array) -> None:
    """Check contact i. moves: (dt J a, J v) in (s, t, n)"""
    row, (change, now) = soft.contacts[g.bodies[i]], moves
    w, depth = row[WEIGHT] + soft.contacts[g.others[i], WEIGHT], row[MARGIN] - g.gaps[i]
    if w <= 0.0 or not depth > 0.0:
        worse(residuals, COMPLEMENTARITY, speed_per_impulse(g, i) * max(abs(p[0]), abs(p[1]), abs(p[2])))
        return
    mu = 0.0 if row[CONDIM] == 1.0 else min(max(g.mu[i], LEAST_FRICTION), MOST_FRICTION)
    d, k, b = _constants(row, SOLREF, SOLIMP, depth, g.dt)
    across, pyramid = b, soft.pyramidal and mu > 0.0
    if row[FRICTION_SOLREF] != 0.0 and not pyramid:
        _, _, across = _constants(row, FRICTION_SOLREF, SOLIMP, depth, g.dt)
    # y = dt (J a − a_ref)
    x, y = change[0] + g.dt * across * now[0], change[1] + g.dt * across * now[1]
    z, R = change[2] + g.dt * (b * now[2] - k * d * depth), w / d - w
    if pyramid:
        _pyramid(g, i, (mu, 2.0 * mu**2 / soft.impratio * (1.0 + mu**2) * R), p, (x, y, z), residuals)
        return
    # s p is the point of the cone nearest to s p − (R p + y)
    s, R_t = speed_per_impulse(g, i), R / soft.impratio
    worse(residuals, CONE, s * max(-p[2], np.hypot(p[0], p[1]) - mu * p[2]))
    point = (s - R_t) * p[0] - x, (s - R_t) * p[1] - y, (s - R) * p[2] - z
    worse(residuals, COMPLEMENTARITY, nearest_in_cone((s * p[0], s * p[1], s * p[2]), point, mu))


@compiled
def _pyramid(g: Given, i: int, law: tuple[float, float], p: Array, y: tuple[float, float, float], residuals: Array) -> None:
    """Check that p is the sum of the forces of the four edges. law: (μ, R of an edge); y: dt (J a − a_ref) in (s, t, n)"""
    (mu, R), n = law, g.normals[i]
    # MuJoCo's tangents in the world: an axis minus its part along n
    axis = 2 if abs(n[1]) >= 0.5 else 1
    first = np.zeros(3)
    first[axis] = 1.0
    along = n[axis]
    for c in range(3):
        first[c] -= along * n[c]
    first /= np.sqrt(first[0] ** 2 + first[1] ** 2 + first[2] ** 2)
    second, s = cross(n, first), g.tangents[i]
    t = cross(n, s)
    sum_s, sum_t, sum_n = 0.0, 0.0, 0.0
    for edge in ((first[0], first[1], first[2]), second):
        e_s = edge[0] * s[0] + edge[1] * s[1] + edge[2] * s[2]
        e_t = edge[0] * t[0] + edge[1] * t[1] + edge[2] * t[2]
        for sign in (mu, -mu):
            push = max(0.0, -(y[2] + sign * (e_s * y[0] + e_t * y[1])) / R)
            sum_s, sum_t, sum_n = sum_s + sign * push * e_s, sum_t + sign * push * e_t, sum_n + push
    scale, error = speed_per_impulse(g, i), max(abs(p[0] - sum_s), abs(p[1] - sum_t), abs(p[2] - sum_n))
    worse(residuals, COMPLEMENTARITY, np.inf if np.isnan(error) else scale * error)
    worse(residuals, CONE, -scale * p[2])


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
def _implicit_part(g: Given, soft: SoftConstraints, met: Array) -> Array:
    """Return e = M⁻¹ Pᵀ h D q̈ (nv), by elimination."""
    nv, x = len(g.v), np.zeros(len(g.v))
    if not soft.damped:
        return x
    for k in range(len(met)):
        x[g.model.a[k]] = g.dt * soft.joints[g.model.a[k], DAMPING] * met[k]
    A = g.M.copy()
    for j in range(nv):
        for i in range(j + 1, nv):
            f = A[i, j] / A[j, j]
            for c in range(j, nv):
                A[i, c] -= f * A[j, c]
            x[i] -= f * x[j]
    for i in range(nv - 1, -1, -1):
        for c in range(i + 1, nv):
            x[i] -= A[i, c] * x[c]
        x[i] /= A[i, i]
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
def _joints(g: Given, soft: SoftConstraints, met: Array, before: Array, load: Array, residuals: Array) -> None:
    """Check `load`: damping, dry friction and limits of the actuated joints, as impulses; zero of the others."""
    left = load.copy()
    for k in range(len(met)):
        j = g.model.a[k]
        row, v, a = soft.joints[j], g.v[j], met[k] + before[j]
        left[j] += row[DAMPING] * (v + g.dt * met[k])
        # dry friction: the force in ±loss nearest to the one that would stop the motion
        if row[LOSS] > 0.0:
            d, _, b = _constants(row, LOSS_SOLREF, LOSS_SOLIMP, 0.0, g.dt)
            stops = -(a + b * v) * d / (row[DOF_WEIGHT] * (1.0 - d))
            left[j] -= np.copysign(min(abs(stops), row[LOSS]), stops)
        # ends of the range
        q = g.q[soft.q_index[j]]
        for depth, sign in ((row[LIMIT_MARGIN] + row[LOW] - q, 1.0), (row[LIMIT_MARGIN] + q - row[HIGH], -1.0)):
            if depth > 0.0:
                d, stiff, b = _constants(row, LIMIT_SOLREF, LIMIT_SOLIMP, depth, g.dt)
                push = (stiff * d * depth - sign * (a + b * v)) * d / (row[DOF_WEIGHT] * (1.0 - d))
                left[j] -= sign * max(push, 0.0)
    for j in range(len(left)):
        error = g.dt * abs(left[j])
        worse(residuals, DYNAMICS, np.inf if np.isnan(error) else error)
