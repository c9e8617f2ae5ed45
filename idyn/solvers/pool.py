"""Memory of kernels: arrays one behind the other in two blocks, which each call uses anew.

Arrays of the heap count their references wherever a slice or a tuple of them is passed. For a tick of tasks on a humanoid that
was 60 % of the time. Arrays of a record and on the stack have no count; those of a pool are views of a record's.
"""

import numpy as np

from idyn.library.kernels import compiled
from idyn.library.records import ArrayRecord, Indices, Vector
from idyn.solvers.linalg import fill
from idyn.types import Array


class Pool(ArrayRecord):
    """Two blocks of memory. A kernel begins with `empty`; what no longer fits comes from the heap."""

    numbers: Vector
    integers: Indices
    used: Indices  # of each block (2)

    def __init__(self, numbers: int, integers: int) -> None:
        self.put(numbers=np.zeros(numbers), integers=np.zeros(integers, np.int64), used=np.zeros(2, np.int64))


@compiled
def empty(pool: Pool) -> None:
    """Give back all arrays."""
    pool.used[0] = pool.used[1] = 0


@compiled
def vector(pool: Pool, n: int) -> Array:
    """Return n numbers, not initialised."""
    first, last = pool.used[0], pool.used[0] + n
    if last > len(pool.numbers):
        return np.empty(n)
    pool.used[0] = last
    return pool.numbers[first:last]


@compiled
def matrix(pool: Pool, rows: int, columns: int) -> Array:
    """Return a matrix, not initialised."""
    return vector(pool, rows * columns).reshape((rows, columns))


@compiled
def indices(pool: Pool, n: int) -> Array:
    """Return n integers, not initialised."""
    first, last = pool.used[1], pool.used[1] + n
    if last > len(pool.integers):
        return np.empty(n, np.int64)
    pool.used[1] = last
    return pool.integers[first:last]


@compiled
def zeros(pool: Pool, n: int) -> Array:
    """Return n zeros."""
    found = vector(pool, n)
    fill(found, 0.0)
    return found


@compiled
def zero_matrix(pool: Pool, rows: int, columns: int) -> Array:
    """Return a matrix of zeros."""
    return zeros(pool, rows * columns).reshape((rows, columns))
