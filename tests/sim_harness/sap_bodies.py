"""Small bodies of known motion under the engine `sap`: their matrices are written down here, none come from a URDF."""

import numpy as np
from problems import step_problem

from sim_harness.engines.engine import Rows, Springs
from sim_harness.engines.sap import Sap

G, DT = 9.81, 1e-3


class Body:
    """A body with constant M and h and one or more contacts. Coordinates add up: q is a plain vector.

    J: rows s, t, n of each contact, constant (3n, nv); gaps(q): their distances (n)
    """

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

    def run(self, engine, dt, steps, force=0.0):
        for _ in range(steps):
            solution = self.step(engine, dt, force)
        return solution


def point_mass(m=1.0, mu=0.5, slope=0.0):
    """On a plane, its weight turned by `slope` [rad] towards +x; q is (x, y, z), z the gap."""
    weight = m * G * np.array([-np.sin(slope), 0.0, np.cos(slope)])
    return Body(m * np.eye(3), weight, np.eye(3), lambda q: q[2:3].copy(), mu)


def cylinder(m=0.5, radius=0.05, mu=1.0, slope=0.0):
    """A solid one that can roll along x in the plane (x, z, angle), z its gap, the angle as rolling towards +x turns it."""
    inertia = 0.5 * m * radius * radius
    weight = m * G * np.array([-np.sin(slope), np.cos(slope), 0.0])
    J = np.array([[1.0, 0.0, -radius], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    return Body(np.diag([m, m, inertia]), weight, J, lambda q: q[1:2].copy(), mu)


def cube(m=1.0, side=0.1, mu=0.5):
    """On its four lower corners, for small motions: q is (position, rotation vector)."""
    a = side / 2
    corners = np.array([(x, y, -a) for x in (-a, a) for y in (-a, a)])
    J = np.vstack([np.hstack([np.eye(3), -cross(r)]) for r in corners])
    M = np.diag([m] * 3 + [m * side * side / 6] * 3)
    return Body(M, np.array([0, 0, m * G, 0, 0, 0]), J, lambda q: J[2::3] @ q, [mu] * 4)


def pendulum(stop):
    """Two joints of 1 kg m², a weight of G N·m turning the first down; a stop at 0, or a gear q₀ = 2 q₁."""
    body = Body(np.eye(2), np.array([G, 0.0]), np.zeros((0, 2)), lambda _: np.zeros(0), [])
    body.rows = (np.array([[1.0, 0.0]]), np.array([True])) if stop else (np.array([[1.0, -2.0]]), np.array([False]))
    return body


def cross(r):
    x, y, z = r
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0.0]])


def near(**settings):
    """The engine with policy U."""
    return Sap(candidates="near", **settings)
