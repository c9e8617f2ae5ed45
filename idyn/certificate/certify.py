"""The certificate: how far an answer is from what it claims, in physical units.

Computed from the problem data in the full space (`idyn.certificate.momentum`), by code that no law and no solver uses; friction
is decomposed anew, by one function for each law's own conditions.
"""

from typing import NamedTuple

import numpy as np

from idyn.certificate.closures import closure_error, own_inverse_mass
from idyn.certificate.momentum import (
    allowance_of,
    asked_of,
    contact_velocities,
    demand_error,
    energy_descent,
    imbalance,
    in_world,
)
from idyn.contact.ground import MOST_FRICTION, Material
from idyn.jit.compiled import compiled, inlined
from idyn.jit.memory import local
from idyn.status import Conditions
from idyn.terms.stages import Given
from idyn.types import Array

CERTIFIED = 1e-8
"""Largest residual of an answer that may be used [N·s, N·m·s or m/s]: at 1 kHz, 10 µN of force and 10 nm/s of speed."""

PARTS = 1e-9
"""A contact that opens faster than this without a normal impulse parts [m/s]."""

DYNAMICS, DEMAND, COMPLEMENTARITY, CONE, PENETRATION, SLIP = range(6)
"""Where `certify` writes which residual: the order of `idyn.types.Residuals`."""


class Claim(NamedTuple):
    """What an answer claims to be.

    conditions: a member of `Conditions`; directions: of the friction polygon (k, 2)
    unlimited: whether the law takes every μ > 0 for ∞
    multipliers: of the non-penetration rows, by which the convex laws' optimality is judged (n); without them (0) their
        complementarity is inf
    epsilon: weight of the ½ε‖p‖² in the convex law's program [1/kg]
    material: of the ground, for laws that know it
    """

    conditions: int
    directions: Array
    unlimited: bool
    multipliers: Array
    epsilon: float
    material: Material


class _Contact(NamedTuple):
    """One contact of an answer: impulse (s, t, n), velocity (s, t) and what is left of its allowance (n), friction."""

    ps: float
    pt: float
    pn: float
    vs: float
    vt: float
    w: float
    mu: float
    free: bool


class Demanded(NamedTuple):
    """The demand: asked for and met, joint accelerations [rad/s²] (na); change: of the joint velocities by which these are
    reported to differ, max norm [rad/s]."""

    asked: Array
    met: Array
    change: float


class Answered(NamedTuple):
    """An answer: p: contact impulses in rows S, T, N [N·s] (3n); v_plus (nv); tau [N·m] (na); closing: impulses of the closures
    in the world [N·s] (3m); impulse: room for p as world vectors (n, 3)."""

    p: Array
    v_plus: Array
    tau: Array
    closing: Array
    impulse: Array


@inlined
def certify(g: Given, demanded: Demanded, claim: Claim, answer: Answered, residuals: Array) -> None:
    """The certificate stage: fill the residuals (6) of an answer against what it claims, in the order and units of
    `idyn.types.Residuals`; and `answer.impulse`.

    The law is judged by the velocity v̂ that it is asked of, the demand by the one that was asked for and the reported change.
    """
    residuals[:] = 0.0
    in_world(g, answer.p, answer.impulse)
    residuals[DYNAMICS] = imbalance(g, answer.v_plus, answer.tau, answer.impulse, answer.closing)
    residuals[DEMAND] = demand_error(g, demanded.asked, demanded.met, demanded.change, answer.v_plus)
    residuals[SLIP] = closure_error(g, answer.v_plus)
    _judge(g, claim, answer.p, answer.v_plus, answer.impulse, residuals)


@inlined
def _judge(g, claim, p, v_plus, impulse, residuals):
    """Adds to the residuals what the law's own conditions lack."""
    conditions, y = claim.conditions, claim.multipliers
    if conditions == Conditions.GIVEN:
        return
    if conditions == Conditions.FREE:
        for row in range(len(p)):
            _worse(residuals, CONE, abs(p[row]))
        return
    velocity, v_hat = local((len(g.mu), 3)), local(len(v_plus))
    if conditions == Conditions.COMPLIANT:
        contact_velocities(g, v_plus, velocity)
        for i in range(len(g.mu)):
            _compliant(g, i, claim.material, p[3 * i : 3 * i + 3], velocity[i], residuals)
        return
    convex = conditions in (Conditions.CONVEX, Conditions.CONE)
    if convex and not (len(y) == len(g.mu) and np.isfinite(y).all()):
        residuals[COMPLEMENTARITY] = np.inf  # nothing to judge optimality by
        return
    asked_of(g, v_plus, impulse, v_hat)
    contact_velocities(g, v_hat, velocity)
    descent = local((len(g.mu) if convex else 0, 3))
    if convex:
        momentum = v_hat if conditions == Conditions.CONVEX else np.zeros(len(v_hat))
        energy_descent(g, momentum, (1.0 + g.rho) * y, descent)
    for i in range(len(g.mu)):
        mu, w = g.mu[i], velocity[i, 2] + allowance_of(g, i)
        free = mu == np.inf or (claim.unlimited and mu > 0.0)
        c = _Contact(p[3 * i], p[3 * i + 1], p[3 * i + 2], velocity[i, 0], velocity[i, 1], w, mu, free)
        if np.isnan(g.gaps[i]) or np.isnan(mu):
            residuals[COMPLEMENTARITY] = np.inf  # no number, no statement
        _worse(residuals, PENETRATION, -w)
        _worse(residuals, CONE, -c.pn)
        if free and _parts(c) and conditions != Conditions.CONVEX:
            _worse(residuals, CONE, max(abs(c.ps), abs(c.pt)))  # friction without pressure is none
        if conditions == Conditions.NO_SLIP:
            _no_slip(c, residuals)
        elif conditions == Conditions.COULOMB:
            _coulomb(c, claim.directions, residuals)
        elif conditions == Conditions.EXACT_CONE:
            _exact_cone(c, residuals)
        elif not convex:
            residuals[COMPLEMENTARITY] = np.inf  # nobody here knows that claim
        else:
            _worse(residuals, COMPLEMENTARITY, abs(min(y[i], w)))
            if conditions == Conditions.CONE and free and _lets_go(c):
                continue
            slope = descent[i] + claim.epsilon * p[3 * i : 3 * i + 3]
            if conditions == Conditions.CONE:
                slope[0], slope[1], slope[2] = slope[0] + c.vs, slope[1] + c.vt, slope[2] + w
            _optimal(c, slope, claim.directions, residuals)


@compiled
def _worse(residuals, which, error):
    residuals[which] = max(residuals[which], error)


@compiled
def _split(x: float, y: float, directions: Array) -> tuple[float, float, int]:
    """Non-negative shares of (x, y) along the two polygon corners next to it, and the first corner's index."""
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
def _parts(c):
    """Whether a contact opens without a normal impulse."""
    return c.w > PARTS and c.pn <= PARTS


@compiled
def _lets_go(c):
    """Whether it parts and carries nothing at all: it may slide then."""
    return _parts(c) and c.ps == 0.0 and c.pt == 0.0 and c.pn == 0.0


@compiled
def _no_slip(c, residuals):
    """Whatever touches sticks."""
    _worse(residuals, COMPLEMENTARITY, abs(min(c.pn, c.w)))
    if c.mu == 0.0:
        _worse(residuals, CONE, max(abs(c.ps), abs(c.pt)))
    elif not _lets_go(c):
        _worse(residuals, SLIP, max(abs(c.vs), abs(c.vt)))


@compiled
def _coulomb(c, directions, residuals):
    """Complementarity of (p_F, w_F) and (λ, w_λ), cone, and slip where none is allowed."""
    _worse(residuals, COMPLEMENTARITY, abs(min(c.pn, c.w)))
    if c.free:
        if not _lets_go(c):
            _worse(residuals, SLIP, max(abs(c.vs), abs(c.vt)))
        return
    k, speed = len(directions), 0.0  # λ
    for j in range(k):
        speed = max(speed, -(directions[j, 0] * c.vs + directions[j, 1] * c.vt))
    share0, share1, corner = _split(c.ps, c.pt, directions)
    rest = c.mu * c.pn - share0 - share1
    error = abs(min(speed, max(rest, 0.0)))
    for j in range(k):
        share = share0 if j == corner else share1 if j == (corner + 1) % k else 0.0
        error = max(error, min(share, directions[j, 0] * c.vs + directions[j, 1] * c.vt + speed))
    _worse(residuals, COMPLEMENTARITY, error)
    _worse(residuals, CONE, -rest)


@compiled
def _exact_cone(c, residuals):
    """Complementarity in the normal; friction is the point of its disc nearest to p_T − v_T, so it dissipates most."""
    _worse(residuals, COMPLEMENTARITY, abs(min(c.pn, c.w)))
    if c.free:
        if not _lets_go(c):
            _worse(residuals, SLIP, max(abs(c.vs), abs(c.vt)))
        return
    most, x, y = c.mu * max(c.pn, 0.0), c.ps - c.vs, c.pt - c.vt
    share = min(1.0, most / np.hypot(x, y)) if x != 0.0 or y != 0.0 else 1.0
    error = max(abs(c.ps - share * x), abs(c.pt - share * y))
    _worse(residuals, COMPLEMENTARITY, np.inf if np.isnan(error) else error)
    _worse(residuals, CONE, np.hypot(c.ps, c.pt) - most)


@compiled
def _optimal(c, descent, directions, residuals):
    """One contact of the convex laws: impulses and descent direction must be complementary over the cone's rays."""
    if c.free:
        _worse(residuals, COMPLEMENTARITY, max(abs(descent[0]), abs(descent[1]), abs(min(c.pn, descent[2]))))
        return
    share0, share1, corner = _split(c.ps, c.pt, directions)
    k = len(directions)
    rest = c.mu * c.pn - share0 - share1
    for j in range(k):
        # an interior impulse loads every ray of its cone, so every ray must then be flat
        share = share0 if j == corner else share1 if j == (corner + 1) % k else 0.0
        loaded = (share + max(rest, 0.0) / k) / c.mu if c.mu > 0.0 else max(c.pn, 0.0) / k
        slope = descent[2] + c.mu * (directions[j, 0] * descent[0] + directions[j, 1] * descent[1])
        _worse(residuals, COMPLEMENTARITY, abs(min(loaded, slope)))
    _worse(residuals, CONE, -rest)


@compiled
def _compliant(g, i, material, p, velocity, residuals):
    """Impulse and z = u − v̂ + R p of contact i must be complementary in the round friction cone and its dual: p is the point of
    the cone nearest to p − z. The cone is judged apart."""
    counts = not (material.touching_only and g.gaps[i] > 0.0)
    w, settle, mu = own_inverse_mass(g, i), g.dt + material.dissipation, min(g.mu[i], MOST_FRICTION)
    friction = np.hypot(p[0], p[1])
    _worse(residuals, CONE, max(-p[2], friction - mu * p[2]))
    if not counts or w == 0.0:
        _worse(residuals, COMPLEMENTARITY, max(friction, abs(p[2])))
        return
    stiffest = (2.0 * np.pi / material.beta) ** 2 / w  # [kg]
    soft_n, soft_t = 1.0 / min(stiffest, g.dt * material.stiffness * settle), material.sigma * w
    x = p[0] - (velocity[0] + soft_t * p[0])
    y = p[1] - (velocity[1] + soft_t * p[1])
    z = p[2] - (velocity[2] + g.gaps[i] / settle + soft_n * p[2])
    across = np.hypot(x, y)
    if across > mu * z:
        height = max((mu * across + z) / (1.0 + mu * mu), 0.0)
        share = mu * height / across if across > 0.0 else 0.0
        x, y, z = share * x, share * y, height
    error = max(abs(p[0] - x), abs(p[1] - y), abs(p[2] - z))
    _worse(residuals, COMPLEMENTARITY, np.inf if np.isnan(error) else error)
