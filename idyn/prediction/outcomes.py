"""Other solutions of forward dynamics with Coulomb's law under the same torques.

With large friction Coulomb's law may have several solutions, for example a rod that may jam or slide. A prediction is one of
them, and the robot may follow another one under the same torques. In this module joint motion is not prescribed:

    M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h),      0 ≤ (p_N, p_F, λ) ⟂ (w_N, w_F, w_λ) ≥ 0        (`idyn.laws.coulomb`)

With closed chains their impulses are eliminated: G v⁺ = −rate, as in `idyn.terms.closures`.

Lemke's method starts with many covering vectors, each of which may lead to another solution. The search is not exhaustive:
further solutions may exist. For offline use: one second of walking takes about one second of search. For few contacts
`idyn.prediction.uniqueness` finds all of them.
"""

from typing import NamedTuple

import numpy as np

from idyn.contact.ground import Ground, allowance
from idyn.jit.compiled import interpreted
from idyn.laws.coulomb import assemble
from idyn.laws.law import polygon
from idyn.model.robot import Robot
from idyn.solvers.lemke import lemke, natural_residual
from idyn.status import SOLVED
from idyn.terms.dynamics import evaluate
from idyn.types import Array, ContactSet, Kinematics, Record, State

SAME = 1e-6
"""Velocities that differ by less count as equal [m/s, rad/s]."""

TOLERANCE = 1e-8
"""Largest |min(z, w)| of a solution, in units of the problem."""

RANK = 1e-9
"""Relative size of the singular values below which rows of closures depend on each other."""

MOST_PIVOTS = 2000


class Outcome(Record, frozen=True):
    """One solution of forward dynamics.

    v_plus: velocity at the end of the period (nv)
    impulse: contact impulses in rows S, T, N [N·s] (3n)
    """

    v_plus: Array
    impulse: Array


class Forward(NamedTuple):
    """Forward dynamics reduced to the contacts: û = Y Yᵀ p + b, in rows S, T, N, where û_N includes φ/dt.

    Y: (3n, nv), with Y Yᵀ = J M⁻¹ Jᵀ; b: of the free motion [m/s] (3n)
    free: velocity without contact impulses (nv); response: M⁻¹ Jᵀ (nv, 3n)
    """

    Y: Array
    b: Array
    free: Array
    response: Array

    def outcome(self, impulse: Array) -> Outcome:
        """Return the outcome with these contact impulses [N·s] (3n)."""
        return Outcome(v_plus=self.free + self.response @ impulse, impulse=impulse)


def outcomes(
    robot: Robot, state: State, contacts: ContactSet, tau: Array, dt: float, *, edges: int = 4, samples: int = 60, seed: int = 0
) -> list[Outcome]:
    """Return different solutions on rigid ground under joint torques τ [N·m] (na) over `dt` [s], in the order of discovery. The
    list is empty if Lemke's method finds none.

    edges: number of edges of the friction polygon
    samples: number of covering vectors; the first one consists of ones, the others are random with the seed `seed`
    """
    # LCP of Coulomb's law, solved from each covering vector
    forward, directions = forward_problem(robot, state, contacts, tau, dt), polygon(edges)
    M, q, unit, _ = assemble(forward.Y, forward.b, contacts.mu, directions, 0.0)
    found: list[Outcome] = []
    rng = np.random.default_rng(seed)
    for sample in range(samples):
        cover = np.ones(len(q)) if sample == 0 else np.exp(rng.uniform(-3.0, 3.0, len(q)))
        z, status, _, _ = lemke(M, q, MOST_PIVOTS, cover)
        if status != SOLVED or natural_residual(M, q, z) > TOLERANCE:
            continue
        impulse = unit * _impulse(z, len(contacts), directions)
        if not _held_without_load(forward, contacts.mu, impulse):
            add_if_new(found, forward.outcome(impulse))
    return found


def forward_problem(
    robot: Robot, state: State | Kinematics, contacts: ContactSet, tau: Array, dt: float, applied: Array | None = None
) -> Forward:
    """Return forward dynamics on rigid ground under joint torques τ [N·m] (na) over `dt` [s]. applied: see `predict`"""
    # free motion: v + dt M⁻¹ (Pᵀ τ − h);  D = J M⁻¹ Jᵀ = Y Yᵀ
    dynamics = evaluate(robot, state, contacts, dt=dt, ground=Ground.rigid(), applied=applied).dynamics
    given = dynamics.given
    J, inertia, force = dynamics.J, given.M, -given.h
    force[robot.tree.a] += tau
    L = np.linalg.cholesky(inertia)
    free: Array = state.v + dt * np.linalg.solve(inertia, force)
    Y = np.linalg.solve(L, J.T).T
    if robot.closures.keys:  # u = Lᵀ v:  (G L⁻ᵀ) u⁺ = −rate, where rows of planar chains depend on each other
        U, sizes, V = np.linalg.svd(np.linalg.solve(L, dynamics.G.T), full_matrices=False)
        held = sizes > RANK * sizes[0]
        Q, u = U[:, held], L.T @ free
        u -= Q @ (Q.T @ u + (V[held] @ dynamics.rate) / sizes[held])
        Y, free = Y - (Y @ Q) @ Q.T, np.linalg.solve(L.T, u)
    b = J @ free + dynamics.drift
    b[2::3] += [interpreted(allowance)(given, i) for i in range(len(contacts))]
    return Forward(np.ascontiguousarray(Y), b, free, np.linalg.solve(L.T, Y.T))


def add_if_new(found: list[Outcome], outcome: Outcome) -> None:
    """Append an outcome whose velocity differs from those of all others."""
    if all(np.abs(other.v_plus - outcome.v_plus).max() > SAME for other in found):
        found.append(outcome)


def _held_without_load(forward: Forward, mu: Array, impulse: Array) -> bool:
    """Return whether a contact with unlimited friction opens and still has friction: the LCP allows it, Coulomb's law does
    not."""
    opens = (forward.Y @ (forward.Y.T @ impulse) + forward.b)[2::3] > SAME
    friction = np.hypot(impulse[::3], impulse[1::3])
    return bool((opens & (mu == np.inf) & (friction > SAME * np.abs(impulse).max(initial=0.0))).any())


def _impulse(z: Array, n: int, directions: Array) -> Array:
    """Return rows S, T, N (3n) of an LCP solution in the order p_N, p_F, λ."""
    k = len(directions)
    along = z[n : n + k * n].reshape(n, k) @ directions
    return np.column_stack([along, z[:n]]).ravel()
