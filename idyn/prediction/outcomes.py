"""Other solutions of forward dynamics with Coulomb's law under the same torques.

With large friction Coulomb's law may have several solutions, for example a rod that may jam or slide. A prediction is one of
them, and the robot may follow another one under the same torques. In this module joint motion is not prescribed:

    M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h),      0 ≤ (p_N, p_F, λ) ⟂ (w_N, w_F, w_λ) ≥ 0        (`idyn.laws.coulomb`)

Lemke's method starts with many covering vectors, each of which may lead to another solution. The search is not exhaustive:
further solutions may exist. For offline use: one second of walking takes about one second of search.
"""

import numpy as np

from idyn.contact.ground import Ground, allowance
from idyn.jit.compiled import interpreted
from idyn.laws.coulomb import assemble
from idyn.laws.law import polygon
from idyn.model.robot import Robot
from idyn.solvers.lemke import lemke, natural_residual
from idyn.status import SOLVED
from idyn.terms.dynamics import evaluate
from idyn.types import Array, ContactSet, Record, State

SAME = 1e-6
"""Velocities that differ by less count as equal [m/s, rad/s]."""

TOLERANCE = 1e-8
"""Largest |min(z, w)| of a solution, in units of the problem."""

MOST_PIVOTS = 2000


class Outcome(Record, frozen=True):
    """One solution of forward dynamics.

    v_plus: velocity at the end of the period (nv)
    impulse: contact impulses in rows S, T, N [N·s] (3n)
    """

    v_plus: Array
    impulse: Array


def outcomes(
    robot: Robot, state: State, contacts: ContactSet, tau: Array, dt: float, *, edges: int = 4, samples: int = 60, seed: int = 0
) -> list[Outcome]:
    """Return different solutions on rigid ground under joint torques τ [N·m] (na) over `dt` [s], in the order of discovery. The
    list is empty if Lemke's method finds none.

    edges: number of edges of the friction polygon
    samples: number of covering vectors; the first one consists of ones, the others are random with the seed `seed`
    """
    # free motion: v + dt M⁻¹ (Pᵀ τ − h);  D = J M⁻¹ Jᵀ = Y Yᵀ
    dynamics = evaluate(robot, state, contacts, dt=dt, ground=Ground.rigid()).dynamics
    given = dynamics.given
    J, inertia, force = dynamics.J, given.M, -given.h
    force[robot.tree.a] += tau
    L = np.linalg.cholesky(inertia)
    free = state.v + dt * np.linalg.solve(inertia, force)
    Y, b = np.linalg.solve(L, J.T).T, J @ free
    b[2::3] += [interpreted(allowance)(given, i) for i in range(len(contacts))]
    # LCP of Coulomb's law, solved from each covering vector
    directions = polygon(edges)
    M, q, unit, _ = assemble(np.ascontiguousarray(Y), b, contacts.mu, directions, 0.0)
    found: list[Outcome] = []
    rng = np.random.default_rng(seed)
    for sample in range(samples):
        cover = np.ones(len(q)) if sample == 0 else np.exp(rng.uniform(-3.0, 3.0, len(q)))
        z, status, _, _ = lemke(M, q, MOST_PIVOTS, cover)
        if status != SOLVED or natural_residual(M, q, z) > TOLERANCE:
            continue
        impulse = unit * _impulse(z, len(contacts), directions)
        v_plus = free + np.linalg.solve(inertia, J.T @ impulse)
        if all(np.abs(other.v_plus - v_plus).max() > SAME for other in found):
            found.append(Outcome(v_plus=v_plus, impulse=impulse))
    return found


def _impulse(z: Array, n: int, directions: Array) -> Array:
    """Return rows S, T, N (3n) of an LCP solution in the order p_N, p_F, λ."""
    k = len(directions)
    along = z[n : n + k * n].reshape(n, k) @ directions
    return np.column_stack([along, z[:n]]).ravel()
