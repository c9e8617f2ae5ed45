"""Steps for engines: of what is given, of robots in random states, of small bodies of known motion; the check of dynamics."""

import numpy as np

from idyn import Flat, Status, contacts_from_geometry, load_robot
from sim_harness.engines.engine import ForwardProblem, Rows, Springs
from sim_harness.engines.sap import Sap
from sim_harness.world.world import contact_jacobian

G, DT = 9.81, 1e-3


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
        J = contact_jacobian(terms.axes, robot.tree.support, contacts)
        yield step_problem(terms.M, J, mu, h=terms.h.copy(), v=v, force=force, gaps=contacts.gaps)


def check_dynamics(problem, solution):
    """Recomputed here from the definitions."""
    p = problem
    residual = p.M @ (solution.v_plus - p.v) - p.J.T @ solution.p.ravel() - DT * (p.force - p.h)
    assert np.abs(residual).max() < 1e-10
    assert solution.dynamics < 1e-10


def solved(engine, problem, recovery):
    """A solution of the dynamics with 0 ≤ p_N ⟂ N v⁺ + c ≥ 0, its contact velocities (n, 3), and N v⁺ + c (n)."""
    solution = engine.solve(problem)
    check_dynamics(problem, solution)
    assert solution.status is Status.SOLVED
    assert solution.contact < 1e-9
    u = (problem.J @ solution.v_plus).reshape(-1, 3)
    w = u[:, 2] + np.maximum(problem.gaps / DT, -recovery)
    assert np.abs(np.minimum(solution.p[:, 2], w)).max(initial=0) < 1e-9
    return solution, u, w


class Body:
    """Constant M and h, q a plain vector. J: rows s, t, n of each contact, constant (3n, nv); gaps(q): their distances (n)"""

    def __init__(self, M, h, J, gaps, mu):
        self.M, self.h, self.J, self.gaps, self.mu = M, h, J, gaps, np.atleast_1d(mu).astype(float)
        self.q, self.v = np.zeros(len(h)), np.zeros(len(h))
        self.springs = self.rows = None

    def terms(self, shift, v):
        return self.M.copy(), self.h.copy()

    def spring(self, stiffness, damping=0.0):
        """Springs between the coordinates and where they are 0."""
        self.springs = np.asarray(stiffness, float), damping * np.ones(len(self.h))
        return self

    def problem(self, dt, force=0.0):
        springs = None
        if self.springs is not None:
            springs = Springs(stiffness=self.springs[0], damping=self.springs[1], stretch=self.q.copy())
        rows = None if self.rows is None else Rows(G=self.rows[0], g=self.rows[0] @ self.q, stops=self.rows[1])
        given = {"h": self.h, "v": self.v, "force": np.zeros(len(self.h)) + force, "gaps": self.gaps(self.q)}
        return step_problem(self.M, self.J, self.mu, dt, **given, rows=rows, springs=springs, system=self)

    def step(self, engine, dt, force=0.0):
        solution = engine.solve(self.problem(dt, force))
        assert solution.status.ok
        self.q = self.q + dt * (solution.v_plus if solution.drift is None else solution.drift)
        self.v = solution.v_plus
        return solution


def point_mass(m=1.0, mu=0.5):
    """On a plane; q is (x, y, z), z the gap."""
    return Body(m * np.eye(3), np.array([0.0, 0.0, m * G]), np.eye(3), lambda q: q[2:3].copy(), mu)


def cube(m=1.0, side=0.1, mu=0.5):
    """On its four lower corners, for small motions: q is (position, rotation vector)."""
    a = side / 2
    corners = np.array([(x, y, -a) for x in (-a, a) for y in (-a, a)])
    J = np.vstack([np.hstack([np.eye(3), -cross(r)]) for r in corners])
    M = np.diag([m] * 3 + [m * side * side / 6] * 3)
    return Body(M, np.array([0, 0, m * G, 0, 0, 0]), J, lambda q: J[2::3] @ q, [mu] * 4)


def cross(r):
    x, y, z = r
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0.0]])


def near(**settings):
    """The engine with policy U."""
    return Sap(candidates="near", **settings)
