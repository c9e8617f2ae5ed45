"""From contact impulses to an answer: the velocity and the torques that go with them, and the certificate."""

import numpy as np

from idyn.certificate.certify import Claim, certify
from idyn.jit.compiled import compiled
from idyn.laws.law import Law, LawSolution
from idyn.problem import Problem
from idyn.selection.choose import Selected
from idyn.terms.reduction import recover
from idyn.types import Demand, Guess, Prediction, Residuals

NO_MULTIPLIERS = np.zeros(0)

BEYOND_TORQUE, BEYOND_FORCE, FIGURES = 6, 7, 8
"""Of the figures of an answer the first six are its `Residuals`; then how far the largest torque [N·m] and the largest contact
force [N] are beyond their limits, 0 within; and how many there are."""


def conclude(problem: Problem, law: Law, rung: str, solution: LawSolution, chosen: Selected, demand: Demand) -> Prediction:
    """Velocity, torque and certificate of the chosen impulses."""
    robot, dt = problem.robot, problem.dt
    multipliers = NO_MULTIPLIERS if solution.multipliers is None else solution.multipliers
    claim = Claim(law.conditions.value, law.directions, law.unlimited_friction, multipliers, solution.epsilon, law.material)
    v_plus, tau, figures = np.empty(robot.nv), np.empty(robot.na), np.empty(FIGURES)
    force, most = np.empty((len(problem.contacts), 3)), problem.options.force_limit * robot.weight
    settle(problem.dynamics.fields, claim, demand.change, chosen.p, most, force, (v_plus, tau, figures))
    numbers = figures.tolist()
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
        residuals=Residuals(*numbers[:BEYOND_TORQUE]),
        demand_change=demand.change,
        torque_excess=numbers[BEYOND_TORQUE],
        force_excess=numbers[BEYOND_FORCE],
        null_dim=chosen.null_dim,
        closing=problem.dynamics.closing.copy(),
        guess=Guess(law=law.name, keys=problem.contacts.keys, basis=solution.basis, tau=tau, force=force),
    )


@compiled
def settle(d, claim, change, p, most, force, out):
    """Fills the contact forces in the world [N] (n, 3), and `out`: v⁺ (nv), τ (na) and the first figures.

    change: of the demand [rad/s]; p: impulses (3n); most: what a contact may carry [N]
    """
    v_plus, tau, figures = out
    recover(d, p, v_plus, tau)
    certify(d, claim, change, p, v_plus, tau, force, figures[:BEYOND_TORQUE])
    torque, beyond = 0.0, 0.0
    for k in range(len(tau)):
        torque = max(torque, abs(tau[k]) - d.tau_max[k])
    for i in range(len(force)):
        square = 0.0
        for c in range(3):
            force[i, c] /= d.dt
            square += force[i, c] ** 2
        beyond = max(beyond, np.sqrt(square) - most)
    figures[BEYOND_TORQUE], figures[BEYOND_FORCE] = torque, beyond
