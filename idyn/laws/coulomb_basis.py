"""Solution of Coulomb's LCP for a given complementary basis. The LCP matrix is not formed: its rows N and F are G Gᵀ/d, see
`idyn.laws.coulomb`."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.jit.stack import stack_array
from idyn.solvers.linalg import lu_refined
from idyn.types import Array


@compiled
def inner(G: Array, i: int, j: int, d: float) -> float:
    """Return G_i · G_j / d."""
    s = 0.0
    for c in range(G.shape[1]):
        s += G[i, c] * G[j, c]
    return s / d


@compiled
def at_basis(G: Array, q: Array, mu: Array, d: float, regularisation: float, basis: Array) -> tuple[Array, Array, bool]:
    """Return z and w at a complementary basis, and whether the basis is regular. Signs are not checked. The results are those
    of `idyn.solvers.lemke.basis_solution`, computed without M."""
    n, size = len(mu), len(q)
    k = len(G) // max(n, 1) - 1
    z, w, index, m = np.zeros(size), q.copy(), stack_array(size, np.int64), 0
    # the basic z
    for i in range(size):
        if basis[i]:
            index[m] = i
            m += 1
    # M_BB z_B = −q_B
    A, b, x = stack_array((m, m)), stack_array(m), stack_array(G.shape[1])
    for r in range(m):
        i = index[r]
        b[r] = -q[i]
        for c in range(m):
            j = index[c]
            A[r, c] = inner(G, i, j, d) if max(i, j) < len(G) else _friction(mu, k, i, j)
        A[r, r] += regularisation if i < len(G) else 0.0
    answer, regular = lu_refined(A, b)
    if not regular:
        return z, w, False
    # x = G_Bᵀ z_B
    for c in range(len(x)):
        x[c] = 0.0
    for r in range(m):
        i = index[r]
        z[i] = answer[r]
        if i < len(G):
            for c in range(len(x)):
                x[c] += G[i, c] * z[i]
    # w_N, w_F = G x/d + q
    for i in range(len(G)):
        s = 0.0
        for c in range(len(x)):
            s += G[i, c] * x[c]
        w[i] += s / d + regularisation * z[i]
    # + E λ;  w_λ = μ p_N − Eᵀ p_F
    for i in range(n):
        row, friction = len(G) + i, 0.0
        if mu[i] < np.inf:
            for j in range(n + k * i, n + k * (i + 1)):
                w[j] += z[row]
                friction += z[j]
            w[row] += mu[i] * z[i] - friction
    # w_B = 0, without rounding errors
    for r in range(m):
        w[index[r]] = 0.0
    return z, w, True


@compiled
def _friction(mu: Array, k: int, i: int, j: int) -> float:
    """Return entry (i, j) of M, in a row or a column of λ: μ, −Eᵀ or E."""
    n = len(mu)
    if i >= (k + 1) * n:
        contact = i - (k + 1) * n
        if mu[contact] == np.inf:
            return 0.0
        return mu[contact] if j == contact else -1.0 if n + k * contact <= j < n + k * (contact + 1) else 0.0
    contact = j - (k + 1) * n
    return 1.0 if mu[contact] < np.inf and n + k * contact <= i < n + k * (contact + 1) else 0.0
