"""How impulses follow changes of the contact velocities and of the selection's objective at a basis (MATHEMATICS §3.7)."""

from typing import NamedTuple

import numpy as np

from idyn.differentiation.basis import EDGE, NEAR, NEGLIGIBLE, STICKING, TURNING, Basis
from idyn.differentiation.mechanism import Mechanism
from idyn.selection.few import TIE_BREAK, UNLIMITED
from idyn.types import Array

NONE, FORCES, TORQUES = range(3)  # objectives of the selection


class Choice(NamedTuple):
    """How the selection chooses."""

    objective: int  # NONE, FORCES or TORQUES
    unlimited: bool  # whether friction is unlimited
    gradient: Array  # of the objective by p, times dt² (3n)
    pulled: Array  # dt (τ − its target) (na)


class Span:
    """Columns B of a basis in orthogonal coordinates, Yᵀ B V = (U S, 0): B V = (moving, internal)."""

    def __init__(self, columns: Array, Y: Array) -> None:
        self.U, self.sizes, V = np.linalg.svd(Y.T @ columns.T)
        rank = int((self.sizes > NEGLIGIBLE * self.sizes.max(initial=0.0)).sum())
        self.U, self.sizes, moves = self.U[:, :rank], self.sizes[:rank], columns.T @ V.T
        self.moving, self.internal = moves[:, :rank], moves[:, rank:]


class Response:
    """Operators at a basis.

    law: dp by db, of the law and the selection (3n, 3n); law_v: dv_u⁺ by db at fixed dv_u⁰ (nu, 3n)
    chosen: A C⁻ᵀ with Aᵀ K A = C Cᵀ (3n, d); lever: (A C⁻ᵀ)ᵀ J_a (d, na)
    pull: y with ∂(gradient)/∂q = −∂(J y)/∂q (nv); load: change of the gradient by μ, in the normal (n)
    codes: see `idyn.differentiation.basis.SWITCHES` (n)
    """

    def __init__(self, m: Mechanism, basis: Basis, choice: Choice, largest: float) -> None:
        """largest: impulse [N·s]"""
        span, self._choice, self._joints = Span(basis.columns, m.Y), choice, m.J[:, m.a]
        self.objective = NONE if basis.kinds == TURNING else choice.objective
        self.law = _law(m.Y, basis, span)
        self.law_v = m.push @ self.law
        self.chosen, self.lever, self.pull = np.zeros((len(m.J), 0)), np.zeros((0, len(m.a))), np.zeros(len(m.v))
        multipliers = np.zeros(len(basis.tight))
        if self.objective != NONE:
            restricted = len(basis.tight) > 0 and span.internal.shape[1] > 0
            if restricted:
                lines = (basis.tight @ span.internal).T
                multipliers = np.linalg.lstsq(lines, span.internal.T @ choice.gradient, rcond=NEGLIGIBLE)[0]
            # multipliers of Yᵀ p: Bᵀ Y y = Bᵀ (gradient − Σ multiplier · facet)
            y = span.U @ (span.moving.T @ (choice.gradient - basis.tight.T @ multipliers) / span.sizes)
            self.pull[m.u] = m.stretch * np.linalg.solve(m.L.T, y)
            if restricted:  # impulses of the face with the same Yᵀ dp
                span = Span(basis.face, m.Y)
                self.law = span.moving @ (span.U.T @ (m.Y.T @ self.law) / span.sizes[:, None])
            if restricted or not len(basis.tight):
                self._choose(span.internal)
        if self.objective == TORQUES:
            self.pull[m.a] = choice.pulled
        self.load = np.bincount(basis.owners, multipliers * basis.reach, len(basis.codes))
        self.codes = basis.codes.copy()
        self.codes[basis.owners[multipliers <= NEAR * largest]] |= EDGE

    def _choose(self, A: Array) -> None:
        """Set `chosen` and `lever` for internal forces A (3n, d), and add the choice to `law`."""
        torques, K = self._joints.T @ A, A.T @ A
        if self.objective == TORQUES:
            weight = (UNLIMITED if self._choice.unlimited else TIE_BREAK) * (self._joints**2).max(initial=0.0)
            K = weight * K + torques.T @ torques
        self.chosen = np.linalg.solve(np.linalg.cholesky(K), A.T).T
        self.lever = self.chosen.T @ self._joints
        self.law = self.law - self.chosen @ self.turned(self.law)

    def turned(self, p: Array) -> Array:
        """Return Aᵀ K dp in the coordinates of `chosen`, without the small weight of forces (d, k)."""
        turned: Array = self.lever @ (self._joints.T @ p) if self.objective == TORQUES else self.chosen.T @ p
        return turned


def _law(Y: Array, basis: Basis, span: Span) -> Array:
    """Return the operator of the law, dp by db."""
    if basis.kinds == STICKING:  # W = Bᵀ
        return -(span.moving / span.sizes**2) @ span.moving.T
    if basis.kinds != TURNING:
        return span.moving @ (_constrain(Y, basis.held, span) / span.sizes[:, None])
    # T = Yᵀ H,  dû = Y S⁻¹ L dz + (1 − Y S⁻¹ T) db,  S = 1 + T Y,  dp = B dz − H dû
    T = Y.T @ basis.turning
    Z = np.linalg.solve((np.eye(len(T)) + T @ Y).T, Y.T).T
    soft = np.eye(len(Y)) - Z @ T
    dz = _constrain(Z, basis.held, span) @ soft
    return span.moving @ (dz / span.sizes[:, None]) - basis.turning @ (Z @ span.U @ dz + soft)


def _constrain(Y: Array, held: Array, span: Span) -> Array:
    """Return −(W Y U)⁺ W (rank, 3n)."""
    constrained: Array = -np.linalg.pinv(held @ Y @ span.U, NEGLIGIBLE) @ held
    return constrained
