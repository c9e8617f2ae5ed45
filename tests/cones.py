"""Round cones of friction: the nearest point, and programs over several, solved by SCS."""

import numpy as np
import scs
from scipy.sparse import csc_matrix

from idyn.types import Array


def nearest_in_cone(x: Array, mu: float) -> Array:
    """The point of the cone nearest to x (3)."""
    across = np.linalg.norm(x[:2])
    if mu * across <= -x[2]:
        return np.zeros(3)
    if across <= mu * x[2]:
        return np.array(x)
    ray = np.array([*(mu * x[:2] / across), 1.0]) / np.hypot(mu, 1.0)
    return (x @ ray) * ray


def least_over_cones(Q: Array, r: Array, mu: Array) -> Array:
    """The impulses γ (3n) that minimise ½ γᵀ Q γ + rᵀ γ over the cones of friction μ (n)."""
    mass, size = 1 / np.mean(np.diag(Q)), np.abs(r).max()  # in units in which the program is of order one
    A = np.zeros_like(Q)
    for i, friction in enumerate(mu):  # (μ γ_N, γ_S, γ_T) is in the second-order cone
        A[3 * i, 3 * i + 2], A[3 * i + 1, 3 * i], A[3 * i + 2, 3 * i + 1] = -friction, -1.0, -1.0
    data = {"P": csc_matrix(np.triu(mass * Q)), "A": csc_matrix(A), "b": np.zeros(len(r)), "c": r / size}
    answer = scs.SCS(data, {"q": [3] * len(mu)}, eps_abs=1e-11, eps_rel=0, verbose=False, max_iters=200_000).solve()
    assert answer["info"]["status"] == "solved"
    return size * mass * answer["x"]
