"""Elementary operations on arrays for kernels."""

import numpy as np

from idyn.jit.compiled import compiled
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
def least(a: Array) -> float:
    """Return the least element; NaN if there is a NaN, ∞ if there are none."""
    value = np.inf
    for each in a:
        if each < value or np.isnan(each):
            value = each
    return value
