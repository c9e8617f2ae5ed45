"""The steady tick: where the last basis leads to the next, a whole prediction is one compiled call.

The functions are those of `idyn.prediction.predict.solve_demand`, in their order, and so is the answer, to the last bit.
Whatever is out of the ordinary ends it: a basis that does not hold, unlimited friction beyond a limit, an answer without
certificate, data that are malformed. The ladder begins from the beginning then; nothing has been decided here.
"""

import math
from typing import Any, ClassVar

import numpy as np
from numpy import empty

from idyn.certificate.certify import CERTIFIED, Claim
from idyn.contact.ground import RIGID
from idyn.jit.compiled import (
    FLAG,
    INDICES,
    MASK,
    MATRIX,
    REAL,
    VECTOR,
    WHOLE,
    compiled,
    inlined,
)
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.jit.records import ArrayRecord
from idyn.laws.compiled_rungs import compiled_rung, compiled_rungs
from idyn.laws.law import Law, unlimited_somewhere
from idyn.prediction.feasible import nearest_demand
from idyn.prediction.recovery import BEYOND_FORCE, BEYOND_TORQUE, FIGURES, settle
from idyn.problem import Options, Problem
from idyn.selection.aim import OBJECTIVES, aim_at_forces
from idyn.selection.choose import choose_among_few
from idyn.solvers.linalg import copy, copy_rows
from idyn.status import SOLVED, STATUSES, Conditions
from idyn.terms.dynamics import NO_FORCES, NOTHING, Dynamics
from idyn.terms.filling import fill
from idyn.terms.inputs import finite
from idyn.terms.reduction import eliminate, free_motion
from idyn.types import Array, Consistency, Guess, Prediction, Residuals

CHANGE = FIGURES
"""Where among the figures the change of the demand stands."""

LADDER = -1
"""Instead of a rung."""

ANSWERED = STATUSES[SOLVED]

INFINITE = math.inf


class Steady(ArrayRecord):
    """What stays from tick to tick, put together once: a law, options, and the robot's dynamics with n contacts.

    The law   conditions: a member of `Conditions`; directions: of the friction polygon (k, 2); unlimited: whether it takes
        every μ > 0 for ∞; rungs: how many can be taken here; max_pivots: of each, if it pivots
    Options   selects, of_forces: whether there is a selection, and whether of forces; beforehand, closed: whether the demand is
        made consistent first, and such that touching contacts stay; most: what a contact may carry [N]
    target: of the selection, filled in every tick (na or 3n); of the last tick basis (n, width): the one to begin at next time,
        and figures: see `idyn.prediction.recovery`
    For Python also `tick`, its entrance, and `wanted`, see `idyn.selection.aim.Objective`; None without a selection
    """

    field_types: ClassVar[dict[str, Any]] = {
        "d": Dynamics.TYPE,
        **dict.fromkeys(("conditions", "rungs", "max_pivots"), WHOLE),
        "directions": MATRIX,
        **dict.fromkeys(("unlimited", "selects", "of_forces", "beforehand", "closed"), FLAG),
        "most": REAL,
        "basis": MASK,
        **dict.fromkeys(("target", "figures"), VECTOR),
    }
    basis: Array
    figures: Array
    of_forces: bool

    def __init__(self, dynamics: Dynamics, law: Law, options: Options, weight: float) -> None:
        """weight: of the robot [N]"""
        self.tick = entrance(tick, TYPE, MOTION, CONTACTS, ANSWER)
        self.law, self.options, self.names = law, options, compiled_rungs(law)
        objective, consistency = OBJECTIVES.get(options.selection), options.consistency
        self.wanted = None if objective is None else objective.wanted
        of_forces = objective is not None and objective.of_forces
        target = np.zeros(0 if objective is None else len(dynamics.last if of_forces else dynamics.asked))
        self.put(d=dynamics, figures=np.zeros(FIGURES + 1), most=options.force_limit * weight)
        self.put(conditions=law.conditions.value, directions=law.directions, unlimited=law.unlimited_friction)
        self.put(rungs=len(self.names), max_pivots=getattr(law, "max_pivots", 0))
        self.put(basis=np.zeros((len(dynamics.mu), law.basis_width), np.bool_))
        self.put(selects=objective is not None, of_forces=of_forces, target=target)
        self.put(beforehand=consistency in (Consistency.STICK, Consistency.HOLD), closed=consistency is Consistency.HOLD)

    def suits(self, options: Options) -> bool:
        """Whether all options that matter here are as they were; the ground is the dynamics'."""
        one, other = ((each.selection, each.consistency, each.force_limit) for each in (self.options, options))
        return one == other


TYPE = Steady.TYPE
MOTION = Lent(*[VECTOR] * 6)
CONTACTS = Lent(INDICES, INDICES, MATRIX, MATRIX, MATRIX, VECTOR, VECTOR, MASK, MATRIX, MATRIX)
ANSWER = Filled(VECTOR, MATRIX, VECTOR, VECTOR)
"""What `tick` takes besides."""


def steady(problem: Problem, law: Law) -> Prediction | None:
    """The law's answer at the last basis; None when it takes the ladder to find one, or to say what is wrong with the data."""
    guess, c, robot, state, dynamics = problem.guess, problem.contacts, problem.robot, problem.state, problem.dynamics
    kept, n, preferred = kept_for(dynamics, law, problem.options, robot.weight), len(c.keys), problem.preferred
    if kept is None or guess is None or guess.law != law.name or not (preferred is None or _vectors(preferred, n)):
        return None
    before, last = (guess.basis, guess.force) if guess.keys == c.keys else _carried_over(guess, c.keys)
    if not (type(before) is np.ndarray and problem.options.warm_start and 0.0 < problem.dt < INFINITE):
        return None
    dynamics.believe(problem.options.ground, problem.dt)
    applied, torques, forces = problem.applied, NOTHING, NO_FORCES
    if kept.wanted is not None and (wanted := kept.wanted(guess.tau, last, preferred)) is not None:
        torques, forces = (NOTHING, wanted) if kept.of_forces else (wanted, NO_FORCES)
    p, force, v_plus, tau = empty(3 * n), empty((n, 3)), empty(robot.nv), empty(robot.na)
    try:
        robot.terms(state.q, state.v)
        if dynamics.closures:
            robot.closure_ends(dynamics.ends)
        rung, pivots, null_dim, holds = kept.tick(
            kept.fields,
            (state.q, state.v, NOTHING if applied is None else applied, problem.q_ddot, guess.tau, torques),
            (c.bodies, c.others, c.points, c.normals, c.tangents, c.mu, c.gaps, before, last, forces),
            (p, force, v_plus, tau),
        )
    except (TypeError, ValueError):  # not the arrays that Pinocchio and compiled code take
        return None
    if rung == LADDER:
        return None
    motion, met, complementarity, cone, penetration, slip, torque_excess, force_excess, change = kept.figures.tolist()
    residuals = Residuals(motion, met, complementarity, cone, penetration, slip)
    closing = dynamics.closing.copy() if dynamics.closures else NOTHING
    basis = before if holds else kept.basis.copy()
    name, way, next_guess = law.name, kept.names[rung], Guess(law.name, c.keys, basis, tau, force)
    return Prediction(  # in the order of its fields: by name it would take 0.5 µs more
        tau, force, p, problem.dt, v_plus, ANSWERED, name, way, pivots,
        residuals, change, torque_excess, force_excess, null_dim, closing, next_guess,
    )  # fmt: skip


def _carried_over(guess: Guess, keys: tuple[str, ...]) -> tuple[Array | None, Array]:
    """Of the last basis and the last forces the rows of today's contacts; no basis where something is malformed."""
    for rows in (guess.basis, guess.force):
        if not (type(rows) is np.ndarray and rows.ndim == 2 and len(rows) == len(guess.keys)):
            return None, NO_FORCES
    return guess.carried_over(guess.basis, keys), guess.carried_over(guess.force, keys)


def _vectors(array: Array, n: int) -> bool:
    """Whether these are n vectors."""
    return type(array) is np.ndarray and array.shape == (n, 3) and array.dtype == np.float64


def kept_for(dynamics: Dynamics, law: Law, options: Options, weight: float) -> Steady | None:
    """That of the last tick, as a rule; None for a law of which no rung is compiled. weight: of the robot [N]"""
    known = dynamics.steady
    if known is not None and known.law is law and (known.options is options or known.suits(options)):
        return known
    if not compiled_rungs(law):
        return None
    dynamics.steady = kept = Steady(dynamics, law, options, weight)
    return kept


@compiled
def tick(s, motion, contacts, out):
    """The rung that answered, or LADDER when not all went the usual way; pivots, the dimension of the choice, and whether the
    last basis still holds.

    motion: q, v, applied or none (0), q̈, the last torque; torques that are wanted (na) or none (0)
    contacts: as `ContactSet` has them; the last basis, the last forces; forces that are wanted (n, 3) or none (0, 3)
    out, to be filled: p, forces (n, 3), v⁺, τ; and what `s` keeps
    """
    q, v, applied, demand, last_torque, torques = motion
    bodies, others, points, normals, tangents, mu, gaps, before, last, forces = contacts
    p, force, v_plus, tau = out
    d, basis, n, na = s.d, s.basis, len(s.d.mu), len(s.d.a)
    shaped = before.shape == basis.shape and last.shape == (n, 3) and len(last_torque) == na
    shaped = shaped and len(torques) in (0, na) and (len(forces) == 0 or forces.shape == (n, 3))
    if shaped and fill(d, (q, v, applied), (bodies, others), (points, normals, tangents), (mu, gaps), last):
        if s.of_forces:
            aim_at_forces(forces, d, s.target)
        elif len(torques) > 0:
            copy(torques, s.target)
        else:
            s.target[:] = 0.0
        copy_rows(before, basis)
        rung, pivots, null_dim = answer(s, demand, s.target, basis, force, (p, v_plus, tau), 0)
        return rung, pivots, null_dim, _same(before, basis)
    return LADDER, 0, 0, False


@inlined
def answer(s, demand, target, basis, force, out, first):
    """As `tick`, where the record of `s` is filled: the answer to a demand, q̈ (na). force (n, 3) and `out` are to be filled;
    first: of the rungs."""
    d, change = s.d, 0.0
    if not (len(demand) == len(d.a) and finite(demand)):
        return LADDER, 0, 0
    copy(demand, d.asked)
    if s.beforehand:
        demand, change, status = nearest_demand(d, demand, d.mu, d.touching, s.closed)
        if status != SOLVED:
            return LADDER, 0, 0
    if s.conditions == Conditions.FREE and len(d.G) == 0:
        free_motion(d, demand)  # nothing is asked of contacts
    else:
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
def _same(one, other):
    """Whether two masks of one shape are."""
    same = True
    for i in range(one.shape[0]):
        for j in range(one.shape[1]):
            same = same and one[i, j] == other[i, j]
    return same


@compiled
def _chosen(d, face, of_forces, target, p):
    """The selection, where the target is one of this problem."""
    if len(target) != (len(p) if of_forces else len(d.a)):
        return p, False, 0
    return choose_among_few(d, face, of_forces, target, p)
