"""Particles on rods and springs, as bodies that know their rows elsewhere."""

import numpy as np

from sim_harness.engines.engine import ForwardProblem, Rows

G = 9.81


class Particles:
    """So many in space (n, 3), linked to one another or to points of the world; gravity along −z.

    links: (i, j or a point, length, compliance, dissipation)
    """

    def __init__(self, x, masses, links, g=G):
        self.x = np.array(x, dtype=float)
        self.v = np.zeros_like(self.x)
        self.masses, self.links, self.g = np.array(masses, dtype=float), links, g

    def terms(self, shift, v):
        return np.diag(np.repeat(self.masses, 3)), self.g * np.outer(self.masses, [0, 0, 1.0]).ravel()

    def rows(self, shift):
        x = self.x + np.reshape(shift, self.x.shape)
        J, g = np.zeros((len(self.links), len(x), 3)), np.zeros(len(self.links))
        for row, (i, other, length, *_) in enumerate(self.links):
            away = x[i] - (x[other] if isinstance(other, int) else other)
            g[row] = np.linalg.norm(away) - length
            J[row, i] = away / np.linalg.norm(away)
            if isinstance(other, int):
                J[row, other] = -J[row, i]
        compliance, dissipation = np.array([link[3:] for link in self.links], dtype=float).T
        return Rows(
            G=J.reshape(len(g), -1), g=g, stops=np.zeros(len(g), dtype=bool), compliance=compliance, dissipation=dissipation
        )

    def contacts(self, shift):
        return np.zeros((0, self.x.size)), np.zeros(0)

    def problem(self, dt):
        M, h = self.terms(None, None)
        nothing = np.zeros(0)
        return ForwardProblem(
            M=M,
            h=h,
            v=self.v.ravel(),
            J=np.zeros((0, self.x.size)),
            force=np.zeros(self.x.size),
            mu=nothing,
            gaps=nothing,
            dt=dt,
            rows=self.rows(np.zeros(self.x.size)),
            system=self,
        )

    def step(self, engine, dt):
        solution = engine.solve(self.problem(dt))
        self.v = solution.v_plus.reshape(self.x.shape)
        self.x = self.x + dt * self.v
        return solution


def pendulum(angle=1.0, length=1.0):
    """On a rigid rod from the origin, `angle` [rad] from hanging."""
    return Particles([[length * np.sin(angle), 0, -length * np.cos(angle)]], [1.0], [(0, np.zeros(3), length, 0.0, 0.0)])


def weight_on_a_spring(mass, compliance, dissipation=0.0, length=1.0):
    return Particles([[0, 0, -length]], [mass], [(0, np.zeros(3), length, compliance, dissipation)])


def rope(n=10, compliance=1e-6, mass=0.01, pull=1.0):
    """n particles between two points that are further apart than their springs are long, by the share `pull`."""
    x = np.zeros((n, 3))
    x[:, 0] = np.arange(1, n + 1) * (1 + pull)
    ends = np.zeros(3), np.array([(n + 1) * (1 + pull), 0, 0])
    links = [(i, i - 1 if i else ends[0], 1.0, compliance, 0.0) for i in range(n)] + [(n - 1, ends[1], 1.0, compliance, 0.0)]
    return Particles(x, [mass] * n, links)
