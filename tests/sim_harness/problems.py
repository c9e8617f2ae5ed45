"""Steps for engines: of what is given, and of robots in random states; the check of a solution's dynamics."""

import numpy as np

from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from sim_harness.engines.engine import ForwardProblem
from sim_harness.world.world import contact_jacobian

DT = 1e-3


def step_problem(M, J=None, mu=0.0, dt=DT, **given):
    """A step of bodies at rest that touch, without forces, but for what is given. J: three rows for each contact"""
    M = np.array(M, dtype=float)
    J = np.zeros((0, len(M))) if J is None else np.asarray(J, dtype=float)
    nv, n = len(M), len(J) // 3
    fields = {"h": np.zeros(nv), "v": np.zeros(nv), "force": np.zeros(nv), "gaps": np.zeros(n)}
    fields |= {key: np.asarray(value, dtype=float) if key in fields else value for key, value in given.items()}
    return ForwardProblem(M=M, J=J, mu=np.full(n, mu, dtype=float), dt=dt, **fields)


def random_problems(name, count, *, infinite=False):
    """States about the stance: feet up to 2 mm deep, moving, pushed by random torques; the exact stance among them."""
    robot, stance = load_robot(name)
    rng = np.random.default_rng(4)
    for k in range(count):
        q = robot.integrate(stance, 0.2 * (k % 3 > 0) * rng.normal(size=robot.nv))
        q[2] += 0.2
        q[2] -= contacts_from_geometry(robot, q, Flat(), margin=10).gaps.min() + 0.002 * (k % 2)
        v = 0.5 * (k % 4) * rng.normal(size=robot.nv)
        contacts = contacts_from_geometry(robot, q, Flat(), margin=10 if k % 5 == 0 else 0.01)
        terms = robot.terms(q, v)
        mu = rng.uniform(0.05, 1.5, len(contacts))
        if infinite and k % 4 == 0:
            mu[0] = np.inf
        if infinite and k % 5 == 0:
            mu[-1] = 0
        force = np.zeros(robot.nv)
        force[robot.tree.a] = 2 * rng.normal(size=robot.na)
        yield step_problem(
            terms.M,
            contact_jacobian(terms.axes, robot.tree.support, contacts),
            mu,
            h=terms.h.copy(),
            v=v,
            force=force,
            gaps=contacts.gaps,
        )


def check_dynamics(problem, solution):
    """Recomputed here from the definitions."""
    p = problem
    residual = p.M @ (solution.v_plus - p.v) - p.J.T @ solution.p.ravel() - DT * (p.force - p.h)
    assert np.abs(residual).max() < 1e-10
    assert solution.dynamics < 1e-10
