"""Scenes in which `first-order` and the paper's own programs part ways: a foot, a block on a ramp, friction across."""

import numpy as np
from first_order_bodies import G, along_normals, rod, step_of

from sim_harness.engines.first_order import FirstOrder
from sim_harness.studies.first_order_published import Published

RAMP, RAMP_H, RAMP_G, RAMP_K = np.deg2rad(15), 0.01, 9.8, 1e10
CREEP = RAMP_G * np.sin(RAMP)
"""Force along the ramp [N]: 2.536"""


def engine_of(friction="cone", **settings):
    """The engine, or its variant with the paper's own programs."""
    return Published(**settings) if friction == "published" else FirstOrder(friction=friction, **settings)


def foot(friction, seconds, h=1e-3, k=1e7, b=1.0):
    """1 kg, I = 1/3 kg m², on two springs 0.01 and 0.09 m to its sides, at rest: first forces [N], last tilt [rad]."""
    normals = np.array([[1.0, -0.01], [1.0, 0.09]])
    q, v, engine = np.linalg.solve(normals, -np.array([0.9, 0.1]) * G / k), np.zeros(2), engine_of(friction=friction)
    first = None
    for _ in range(round(seconds / h)):
        J, M = along_normals(normals), np.diag([1, 1 / 3])
        solution = engine.solve(step_of(M, [-G, 0], v, h, J, normals @ q, stiffness=k, dissipation=b / k))
        assert solution.status.ok
        first = solution.p[:, 2] / h if first is None else first
        v = solution.v_plus
        q = q + h * v
    return first, q[1]


def ramp(mu, seconds=1.0, **settings):
    """1 kg on a ramp of 15°, from rest: forces of the first step [N], where it is then (along, above) [m], how fast [m/s]."""
    engine = engine_of(**{"stiffness": RAMP_K, "dissipation": 1 / RAMP_K, "tangential": 1e6 / RAMP_H, **settings})
    q, v, first = np.array([0.0, -RAMP_G * np.cos(RAMP) / RAMP_K]), np.zeros(2), None
    weight = RAMP_G * np.array([np.sin(RAMP), -np.cos(RAMP)])
    for _ in range(round(seconds / RAMP_H)):
        solution = engine.solve(step_of(np.eye(2), weight, v, RAMP_H, np.array([[1.0, 0], [0, 0], [0, 1]]), [q[1]], mu))
        assert solution.status.ok
        first = solution.p[0] / RAMP_H if first is None else first
        v = solution.v_plus
        q = q + RAMP_H * v
    return first, q, v


def across(**settings):
    """Friction [N] of a contact that is pressed with 10 N, μ = 0.5, W_t = diag(1, 4), and slides at (1, 1) m/s; h = 0.01 s."""
    engine = engine_of(stiffness=1e10, tangential=1e4, **settings)
    solution = engine.solve(step_of(np.diag([1, 0.25, 1]), [0, 0, -10], [1, 1, 0], 0.01, np.eye(3), [-1e-9], 0.5))
    assert solution.status.ok
    return solution.p[0] / 0.01


def leaning_rod(mu, **settings):
    """Forces (s, n) [N] of the rod's lower end, from rest."""
    M, J = rod()
    engine = engine_of(stiffness=1e10, tangential=1e8, **settings)
    solution = engine.solve(step_of(M, [0, -G, 0], np.zeros(3), 0.01, J, [0.0], mu))
    assert solution.status.ok
    return solution.p[0, ::2] / 0.01
