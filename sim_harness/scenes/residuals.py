"""Residuals of an engine's step, computed from problem and solution only; shares no code with the engines."""

import numpy as np

from idyn.types import Array, Record
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.scenes.bodies.model import JointEffects
from sim_harness.world.joints import CREEP
from sim_harness.world.world import ForceTimes


class Residuals(Record, frozen=True):
    """Residuals of one step, or the largest of many steps; 0 is exact.

    momentum: ‖M (v⁺ − v) − Jᵀp − Gᵀλ − dt (f + f_joints − h)‖∞ [N·s, N·m·s]
    cone: largest violation of p_N ≥ 0 and of the friction cone [N·s]
    gap_work: Σ |f_N (φ + dt N v⁺)|, work of the normal forces over gaps or penetrations, 0 for rigid contact [J]
    power: power of friction that accelerates bodies, Σ max(0, f_T · v_T⁺) [W]
    closure: largest error of rigid closures and stops at the beginning of the step [m, rad]
    """

    momentum: float
    cone: float
    gap_work: float
    power: float
    closure: float


NAMES = Residuals.__struct_fields__


def residuals_of(
    problem: ForwardProblem, solution: ForwardSolution, effects: JointEffects, stretch: Array, force_times: ForceTimes
) -> Residuals:
    """Compute the residuals of a step.

    effects: springs, dampers and friction of the joints
    stretch: stretch of the joint springs at the beginning of the step [m, rad] (nv)
    force_times: times at which the world evaluates forces
    """
    p, a = solution.p, problem
    u = (a.J @ solution.v_plus).reshape(-1, 3)
    bound = np.where(np.isinf(a.mu), np.inf, np.where(np.isinf(a.mu), 0.0, a.mu) * p[:, 2])
    beyond = np.maximum(np.hypot(p[:, 0], p[:, 1]) - bound, -p[:, 2])
    work = np.abs(p[:, 2] * (a.gaps + a.dt * u[:, 2])) / a.dt
    power = np.maximum(0.0, (p[:, :2] * u[:, :2]).sum(axis=1)) / a.dt
    return Residuals(
        momentum=momentum(problem, solution, effects, stretch, force_times),
        cone=float(np.maximum(beyond, 0.0).max(initial=0.0)),
        gap_work=float(work.sum()),
        power=float(power.sum()),
        closure=0.0 if a.rows is None else violation(np.where(a.rows.yields, 0.0, a.rows.g), a.rows.stops),
    )


def momentum(
    problem: ForwardProblem, solution: ForwardSolution, effects: JointEffects, stretch: Array, force_times: ForceTimes
) -> float:
    """Return `momentum` of `Residuals`."""
    a, M, h, v_plus = problem, problem.M, problem.h, solution.v_plus
    if force_times.bodies and a.system is not None:
        M, h = a.system.terms(
            force_times.bodies * a.dt * solution.configuration_velocity, a.v + force_times.bodies * (v_plus - a.v)
        )
    stretch = stretch + force_times.springs * a.dt * solution.configuration_velocity
    resisting = (
        effects.stiffness * stretch
        + effects.viscous * (a.v + force_times.dampers * (v_plus - a.v))
        + effects.coulomb * v_plus / np.maximum(np.abs(v_plus), CREEP)
    )
    J, rows = a.J, a.rows
    if force_times.rows and a.system is not None:
        rows = a.system.rows(force_times.rows * a.dt * solution.configuration_velocity)
    if force_times.contacts and a.system is not None:
        J, _ = a.system.contacts(force_times.contacts * a.dt * solution.configuration_velocity)
    push = J.T @ solution.p.ravel() + a.dt * (a.force - h - resisting)
    if rows is not None and solution.rows is not None:
        push = push + rows.G.T @ solution.rows
    return float(np.abs(M @ (v_plus - a.v) - push).max(initial=0.0))


def violation(g: Array, stops: Array) -> float:
    """Return the largest violation of g = 0 and, for stops, g ≥ 0 [m, rad]."""
    return float(np.where(stops, np.maximum(-g, 0.0), np.abs(g)).max(initial=0.0))
