"""Planar linkages of rods in coordinates x, z, turn of each rod, pins as constraint rows: written down here from scratch."""

import numpy as np

from sim_harness.engines.engine import ForwardProblem, Rows

G = 9.81


class Linkage:
    """Rods (mass, length) under gravity, turn 0 hanging down; pins between ends of rods or of rods and places in the world.

    pins: ((rod, side), (rod, side) or (x, z)), side −1 for the upper and +1 for the lower end at turn 0
    """

    def __init__(self, rods, pins, q, v=None, plane=True):
        self.rods, self.pins, self.plane = rods, pins, plane
        self.q, self.v = np.array(q, float), np.zeros(3 * len(rods)) if v is None else np.array(v, float)

    @property
    def M(self):
        return np.diag(np.concatenate([[m, m, m * length**2 / 12] for m, length in self.rods]))

    def end(self, q, rod, side):
        """Place of an end (2) and its Jacobian (2, nv)."""
        half, (x, z, turn) = side * self.rods[rod][1] / 2, q[3 * rod : 3 * rod + 3]
        J = np.zeros((2, len(q)))
        J[:, 3 * rod : 3 * rod + 2] = np.eye(2)
        J[:, 3 * rod + 2] = half * np.cos(turn), half * np.sin(turn)
        return np.array([x + half * np.sin(turn), z - half * np.cos(turn)]), J

    def rows(self):
        G, g = [], []
        for a, b in self.pins:
            place, J = self.end(self.q, *a)
            if isinstance(b[0], int):
                other, K = self.end(self.q, *b)
                place, J = place - other, J - K
            else:
                place = place - b
            G.append(J)
            g.append(place)
        return Rows(G=np.vstack(G), g=np.concatenate(g), stops=np.zeros(2 * len(g), dtype=bool))

    def step(self, engine, dt, doubled=False):
        rows = self.rows()
        if doubled:
            rows = Rows(G=np.vstack([rows.G, rows.G]), g=np.tile(rows.g, 2), stops=np.tile(rows.stops, 2))
        n = len(self.q)
        h = np.zeros(n)
        h[1::3] = [G * m for m, _ in self.rods]
        solution = engine.solve(
            ForwardProblem(
                M=self.M,
                h=h,
                v=self.v,
                J=np.zeros((0, n)),
                force=np.zeros(n),
                mu=np.zeros(0),
                gaps=np.zeros(0),
                dt=dt,
                rows=rows,
            )
        )
        self.v = solution.v_plus
        self.q = self.q + dt * self.v
        return solution

    def energy(self):
        return 0.5 * self.v @ self.M @ self.v + sum(G * m * self.q[3 * i + 1] for i, (m, _) in enumerate(self.rods))

    def drift(self):
        return np.abs(self.rows().g).max()


def pendulum(turn):
    """A rod of 2 kg and 0.6 m on a pin at the origin."""
    return Linkage([(2.0, 0.6)], [((0, -1), (0.0, 0.0))], [0.3 * np.sin(turn), -0.3 * np.cos(turn), turn])


CRANK, COUPLER, ROCKER, BASE = 0.1, 0.3, 0.25, 0.3
"""Lengths of a crank-rocker [m]: the crank goes all the way round."""


def crank_rocker_at(crank):
    """Turns of coupler and rocker by the law of cosines, the ends A, B of crank and rocker; its pin is at (BASE, 0)."""
    A = CRANK * np.array([np.sin(crank), -np.cos(crank)])
    to = np.array([BASE, 0.0]) - A
    reach = np.hypot(*to)
    bend = np.arccos((COUPLER**2 + reach**2 - ROCKER**2) / (2 * COUPLER * reach))
    angle = np.arctan2(to[1], to[0]) + bend
    B = A + COUPLER * np.array([np.cos(angle), np.sin(angle)])
    turn = np.arctan2(B[0] - A[0], -(B[1] - A[1]))
    down = B - np.array([BASE, 0.0])
    return turn, np.arctan2(down[0], -down[1]), A, B


MASSES = 0.4, 0.6, 0.5


def crank_rocker(crank, speed):
    """At a crank angle with a crank speed; velocities by central differences of the closed form."""

    def q_of(angle):
        coupler, rocker, A, B = crank_rocker_at(angle)
        return np.concatenate([A / 2, [angle], (A + B) / 2, [coupler], (B + np.array([BASE, 0.0])) / 2, [rocker]])

    v = speed * (q_of(crank + 1e-6) - q_of(crank - 1e-6)) / 2e-6
    pins = [((0, -1), (0.0, 0.0)), ((0, 1), (1, -1)), ((1, 1), (2, 1)), ((2, -1), (BASE, 0.0))]
    return Linkage(list(zip(MASSES, (CRANK, COUPLER, ROCKER), strict=True)), pins, q_of(crank), v), q_of
