"""Derivatives of a prediction at its final basis: how τ, p and v⁺ change with the demand, the velocity, friction and the
preferred forces.

At a basis each contact sticks, slides or is open. This names the impulses that may change, p = B ζ, and the rows of û that stay
zero, W û = 0. With D̂ = (1 + ρ) J_u M_uu⁻¹ J_uᵀ, b the part of û that does not depend on p, and for round cones the slope −H of
the friction of sliding contacts by û, H = μ p_N/|û_T| (1 − e eᵀ):

    D′ = (1 + D̂ H)⁻¹ D̂,   b′ = (1 + D̂ H)⁻¹ db,   dζ = −(W D′ B)⁺ W b′,   dû = D′ B dζ + b′,   dp = B dζ − H dû
    dv_u⁺ = dv_u⁰ + M_uu⁻¹ J_uᵀ dp,   dτ = [M_a dv⁺ + dR_a − J_aᵀ dp]/dt,   R = M (v⁺ − v) + dt h − Jᵀ p

The selection then moves p on the face, with the same J_uᵀ p; there B holds the columns of the face without the tight facets of
friction cones. `Consistency.HOLD` and `STICK` project the demand, q̈ → P_c q̈.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space as _null_space

from idyn.contact.ground import in_contact_rows, opening_speed
from idyn.errors import InputError
from idyn.jit.compiled import interpreted
from idyn.laws import law_of
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.faces import NEAR, Basis, basis_of
from idyn.prediction.feasible import EPSILON
from idyn.prediction.predict import DEFAULT
from idyn.selection.aim import OBJECTIVES, Near, Objective
from idyn.selection.few import TIE_BREAK, UNLIMITED
from idyn.status import Conditions
from idyn.terms.dynamics import checked, evaluate
from idyn.terms.inputs import numbers
from idyn.terms.stages import Dynamics
from idyn.types import Array, Consistency, ContactSet, Guess, Kinematics, Prediction, Record, State

SUPPORTED = (Conditions.FREE, Conditions.NO_SLIP, Conditions.COULOMB, Conditions.EXACT_CONE)
"""Conditions of laws whose derivatives are known."""


class Slope(Record, frozen=True):
    """Derivatives by one quantity with k components: tau [N·m/…] (na, k), p [N·s/…] (3n, k), v_plus (nv, k)."""

    tau: Array
    p: Array
    v_plus: Array


class Derivatives(Record, frozen=True):
    """Result of `derivatives`.

    q_ddot: by the demanded joint accelerations (k = na)
    v: by the velocity; configuration, contact points, gaps and the last tick are held (k = nv)
    mu: by the friction coefficients (k = n)
    preferred: by the preferred forces in rows S, T, N of each contact (k = 3n); zero without `Selection.FORCE`
    switches: contacts and joints that are at a switch, in words. () : the derivatives are classical. Otherwise they are those
        on the side of the basis: with a switch, another direction may have other derivatives
    """

    q_ddot: Slope
    v: Slope
    mu: Slope
    preferred: Slope
    switches: tuple[str, ...]

    @property
    def classical(self) -> bool:
        """Whether the prediction is differentiable here."""
        return not self.switches


class Seeds(NamedTuple):
    """Direct changes by k components: of v_a⁺ (na, k), of R at fixed v⁺ and p (nv, k), of b besides (3n, k), of p at fixed ζ
    (3n, k)."""

    v_a: Array
    R: Array
    b: Array
    p: Array


def derivatives(
    robot: Robot,
    state: State | Kinematics,
    contacts: ContactSet,
    answer: Prediction,
    *,
    law: Law | str,
    options: Options = DEFAULT,
    guess: Guess | None = None,
    preferred: Array | None = None,
) -> Derivatives:
    """Return the derivatives of `answer = predict(robot, state, contacts, …)`; the other arguments are those of that call.

    Raises InputError for laws without a basis (`sap`, convex programs), closed chains, and answers of another law.
    """
    law = law_of(law) if isinstance(law, str) else law
    if law.conditions not in SUPPORTED:
        raise InputError("law", f"expected a law with a basis: coulomb, no-slip, exact-cone, contact-free; got '{law.name}'")
    if robot.closures.keys:
        raise InputError("robot", "expected a robot without closed chains")
    if answer.law != law.name or not answer.status.ok:
        raise InputError("answer", f"expected a certified answer of the law '{law.name}', got {answer!r}")
    last = None if guess is None else guess.carried_over(guess.force, contacts.keys)
    plain, contacts, _, last = checked(robot, state, contacts, None, last)
    d = evaluate(robot, plain, contacts, dt=answer.dt, ground=options.ground, last=last).dynamics
    target = _target(robot, contacts, options, guess, preferred)
    return _Differentiation(robot, plain, contacts, answer, (law, options, target), d).result()


def _target(robot: Robot, contacts: ContactSet, options: Options, guess: Guess | None, preferred: Array | None) -> Array:
    """Return the target of the selection: forces in rows S, T, N (3n), or torques (na)."""
    objective, n = OBJECTIVES.get(options.selection), len(contacts)
    if objective is None or not objective.of_forces:
        last = objective is not None and objective.near is Near.LAST and guess is not None
        return guess.tau if last and guess is not None else np.zeros(robot.na)
    force = preferred if objective.near is Near.PREFERRED else None
    if objective.near is Near.LAST and guess is not None:
        force = guess.carried_over(guess.force, contacts.keys)
    target = np.zeros(3 * n)
    if force is not None:
        interpreted(in_contact_rows)(numbers("preferred", force), contacts.tangents, contacts.normals, 1.0, target)
    return target


class _Differentiation:
    """The matrices of one differentiation."""

    def __init__(
        self, robot: Robot, state: State, contacts: ContactSet, answer: Prediction, how: tuple[Law, Options, Array], d: Dynamics
    ) -> None:
        """how: (law, options, target of the selection)"""
        law, self.options, self.target = how
        self.robot, self.state, self.contacts, self.answer, self.d = robot, state, contacts, answer, d
        given, tree = d.given, robot.tree
        self.M, self.J = given.own["M"].copy(), d.own["J"].copy()
        self.u, self.a, self.dt, self.rho, self.keep = tree.u, tree.a, answer.dt, given.rho, given.keep
        self.J_u, self.J_a = self.J[:, self.u], self.J[:, self.a]
        self.inertia = np.linalg.inv(self.M[np.ix_(self.u, self.u)])
        v_hat = answer.v_plus - given.keep * given.own["v"]
        v_hat[self.u] += given.rho * (self.inertia @ (self.J_u.T @ (answer.p - given.own["last"])))
        u_hat = self.J @ v_hat
        for i, gap in enumerate(contacts.gaps.tolist()):
            u_hat[3 * i + 2] += interpreted(opening_speed)(gap, given.dt, given.noise, given.recovery_speed)
        self.basis: Basis = basis_of(law, contacts, answer.p, u_hat)
        self.objective = OBJECTIVES.get(self.options.selection)
        # operators of the law: dp = law_p db, du = law_u db
        D = (1.0 + self.rho) * self.J_u @ self.inertia @ self.J_u.T
        B, W, H = self.basis.columns, self.basis.held, self.basis.turning
        soft = np.linalg.inv(np.eye(len(D)) + D @ H)
        moves = B @ np.linalg.pinv(W @ soft @ D @ B, rcond=1e-9) @ W
        self.D = D
        self.law_p = -(np.eye(len(D)) - H @ soft @ D) @ moves @ soft - H @ soft

    def result(self) -> Derivatives:
        na, nv, n, dt = len(self.a), len(self.M), len(self.contacts), self.dt
        R_v = -self.M + dt * self.robot.bias_slope(self.state.q, self.state.v)
        by_demand = self._slope(Seeds(dt * np.eye(na), np.zeros((nv, na)), np.zeros((3 * n, na)), np.zeros((3 * n, na))))
        by_speed = self._slope(Seeds(np.eye(nv)[self.a], R_v, -self.keep * self.J, np.zeros((3 * n, nv))))
        friction = self.basis.friction_slope
        by_mu = self._slope(Seeds(np.zeros((na, n)), np.zeros((nv, n)), np.zeros((3 * n, n)), friction))
        kept, moved = self._projection()
        speed_and_projection = Slope(
            tau=by_speed.tau + by_demand.tau @ moved,
            p=by_speed.p + by_demand.p @ moved,
            v_plus=by_speed.v_plus + by_demand.v_plus @ moved,
        )
        demand = Slope(tau=by_demand.tau @ kept, p=by_demand.p @ kept, v_plus=by_demand.v_plus @ kept)
        return Derivatives(
            q_ddot=demand, v=speed_and_projection, mu=by_mu, preferred=self._by_preferred(), switches=self._switches()
        )

    def _slope(self, seeds: Seeds) -> Slope:
        """Propagate direct changes to τ, p and v⁺."""
        free = -self.inertia @ (self.M[np.ix_(self.u, self.a)] @ seeds.v_a + seeds.R[self.u])
        db = self.J_u @ free + self.J_a @ seeds.v_a + seeds.b + self.D @ seeds.p
        dp = self.law_p @ db + seeds.p
        change = free + self.inertia @ (self.J_u.T @ dp)
        v_plus = np.zeros((len(self.M), dp.shape[1]))
        v_plus[self.a], v_plus[self.u] = seeds.v_a, change
        without = (self.M[self.a] @ v_plus + seeds.R[self.a]) / self.dt  # τ without the part of p
        if self.objective is not None and self.basis.selectable:
            dp = self._selected(self.objective, dp, without, seeds)
        return Slope(tau=without - self.J_a.T @ dp / self.dt, p=dp, v_plus=v_plus)

    def _selected(self, objective: Objective, dp: Array, without: Array, seeds: Seeds) -> Array:
        """Return the change of the selected impulses, with the same J_uᵀ dp. without: change of τ at fixed p"""
        B, inverse, Z, Q = self._choice(objective)
        start = seeds.p + B @ (inverse @ (self.J_u.T @ (dp - seeds.p)))
        if not Z.shape[1]:
            return start
        A, slope = B @ Z, start
        if not objective.of_forces:
            slope = self.J_a @ (self.J_a.T @ start / self.dt - without) * self.dt
        if seeds.p.any() and len(self.basis.tight):  # facets turn with μ
            slope = slope - self._turning(objective)
        moved: Array = start - A @ np.linalg.solve(Q, A.T @ slope)
        return moved

    def _turning(self, objective: Objective) -> Array:
        """Return Σ λ ∂(row of a tight facet)/∂μ (3n, n), with λ the multipliers of the facets in the selection."""
        turning = np.zeros((len(self.J), len(self.contacts)))
        for multiplier, reach in zip(self._multipliers(objective), self.basis.reaches, strict=True):
            turning[:, int(np.argmax(reach)) // 3] += multiplier * reach
        return turning

    def _multipliers(self, objective: Objective | None) -> Array:
        """Return the multipliers of the tight facets in the selection (t): 0 for those that do not restrict it."""
        tight, C = self.basis.tight, self.basis.columns
        if objective is None or not len(tight):
            return np.zeros(len(tight))
        A = C @ null_space(self.J_u.T @ C)
        forces = objective.of_forces
        gradient = self.answer.p - self.dt * self.target if forces else -self.J_a @ (self.answer.tau - self.target) * self.dt
        multipliers: Array = np.linalg.lstsq((tight @ A).T, A.T @ gradient, rcond=1e-9)[0]
        return multipliers

    def _choice(self, objective: Objective) -> tuple[Array, Array, Array, Array]:
        """Return the columns B of the face without tight facets, (J_uᵀ B)⁺, the null space Z of J_uᵀ B, and the Hessian."""
        B = self.basis.face
        K = self.J_u.T @ B
        inverse, Z = np.linalg.pinv(K, rcond=1e-9), null_space(K)
        A = B @ Z
        if objective.of_forces:
            return B, inverse, Z, A.T @ A
        lever = float((self.J_a**2).max(initial=0.0))
        weight = (UNLIMITED if self.basis.unlimited else TIE_BREAK) * lever
        torque = self.J_a.T @ A
        return B, inverse, Z, torque.T @ torque + weight * A.T @ A

    def _by_preferred(self) -> Slope:
        """Return the derivatives by the preferred forces [N] in contact rows."""
        n, dt = len(self.contacts), self.dt
        dp = np.zeros((3 * n, 3 * n))
        if self.objective is not None and self.objective.of_forces and self.basis.selectable:
            B, _, Z, Q = self._choice(self.objective)
            if Z.shape[1]:
                A = B @ Z
                dp = dt * A @ np.linalg.solve(Q, A.T)
        return Slope(tau=-self.J_a.T @ dp / dt, p=dp, v_plus=np.zeros((len(self.M), 3 * n)))

    def _projection(self) -> tuple[Array, Array]:
        """Return the slopes of the projected demand by the demand (na, na), and by the velocity (na, nv)."""
        na, nv = len(self.a), len(self.M)
        consistency, given = self.options.consistency, self.d.given
        if consistency not in (Consistency.HOLD, Consistency.STICK):
            return np.eye(na), np.zeros((na, nv))
        touching = (self.contacts.gaps <= given.touching) & (self.contacts.mu > 0.0)
        rows = np.repeat(touching, 3)
        if consistency is Consistency.STICK:
            rows[2::3] = False
        J_a, J_u = self.J_a[rows], self.J_u[rows]
        force = np.linalg.pinv(J_a @ J_a.T + J_u @ J_u.T / EPSILON, rcond=1e-12, hermitian=True)
        return np.eye(na) - J_a.T @ force @ J_a, -J_a.T @ force @ ((1.0 - self.keep) * self.J[rows]) / self.dt

    def _switches(self) -> tuple[str, ...]:
        """Return what is at a switch, in words."""
        found = list(self.basis.switches)
        restricting = self._multipliers(self.objective) > NEAR * max(float(np.abs(self.answer.p).max(initial=0.0)), 1e-12)
        for row in self.basis.reaches[~restricting]:
            found.append(f"friction of contact {self.contacts.keys[int(np.argmax(row)) // 3]}")
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
