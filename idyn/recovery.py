"""From contact impulses to an answer: the velocity and the torques that go with them, and the certificate."""

import numpy as np

from idyn.compiled import compiled
from idyn.ground import unpacked
from idyn.laws.law import Law, LawSolution
from idyn.problem import Problem
from idyn.reduction import recover
from idyn.residuals import Claim, certify
from idyn.selection.choose import Selected
from idyn.types import Demand, Guess, Prediction, Residuals

_NO_MULTIPLIERS = np.zeros(0)


def conclude(problem: Problem, law: Law, rung: str, solution: LawSolution, chosen: Selected, demand: Demand) -> Prediction:
    """Velocity, torque and certificate of the chosen impulses."""
    robot, dt = problem.robot, problem.dt
    multipliers = _NO_MULTIPLIERS if solution.multipliers is None else solution.multipliers
    claim = Claim(law.conditions.value, law.directions, law.unlimited_friction, multipliers, solution.epsilon)
    v_plus, tau, residuals = np.empty(robot.nv), np.empty(robot.na), np.empty(6)
    force, torque_excess, force_excess = _settle(
        problem.dynamics.fields,
        claim,
        demand.change,
        chosen.p,
        problem.options.force_limit * robot.weight,
        v_plus,
        tau,
        residuals,
    )
    return Prediction(
        tau=tau,
        force=force,
        p=chosen.p,
        dt=dt,
        v_plus=v_plus,
        status=solution.status,
        law=law.name,
        rung=rung,
        iterations=solution.iterations,
        residuals=Residuals(*residuals.tolist()),
        demand_change=demand.change,
        torque_excess=torque_excess,
        force_excess=force_excess,
        null_dim=chosen.null_dim,
        guess=Guess(law=law.name, keys=problem.contacts.keys, basis=solution.basis, tau=tau, force=force),
    )


@compiled
def _settle(d, claim, change, p, most, v_plus, tau, residuals):
    """Fills v⁺, τ and the residuals; contact forces in the world, and what is beyond the limits of torques and of forces."""
    recover(d, p, v_plus, tau)
    force = certify(d, claim, change, p, v_plus, tau, residuals)
    force /= unpacked(d.numbers).dt
    beyond = _excess(d, tau, force, most)
    return force, beyond[0], beyond[1]


@compiled
def _excess(d, tau, force, most):
    """How far the largest torque [N·m] and the largest contact force [N] are beyond their limits; 0 within."""
    torque, beyond = 0.0, 0.0
    for k in range(len(tau)):
        torque = max(torque, abs(tau[k]) - d.tau_max[k])
    for i in range(len(force)):
        square = 0.0
        for c in range(3):
            square += force[i, c] ** 2
        beyond = max(beyond, np.sqrt(square) - most)
    return torque, beyond
