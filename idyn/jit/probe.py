"""Probe of numba's private interfaces: `python -m idyn.jit.probe` prints 'right' if kernels that use all of them return the
expected results."""

import tempfile
from typing import Any

import numba
import numpy as np

from idyn.jit.compiled import MATRIX, VECTOR, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.jit.linking import LONG
from idyn.jit.records import ArrayRecord, Matrix, Vector
from idyn.jit.stack import stack_array
from idyn.types import Array


class Sample(ArrayRecord):
    """Record with fields of several kinds."""

    x: Vector
    A: Matrix
    factor: float
    count: int
    doubled: bool


@compiled
def long_kernel(record: Any, x: Array) -> float:
    """Return Σ factor · A x over stack arrays; long enough to be linked by symbol."""
    y, total = stack_array(len(record.A)), 0.0
    for i in range(len(record.A)):
        y[i] = 0.0
        for j in range(record.A.shape[1]):
            y[i] += record.factor * record.A[i, j] * x[j]
    for i in range(len(y)):
        total += y[i]
    if record.doubled:
        total += total
    for k in range(record.count):
        if k % 2 == 0:
            total += 1.0
        elif k % 3 == 0:
            total += 2.0
        else:
            total += 3.0
    record.factor = 2.0 * record.factor
    record.x[0] = total
    return total


@compiled
def caller(record: Any, given: tuple[Array, ...], out: tuple[Array, ...]) -> float:
    (x, B), (y,) = given, out
    total = long_kernel(record, x)
    for i in range(len(B)):
        y[i] = B[i, 0] + total
    return total


def main() -> None:
    assert len(long_kernel.py_func.__code__.co_code) >= LONG  # type: ignore[attr-defined]
    record, x, B = Sample(), np.arange(3.0), np.arange(8.0).reshape(4, 2)
    record.put(x=np.zeros(2), A=np.arange(6.0).reshape(2, 3), factor=0.5, count=4, doubled=True)
    enter = entry_point(caller, Sample.TYPE, Borrowed(VECTOR, MATRIX), Output(VECTOR))
    for factor in (0.5, 1.0):
        y = np.zeros(4)
        right = 2.0 * factor * float((record.A @ x).sum()) + 1.0 + 3.0 + 1.0 + 2.0
        assert enter(record.fields, (x, B), (y,)) == right == record.x[0]
        assert (y == B[:, 0] + right).all()
    for wrong in (np.zeros(6)[::2], np.zeros(3, np.float32), np.zeros(3, ">f8"), [0.0] * 3):
        try:
            enter(record.fields, (wrong, B), (np.zeros(4),))
        except TypeError:
            continue
        raise AssertionError("an array of another type was accepted")
    print("right")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        numba.config.CACHE_DIR = folder
        main()
