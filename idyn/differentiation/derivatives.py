"""`derivatives`: how a prediction changes with the demand, the state, friction and the preferred forces (MATHEMATICS §3.7)."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from idyn.differentiation.basis import SMALLEST, SWITCHES, Basis, Friction
from idyn.differentiation.mechanism import Mechanism, Projection
from idyn.differentiation.response import FORCES, NONE, TORQUES, Choice, Response
from idyn.errors import InputError
from idyn.laws import law_of
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import DEFAULT
from idyn.prediction.solve import workspace_for
from idyn.selection.aim import OBJECTIVES, Near
from idyn.terms.dynamics import NO_FORCES, checked, fill_dynamics
from idyn.terms.inputs import check_request, numbers
from idyn.types import Array, Consistency, ContactSet, Guess, Kinematics, Prediction, Record, State


class Slope(Record, frozen=True):
    """Derivatives by one quantity with k components: tau [N·m/…] (na, k), p [N·s/…] (3n, k), v_plus (nv, k)."""

    tau: Array
    p: Array
    v_plus: Array


class _Point(NamedTuple):
    """Where derivatives were asked for."""

    robot: Robot
    q: Array
    keys: tuple[str, ...]
    answer: Prediction
    projected: bool  # whether the demand may be changed
    m: Mechanism
    basis: Basis
    response: Response
    projection: Projection
    v_hat: Array  # v̂ (nv)
    change: Array  # p − p⁻ (3n)


class Derivatives:
    """Result of `derivatives`. Each slope except that by the demand is computed when it is first read.

    q_ddot: by the demanded joint accelerations (k = na)
    q: by the configuration, along its tangent; contact points, normals, gaps, v and the last tick are held (k = nv)
    v: by the velocity; the configuration, contacts and the last tick are held (k = nv)
    mu: by the friction coefficients (k = n)
    preferred: by the preferred forces in rows S, T, N of each contact (k = 3n); zero without `Selection.FORCE`
    switches: contacts and joints that are at a switch, in words. () : the derivatives are classical. Otherwise they are those
        on the side of the basis: with a switch, another direction may have other derivatives
    classical: whether the prediction is differentiable here
    """

    def __init__(self, point: _Point) -> None:
        self._point = point

    def __repr__(self) -> str:
        return f"Derivatives(nv={self._point.robot.nv}, contacts={len(self._point.keys)}, switches={self.switches})"

    @cached_property
    def q_ddot(self) -> Slope:
        return self._slope(self._point.robot.na, v_a=self._point.projection.by_demand())

    @cached_property
    def q(self) -> Slope:
        robot, q, _, answer, _, m, _, response, projection, v_hat, change = self._point
        drift = m.drift_slopes(by_place=True)
        # b = ∂(J v̂) + dt ∂(J̇ v) + ρ J_u M_uu⁻¹ [∂(Jᵀπ) − ∂(M y)]_u,  M_uu y_u = J_uᵀ π,  y_a = 0
        b = m.turn_velocities(v_hat) + drift
        if m.rho > 0.0:
            stirred = np.zeros(len(m.v))
            stirred[m.u] = m.push @ change
            moving, at_rest = (robot.inverse_dynamics_slopes(q, np.zeros(len(m.v)), y)[0] for y in (stirred, 0.0 * stirred))
            b += m.rho * m.push.T @ (m.turn_forces(change) - moving + at_rest)[m.u]
        R, gradient = m.dt * self._inverse_dynamics[0] - m.turn_forces(answer.p), -m.turn_velocities(response.pull)
        return self._slope(len(m.v), v_a=projection.by_place(drift), R=R, b=b, gradient=gradient)

    @cached_property
    def v(self) -> Slope:
        m, projection = self._point.m, self._point.projection
        drift = m.drift_slopes(by_place=False)
        R, b = m.dt * self._inverse_dynamics[1] - m.M, drift - m.keep * m.J
        return self._slope(len(m.v), v_a=projection.by_velocity(drift), R=R, b=b)

    @cached_property
    def mu(self) -> Slope:
        m, basis, response = self._point.m, self._point.basis, self._point.response
        n, J_a = len(self._point.keys), m.J[:, m.a]
        direct, at = np.zeros((3 * n, n)), np.arange(n)
        for r in range(3):
            direct[3 * at + r, at] = basis.by_mu[:, r]
        gradient = J_a @ (J_a.T @ direct) if response.objective == TORQUES else direct.copy()
        gradient[3 * at + 2, at] -= response.load
        return self._slope(n, b=m.Y @ (m.Y.T @ direct), direct=direct, gradient=gradient)

    @cached_property
    def preferred(self) -> Slope:
        m, response, rows = self._point.m, self._point.response, 3 * len(self._point.keys)
        chosen = response.chosen if response.objective == FORCES else np.zeros((rows, 0))
        p = m.dt * chosen @ chosen.T
        return Slope(-m.J[:, m.a].T @ p / m.dt, p, np.zeros((len(m.v), rows)))

    @cached_property
    def switches(self) -> tuple[str, ...]:
        robot, keys, answer = self._point.robot, self._point.keys, self._point.answer
        codes = self._point.response.codes.tolist()
        pairs = [(key, bit) for key, code in zip(keys, codes, strict=True) for bit in range(len(SWITCHES)) if code >> bit & 1]
        found = [f"contact {key} {SWITCHES[bit]}" for key, bit in pairs]
        if answer.torque_excess > 0.0:
            found.append("torque limits are exceeded")
        most = robot.limits.tau_max
        near = np.abs(np.abs(answer.tau) - most) < 1e-6 * np.where(np.isinf(most), 1.0, most)
        found += [f"torque limit of {robot.joint_names[k]}" for k in np.flatnonzero(near).tolist()]
        if self._point.projected and answer.demand_change > 0.0:
            found.append("the demand was projected")
        return tuple(found)

    @property
    def classical(self) -> bool:
        return not self.switches

    @cached_property
    def _inverse_dynamics(self) -> tuple[Array, ...]:
        """`Robot.inverse_dynamics_slopes`, without contacts, at the predicted acceleration."""
        m, answer = self._point.m, self._point.answer
        return self._point.robot.inverse_dynamics_slopes(self._point.q, m.v, (answer.v_plus - m.v) / m.dt)

    def _slope(
        self,
        k: int,
        *,
        v_a: Array | float = 0.0,
        R: Array | float = 0.0,
        b: Array | float = 0.0,
        direct: Array | float = 0.0,
        gradient: Array | float = 0.0,
    ) -> Slope:
        """Return derivatives by k components that change directly v_a⁺ (na, k), R at fixed v⁺ and p (nv, k), b besides (3n, k),
        p at fixed ζ (3n, k), and the gradient of the selection at fixed p of the law (3n, k)."""
        m, response = self._point.m, self._point.response
        v, rows = np.zeros((len(m.v), k)), np.zeros((len(m.J), k))
        # dv_u⁰ = −M_uu⁻¹ (M_ua dv_a + dR_u)
        v[m.a] = v_a
        v[m.u] = -m.inertia @ (m.M @ v + R)[m.u]
        change = m.J @ v + b
        p = response.law @ change + direct
        v[m.u] += response.law_v @ change + m.push @ (rows + direct)
        # dt τ without the part of p, then the selection's answer to changed torques and gradients, then τ
        tau = (m.M @ v + R)[m.a]
        answer = response.chosen.T @ (rows + gradient)
        p -= response.chosen @ (answer - response.lever @ tau if response.objective == TORQUES else answer)
        return Slope((tau - m.J[:, m.a].T @ p) / m.dt, p, v)


def derivatives(
    robot: Robot,
    state: State | Kinematics,
    contacts: ContactSet,
    q_ddot: Array,
    answer: Prediction,
    *,
    law: Law | str,
    options: Options = DEFAULT,
    guess: Guess | None = None,
    preferred: Array | None = None,
) -> Derivatives:
    """Return the derivatives of `answer = predict(robot, state, contacts, q_ddot, …)`. The other arguments are those of that
    call.

    Raises InputError for laws without a basis (`sap`, convex programs), closed chains, and answers of another law.
    """
    law = law_of(law) if isinstance(law, str) else law
    check_supported(robot, law)
    if answer.law != law.name or not answer.status.ok:
        raise InputError("answer", f"expected a certified answer of the law '{law.name}', got {answer!r}")
    keys, objective = contacts.keys, OBJECTIVES.get(options.selection)
    q_ddot, preferred = numbers("q_ddot", q_ddot), None if preferred is None else numbers("preferred", preferred)
    check_request(robot, len(keys), q_ddot, answer.dt, guess, preferred)
    if (len(answer.p), len(answer.v_plus), len(answer.tau)) != (3 * len(keys), robot.nv, robot.na):
        raise InputError("answer", f"expected an answer for these {len(keys)} contacts, got {answer!r}")
    last = NO_FORCES if guess is None else guess.carried_over(guess.force, keys)
    workspace = workspace_for(robot, len(keys))
    workspace.prepare(options.ground, answer.dt, guess is not None)
    d = workspace.problem.dynamics
    plain, before = State(q=state.q, v=state.v), None if guess is None else last
    if not fill_dynamics(robot, d, plain, contacts, None, before):
        plain, contacts, _, _ = checked(robot, state, contacts, None, None)
        if not fill_dynamics(robot, d, plain, contacts, None, before):
            raise AssertionError("`read_given` refused data that `check` accepts")
    m = Mechanism(robot, d)
    change = answer.p - d.given.last
    v_hat = answer.v_plus - m.keep * m.v
    v_hat[m.u] += m.rho * (m.push @ change)
    friction = Friction(law.directions, law.round_cones, law.unlimited_friction)
    basis = Basis(friction, m.mu, answer.p, m.J @ v_hat + m.drift + m.allowance)
    # gradient of the objective
    kind, force, torque = NONE, np.zeros((len(keys), 3)), np.zeros(robot.na)
    if objective is not None:
        kind = FORCES if objective.of_forces else TORQUES
        if objective.near is Near.PREFERRED and preferred is not None:
            force = preferred
        elif objective.near is Near.LAST and guess is not None:
            force, torque = last, guess.tau
    pulled = m.dt * (answer.tau - torque)
    gradient = -m.J[:, m.a] @ pulled
    if kind == FORCES:
        gradient = answer.p - m.dt * np.einsum("nrc,nc->nr", m.E, force).ravel()
    choice = Choice(kind, law.unlimited_friction or bool(np.isinf(m.mu).any()), gradient, pulled)
    response = Response(m, basis, choice, max(SMALLEST, float(np.abs(answer.p).max(initial=0.0))))
    # projection of the demand
    holds = options.consistency is Consistency.HOLD
    rows = (m.touches & (m.mu > 0.0)).repeat(3) & (holds | (np.arange(len(m.J)) % 3 < 2))
    if not (holds or options.consistency is Consistency.STICK):
        rows[:] = False
    projected = options.consistency is Consistency.PROJECT
    found = basis, response, Projection(m, q_ddot, rows), v_hat, change
    return Derivatives(_Point(robot, np.array(plain.q), keys, answer, projected, m, *found))


def check_supported(robot: Robot, law: Law) -> None:
    """Raise InputError if predictions of this robot and law have no derivatives."""
    if not law.sticks:
        raise InputError("law", f"expected a law with a basis: coulomb, no-slip, exact-cone, contact-free; got '{law.name}'")
    if robot.closures.keys:
        raise InputError("robot", "expected a robot without closed chains")
