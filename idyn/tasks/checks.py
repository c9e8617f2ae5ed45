"""Kernels that check a prediction: its contact modes, and the limits of forces and torques."""

from collections.abc import Callable
from functools import cache

import numpy as np

from idyn.jit.compiled import FLAG, INDICES, MATRIX, REAL, VECTOR, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.jit.stack import stack_array
from idyn.laws.law import SLIPS
from idyn.solvers.linalg import backward, cholesky, dot, forward
from idyn.tasks.follow import OPEN, SLIDE, STICK
from idyn.terms.stages import Dynamics
from idyn.types import Array


@cache
def check() -> Callable[..., bool]:
    """Return `fill_modes` for calls from Python."""
    answer, limits = Borrowed(VECTOR, VECTOR, VECTOR), Borrowed(MATRIX, VECTOR, VECTOR)
    return entry_point(fill_modes, Dynamics.TYPE, answer, Borrowed(INDICES), Output(INDICES, MATRIX), limits, REAL, REAL, FLAG)


@compiled
def fill_modes(
    d: Dynamics,
    answer: tuple[Array, ...],
    intended: tuple[Array],
    out: tuple[Array, Array],
    limits: tuple[Array, ...],
    margin: float,
    least: float,
    unlimited: bool,
) -> bool:
    """Fill the contact modes of a prediction. A contact that is meant to slide keeps this mode while it is closed. Return
    whether the forces and torques of the prediction are within the limits for the intended modes.

    answer: (v⁺ (nv), impulses p (3n), τ (na)); intended: tuple of the kinds of the intended modes (n)
    out: (kinds (n), unit directions of sliding along s and t (n, 2), 0 for speeds that count as sticking)
    limits: (corners of the friction polygon (k, 2), μ (n), largest torques (na)); margin, least: see `TaskLimits`
    unlimited: whether every μ > 0 counts as ∞
    """
    (v_plus, p, tau), (meant,), (kinds, directions), g = answer, intended, out, d.given
    u, nv = g.model.u, len(g.v)
    v_hat, change, L = stack_array(nv), stack_array(len(u)), stack_array((len(u), len(u)))
    # v̂ = v⁺ − keep v + ρ M_uu⁻¹ J_uᵀ (p − p⁻)
    for i in range(len(u)):
        change[i] = 0.0
        for row in range(len(p)):
            change[i] += d.J[row, u[i]] * (p[row] - g.last[row])
        for j in range(len(u)):
            L[i, j] = g.M[u[i], u[j]]
    cholesky(L)
    forward(L, change)
    backward(L, change)
    for j in range(nv):
        v_hat[j] = v_plus[j] - g.keep * g.v[j]
    for i in range(len(u)):
        v_hat[u[i]] += g.rho * change[i]
    for i in range(len(kinds)):
        s, t = dot(d.J[3 * i], v_hat) + d.drift[3 * i], dot(d.J[3 * i + 1], v_hat) + d.drift[3 * i + 1]
        speed = np.sqrt(s * s + t * t)
        slips = speed > SLIPS
        directions[i, 0], directions[i, 1] = (s / speed, t / speed) if slips else (0.0, 0.0)
        if p[3 * i + 2] <= 0.0:
            kinds[i] = OPEN
        else:
            kinds[i] = SLIDE if meant[i] == SLIDE or (slips and meant[i] == STICK and g.mu[i] > 0.0) else STICK
    return _keeps_limits((p, tau, meant), limits, g.dt, (margin, least), unlimited)


@compiled
def _keeps_limits(
    answer: tuple[Array, ...], limits: tuple[Array, ...], dt: float, bounds: tuple[float, float], unlimited: bool
) -> bool:
    """Return whether forces p/dt and torques are within the limits.

    answer: (p, τ, kinds of the modes); bounds: (margin, least); the other arguments are those of `fill_modes`
    """
    (p, tau, kinds), (corners, mu, most), (margin, least) = answer, limits, bounds
    for k in range(len(tau)):
        if not abs(tau[k]) <= most[k]:
            return False
    for i in range(len(kinds)):
        s, t, normal = p[3 * i] / dt, p[3 * i + 1] / dt, p[3 * i + 2] / dt
        if kinds[i] != OPEN and normal < least:
            return False
        if kinds[i] == STICK and mu[i] < np.inf and not (unlimited and mu[i] > 0.0):
            for c in range(len(corners)):
                e, f = corners[c], corners[(c + 1) % len(corners)]
                x, y = e[0] + f[0], e[1] + f[1]
                if x * s + y * t > mu[i] * (1.0 - margin) * (x * e[0] + y * e[1]) * normal + 1e-9:
                    return False
    return True
