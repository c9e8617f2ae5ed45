"""Linear solvers of the engine `newton` for A x = b with A symmetric and positive semidefinite  [Macklin §8.2].

All start at x = 0. `dense` is exact. The iterative solvers stop after a given number of iterations, each with one product A x,
or when the residual is rounding error. With PCR (preconditioned conjugate residuals) neither the residual in the metric of
diag(A)⁻¹ nor the error ever grows. PCG: preconditioned conjugate gradients.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.types import Array

DENSE, PCR, PCG, JACOBI, GAUSS_SEIDEL = range(5)

NOTHING = 1e-30
"""A squared norm below this share of its initial value is rounding error."""


@compiled
def solve_linear(solver: int, A: Array, b: Array, iterations: int) -> Array:
    """Return x (m) with A x = b. A (m, m) has a positive diagonal and is overwritten if the solver is `dense`."""
    if solver == DENSE:
        x = b.copy()
        cholesky(A)
        forward(A, x)
        backward(A, x)
        return x
    if solver == PCR:
        return conjugate_residuals(A, b, iterations)
    if solver == PCG:
        return conjugate_gradients(A, b, iterations)
    return relaxed(A, b, iterations, solver == JACOBI)


@compiled
def product(A: Array, x: Array, y: Array) -> None:
    """y ← A x, in place."""
    for i in range(len(x)):
        s = 0.0
        for j in range(len(x)):
            s += A[i, j] * x[j]
        y[i] = s


@compiled
def conjugate_residuals(A: Array, b: Array, iterations: int) -> Array:
    """Return x (m) by the conjugate residual method with diagonal preconditioner."""
    m = len(b)
    x, z, w, y = np.zeros(m), np.empty(m), np.empty(m), np.empty(m)
    for i in range(m):
        z[i] = b[i] / A[i, i]
    product(A, z, y)
    # z = diag⁻¹ (b − A x), y = A z; p directions, q = A p, conjugate in the metric of diag⁻¹
    p, q, rho = z.copy(), y.copy(), np.dot(z, y)
    least = NOTHING * rho
    for _ in range(iterations):
        for i in range(m):
            w[i] = q[i] / A[i, i]
        curvature = np.dot(q, w)
        if not (rho > least and curvature > 0.0):
            break
        a = rho / curvature
        for i in range(m):
            x[i] += a * p[i]
            z[i] -= a * w[i]
        product(A, z, y)
        following = np.dot(z, y)
        beta = following / rho
        rho = following
        for i in range(m):
            p[i] = z[i] + beta * p[i]
            q[i] = y[i] + beta * q[i]
    return x


@compiled
def conjugate_gradients(A: Array, b: Array, iterations: int) -> Array:
    """Return x (m) by the conjugate gradient method with diagonal preconditioner."""
    m = len(b)
    x, r, z, q = np.zeros(m), b.copy(), np.empty(m), np.empty(m)
    for i in range(m):
        z[i] = r[i] / A[i, i]
    p, rho = z.copy(), np.dot(r, z)  # r = b − A x, z = diag⁻¹ r; p directions, q = A p
    least = NOTHING * rho
    for _ in range(iterations):
        product(A, p, q)
        curvature = np.dot(p, q)
        if not (rho > least and curvature > 0.0):
            break
        a = rho / curvature
        for i in range(m):
            x[i] += a * p[i]
            r[i] -= a * q[i]
            z[i] = r[i] / A[i, i]
        following = np.dot(r, z)
        beta = following / rho
        rho = following
        for i in range(m):
            p[i] = z[i] + beta * p[i]
    return x


@compiled
def relaxed(A: Array, b: Array, iterations: int, simultaneous: bool) -> Array:
    """Return x (m) by Jacobi's method (`simultaneous`) or the Gauss–Seidel method."""
    m = len(b)
    x, new = np.zeros(m), np.zeros(m)
    for _ in range(iterations):
        for i in range(m):
            s = b[i]
            for j in range(m):
                s -= A[i, j] * x[j]
            new[i] = x[i] + s / A[i, i]
            if not simultaneous:
                x[i] = new[i]
        for i in range(m):
            x[i] = new[i]
    return x
