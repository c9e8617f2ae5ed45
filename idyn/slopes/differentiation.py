"""Derivatives of a prediction at its final basis: how τ, p and v⁺ change with the demand, the state, friction and the
preferred forces.

At a basis each contact sticks, slides or is open. This names the impulses that may change, p = B ζ, and the rows of û that stay
zero, W û = 0. With D̂ = (1 + ρ) J_u M_uu⁻¹ J_uᵀ, b the part of û that does not depend on p, and for round cones the slope −H of
the friction of sliding contacts by û, H = μ p_N/|û_T| (1 − e eᵀ):

    D′ = (1 + D̂ H)⁻¹ D̂,   b′ = (1 + D̂ H)⁻¹ db,   dζ = −(W D′ B)⁺ W b′,   dû = D′ B dζ + b′,   dp = B dζ − H dû
    dv_u⁺ = dv_u⁰ + M_uu⁻¹ J_uᵀ dp,   dτ = [M_a dv⁺ + dR_a − J_aᵀ dp]/dt,   R = M (v⁺ − v) + dt h − Jᵀ p

The selection then moves p on the face, with the same J_uᵀ p; there B holds the columns of the face without the tight facets of
friction cones. `Consistency.HOLD` and `STICK` project the demand, q̈ → P_c q̈.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space as _null_space

from idyn.contact.ground import opening_speed
from idyn.jit.compiled import interpreted
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.feasible import EPSILON
from idyn.selection.aim import OBJECTIVES, Objective
from idyn.selection.few import TIE_BREAK, UNLIMITED
from idyn.slopes.faces import NEAR, Basis, basis_of
from idyn.slopes.jacobian import jacobian_slope
from idyn.terms.stages import Dynamics
from idyn.types import Array, Consistency, ContactSet, Prediction, Record, State


class Slope(Record, frozen=True):
    """Derivatives by one quantity with k components: tau [N·m/…] (na, k), p [N·s/…] (3n, k), v_plus (nv, k)."""

    tau: Array
    p: Array
    v_plus: Array


class Seeds(NamedTuple):
    """Direct changes by k components, 0 unless given: of v_a⁺ (na, k), of R at fixed v⁺ and p (nv, k), of b besides (3n, k),
    of p at fixed ζ (3n, k), of the gradient of the selection's objective at fixed p (3n, k)."""

    v_a: Array | float = 0.0
    R: Array | float = 0.0
    b: Array | float = 0.0
    p: Array | float = 0.0
    gradient: Array | float = 0.0


class Differentiation:
    """The matrices of one differentiation."""

    def __init__(
        self,
        robot: Robot,
        state: State,
        contacts: ContactSet,
        answer: Prediction,
        how: tuple[Law, Options, Array, Array],
        d: Dynamics,
    ) -> None:
        """how: (law, options, target of the selection, demand)"""
        law, self.options, self.target, self.q_ddot = how
        self.robot, self.state, self.contacts, self.answer, self.d = robot, state, contacts, answer, d
        given, tree = d.given, robot.tree
        self.M, self.J = given.own["M"].copy(), d.own["J"].copy()
        self.u, self.a, self.dt, self.rho, self.keep = tree.u, tree.a, answer.dt, given.rho, given.keep
        self.dJ = jacobian_slope(robot, robot.kinematics(state), contacts)
        self.J_u, self.J_a = self.J[:, self.u], self.J[:, self.a]
        self.inertia = np.linalg.inv(self.M[np.ix_(self.u, self.u)])
        v_hat = answer.v_plus - given.keep * given.own["v"]
        v_hat[self.u] += given.rho * (self.inertia @ (self.J_u.T @ (answer.p - given.own["last"])))
        self.v_hat, u_hat = v_hat, self.J @ v_hat
        for i, gap in enumerate(contacts.gaps.tolist()):
            u_hat[3 * i + 2] += interpreted(opening_speed)(gap, given.dt, given.noise, given.recovery_speed)
        self.basis: Basis = basis_of(law, contacts, answer.p, u_hat)
        self.objective = OBJECTIVES.get(self.options.selection)
        # operator of the law: dp = law_p db
        D = (1.0 + self.rho) * self.J_u @ self.inertia @ self.J_u.T
        B, W, H = self.basis.columns, self.basis.held, self.basis.turning
        soft = np.linalg.inv(np.eye(len(D)) + D @ H)
        moves = B @ np.linalg.pinv(W @ soft @ D @ B, rcond=1e-9) @ W
        self.D = D
        self.law_p = -(np.eye(len(D)) - H @ soft @ D) @ moves @ soft - H @ soft

    def by_demand(self) -> Slope:
        """Return the derivatives by the demand (k = na)."""
        return _after(self._demand, self._projection[0])

    def by_place(self) -> Slope:
        """Return the derivatives by the configuration, along its tangent (k = nv)."""
        place = self._slope(self._place_seeds(self.dt * self._inverse_dynamics[0]), len(self.M))
        return _plus(place, _after(self._demand, self._projection[2]))

    def by_velocity(self) -> Slope:
        """Return the derivatives by the velocity (k = nv)."""
        nv = len(self.M)
        R = self.dt * self._inverse_dynamics[1] - self.M
        speed = self._slope(Seeds(v_a=np.eye(nv)[self.a], R=R, b=-self.keep * self.J), nv)
        return _plus(speed, _after(self._demand, self._projection[1]))

    def by_friction(self) -> Slope:
        """Return the derivatives by the friction coefficients (k = n)."""
        return self._slope(Seeds(p=self.basis.friction_slope, gradient=-self._turning()), len(self.contacts))

    @cached_property
    def _inverse_dynamics(self) -> tuple[Array, Array]:
        """Return the slopes of the inverse dynamics without contacts by q and by v, at the predicted acceleration."""
        acceleration = (self.answer.v_plus - self.state.v) / self.dt
        return self.robot.inverse_dynamics_slopes(self.state.q, self.state.v, acceleration)

    @cached_property
    def _demand(self) -> Slope:
        """Return the derivatives by the projected demand (k = na)."""
        return self._slope(Seeds(v_a=self.dt * np.eye(len(self.a))), len(self.a))

    def _place_seeds(self, R: Array) -> Seeds:
        """Return the direct changes by the configuration. R: of the inverse dynamics without contacts (nv, nv)"""
        p, last, dJ, u = self.answer.p, self.d.given.own["last"], self.dJ, self.u
        pi = p - last
        # ρ J_u y with M_uu y = J_uᵀ π:  d = ρ (dJ_u y + J_u M_uu⁻¹ [d(Jᵀπ) − d(M y)]_u)
        y = np.zeros(len(self.M))
        y[u] = self.inertia @ (self.J_u.T @ pi)
        still = np.zeros(len(y))
        inertial = self.robot.inverse_dynamics_slopes(self.state.q, still, y)[0]
        inertial -= self.robot.inverse_dynamics_slopes(self.state.q, still, still)[0]
        pushes = np.einsum("rkj,r->kj", dJ, pi) - inertial
        b = np.einsum("rkj,k->rj", dJ, self.v_hat) + self.rho * self.J_u @ self.inertia @ pushes[u]
        return Seeds(R=R - np.einsum("rkj,r->kj", dJ, p), b=b, gradient=self._gradient_by_place())

    def _gradient_by_place(self) -> Array | float:
        """Return the change of the selection's gradient minus J_u ν by the configuration, ν the multipliers of J_uᵀ p."""
        objective = self.objective
        if objective is None or not self.basis.selectable or not len(self.u):
            return 0.0
        C, gradient = self.basis.columns, self._gradient(objective)
        rest = gradient - self.basis.tight.T @ self._multipliers
        nu = np.linalg.lstsq(C.T @ self.J_u, C.T @ rest, rcond=1e-9)[0]
        change = -np.einsum("rkj,k->rj", self.dJ[:, self.u], nu)
        if not objective.of_forces:
            change -= np.einsum("rkj,k->rj", self.dJ[:, self.a], self.answer.tau - self.target) * self.dt
        return change

    def _slope(self, seeds: Seeds, k: int) -> Slope:
        """Propagate direct changes by k components to τ, p and v⁺."""
        (na, nv, rows), u, a = (len(self.a), len(self.M), len(self.J)), self.u, self.a
        v_a, R = np.broadcast_to(seeds.v_a, (na, k)), np.broadcast_to(seeds.R, (nv, k))
        direct = np.broadcast_to(seeds.p, (rows, k))
        free = -self.inertia @ (self.M[np.ix_(u, a)] @ v_a + R[u])
        db = self.J_u @ free + self.J_a @ v_a + seeds.b + self.D @ direct
        dp = self.law_p @ db + direct
        v_plus = np.zeros((nv, k))
        v_plus[a], v_plus[u] = v_a, free + self.inertia @ (self.J_u.T @ dp)
        without = (self.M[a] @ v_plus + R[a]) / self.dt  # τ without the part of p
        if self.objective is not None and self.basis.selectable:
            dp = self._selected(self.objective, dp, without, (direct, seeds.gradient))
        return Slope(tau=without - self.J_a.T @ dp / self.dt, p=dp, v_plus=v_plus)

    def _selected(self, objective: Objective, dp: Array, without: Array, seeds: tuple[Array, Array | float]) -> Array:
        """Return the change of the selected impulses, with the same J_uᵀ dp. without: change of τ at fixed p; seeds: changes
        (of p at fixed coordinates, of the gradient)"""
        (direct, gradient), (B, inverse, Z, Q) = seeds, self._choice
        start = direct + B @ (inverse @ (self.J_u.T @ (dp - direct)))
        if not Z.shape[1]:
            return start
        A, slope = B @ Z, start
        if not objective.of_forces:
            slope = self.J_a @ (self.J_a.T @ start / self.dt - without) * self.dt
        moved: Array = start - A @ np.linalg.solve(Q, A.T @ (slope + gradient))
        return moved

    def _turning(self) -> Array:
        """Return Σ λ ∂(row of a tight facet)/∂μ (3n, n), with λ the multipliers of the facets in the selection."""
        turning = np.zeros((len(self.J), len(self.contacts)))
        for multiplier, reach in zip(self._multipliers, self.basis.reaches, strict=True):
            turning[:, int(np.argmax(reach)) // 3] += multiplier * reach
        return turning

    @cached_property
    def _multipliers(self) -> Array:
        """Return the multipliers of the tight facets in the selection (t): 0 for those that do not restrict it."""
        objective, tight, C = self.objective, self.basis.tight, self.basis.columns
        if objective is None or not len(tight):
            return np.zeros(len(tight))
        A = C @ null_space(self.J_u.T @ C)
        multipliers: Array = np.linalg.lstsq((tight @ A).T, A.T @ self._gradient(objective), rcond=1e-9)[0]
        return multipliers

    def _gradient(self, objective: Objective) -> Array:
        """Return the gradient of the objective by p, times dt² for torques (3n)."""
        if objective.of_forces:
            return self.answer.p - self.dt * self.target
        gradient: Array = -self.J_a @ (self.answer.tau - self.target) * self.dt
        return gradient

    @cached_property
    def _choice(self) -> tuple[Array, Array, Array, Array]:
        """Return the columns B of the face without tight facets, (J_uᵀ B)⁺, the null space Z of J_uᵀ B, and the Hessian."""
        B, objective = self.basis.face, self.objective
        K = self.J_u.T @ B
        inverse, Z = np.linalg.pinv(K, rcond=1e-9), null_space(K)
        A = B @ Z
        if objective is None or objective.of_forces:
            return B, inverse, Z, A.T @ A
        lever = float((self.J_a**2).max(initial=0.0))
        weight = (UNLIMITED if self.basis.unlimited else TIE_BREAK) * lever
        torque = self.J_a.T @ A
        return B, inverse, Z, torque.T @ torque + weight * A.T @ A

    def by_preferred(self) -> Slope:
        """Return the derivatives by the preferred forces [N] in contact rows (k = 3n)."""
        n, dt = len(self.contacts), self.dt
        dp = np.zeros((3 * n, 3 * n))
        if self.objective is not None and self.objective.of_forces and self.basis.selectable:
            B, _, Z, Q = self._choice
            if Z.shape[1]:
                A = B @ Z
                dp = dt * A @ np.linalg.solve(Q, A.T)
        return Slope(tau=-self.J_a.T @ dp / dt, p=dp, v_plus=np.zeros((len(self.M), 3 * n)))

    @cached_property
    def _projection(self) -> tuple[Array, Array, Array]:
        """Return the slopes of the projected demand by the demand (na, na), the velocity and the configuration (na, nv).

        q̈ + J_aᵀ λ/dt with S λ = −J wanted, S = J W Jᵀ, W = 1 for joints and 1/ε for the base
        """
        na, nv, a = len(self.a), len(self.M), self.a
        consistency, given = self.options.consistency, self.d.given
        if consistency not in (Consistency.HOLD, Consistency.STICK):
            return np.eye(na), np.zeros((na, nv)), np.zeros((na, nv))
        touching = (self.contacts.gaps <= given.touching) & (self.contacts.mu > 0.0)
        rows = np.repeat(touching, 3)
        if consistency is Consistency.STICK:
            rows[2::3] = False
        J, dJ, weights = self.J[rows], self.dJ[rows], np.full(nv, 1.0 / EPSILON)
        weights[a] = 1.0
        inverse = np.linalg.pinv((J * weights) @ J.T, rcond=1e-12, hermitian=True)
        # λ and the demand before its projection, from the demand that was realised
        wanted = (1.0 - self.keep) * self.state.v
        wanted[a] += self.dt * self.q_ddot
        force = -inverse @ (J @ wanted)
        pulled = np.einsum("rkj,r->kj", dJ, force)
        change = np.einsum("rkj,k->rj", dJ, wanted + weights * (J.T @ force)) + (J * weights) @ pulled
        by_place = (pulled[a] - J[:, a].T @ inverse @ change) / self.dt
        kept = np.eye(na) - J[:, a].T @ inverse @ J[:, a]
        return kept, -J[:, a].T @ inverse @ ((1.0 - self.keep) * J) / self.dt, by_place

    def switches(self) -> tuple[str, ...]:
        """Return what is at a switch, in words."""
        found = list(self.basis.switches)
        restricting = self._multipliers > NEAR * max(float(np.abs(self.answer.p).max(initial=0.0)), 1e-12)
        for row in self.basis.reaches[~restricting]:
            found.append(f"contact {self.contacts.keys[int(np.argmax(row)) // 3]} is at the edge of its friction cone")
        if self.answer.torque_excess > 0.0:
            found.append("torque limits are exceeded")
        most = self.robot.limits.tau_max
        near = np.abs(np.abs(self.answer.tau) - most) < 1e-6 * np.where(np.isinf(most), 1.0, most)
        found += [f"torque limit of {self.robot.joint_names[k]}" for k in np.flatnonzero(near).tolist()]
        if self.options.consistency is Consistency.PROJECT and self.answer.demand_change > 0.0:
            found.append("the demand was projected")
        return tuple(found)


def null_space(A: Array) -> Array:
    """Return an orthonormal basis of the null space (columns)."""
    found: Array = _null_space(A, rcond=1e-9) if A.size else np.eye(A.shape[1])
    return found


def _after(slope: Slope, first: Array) -> Slope:
    """Return the slope by what changes the quantity of `slope` with the slope `first` (·, k)."""
    return Slope(tau=slope.tau @ first, p=slope.p @ first, v_plus=slope.v_plus @ first)


def _plus(one: Slope, other: Slope) -> Slope:
    return Slope(tau=one.tau + other.tau, p=one.p + other.p, v_plus=one.v_plus + other.v_plus)
