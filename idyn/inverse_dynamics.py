"""Inverse dynamics with contact: what torques realise the demand, and what forces the world will exert meanwhile."""

import numpy as np

from idyn.ladder import Answer, Options, Problem, descend
from idyn.laws.law import Law
from idyn.reduction import allowance
from idyn.robot import Robot
from idyn.types import Array, ContactSet, Guess, Prediction, State

DEFAULT = Options()


def predict(
    robot: Robot,
    state: State,
    contacts: ContactSet,
    q_ddot: Array,
    *,
    law: Law,
    dt: float,
    options: Options = DEFAULT,
    guess: Guess | None = None,
) -> Prediction:
    """Torques that realise the joint accelerations `q_ddot` [rad/s²] (na) over the next `dt` [s], with the contact forces.

    Each rung of the ladder goes: terms → reduction → law → selection → torque → certificate. Never raises on data:
    `Prediction.status` and `.rung` say what came of it. Pass `Prediction.guess` to the next call as its warm start.
    """
    terms = robot.terms(state.q, state.v)
    problem = Problem(
        robot=robot,
        terms=terms,
        state=state,
        contacts=contacts,
        allowance=allowance(contacts.gaps, dt, options.gaps.noise, options.gaps.recovery_speed),
        joint_velocity=state.v[robot.a] + dt * q_ddot,
        dt=dt,
        options=options,
        guess=guess,
    )
    return _prediction(problem, descend(problem, law))


def _prediction(problem: Problem, answer: Answer) -> Prediction:
    contacts = problem.contacts
    impulse = world_vectors(contacts, answer.p)
    p_N = answer.p[2::3]
    guess = Guess(law=answer.law, keys=contacts.keys, basis=answer.basis, tau=answer.tau, impulse=impulse)
    return Prediction(
        tau=answer.tau,
        impulse=impulse,
        force=impulse / problem.dt,
        normal_force=p_N / problem.dt,
        v_plus=answer.v_plus,
        status=answer.status,
        law=answer.law,
        rung=answer.rung,
        iterations=answer.iterations,
        residuals=answer.residuals,
        demand_change=answer.demand_change,
        torque_excess=answer.torque_excess,
        null_dim=answer.null_dim,
        guess=guess,
    )


def world_vectors(contacts: ContactSet, p: Array) -> Array:
    """Vectors given by their S, T, N rows (3n) in world coordinates (n, 3)."""
    rows = p.reshape(-1, 3)
    t = np.cross(contacts.normals, contacts.tangents)
    return rows[:, :1] * contacts.tangents + rows[:, 1:2] * t + rows[:, 2:] * contacts.normals
