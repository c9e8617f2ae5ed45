"""The steady tick: where the last basis leads to the next, a whole prediction is one compiled call.

The functions are those of `idyn.inverse_dynamics.solve_demand`, in their order, and so is the answer, to the last bit.
Whatever is out of the ordinary ends it: a basis that does not hold, unlimited friction beyond a limit, an answer without
certificate, data that are malformed. The ladder begins from the beginning then; nothing has been decided here.
"""

from typing import Any, ClassVar

import numpy as np

from idyn.compiled import (
    FLAG,
    INDICES,
    MASK,
    MATRIX,
    REAL,
    VECTOR,
    WHOLE,
    ArrayRecord,
    compiled,
    inlined,
    new_record,
    only,
    several,
)
from idyn.consistency import nearest_demand
from idyn.dynamics import NOTHING, Dynamics
from idyn.filling import fill
from idyn.ground import RIGID
from idyn.inputs import finite
from idyn.laws.compiled_rungs import compiled_rung, compiled_rungs
from idyn.laws.law import Law, unlimited_somewhere
from idyn.memory import borrowed
from idyn.problem import Options, Problem, last_basis
from idyn.recovery import BEYOND_FORCE, BEYOND_TORQUE, FIGURES, settle
from idyn.reduction import eliminate
from idyn.residuals import CERTIFIED, Claim
from idyn.selection.aim import OBJECTIVES, target_of
from idyn.selection.choose import choose_among_few
from idyn.solvers.linalg import copy
from idyn.status import SOLVED, Conditions, Status
from idyn.types import Array, Consistency, Guess, Prediction, Residuals, Selection

CHANGE = FIGURES
"""Where among the figures the change of the demand stands."""

LADDER = -1
"""Instead of a rung."""


class Steady(ArrayRecord):
    """What stays from tick to tick, put together once: a law, options, and the robot's dynamics with n contacts.

    The law   conditions: a member of `Conditions`; directions: of the friction polygon (k, 2); unlimited: whether it takes
        every μ > 0 for ∞; rungs: how many can be taken here; max_pivots: of each, if it pivots
    Options   selects, of_forces: whether there is a selection, and whether of forces; beforehand, closed: whether the demand is
        made consistent first, and such that touching contacts stay; most: what a contact may carry [N]
    figures: of the last tick, see `idyn.recovery`
    """

    field_types: ClassVar[dict[str, Any]] = {
        "d": Dynamics.TYPE,
        **dict.fromkeys(("conditions", "rungs", "max_pivots"), WHOLE),
        "directions": MATRIX,
        **dict.fromkeys(("unlimited", "selects", "of_forces", "beforehand", "closed"), FLAG),
        "most": REAL,
        "figures": VECTOR,
    }
    figures: Array

    def __init__(self, dynamics: Dynamics, law: Law, options: Options, weight: float) -> None:
        """weight: of the robot [N]"""
        only(tick, TYPE, *TAKEN)
        self.law, self.made_for, self.names = law, _asked(options), compiled_rungs(law)
        selects, consistency = options.selection is not Selection.OFF, options.consistency
        self.fields = self.begin(_blank)
        self.put(_law, dynamics, law.conditions.value, law.directions, law.unlimited_friction)
        self.put(_rungs, len(self.names), getattr(law, "max_pivots", 0))
        self.put(_selection, selects, selects and OBJECTIVES[options.selection].of_forces)
        self.put(_demand, consistency in (Consistency.STICK, Consistency.HOLD), consistency is Consistency.HOLD)
        self.put(_limits, options.force_limit * weight, np.zeros(FIGURES + 1))


TYPE = Steady.TYPE
TAKEN = (
    several(VECTOR, 6),
    several(INDICES, 2),
    several(MATRIX, 5),
    several(VECTOR, 2),
    MASK,
    several(VECTOR, 3),
)
"""What `tick` takes besides."""


def steady(problem: Problem, law: Law) -> Prediction | None:
    """The law's answer at the last basis; None when it takes the ladder to find one, or to say what is wrong with the data."""
    guess, c, robot, state, applied = problem.guess, problem.contacts, problem.robot, problem.state, problem.applied
    n, before = len(c.keys), last_basis(problem, law)
    kept = kept_for(problem.dynamics, law, problem.options, robot.weight)
    if guess is None or before is None or kept is None:
        return None
    if not (0.0 < problem.dt < np.inf and _forces_are_sound(problem, guess)):
        return None
    problem.dynamics.believe(problem.options.ground, problem.dt)
    p, force, v_plus, tau, basis = np.empty(3 * n), np.empty((n, 3)), np.empty(robot.nv), np.empty(robot.na), before.copy()
    motion = state.q, state.v, NOTHING if applied is None else applied, problem.q_ddot, target_of(problem), guess.tau
    vectors = c.points, c.normals, c.tangents, guess.carried_over(guess.force, c.keys), force
    try:
        robot.terms(state.q, state.v)
        if len(problem.dynamics.ends):
            robot.closure_ends(problem.dynamics.ends)
        rung, pivots, null_dim = tick(
            kept.fields, motion, (c.bodies, c.others), vectors, (c.mu, c.gaps), basis, (p, v_plus, tau)
        )
    except (TypeError, ValueError):  # not the arrays that Pinocchio and compiled code take
        return None
    if rung == LADDER:
        return None
    numbers = kept.figures.tolist()
    return Prediction(
        tau=tau,
        force=force,
        p=p,
        dt=problem.dt,
        v_plus=v_plus,
        status=Status.SOLVED,
        law=law.name,
        rung=kept.names[rung],
        iterations=pivots,
        residuals=Residuals(*numbers[:BEYOND_TORQUE]),
        demand_change=numbers[CHANGE],
        torque_excess=numbers[BEYOND_TORQUE],
        force_excess=numbers[BEYOND_FORCE],
        null_dim=null_dim,
        closing=problem.dynamics.closing.copy() if len(problem.dynamics.closing) else NOTHING,
        guess=Guess(law=law.name, keys=c.keys, basis=basis, tau=tau, force=force),
    )


def _forces_are_sound(problem: Problem, guess: Guess) -> bool:
    """Whether forces are vectors of which something is made before `tick` looks at them: a target, rows of other contacts."""
    contacts, preferred, n = problem.contacts, problem.preferred, len(problem.contacts.keys)
    objective = OBJECTIVES.get(problem.options.selection)
    if preferred is not None and not _vectors(preferred, n):
        return False
    if guess.keys == contacts.keys and (objective is None or not objective.of_forces):
        return True
    return _vectors(guess.force, len(guess.keys)) and _vectors(contacts.normals, n) and _vectors(contacts.tangents, n)


def _vectors(array: Array, n: int) -> bool:
    """Whether these are n vectors that compiled code takes."""
    return type(array) is np.ndarray and array.shape == (n, 3) and array.dtype == np.float64


def kept_for(dynamics: Dynamics, law: Law, options: Options, weight: float) -> Steady | None:
    """That of the last tick, as a rule; None for a law of which no rung is compiled. weight: of the robot [N]"""
    known = dynamics.steady
    if isinstance(known, Steady) and known.law is law and known.made_for == _asked(options):
        return known
    if not compiled_rungs(law):
        return None
    dynamics.steady = known = Steady(dynamics, law, options, weight)
    return known


def _asked(options: Options) -> tuple[Selection, Consistency, float]:
    """All that depends on the options; the ground is the dynamics'."""
    return options.selection, options.consistency, options.force_limit


@compiled
def _blank():
    return new_record(TYPE)


@compiled
def _law(s, d, conditions, directions, unlimited):
    s.d, s.conditions, s.unlimited = d, conditions, unlimited
    (s.directions,) = borrowed(directions)


@compiled
def _rungs(s, rungs, max_pivots):
    s.rungs, s.max_pivots = rungs, max_pivots


@compiled
def _selection(s, selects, of_forces):
    s.selects, s.of_forces = selects, of_forces


@compiled
def _demand(s, beforehand, closed):
    s.beforehand, s.closed = beforehand, closed


@compiled
def _limits(s, most, figures):
    s.most = most
    (s.figures,) = borrowed(figures)


@compiled
def tick(s, motion, bodies, vectors, reals, basis, out):
    """The rung that answered, or LADDER when not all went the usual way; pivots, and the dimension of the choice.

    motion: q, v, applied, q̈, the selection's target, the last torque
    vectors: of each contact point, normal, tangent, force of the last tick, and the force to be filled
    basis: the last one, which becomes the one to begin at next time; out, to be filled: p, v⁺, τ; and the figures of `s`
    """
    motion, vectors, d = borrowed(*motion), borrowed(*vectors), s.d
    if len(motion[5]) == len(d.a) and fill(d, motion[:3], bodies, vectors[:3], reals, vectors[3]):
        return answer(s, motion[3], motion[4], basis, vectors[4], out, 0)
    return LADDER, 0, 0


@inlined
def answer(s, demand, target, basis, force, out, first):
    """As `tick`, where the record of `s` is filled: the answer to a demand, q̈ (na). force (n, 3) and `out` are to be filled;
    first: of the rungs."""
    (demand,), out, d, change = borrowed(demand), borrowed(*out), s.d, 0.0
    if not (len(demand) == len(d.a) and finite(demand)):
        return LADDER, 0, 0
    copy(demand, d.asked)
    if s.beforehand:
        demand, change, status = nearest_demand(d, demand, d.mu, d.touching, s.closed)
        if status != SOLVED:
            return LADDER, 0, 0
    eliminate(d, demand)
    figures, without_bounds = s.figures, s.unlimited or unlimited_somewhere(d.mu, False)[0]
    figures[CHANGE] = change
    for rung in range(first, s.rungs):
        p, face, multipliers, status, pivots = compiled_rung(d, s, basis, rung)
        null_dim, found = 0, status == SOLVED
        if not found:
            continue
        if s.selects and s.conditions != Conditions.FREE:
            p, found, null_dim = _chosen(d, face, s.of_forces, target, p)
        claim = Claim(s.conditions, s.directions, s.unlimited, multipliers, 0.0, RIGID)
        settle(d, claim, change, p, s.most, force, (out[1], out[2], figures))
        usual = found and not (without_bounds and max(figures[BEYOND_TORQUE], figures[BEYOND_FORCE]) > 0.0)
        for residual in figures[:BEYOND_TORQUE]:
            usual = usual and residual <= CERTIFIED
        copy(p, out[0])
        return rung if usual else LADDER, pivots, null_dim
    return LADDER, 0, 0


@compiled
def _chosen(d, face, of_forces, target, p):
    """The selection, where the target is one of this problem."""
    if len(target) != (len(p) if of_forces else len(d.a)):
        return p, False, 0
    return choose_among_few(d, face, of_forces, target, p)
