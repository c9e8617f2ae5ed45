"""`derivatives`: how a prediction changes with the demand, the state, friction and the preferred forces."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from idyn.differentiation import parts
from idyn.differentiation.arrays import ACCELERATION, CODES, FORCES, NONE, STIRRED, TORQUES, extent
from idyn.differentiation.expansion import expand
from idyn.differentiation.faces import SWITCHES
from idyn.errors import InputError
from idyn.laws import law_of
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import DEFAULT
from idyn.prediction.solve import workspace_for
from idyn.selection.aim import OBJECTIVES, Near
from idyn.terms.dynamics import NO_FORCES, NOTHING, checked, contact_arrays, fill_dynamics
from idyn.terms.inputs import check_request, numbers
from idyn.terms.stages import Dynamics, Model
from idyn.types import Array, Consistency, ContactSet, Guess, Kinematics, Prediction, Record, State

Arrays = tuple[Array, ...]


class Slope(Record, frozen=True):
    """Derivatives by one quantity with k components: tau [N·m/…] (na, k), p [N·s/…] (3n, k), v_plus (nv, k)."""

    tau: Array
    p: Array
    v_plus: Array


class _Setting(NamedTuple):
    """Where derivatives were asked for. numbers: (dt, keep, ρ)"""

    robot: Robot
    model: Model
    state: State
    keys: tuple[str, ...]
    answer: Prediction
    numbers: tuple[float, float, float]
    projected: bool


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

    def __init__(self, setting: _Setting, expansion: Arrays) -> None:
        self._setting, self._expansion, self._by_demand = setting, expansion[:2], expansion[2]

    def __repr__(self) -> str:
        return f"Derivatives(nv={self._setting.robot.nv}, contacts={len(self._setting.keys)}, switches={self.switches})"

    @cached_property
    def q_ddot(self) -> Slope:
        return self._split(self._by_demand)

    @cached_property
    def q(self) -> Slope:
        by_q, nv, rho = self._inverse_dynamics(ACCELERATION)[0], self._setting.robot.nv, self._setting.numbers[2]
        return self._part("by_place", nv, (by_q, self._inverse_dynamics(STIRRED)[0] if rho > 0.0 else by_q))

    @cached_property
    def v(self) -> Slope:
        return self._part("by_velocity", self._setting.robot.nv, self._inverse_dynamics(ACCELERATION)[1:])

    @cached_property
    def mu(self) -> Slope:
        return self._part("by_friction", len(self._setting.keys))

    @cached_property
    def preferred(self) -> Slope:
        return self._part("by_preferred", 3 * len(self._setting.keys))

    @cached_property
    def switches(self) -> tuple[str, ...]:
        robot, _, _, keys, answer, _, projected = self._setting
        codes = self._expansion[1][CODES : CODES + len(keys)].tolist()
        pairs = [(key, bit) for key, code in zip(keys, codes, strict=True) for bit in range(len(SWITCHES)) if code >> bit & 1]
        found = [f"contact {key} {SWITCHES[bit]}" for key, bit in pairs]
        if answer.torque_excess > 0.0:
            found.append("torque limits are exceeded")
        most = robot.limits.tau_max
        near = np.abs(np.abs(answer.tau) - most) < 1e-6 * np.where(np.isinf(most), 1.0, most)
        found += [f"torque limit of {robot.joint_names[k]}" for k in np.flatnonzero(near).tolist()]
        if projected and answer.demand_change > 0.0:
            found.append("the demand was projected")
        return tuple(found)

    @property
    def classical(self) -> bool:
        return not self.switches

    def _inverse_dynamics(self, row: int) -> Arrays:
        """`Robot.inverse_dynamics_slopes`, without contacts, at an acceleration among the motions of the expansion."""
        robot, state, nv = self._setting.robot, self._setting.state, self._setting.robot.nv
        return robot.inverse_dynamics_slopes(state.q, state.v, self._expansion[0][row * nv : (row + 1) * nv])

    def _part(self, name: str, k: int, inverse: Arrays = ()) -> Slope:
        setting, expansion = self._setting, self._expansion
        out = np.empty((len(self._by_demand), k))
        given = (inverse,) if inverse else ()
        getattr(parts, name)(setting.model, expansion, *given, setting.numbers, (out,))
        return self._split(out)

    def _split(self, out: Array) -> Slope:
        na, rows = self._setting.robot.na, 3 * len(self._setting.keys)
        return Slope(out[:na], out[na : na + rows], out[na + rows :])


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
    call. Right after it the dynamics that it evaluated are used again.

    Raises InputError for laws without a basis (`sap`, convex programs), closed chains, and answers of another law.
    """
    law = law_of(law) if isinstance(law, str) else law
    check_supported(robot, law)
    if answer.law != law.name or not answer.status.ok:
        raise InputError("answer", f"expected a certified answer of the law '{law.name}', got {answer!r}")
    workspace, keys = workspace_for(robot, len(contacts.keys)), contacts.keys
    workspace.prepare(options.ground, answer.dt, guess is not None)
    d, (values, marks) = workspace.problem.dynamics, extent(len(keys), robot.nu, robot.na)
    out = np.empty(values), np.empty(marks, np.int64), np.empty((robot.na + 3 * len(keys) + robot.nv, robot.na))
    last = NO_FORCES if guess is None else guess.carried_over(guess.force, keys)
    plain = State(q=state.q, v=state.v)
    how, before = (law, options, guess, last), None if guess is None else last

    def found() -> bool:
        return _expanded(d, (plain, contacts, q_ddot, preferred), answer, how, out)

    if not (found() or (fill_dynamics(robot, d, plain, contacts, None, before) and found())):
        q_ddot = numbers("q_ddot", q_ddot)
        preferred = None if preferred is None else numbers("preferred", preferred)
        check_request(robot, len(keys), q_ddot, answer.dt, guess, preferred)
        plain, contacts, _, _ = checked(robot, state, contacts, None, None)
        if not (fill_dynamics(robot, d, plain, contacts, None, before) and found()):
            raise InputError("answer", f"expected an answer for these {len(keys)} contacts, got {answer!r}")
    ground, dt = options.ground, answer.dt
    rho = ground.memory / dt if guess is not None else 0.0
    projected = options.consistency is Consistency.PROJECT
    own = State(q=np.array(plain.q, np.float64), v=np.array(plain.v, np.float64))  # copies
    model = d.given.model
    return Derivatives(_Setting(robot, model, own, keys, answer, (dt, ground.keeps(dt), rho), projected), out)


def check_supported(robot: Robot, law: Law) -> None:
    """Raise InputError if predictions of this robot and law have no derivatives."""
    if not law.sticks:
        raise InputError("law", f"expected a law with a basis: coulomb, no-slip, exact-cone, contact-free; got '{law.name}'")
    if robot.closures.keys:
        raise InputError("robot", "expected a robot without closed chains")


def _expanded(
    d: Dynamics,
    asked: tuple[State, ContactSet, Array, Array | None],
    answer: Prediction,
    how: tuple[Law, Options, Guess | None, Array],
    out: Arrays,
) -> bool:
    """Fill the expansion `out`; return whether the record holds the dynamics of this state, and all arrays are sound."""
    (state, contacts, q_ddot, preferred), (law, options, guess, last) = asked, how
    bodies, others, points, *shapes = contact_arrays(contacts)
    objective, consistency = OBJECTIVES.get(options.selection), options.consistency
    kind, force, torque = NONE, NO_FORCES, NOTHING
    if objective is not None:
        kind = FORCES if objective.of_forces else TORQUES
        if objective.near is Near.PREFERRED and preferred is not None:
            force = preferred
        elif objective.near is Near.LAST and guess is not None:
            force, torque = (last, NOTHING) if objective.of_forces else (NO_FORCES, guess.tau)
    try:
        if len(points) and d.given.own["own_origin"].any():  # the record's points are about it
            points = points - d.given.own["own_origin"]
        holds = consistency is Consistency.HOLD
        flags = kind, law.round_cones, law.unlimited_friction, holds or consistency is Consistency.STICK, holds
        solved, given = (answer.p, answer.v_plus, answer.tau), (last, force, torque, q_ddot, law.directions)
        return bool(expand(d, (state.q, state.v), (bodies, others, points, *shapes), solved, given, flags, out))
    except (TypeError, ValueError):  # arrays of other types or shapes
        return False
