"""Random convex problems of `sap`, and its cost and friction cone once more, from their definitions in numpy."""

import numpy as np

from sim_harness.engines.linalg import sparse_pushed, speeds
from sim_harness.engines.sap_newton import MU, R_N, R_T, V_HAT, Motion, Rules, convex_problem, impulses, symmetric_times

TIGHT = Rules(1e-13, 100)


def random_convex(rng, nv=12, k=5):
    """A problem of k contacts in which all regions occur: it, A, J, a start."""
    B = rng.normal(size=(nv, nv))
    A = B @ B.T / nv + np.eye(nv)
    J = rng.normal(size=(3 * k, nv))
    laws = np.zeros((k, 4))
    laws[:, MU] = rng.uniform(0.1, 1.5, k)
    laws[:, R_N] = 10 ** rng.uniform(-1, 0.5, k)
    laws[:, R_T] = laws[:, R_N] * 10 ** rng.uniform(-1, 0.3, k)
    laws[:, V_HAT] = rng.normal(size=k)
    v_star = 2 * rng.normal(size=nv)
    return convex(A, J, laws, v_star), A, J, 2 * rng.normal(size=nv)


def convex(A, J, laws, v_star, M=None):
    """All of it as one problem, in the order it has."""
    M, n = A if M is None else M, len(v_star)
    motion = Motion(M, M, np.zeros(n, dtype=np.int64), A, v_star, v_star)
    return convex_problem(motion, J, laws, np.arange(n), np.arange(len(laws)))


def nearest_in_cone(y, law):
    """P_F(y) by the Euclidean projection on the cone of friction μ̃ in coordinates R^½ γ  [SAP App. C]."""
    root = np.sqrt(np.array([law[R_T], law[R_T], law[R_N]]))
    x, steep = root * y, law[MU] * np.sqrt(law[R_T] / law[R_N])
    radius = np.linalg.norm(x[:2])
    if radius <= steep * x[2]:
        return np.array(y)
    if steep * radius <= -x[2]:
        return np.zeros(3)
    edge = np.array([*(steep * x[:2] / radius), 1.0]) / np.sqrt(1 + steep * steep)
    return (x @ edge) * edge / root


def cost(c, A, J, v):
    """ℓ(v) from its definition."""
    away = v - c.v_star
    total = 0.5 * away @ A @ away
    for law, u in zip(c.laws, (J @ v).reshape(-1, 3), strict=True):
        R = np.array([law[R_T], law[R_T], law[R_N]])
        gamma = nearest_in_cone((np.array([0, 0, law[V_HAT]]) - u) / R, law)
        total += 0.5 * gamma @ (R * gamma)
    return total


def gradient(c, v):
    """As the engine has it."""
    return symmetric_times(c.A, c.first, v - c.v_star) - sparse_pushed(c, impulses(c, speeds(c, v)))
