"""The certificate: violation of each condition that a solution must satisfy, in physical units.

It is computed from the problem data in the full space (`idyn.certificate.momentum`), by code that no law or solver uses. There
is one function for the conditions of each law (`idyn.certificate.conditions`), with its own decomposition of friction.
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
    Conditions,
    Contact,
    compliant,
    coulomb,
    exact_cone,
    no_slip,
    optimal,
    released,
    separates,
    worse,
)
from idyn.certificate.drift import add_contact_drift
from idyn.certificate.momentum import (
    allowance_of,
    contact_velocities,
    demand_error,
    energy_descent,
    imbalance,
    in_world,
    law_velocity,
    speed_per_impulse,
)
from idyn.certificate.soft import soft_constraints
from idyn.contact.ground import Material
from idyn.contact.soft import SoftConstraints
from idyn.jit.compiled import inlined
from idyn.jit.stack import stack_array
from idyn.terms.stages import Given
from idyn.types import Array

CERTIFIED = 1e-8
"""Maximum residual of a certified solution. Residuals of impulses are relative to the inertia that they move: where it is below
1 kg or 1 kg·m², they are divided by it, and so are speeds. At 1 kHz: 10 nm/s of speed, 10 µN of force, less for lighter
robots."""


class Claim(NamedTuple):
    """Conditions that a law claims its solution satisfies; the certificate checks them.

    conditions: a member of `Conditions`; directions: corners of the friction polygon (k, 2)
    unlimited: whether every μ > 0 counts as ∞
    multipliers: of the non-penetration rows, for the optimality check of convex laws (n); if the array is empty, the
        complementarity residual of these laws is inf
    epsilon: weight of the term ½ε‖p‖² in a convex law's program [1/kg]
    material: material of the ground, used for the compliant law only
    soft: MuJoCo's parameters, used for its law only
    """

    conditions: int
    directions: Array
    unlimited: bool
    multipliers: Array
    epsilon: float
    material: Material
    soft: SoftConstraints


class Demanded(NamedTuple):
    """The demand.

    asked, met: original and realised joint accelerations [rad/s²] (na)
    change: reported difference of the joint velocities, max norm [rad/s]
    """

    asked: Array
    met: Array
    change: float


class Solution(NamedTuple):
    """The solution to check.

    p: contact impulses in rows S, T, N [N·s] (3n)
    v_plus: velocity at the end of the period (nv)
    tau: torques [N·m] (na)
    load: generalised forces of the joints' own friction and limits and of contact moments [N·m] (nv)
    moments: contact moments over dt about s, t, n, if the law has them [N·m·s] (3n)
    closing: closure impulses in the world [N·s] (3m)
    impulse: output: p as vectors in the world [N·s] (n, 3)
    """

    p: Array
    v_plus: Array
    tau: Array
    load: Array
    moments: Array
    closing: Array
    impulse: Array


@inlined
def certify(g: Given, demanded: Demanded, claim: Claim, solution: Solution, residuals: Array) -> None:
    """The certificate stage: fill the residuals (6) in the order and units of `idyn.types.Residuals`, and `solution.impulse`.

    The conditions of the law are checked at v̂. The demand is checked twice: the motion against the realised demand, and the
    reported change against the difference between realised and original demand.
    """
    for k in range(len(residuals)):
        residuals[k] = 0.0
    in_world(g, solution.p, solution.impulse)
    residuals[DYNAMICS] = imbalance(g, solution.v_plus, (solution.tau, solution.load), solution.impulse, solution.closing)
    residuals[DEMAND] = demand_error(g, demanded.asked, demanded.met, demanded.change, solution.v_plus)
    residuals[SLIP] = closure_error(g, solution.v_plus)
    if claim.conditions == Conditions.SOFT:
        answer = solution.p, solution.v_plus, solution.load, solution.moments
        soft_constraints(g, claim.soft, demanded.met, answer, residuals)
        return
    for load in solution.load:
        worse(residuals, DYNAMICS, g.dt * abs(load))
    _judge(g, claim, solution.p, solution.v_plus, solution.impulse, residuals)


@inlined
def _judge(g: Given, claim: Claim, p: Array, v_plus: Array, impulse: Array, residuals: Array) -> None:
    """Include the conditions of the law in the residuals."""
    conditions, y = claim.conditions, claim.multipliers
    if conditions == Conditions.GIVEN:
        return
    if conditions == Conditions.FREE:
        for row in range(len(p)):
            worse(residuals, CONE, abs(p[row]) * speed_per_impulse(g, row // 3))
        return
    # compliant law: applies to J v⁺ + dt J̇ v
    velocity, v_hat = stack_array((len(g.mu), 3)), stack_array(len(v_plus))
    if conditions == Conditions.COMPLIANT:
        contact_velocities(g, v_plus, velocity)
        add_contact_drift(g, velocity)
        for i in range(len(g.mu)):
            compliant(g, i, claim.material, p[3 * i : 3 * i + 3], velocity[i], residuals)
        return
    # convex laws: optimality needs the multipliers y
    convex = conditions in (Conditions.CONVEX, Conditions.CONE)
    if convex and not (len(y) == len(g.mu) and np.isfinite(y).all()):
        residuals[COMPLEMENTARITY] = np.inf  # without multipliers
        return
    # v̂, û = J v̂ + dt J̇ v
    law_velocity(g, v_plus, impulse, v_hat)
    contact_velocities(g, v_hat, velocity)
    add_contact_drift(g, velocity)
    descent = stack_array((len(g.mu) if convex else 0, 3))
    if convex:
        momentum = v_hat if conditions == Conditions.CONVEX else np.zeros(len(v_hat))
        energy_descent(g, momentum, (1.0 + g.rho) * y, descent)
    # w = û_N + φ/dt ≥ 0, p_N ≥ 0, then the conditions of the law
    for i in range(len(g.mu)):
        mu, w = g.mu[i], velocity[i, 2] + allowance_of(g, i)
        free = mu == np.inf or (claim.unlimited and mu > 0.0)
        s = speed_per_impulse(g, i)
        c = Contact(s * p[3 * i], s * p[3 * i + 1], s * p[3 * i + 2], velocity[i, 0], velocity[i, 1], w, mu, free)
        if np.isnan(g.gaps[i]) or np.isnan(mu):
            residuals[COMPLEMENTARITY] = np.inf  # malformed
        worse(residuals, PENETRATION, -w)
        worse(residuals, CONE, -c.pn)
        if free and separates(c) and conditions != Conditions.CONVEX:
            worse(residuals, CONE, max(abs(c.ps), abs(c.pt)))  # friction without normal impulse
        if conditions == Conditions.NO_SLIP:
            no_slip(c, residuals)
        elif conditions == Conditions.COULOMB:
            coulomb(c, claim.directions, residuals)
        elif conditions == Conditions.EXACT_CONE:
            exact_cone(c, residuals)
        elif not convex:
            residuals[COMPLEMENTARITY] = np.inf  # unknown conditions
        else:
            worse(residuals, COMPLEMENTARITY, abs(min(s * y[i], w)))
            if conditions == Conditions.CONE and free and released(c):
                continue
            # gradient of the objective: + ε p, and + û for the contact energy
            slope = descent[i] + claim.epsilon * p[3 * i : 3 * i + 3]
            if conditions == Conditions.CONE:
                slope[0], slope[1], slope[2] = slope[0] + c.vs, slope[1] + c.vt, slope[2] + w
            optimal(c, slope, claim.directions, residuals)
