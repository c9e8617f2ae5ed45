"""The certificate: violation of each condition that a solution must satisfy, in physical units, computed from the problem
data in the full space (`idyn.certificate.momentum`), by code that no law or solver uses. Each law's conditions have a check
for one contact, which raises the residuals, with a decomposition of friction of its own."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from idyn.certificate.drift import add_contact_drift
from idyn.certificate.momentum import (
    COMPLEMENTARITY,
    CONE,
    DEMAND,
    DYNAMICS,
    PENETRATION,
    SLIP,
    allowance_of,
    closure_error,
    contact_velocities,
    demand_error,
    effective_inverse_mass,
    energy_descent,
    imbalance,
    in_world,
    law_velocity,
    nearest_in_cone,
    speed_per_impulse,
    worse,
)
from idyn.certificate.soft import soft_constraints
from idyn.contact.ground import MOST_FRICTION, Material
from idyn.contact.soft import SoftConstraints
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector, written
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


SEPARATING = 1e-9  # a contact separates if it opens faster than this with a normal impulse of at most this [m/s], see `Contact`


class Contact(NamedTuple):
    """One contact of a solution. Impulses are multiplied by `speed_per_impulse`; all conditions are homogeneous in them."""

    ps: float  # impulse along s [m/s]
    pt: float  # along t [m/s]
    pn: float  # along n [m/s]
    vs: float  # tangential velocity along s [m/s]
    vt: float  # along t [m/s]
    w: float  # û_N + φ/dt [m/s]
    mu: float  # friction coefficient
    free: bool  # whether friction is unlimited


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


@entry(Contact, written(Vector))
def no_slip(c: Contact, residuals: Array) -> None:
    """Check 0 ≤ p_N ⟂ w ≥ 0, and û_T = 0 unless the contact is released; p_T = 0 for μ = 0."""
    worse(residuals, COMPLEMENTARITY, abs(min(c.pn, c.w)))
    if c.mu == 0.0:
        worse(residuals, CONE, max(abs(c.ps), abs(c.pt)))
    elif not released(c):
        worse(residuals, SLIP, max(abs(c.vs), abs(c.vt)))


@entry(Contact, Matrix, written(Vector))
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


@entry(Contact, written(Vector))
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


@entry(Contact, Vector, Matrix, written(Vector))
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


CERTIFIED = 1e-8
"""Maximum residual of a certified solution. Residuals of impulses are relative to the inertia that they move: where it is below
1 kg or 1 kg·m², they are divided by it, and so are speeds. At 1 kHz: 10 nm/s of speed, 10 µN of force, less for lighter
robots."""


class Claim(NamedTuple):
    """Conditions that a law claims its solution satisfies; the certificate checks them."""

    conditions: int  # a member of `Conditions`
    directions: Array  # corners of the friction polygon (k, 2)
    unlimited: bool  # whether every μ > 0 counts as ∞
    # of the non-penetration rows, for the optimality check of convex laws (n); if empty, their complementarity residual is inf
    multipliers: Array
    epsilon: float  # weight of the term ½ε‖p‖² in the program of a convex law [1/kg]
    material: Material  # of the ground, used for the compliant law only
    soft: SoftConstraints  # parameters of MuJoCo, used for its law only


class Demanded(NamedTuple):
    """The demand."""

    asked: Array  # original joint accelerations [rad/s²] (na)
    met: Array  # realised ones [rad/s²] (na)
    change: float  # reported difference of the joint velocities, max norm [rad/s]


class Solution(NamedTuple):
    """The solution to check."""

    p: Array  # contact impulses in rows S, T, N [N·s] (3n)
    v_plus: Array  # velocity at the end of the period (nv)
    tau: Array  # torques [N·m] (na)
    load: Array  # generalised forces of friction and limits of the joints and of contact moments [N·m] (nv)
    moments: Array  # contact moments over dt about s, t, n, if the law has them [N·m·s] (3n)
    closing: Array  # closure impulses in the world [N·s] (3m)
    impulse: Array  # output: p as vectors in the world [N·s] (n, 3)


@compiled
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


@compiled
def _judge(g: Given, claim: Claim, p: Array, v_plus: Array, impulse: Array, residuals: Array) -> None:
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
