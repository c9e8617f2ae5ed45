"""The certificate: how far an answer is from what it claims, in physical units.

Computed from the problem data in the full space (`idyn.certificate.momentum`), by code that no law and no solver uses; friction
is decomposed anew, by one function for each law's own conditions (`idyn.certificate.conditions`).
"""

from typing import NamedTuple

import numpy as np

from idyn.certificate.closures import closure_error
from idyn.certificate.conditions import (
    COMPLEMENTARITY,
    CONE,
    DEMAND,
    DYNAMICS,
    PENETRATION,
    SLIP,
    Contact,
    compliant,
    coulomb,
    exact_cone,
    lets_go,
    no_slip,
    optimal,
    parts,
    worse,
)
from idyn.certificate.momentum import (
    allowance_of,
    asked_of,
    contact_velocities,
    demand_error,
    energy_descent,
    imbalance,
    in_world,
)
from idyn.contact.ground import Material
from idyn.jit.compiled import inlined
from idyn.jit.memory import local
from idyn.status import Conditions
from idyn.terms.stages import Given
from idyn.types import Array

CERTIFIED = 1e-8
"""Largest residual of an answer that may be used [N·s, N·m·s or m/s]: at 1 kHz, 10 µN of force and 10 nm/s of speed."""


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
def _judge(g: Given, claim: Claim, p: Array, v_plus: Array, impulse: Array, residuals: Array) -> None:
    """Raise the residuals to those of the law's own conditions."""
    conditions, y = claim.conditions, claim.multipliers
    if conditions == Conditions.GIVEN:
        return
    if conditions == Conditions.FREE:
        for row in range(len(p)):
            worse(residuals, CONE, abs(p[row]))
        return
    # compliant ground is asked of v⁺
    velocity, v_hat = local((len(g.mu), 3)), local(len(v_plus))
    if conditions == Conditions.COMPLIANT:
        contact_velocities(g, v_plus, velocity)
        for i in range(len(g.mu)):
            compliant(g, i, claim.material, p[3 * i : 3 * i + 3], velocity[i], residuals)
        return
    # convex laws: the descent of their energy, with multipliers y
    convex = conditions in (Conditions.CONVEX, Conditions.CONE)
    if convex and not (len(y) == len(g.mu) and np.isfinite(y).all()):
        residuals[COMPLEMENTARITY] = np.inf  # nothing to judge optimality by
        return
    # v̂, û = J v̂
    asked_of(g, v_plus, impulse, v_hat)
    contact_velocities(g, v_hat, velocity)
    descent = local((len(g.mu) if convex else 0, 3))
    if convex:
        momentum = v_hat if conditions == Conditions.CONVEX else np.zeros(len(v_hat))
        energy_descent(g, momentum, (1.0 + g.rho) * y, descent)
    # w = û_N + φ/dt ≥ 0, p_N ≥ 0, then the law's own
    for i in range(len(g.mu)):
        mu, w = g.mu[i], velocity[i, 2] + allowance_of(g, i)
        free = mu == np.inf or (claim.unlimited and mu > 0.0)
        c = Contact(p[3 * i], p[3 * i + 1], p[3 * i + 2], velocity[i, 0], velocity[i, 1], w, mu, free)
        if np.isnan(g.gaps[i]) or np.isnan(mu):
            residuals[COMPLEMENTARITY] = np.inf  # malformed
        worse(residuals, PENETRATION, -w)
        worse(residuals, CONE, -c.pn)
        if free and parts(c) and conditions != Conditions.CONVEX:
            worse(residuals, CONE, max(abs(c.ps), abs(c.pt)))  # friction without pressure is none
        if conditions == Conditions.NO_SLIP:
            no_slip(c, residuals)
        elif conditions == Conditions.COULOMB:
            coulomb(c, claim.directions, residuals)
        elif conditions == Conditions.EXACT_CONE:
            exact_cone(c, residuals)
        elif not convex:
            residuals[COMPLEMENTARITY] = np.inf  # an unknown claim
        else:
            worse(residuals, COMPLEMENTARITY, abs(min(y[i], w)))
            if conditions == Conditions.CONE and free and lets_go(c):
                continue
            # gradient: + ε p, and of the contacts' energy + û
            slope = descent[i] + claim.epsilon * p[3 * i : 3 * i + 3]
            if conditions == Conditions.CONE:
                slope[0], slope[1], slope[2] = slope[0] + c.vs, slope[1] + c.vt, slope[2] + w
            optimal(c, slope, claim.directions, residuals)
