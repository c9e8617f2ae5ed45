"""Orthogonal reduction of rows by Householder reflections from the right, A = L Q, the longest remaining row first, for
kernels. Q is stored as reflectors: unit vectors h with x → x − 2 h (hᵀ x). Matrices are passed transposed, (columns, rows): the
inner loops then run over rows and are vectorised."""

import numpy as np

from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector, written
from idyn.solvers.linalg import axpy, dot, fill, long_dot
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
def reduce_rows(A: Array, B: Array, span: tuple[int, int], H: Array, start: int, least: float) -> int:
    """Reduce the rows span[0] … span[1] − 1 of a matrix whose rows are all in the coordinates of the first `start` reflectors.
    Add reflectors to H (columns, columns), apply them to these and to all later rows, and order the rows by the pivots. Return
    the number of reflectors.

    A: transposed (columns, rows); B: right sides, in the order of the rows (·, rows); least: length of rows that count as zero
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
            for j in range(len(B)):
                B[j, row], B[j, best] = B[j, best], B[j, row]
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


@compiled
def order_rows(A: Array, order: Array, H: Array) -> int:
    """Reduce the first rows of a matrix, and fill their numbers in the order of the pivots. Return the number of reflectors.

    A, H: see `reduce_rows`; order: of as many rows as are reduced
    """
    place = stack_array((1, len(order)))
    for i in range(len(order)):
        place[0, i] = i
    rank = reduce_rows(A, place, (0, len(order)), H, 0, 0.0)
    for i in range(len(order)):
        order[i] = int(place[0, i])
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
    B = b.reshape((1, rows))
    rank = reduce_rows(A, B, (0, rows), H, 0, NEGLIGIBLE * scale)
    compress(A, B, (0, rows), (0, rank))
    fill(z, 0.0)
    substitute(A, b, z[:rank])
    unreflect(H, rank, z)
    return rank


@compiled
def compress(A: Array, B: Array, span: tuple[int, int], columns: tuple[int, int]) -> None:
    """Rotate reduced rows so that the first ones are a triangle and those behind have no part: their least squares.

    A, B: as of `reduce_rows`; span: of the rows; columns: of the reflectors that they have added
    """
    (first, last), (start, end) = span, columns
    m, rank = last - first, end - start
    if m == rank:
        return
    h = stack_array(m)
    for j in range(rank - 1, -1, -1):
        square = 0.0
        for i in range(m):
            h[i] = A[start + j, first + i] if i <= j or i >= rank else 0.0
            square += h[i] * h[i]
        length = -np.sqrt(square) if h[j] > 0.0 else np.sqrt(square)
        h[j] -= length
        factor = 1.0 / (length * h[j])
        for c in range(start + j + 1 + len(B)):
            row = A[c, first:last] if c <= start + j else B[c - start - j - 1, first:last]
            axpy(factor * dot(h, row), h, row)


@compiled
def substitute(A: Array, b: Array, z: Array) -> None:
    """Fill the first coordinates z of reduced rows, for their right sides b."""
    for i in range(len(z)):
        z[i] = b[i]
        for j in range(i):
            z[i] -= A[j, i] * z[j]
        z[i] /= A[i, i]
