"""Orthogonal reduction of rows by Householder reflections from the right, A = L Q, the longest remaining row first, for
kernels. Q is stored as reflectors: unit vectors h with x → x − 2 h (hᵀ x). Matrices are passed transposed, (columns, rows): the
inner loops then run over rows and are vectorised."""

import numpy as np

from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector, written
from idyn.solvers.linalg import axpy, fill, long_dot
from idyn.types import Array

NEGLIGIBLE = 1e-9  # a row is dependent if its remaining part is at most this share of the longest row


@compiled
def _mirror(h: Array, first: int, x: Array) -> None:
    """x ← x − 2 h (hᵀ x), for a reflector h that is zero before `first`."""
    axpy(-2.0 * long_dot(h[first:], x[first:]), h[first:], x[first:])


@compiled
def unreflect(H: Array, count: int, x: Array) -> None:
    """Replace coordinates z by x = Qᵀ z for the first `count` reflectors."""
    for k in range(count - 1, -1, -1):
        _mirror(H[k], k, x)


@compiled
def reflect(H: Array, count: int, x: Array) -> None:
    """Replace x by its coordinates z = Q x of the first `count` reflectors."""
    for k in range(count):
        _mirror(H[k], k, x)


@compiled
def reduce_rows(A: Array, b: Array, span: tuple[int, int], H: Array, start: int, least: float) -> int:
    """Reduce the rows span[0] … span[1] − 1 of a matrix whose rows are all in the coordinates of the first `start` reflectors.
    Add reflectors to H (columns, columns), apply them to these and to all later rows, and order the rows by the pivots. Return
    the number of reflectors.

    A: transposed (columns, rows); b: right side, in the order of the rows (rows); least: length of rows that count as zero
    """
    first, last = span
    (columns, rows), rank = A.shape, start
    left, all_lengths, all_s = rows - first, stack_array(rows), stack_array(rows)
    lengths, s = all_lengths[first:], all_s[first:]  # of the rows from `first` on: earlier ones have no remaining part
    scale = 0.0
    fill(s, 0.0)
    for j in range(columns):
        a = A[j, first:]
        for i in range(left):
            s[i] += a[i] * a[i]
    for i in range(last - first):
        scale = max(scale, s[i])
    negligible = max(NEGLIGIBLE * NEGLIGIBLE * scale, least * least)
    # squared lengths of the remaining parts. Loops from 0 are vectorised
    fill(lengths, 0.0)
    for j in range(rank, columns):
        a = A[j, first:]
        for i in range(left):
            lengths[i] += a[i] * a[i]
    for row in range(first, first + min(last - first, columns - start)):
        best, largest = row, 0.0
        for i in range(row, last):
            if lengths[i - first] > largest:
                best, largest = i, lengths[i - first]
        if largest <= negligible:
            break
        if best != row:
            for j in range(columns):
                A[j, row], A[j, best] = A[j, best], A[j, row]
            b[row], b[best] = b[best], b[row]
        # h ∝ row ± ‖row‖ e
        h, square = H[rank], 0.0
        for j in range(columns):
            h[j] = A[j, row] if j >= rank else 0.0
            square += h[j] * h[j]
        length = np.sqrt(square)
        h[rank] += length if h[rank] > 0.0 else -length
        size = np.sqrt(2.0 * length * abs(h[rank]))
        for j in range(rank, columns):
            h[j] /= size
        # rows ← rows − 2 (rows h) hᵀ
        fill(s, 0.0)
        for j in range(rank, columns):
            a, factor = A[j, first:], 2.0 * h[j]
            for i in range(left):
                s[i] += factor * a[i]
        a, factor = A[rank, first:], h[rank]
        for i in range(left):
            a[i] -= factor * s[i]
            lengths[i] = 0.0
        rank += 1
        for j in range(rank, columns):
            a, factor = A[j, first:], h[j]
            for i in range(left):
                a[i] -= factor * s[i]
                lengths[i] += a[i] * a[i]
    return rank


@entry(written((Matrix, Vector)), written((Vector, Matrix)), float)
def solve_and_span(given: tuple[Array, Array], out: tuple[Array, Array], scale: float) -> int:
    """Solve A z = b in the sense of least squares, with the least norm. Return the rank of A.

    given: (A transposed (columns, rows), b (rows)), overwritten
    out: (z (columns), orthonormal basis of the null space of A in the first columns (columns, columns))
    scale: size of entries of A that are not zero
    """
    z, basis = out
    columns = len(z)
    H, x = np.empty((columns, columns)), stack_array(columns)
    rank = solve_rows(given, z, H, scale)
    for k in range(rank, columns):
        for j in range(columns):
            x[j] = 1.0 if j == k else 0.0
        unreflect(H, rank, x)
        for j in range(columns):
            basis[j, k - rank] = x[j]
    return rank


@compiled
def solve_rows(given: tuple[Array, Array], z: Array, H: Array, scale: float) -> int:
    """Fill z as `solve_and_span` does, and the reflectors H (columns, columns). Return the rank of A."""
    (A, b), rows = given, given[0].shape[1]
    rank = reduce_rows(A, b, (0, rows), H, 0, NEGLIGIBLE * scale)
    fill(z, 0.0)
    _solve_level(A, b, (0, rows), (0, rank), z)
    unreflect(H, rank, z)
    return rank


@compiled
def _solve_level(A: Array, b: Array, rows: tuple[int, int], columns: tuple[int, int], z: Array) -> None:
    """Fill z[columns] with the least-squares solution of L z = b, L the lower trapezoidal block rows × columns of A."""
    first, last = rows
    start, end = columns
    m, k = last - first, end - start
    if m == k:  # forward substitution
        for i in range(k):
            s = b[first + i]
            for j in range(i):
                s -= A[start + j, first + i] * z[start + j]
            z[start + i] = s / A[start + i, first + i]
        return
    # Householder reflections from the left, L = Q R; column j of L is a row of the transposed matrix
    r = b[first:last]
    for j in range(k):
        h, square = A[start + j, first:last], 0.0
        for i in range(j, m):
            square += h[i] * h[i]
        length = np.sqrt(square)
        alpha = -length if h[j] > 0.0 else length
        h[j] -= alpha
        factor = 2.0 / (2.0 * length * abs(h[j]))
        for c in range(j + 1, k + 1):  # the other columns, then b
            other = A[start + c, first:last] if c < k else r
            s = 0.0
            for i in range(j, m):
                s += h[i] * other[i]
            for i in range(j, m):
                other[i] -= factor * s * h[i]
        h[j] = alpha  # the diagonal of R; the entries after it belong to the reflection and are not read again
    for i in range(k - 1, -1, -1):
        s = r[i]
        for j in range(i + 1, k):
            s -= A[start + j, first + i] * z[start + j]
        z[start + i] = s / A[start + i, first + i]
