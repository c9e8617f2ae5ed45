"""Linear complementarity problems 0 ≤ z ⟂ M z + q ≥ 0 with their expected results."""

from typing import NamedTuple

import numpy as np
from oracles import coulomb_lcp

from idyn.types import Array


class Lcp(NamedTuple):
    """`solvable` says whether any z solves it; Y is set when M = Y Yᵀ; `z` when the solution is known and unique."""

    M: Array
    q: Array
    solvable: bool = True
    Y: Array | None = None
    z: Array | None = None


def gram(Y: object, q: object, solvable: bool = True, z: object = None) -> Lcp:
    Y, q = np.array(Y, dtype=float), np.array(q, dtype=float)
    return Lcp(Y @ Y.T, q, solvable, Y, None if z is None else np.array(z, dtype=float))


def plain(M: object, q: object, solvable: bool = True, z: object = None) -> Lcp:
    M, q = np.array(M, dtype=float), np.array(q, dtype=float)
    return Lcp(M, q, solvable, None, None if z is None else np.array(z, dtype=float))


def murty_triangle(n: int) -> Array:
    """Unit triangle with 2 below the diagonal."""
    return np.eye(n) + 2 * np.tril(np.ones((n, n)), -1)


def murty_exponential(n: int) -> Lcp:
    """From q = −(2ⁿ, 2ⁿ + 2ⁿ⁻¹, …) Lemke's path takes 2ⁿ pivots to the solution 2ⁿ e₁  [Murty 1978]."""
    return Lcp(murty_triangle(n), -np.cumsum(2.0 ** np.arange(n, 0, -1)), z=2.0**n * np.eye(n)[0])


def beale() -> Lcp:
    """Beale's linear program, on which the simplex method with the plain ratio test cycles, as an LCP; optimum −5/4."""
    A = np.array([[-0.25, 8, 1, -9], [-0.5, 12, 0.5, -3], [0, 0, -1, 0]])
    c, b = np.array([-0.75, 20, -0.5, 6]), np.array([0, 0, -1.0])
    M = np.block([[np.zeros((4, 4)), -A.T], [A, np.zeros((3, 3))]])
    return Lcp(M, np.r_[c, -b])


def coulomb(n: int, seed: int, mu: float = 0.6, rank: int = 6) -> Lcp:
    """The frictional contact problem of n contacts with a random contact matrix of low rank."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(3 * n, rank))
    M, q, _ = coulomb_lcp(J @ J.T, J @ rng.normal(size=rank), np.full(n, mu))
    return Lcp(M, q)


def degenerate_stance() -> Lcp:
    """Three point contacts of a rigid body on a grid, with a twist of whole numbers: so degenerate that the ratio test without
    the lexicographic rule goes in circles in this order of the variables."""
    arms = [np.array([x, y, -1.0]) for x, y in ((-1, -1), (2, 1), (1, 1))]
    J = np.array([np.r_[d, np.cross(arm, d)] for arm in arms for d in np.eye(3)])
    M, q, _ = coulomb_lcp(J @ J.T, J @ np.array([-1.0, 0, 0, -1, 1, 0]), np.ones(3))
    order = [12, 16, 10, 4, 5, 9, 6, 15, 11, 8, 2, 13, 14, 3, 7, 0, 17, 1]
    return Lcp(M[np.ix_(order, order)], q[order])


KOSTREVA = [[1, 2, 0], [0, 1, 2], [2, 0, 1]]
"""Principal pivoting by blocks cycles on it from q = −1 [Kostreva 1979], and Lemke's first ratios are all equal."""

PPM_CYCLES = (
    [[-1, 2, 4, 1], [4, 5, 5, -4], [5, 5, -5, 2], [-4, -3, 4, 2], [-2, -3, -3, 5], [-5, 2, 1, 4]],
    [-5, -3, -4, -1, 1, -3],
)
"""Y and r on which the largest-violation rule of `ppm` comes back to an earlier active set."""

TABLE = {
    "Murty 2×2": gram(np.linalg.cholesky([[2, 1], [1, 2]]), [-5, -6], z=[4 / 3, 7 / 3]),
    "Murty exponential": murty_exponential(8),
    "Fathi exponential": gram(murty_triangle(8), -np.ones(8), z=np.eye(8)[0]),
    "Kostreva": plain(KOSTREVA, [-1, -1, -1], z=[1 / 3, 1 / 3, 1 / 3]),
    "Beale": beale(),
    "all ratios equal": gram(np.eye(5), -np.ones(5), z=np.ones(5)),
    "twin rows": gram([[1, 0], [1, 0], [0, 1], [0, 1]], [-1, -1, -2, -2]),
    "twin rows, one deeper": gram([[1, 0], [1, 0], [0, 1]], [-1, -2, -1], z=[0, 2, 1]),
    "ppm cycles": gram(*PPM_CYCLES),
    "zero right-hand side": gram([[1, 2], [3, 4], [5, 6]], [0, 0, 0]),
    "zero right-hand side, P": plain(KOSTREVA, [0, 0, 0], z=[0, 0, 0]),
    "already solved": gram([[1, 0], [0, 1]], [0, 3], z=[0, 0]),
    "zero matrix, already solved": gram([[0], [0]], [1, 0]),
    "empty": gram(np.zeros((0, 3)), []),
    "1×1, M > 0, q < 0": gram([[2]], [-6], z=[1.5]),
    "1×1, M > 0, q = 0": gram([[2]], [0], z=[0]),
    "1×1, M > 0, q > 0": gram([[2]], [1], z=[0]),
    "1×1, M = 0, q < 0": gram([[0]], [-1], solvable=False),
    "1×1, M = 0, q = 0": gram([[0]], [0]),
    "1×1, M < 0, q < 0": plain([[-1]], [-1], solvable=False),
    "1×1, M < 0, q > 0": plain([[-1]], [1]),
    "squeezed": gram([[1], [-1]], [-1, -1], solvable=False),
    "squeezed with bystanders": gram([[1, 0], [-1, 0], [0, 1]], [-1, -1, -5], solvable=False),
    "infeasible, not symmetric": plain([[0, 1], [-1, 0]], [1, -1], solvable=False),
    "PSD of rank 1": gram([[1], [2], [-1]], [-2, -1, 2.5]),
    "PSD of rank 2 in 6": gram([[1, 0], [0, 1], [1, 1], [1, -1], [2, 1], [-1, 2]], [-1, -2, 1, 0.5, -3, -4]),
    "one sliding contact": coulomb(1, 3),
    "two contacts": coulomb(2, 7),
    "degenerate stance": degenerate_stance(),
    "two slippery contacts": coulomb(2, 9, mu=0.05),
}

RAY_THOUGH_SOLVABLE = plain([[-1, 0], [1, 0]], [1, -1], z=[1, 0])
"""Not copositive: Lemke may end on a ray, and then must say so."""
