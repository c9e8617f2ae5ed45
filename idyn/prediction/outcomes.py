"""What else the world might do: other solutions of the forward problem under the same torques.

Coulomb's law has several solutions where friction is large: rods and feet that may as well jam or let go. A prediction is
one of them, and the torque that goes with it cannot choose for the world. Here the joints are free:

    M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h),      0 ≤ (p_N, p_F, λ) ⟂ (w_N, w_F, w_λ) ≥ 0        (`idyn.laws.coulomb`)

and Lemke's method is begun with many covering vectors, for each of which it ends at some solution. What is found exists;
what is not found may exist all the same. Offline: a second of searching for a second of walking.
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
"""Velocities that differ by less are the same [m/s, rad/s]."""

RIGHT = 1e-8
"""Largest |min(z, w)| of a solution, in units of the problem."""

MOST_PIVOTS = 2000


class Outcome(Record, frozen=True):
    """One solution. v_plus: velocity a period from now (nv); impulse: contact impulses in rows S, T, N [N·s] (3n)"""

    v_plus: Array
    impulse: Array


def outcomes(
    robot: Robot, state: State, contacts: ContactSet, tau: Array, dt: float, *, edges: int = 4, samples: int = 60, seed: int = 0
) -> list[Outcome]:
    """Different solutions on rigid ground under joint torques τ [N·m] (na), in the order in which they are found; none when
    Lemke's method finds none. samples: how many covering vectors are tried, the first of them all ones"""
    dynamics = evaluate(robot, state, contacts, dt=dt, ground=Ground()).dynamics
    given = dynamics.given
    J, inertia, force = dynamics.J, given.M, -given.h
    force[robot.tree.a] += tau
    L = np.linalg.cholesky(inertia)
    free = state.v + dt * np.linalg.solve(inertia, force)
    Y, b = np.linalg.solve(L, J.T).T, J @ free
    b[2::3] += [interpreted(allowance)(given, i) for i in range(len(contacts))]
    directions = polygon(edges)
    M, q, unit, _ = assemble(np.ascontiguousarray(Y), b, contacts.mu, directions, 0.0)
    found: list[Outcome] = []
    rng = np.random.default_rng(seed)
    for sample in range(samples):
        cover = np.ones(len(q)) if sample == 0 else np.exp(rng.uniform(-3.0, 3.0, len(q)))
        z, status, _, _ = lemke(M, q, MOST_PIVOTS, cover)
        if status != SOLVED or natural_residual(M, q, z) > RIGHT:
            continue
        impulse = unit * _impulse(z, len(contacts), directions)
        v_plus = free + np.linalg.solve(inertia, J.T @ impulse)
        if all(np.abs(other.v_plus - v_plus).max() > SAME for other in found):
            found.append(Outcome(v_plus=v_plus, impulse=impulse))
    return found


def _impulse(z: Array, n: int, directions: Array) -> Array:
    """Rows S, T, N (3n) of a solution in the order p_N, p_F, λ."""
    k = len(directions)
    along = z[n : n + k * n].reshape(n, k) @ directions
    return np.column_stack([along, z[:n]]).ravel()
