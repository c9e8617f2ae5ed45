"""Conditions of the laws, and their checks for one contact. Each function raises the residuals by the violations."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from idyn.certificate.closures import effective_inverse_mass
from idyn.certificate.momentum import speed_per_impulse
from idyn.contact.ground import MOST_FRICTION, Material
from idyn.jit.compiled import compiled
from idyn.terms.stages import Given
from idyn.types import Array


class Conditions(IntEnum):
    """What the certificate checks besides the dynamics: the complementarity of a law. `certify` has a check for each; only laws
    name them."""

    FREE = 0
    NO_SLIP = 1
    COULOMB = 2
    CONVEX = 3
    GIVEN = 4  # the impulses are data, no condition is checked
    CONE = 5
    COMPLIANT = 6
    EXACT_CONE = 7
    SOFT = 8


SEPARATING = 1e-9
"""A contact separates if it opens faster than this with a normal impulse of at most this [m/s], see `Contact`."""

DYNAMICS, DEMAND, COMPLEMENTARITY, CONE, PENETRATION, SLIP = range(6)
"""Indices of the residuals, in the order of `idyn.types.Residuals`."""


class Contact(NamedTuple):
    """One contact of a solution.

    ps, pt, pn: impulse along s, t, n, times `speed_per_impulse` [m/s]; all conditions are homogeneous in it
    vs, vt: tangential velocity [m/s]
    w: û_N + φ/dt [m/s]
    mu: friction coefficient
    free: whether friction is unlimited
    """

    ps: float
    pt: float
    pn: float
    vs: float
    vt: float
    w: float
    mu: float
    free: bool


@compiled
def worse(residuals: Array, which: int, error: float) -> None:
    """Raise the residual with index `which` to `error` if that is larger."""
    residuals[which] = max(residuals[which], error)


@compiled
def _split(x: float, y: float, directions: Array) -> tuple[float, float, int]:
    """Return (a, b, j): (x, y) as a non-negative combination a d_j + b d_{j+1} of two adjacent corners of the polygon."""
    k = len(directions)
    best, share0, share1, corner = -np.inf, 0.0, 0.0, 0
    for j in range(k):
        a, c = directions[j], directions[(j + 1) % k]
        det = a[0] * c[1] - a[1] * c[0]
        s0, s1 = (x * c[1] - y * c[0]) / det, (a[0] * y - a[1] * x) / det
        if min(s0, s1) > best:
            best, share0, share1, corner = min(s0, s1), s0, s1, j
    return share0, share1, corner


@compiled
def separates(c: Contact) -> bool:
    """Return whether a contact opens without a normal impulse."""
    return c.w > SEPARATING and c.pn <= SEPARATING


@compiled
def released(c: Contact) -> bool:
    """Return whether a contact separates without any impulse: then it may slide."""
    return separates(c) and c.ps == 0.0 and c.pt == 0.0 and c.pn == 0.0


@compiled
def no_slip(c: Contact, residuals: Array) -> None:
    """Check 0 ≤ p_N ⟂ w ≥ 0, and û_T = 0 unless the contact is released; p_T = 0 for μ = 0."""
    worse(residuals, COMPLEMENTARITY, abs(min(c.pn, c.w)))
    if c.mu == 0.0:
        worse(residuals, CONE, max(abs(c.ps), abs(c.pt)))
    elif not released(c):
        worse(residuals, SLIP, max(abs(c.vs), abs(c.vt)))


@compiled
def coulomb(c: Contact, directions: Array, residuals: Array) -> None:
    """Check complementarity of (p_N, w), (p_F, w_F) and (λ, w_λ), the cone, and û_T = 0 for unlimited friction."""
    worse(residuals, COMPLEMENTARITY, abs(min(c.pn, c.w)))
    if c.free:
        if not released(c):
            worse(residuals, SLIP, max(abs(c.vs), abs(c.vt)))
        return
    # λ = max(−d_j · û_T, 0)
    k, speed = len(directions), 0.0
    for j in range(k):
        speed = max(speed, -(directions[j, 0] * c.vs + directions[j, 1] * c.vt))
    # p_F along d_j; w_λ = μ p_N − Σ p_F ⟂ λ
    share0, share1, corner = _split(c.ps, c.pt, directions)
    rest = c.mu * c.pn - share0 - share1
    error = abs(min(speed, max(rest, 0.0)))
    # p_F ⟂ w_F = d_j · û_T + λ
    for j in range(k):
        share = share0 if j == corner else share1 if j == (corner + 1) % k else 0.0
        error = max(error, min(share, directions[j, 0] * c.vs + directions[j, 1] * c.vt + speed))
    worse(residuals, COMPLEMENTARITY, error)
    worse(residuals, CONE, -rest)


@compiled
def exact_cone(c: Contact, residuals: Array) -> None:
    """Check 0 ≤ p_N ⟂ w ≥ 0, and maximal dissipation: p_T is the point of its disc nearest to p_T − û_T."""
    worse(residuals, COMPLEMENTARITY, abs(min(c.pn, c.w)))
    if c.free:
        if not released(c):
            worse(residuals, SLIP, max(abs(c.vs), abs(c.vt)))
        return
    # p_T = the point of the disc of radius μ p_N nearest to p_T − û_T
    most, x, y = c.mu * max(c.pn, 0.0), c.ps - c.vs, c.pt - c.vt
    share = min(1.0, most / np.hypot(x, y)) if x != 0.0 or y != 0.0 else 1.0
    error = max(abs(c.ps - share * x), abs(c.pt - share * y))
    worse(residuals, COMPLEMENTARITY, np.inf if np.isnan(error) else error)
    worse(residuals, CONE, np.hypot(c.ps, c.pt) - most)


@compiled
def optimal(c: Contact, descent: Array, directions: Array, residuals: Array) -> None:
    """Check optimality for the convex laws: along each ray of the cone, load and slope of the objective are complementary.

    descent: gradient of the objective with respect to the impulse, in (s, t, n)
    """
    if c.free:
        worse(residuals, COMPLEMENTARITY, max(abs(descent[0]), abs(descent[1]), abs(min(c.pn, descent[2]))))
        return
    # p_T along the corners d_j; rest: μ p_N minus their sum
    share0, share1, corner = _split(c.ps, c.pt, directions)
    k = len(directions)
    rest = c.mu * c.pn - share0 - share1
    # load ⟂ slope of each ray (μ d_j, 1); an impulse inside the cone loads every ray, so all slopes must be zero then
    for j in range(k):
        share = share0 if j == corner else share1 if j == (corner + 1) % k else 0.0
        loaded = (share + max(rest, 0.0) / k) / c.mu if c.mu > 0.0 else max(c.pn, 0.0) / k
        slope = descent[2] + c.mu * (directions[j, 0] * descent[0] + directions[j, 1] * descent[1])
        worse(residuals, COMPLEMENTARITY, abs(min(loaded, slope)))
    worse(residuals, CONE, -rest)


@compiled
def compliant(g: Given, i: int, material: Material, p: Array, velocity: Array, residuals: Array) -> None:
    """Check contact i of the compliant law: p and z = u − v̂ + R p are complementary in the round friction cone and its dual,
    so s p is the point of the cone nearest to s p − z for any s > 0, here `speed_per_impulse`. An impulse outside the cone also
    raises the residual CONE."""
    # cone; p = 0 for a contact that is not included
    counts = not (material.touching_only and g.gaps[i] > 0.0)
    w, settle, mu = effective_inverse_mass(g, i), g.dt + material.dissipation, min(g.mu[i], MOST_FRICTION)
    s = speed_per_impulse(g, i)
    friction = s * np.hypot(p[0], p[1])
    worse(residuals, CONE, max(-s * p[2], friction - mu * s * p[2]))
    if not counts or w == 0.0:
        worse(residuals, COMPLEMENTARITY, max(friction, abs(s * p[2])))
        return
    # R_n, R_t
    stiffest = (2.0 * np.pi / material.beta) ** 2 / w  # [kg]
    soft_n, soft_t = 1.0 / min(stiffest, g.dt * material.stiffness * settle), material.sigma * w
    # s p − z, z = u − v̂ + R p, v̂_n = −φ/(dt + τ_d)
    x = s * p[0] - (velocity[0] + soft_t * p[0])
    y = s * p[1] - (velocity[1] + soft_t * p[1])
    z = s * p[2] - (velocity[2] + g.gaps[i] / settle + soft_n * p[2])
    worse(residuals, COMPLEMENTARITY, nearest_in_cone((s * p[0], s * p[1], s * p[2]), (x, y, z), mu))


@compiled
def nearest_in_cone(p: Array | tuple[float, float, float], point: Array | tuple[float, float, float], mu: float) -> float:
    """Return the largest component of the difference between p and the point of the round cone of μ nearest to `point`; inf if
    it is NaN. The axis of the cone is the third coordinate, of 3 or 6."""
    square = 0.0
    for c in range(len(p)):
        square += point[c] * point[c] if c != 2 else 0.0
    across, height, share = np.sqrt(square), point[2], 1.0
    if across > mu * height:
        height = max((mu * across + height) / (1.0 + mu * mu), 0.0)
        share = mu * height / across if across > 0.0 else 0.0
    error = 0.0
    for c in range(len(p)):
        difference = abs(p[c] - (height if c == 2 else share * point[c]))
        error = np.inf if np.isnan(difference) else max(error, difference)
    return error
