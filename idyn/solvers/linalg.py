"""Elementary operations on arrays and small dense factorisations for kernels: a call of LAPACK takes longer at these sizes."""

import numpy as np

from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, written
from idyn.types import Array


@compiled
def copy(source: Array, target: Array) -> None:
    """Copy an array to another one of the same length. `target[:] = source` takes ten times as long to compile, as each kernel
    then contains the error message for different lengths."""
    for i in range(len(target)):
        target[i] = source[i]


@compiled
def fill(target: Array, value: float) -> None:
    """Set all elements of an array. `target[:] = value` takes as long to compile as `target[:] = source`, see `copy`."""
    for i in range(len(target)):
        target[i] = value


@compiled
def fill_rows(target: Array, value: float) -> None:
    """Set all elements of a matrix."""
    for i in range(len(target)):
        fill(target[i], value)


@compiled
def copy_rows(source: Array, target: Array) -> None:
    """Copy a matrix to another one of the same shape."""
    for i in range(len(target)):
        copy(source[i], target[i])


@compiled
def dot(a: Array, b: Array) -> float:
    """Return Σ a_i b_i."""
    s = 0.0
    for i in range(len(a)):
        s += a[i] * b[i]
    return s


@compiled
def long_dot(a: Array, b: Array) -> float:
    """Return Σ a_i b_i of long arrays by four sums side by side: additions of one sum wait for each other."""
    s, t, u, v, k = 0.0, 0.0, 0.0, 0.0, 0
    while k + 4 <= len(a):
        s += a[k] * b[k]
        t += a[k + 1] * b[k + 1]
        u += a[k + 2] * b[k + 2]
        v += a[k + 3] * b[k + 3]
        k += 4
    while k < len(a):
        s += a[k] * b[k]
        k += 1
    return (s + t) + (u + v)


@compiled
def axpy(s: float, x: Array, y: Array) -> None:
    """Add s x to y."""
    for c in range(len(y)):
        y[c] += s * x[c]


@compiled
def scale(s: float, x: Array) -> None:
    """Multiply x by s."""
    for c in range(len(x)):
        x[c] *= s


@compiled
def multiply(A: Array, X: Array, sign: float, Y: Array) -> None:
    """Add sign A X to Y."""
    for i in range(len(Y)):
        y = Y[i]
        for k in range(len(X)):
            s = sign * A[i, k]
            if s != 0.0:
                axpy(s, X[k], y)


@compiled
def multiply_transposed(A: Array, X: Array, sign: float, Y: Array) -> None:
    """Add sign Aᵀ X to Y."""
    for k in range(len(X)):
        x = X[k]
        for i in range(len(Y)):
            s = sign * A[k, i]
            if s != 0.0:
                axpy(s, x, Y[i])


@compiled
def product(A: Array, X: Array, Y: Array) -> None:
    """Fill Y with A X."""
    fill_rows(Y, 0.0)
    multiply(A, X, 1.0, Y)


@compiled
def product_transposed(A: Array, X: Array, Y: Array) -> None:
    """Fill Y with Aᵀ X."""
    fill_rows(Y, 0.0)
    multiply_transposed(A, X, 1.0, Y)


@compiled
def product_by_rows(A: Array, X: Array, Y: Array) -> None:
    """Fill Y with A Xᵀ."""
    for i in range(len(A)):
        for j in range(len(X)):
            Y[i, j] = dot(A[i], X[j])


@compiled
def apply(A: Array, x: Array, y: Array) -> None:
    """Fill the vector y with A x."""
    for i in range(len(A)):
        y[i] = dot(A[i], x)


@compiled
def affine(A: Array, x: Array, b: Array, y: Array) -> None:
    """Fill the vector y with A x + b."""
    for i in range(len(A)):
        y[i] = dot(A[i], x) + b[i]


@compiled
def apply_transposed(A: Array, x: Array, y: Array) -> None:
    """Fill the vector y with Aᵀ x."""
    fill(y, 0.0)
    for i in range(len(A)):
        axpy(x[i], A[i], y)


@compiled
def magnitude(a: Array) -> float:
    """Return the largest size |a_i|, 0 without elements."""
    value = 0.0
    for each in a:
        value = max(value, abs(each))
    return value


@compiled
def least(a: Array) -> float:
    """Return the least element; NaN if there is a NaN, ∞ if there are none."""
    value = np.inf
    for each in a:
        if each < value or np.isnan(each):
            value = each
    return value


RANK = 1e-9  # a row is dependent if its orthogonal part is shorter than this share of the longest row


@entry(written(Matrix))
def cholesky(A: Array) -> None:
    """Replace A by its Cholesky factor L, A = L Lᵀ, with zeros above the diagonal. L contains NaN if A is not positive
    definite."""
    n = A.shape[0]
    for j in range(n):
        d = A[j, j]
        for k in range(j):
            d -= A[j, k] * A[j, k]
        root = np.sqrt(d)
        A[j, j] = root
        for i in range(j + 1, n):
            s = A[i, j]
            for k in range(j):
                s -= A[i, k] * A[j, k]
            A[i, j] = s / root
            A[j, i] = 0.0


@compiled
def forward(L: Array, x: Array) -> None:
    """Replace x by L⁻¹ x."""
    for i in range(len(x)):
        s = x[i]
        for k in range(i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]


@compiled
def forward_rows(L: Array, X: Array) -> None:
    """Replace each row x of X by L⁻¹ x. The loop runs over columns, so that the sums are independent."""
    for k in range(len(L)):
        for row in range(len(X)):
            x = X[row, k]
            for i in range(k):
                x -= L[k, i] * X[row, i]
            X[row, k] = x / L[k, k]


@compiled
def backward(L: Array, x: Array) -> None:
    """Replace x by L⁻ᵀ x."""
    for i in range(len(x) - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, len(x)):
            s -= L[k, i] * x[k]
        x[i] = s / L[i, i]


@compiled
def lu_factor(A: Array) -> tuple[Array, Array, bool]:
    """Return the LU factors of A with partial pivoting, packed, the row order, and whether A is regular: all pivots exceed
    1e-13 of its largest entry."""
    LU, order = A.copy(), np.empty(len(A), dtype=np.int64)
    return LU, order, lu_in_place(LU, order)


@compiled
def lu_in_place(LU: Array, order: Array) -> bool:
    """Replace a matrix by the factors of `lu_factor`, fill the row order and return whether it is regular."""
    n, largest = len(LU), 0.0
    for i in range(n):
        order[i], largest = i, max(largest, magnitude(LU[i]))
    for j in range(n):
        # pivot: the largest entry of column j
        p = j
        for i in range(j + 1, n):
            if abs(LU[i, j]) > abs(LU[p, j]):
                p = i
        if not abs(LU[p, j]) > 1e-13 * largest:
            return False
        if p != j:
            for k in range(n):
                LU[p, k], LU[j, k] = LU[j, k], LU[p, k]
            order[p], order[j] = order[j], order[p]
        # elimination below it
        for i in range(j + 1, n):
            f = LU[i, j] / LU[j, j]
            LU[i, j] = f
            if f != 0.0:
                for k in range(j + 1, n):
                    LU[i, k] -= f * LU[j, k]
    return True


@compiled
def lu_solve(LU: Array, order: Array, b: Array) -> Array:
    """Return the solution of A x = b, see `lu_substitute`."""
    x = np.empty(len(b))
    lu_substitute(LU, order, b, x)
    return x


@compiled
def lu_substitute(LU: Array, order: Array, b: Array, x: Array) -> None:
    """Fill x with the solution of A x = b, from the results of `lu_factor`."""
    n = len(b)
    # L y = P b, then U x = y
    for i in range(n):
        s = b[order[i]]
        for k in range(i):
            s -= LU[i, k] * x[k]
        x[i] = s
    for i in range(n - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, n):
            s -= LU[i, k] * x[k]
        x[i] = s / LU[i, i]


@compiled
def lu_refined(A: Array, b: Array) -> tuple[Array, bool]:
    """Return the solution of A x = b with one step of iterative refinement, zeros if A is singular, and whether A is
    regular."""
    n = len(b)
    x, LU, order = np.zeros(n), stack_array((n, n)), stack_array(n, np.int64)
    rest, change = stack_array(n), stack_array(n)
    # x = A⁻¹ b
    copy_rows(A, LU)
    if not lu_in_place(LU, order):
        return x, False
    lu_substitute(LU, order, b, x)
    # x += A⁻¹ (b − A x)
    for i in range(n):
        rest[i] = b[i]
        for j in range(n):
            rest[i] -= A[i, j] * x[j]
    lu_substitute(LU, order, rest, change)
    axpy(1.0, change, x)
    return x, True


@compiled
def row_basis(A: Array, new: float) -> Array:
    """Return an orthonormal basis of the rows of A (r, m), by Gram–Schmidt with pivoting and reorthogonalisation.

    A row is independent if its orthogonal part is longer than the share `new` of the longest row.
    """
    rows, m = A.shape
    rest, Q, rank, longest = A.copy(), np.empty((min(rows, m), m)), 0, 0.0
    while rank < len(Q):
        # pivot: the row with the longest orthogonal part
        newest, length = 0, 0.0
        for row in range(rows):
            size = np.sqrt(dot(rest[row], rest[row]))
            if size > length:
                newest, length = row, size
        longest = max(longest, length)
        if not length > new * longest:
            break
        # q: normalised, orthogonalised again, subtracted from all rows
        q = Q[rank]
        for c in range(m):
            q[c] = rest[newest, c] / length
        for k in range(rank):
            axpy(-dot(Q[k], q), Q[k], q)
        size = np.sqrt(dot(q, q))
        for c in range(m):
            q[c] /= size
        for row in range(rows):
            axpy(-dot(q, rest[row]), q, rest[row])
        rank += 1
    return Q[:rank].copy()


@compiled
def rank_of(E: Array) -> int:
    """Return the number of independent rows of E."""
    _, rank = _reflections(E)
    return rank


@compiled
def null_space(E: Array) -> Array:
    """Return an orthonormal basis of {y : E y = 0} (m, m − rank)."""
    V, rank = _reflections(E)
    m = E.shape[1]
    Z = np.zeros((m, m - rank))
    for j in range(m - rank):
        Z[rank + j, j] = 1.0
        for step in range(rank - 1, -1, -1):
            s = 0.0
            for i in range(step, m):
                s += V[step, i] * Z[i, j]
            for i in range(step, m):
                Z[i, j] -= 2.0 * s * V[step, i]
    return Z


@compiled
def _reflections(E: Array) -> tuple[Array, int]:
    """Return the reflections of the Householder QR of Eᵀ with column pivoting (rows, m), of which the first `rank` are used,
    and the rank."""
    rows, m = E.shape
    A, V = stack_array((m, rows)), np.zeros((rows, m))
    for i in range(m):
        for j in range(rows):
            A[i, j] = E[j, i]
    rank, first = 0, 0.0
    for step in range(min(rows, m)):
        # pivot: the longest remaining column
        best, best_length = step, -1.0
        for j in range(step, rows):
            s = 0.0
            for i in range(step, m):
                s += A[i, j] * A[i, j]
            if s > best_length:
                best, best_length = j, s
        length = np.sqrt(best_length)
        first = max(first, length)
        if not length > RANK * first:
            break
        for i in range(m):
            A[i, step], A[i, best] = A[i, best], A[i, step]
        # v = x + sign(x₁) ‖x‖ e₁, normalised
        sign = 1.0 if A[step, step] >= 0.0 else -1.0
        for i in range(step, m):
            V[step, i] = A[i, step]
        V[step, step] += sign * length
        norm2 = 0.0
        for i in range(step, m):
            norm2 += V[step, i] * V[step, i]
        for i in range(step, m):
            V[step, i] /= np.sqrt(norm2)
        # A ← (1 − 2 v vᵀ) A
        for j in range(step, rows):
            s = 0.0
            for i in range(step, m):
                s += V[step, i] * A[i, j]
            for i in range(step, m):
                A[i, j] -= 2.0 * s * V[step, i]
        rank += 1
    return V, rank
