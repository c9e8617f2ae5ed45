"""Native entry points: kernels receive the given arrays, and arrays of other types are refused."""

import gc
import sys

import numba
import numpy as np
import pytest

from idyn.jit.compiled import INDICES, MASK, MATRIX, VECTOR, compiled
from idyn.jit.entry import Borrowed, Output, entry_point

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@compiled
def _weighted(given, out):
    x, A, rows, mask = given
    (sums,) = out
    sums[:] = 0.0
    for k in range(len(rows)):
        for j in range(len(x)):
            if mask[k, j]:
                sums[k] += A[rows[k], j] * x[j]
    return len(x), A.shape[0], A.shape[1]


def _entry():
    return entry_point(_weighted, Borrowed(VECTOR, MATRIX, INDICES, MASK), Output(VECTOR))


def _given(n=5, m=3):
    rng = np.random.default_rng(n)
    return rng.normal(size=n), rng.normal(size=(m, n)), np.arange(m)[::-1].copy(), rng.random((m, n)) < 0.5


@pytest.mark.parametrize("n", [0, 1, 5, 40])
def test_kernels_receive_the_given_arrays(n):
    x, A, rows, mask = given = _given(n)
    sums = np.full(3, np.nan)
    assert _entry()(given, (sums,)) == (n, 3, n)
    np.testing.assert_allclose(sums, np.where(mask, A[rows] * x, 0.0).sum(axis=1), atol=1e-12)


def test_reference_counts_are_unchanged():
    given, out, call = _given(), (np.zeros(3),), _entry()
    before = [sys.getrefcount(each) for each in (*given, *out)]
    for _ in range(1000):
        call(given, out)
    gc.collect()
    assert [sys.getrefcount(each) for each in (*given, *out)] == before


class _Marked(np.ndarray):
    pass


@pytest.mark.parametrize(
    "other",
    [
        np.zeros(10)[::2],
        np.zeros((1, 5)),
        np.zeros(5, np.float32),
        np.zeros(5, np.int64),
        np.zeros(5, np.uint64),
        np.zeros(5, np.complex64),  # as large as what is expected
        np.zeros(5, ">f8"),
        np.zeros(5, "datetime64[s]"),
        np.zeros(41, np.int8)[1:].view(np.float64),  # where no number begins
        np.zeros(5).view(_Marked),
        np.float64(1.0),
        [0.0] * 5,
        None,
    ],
    ids=lambda other: f"{type(other).__name__}-{getattr(other, 'dtype', '')}-{getattr(other, 'strides', '')}",
)
def test_arrays_of_another_type_or_layout_are_refused(other):
    _, *rest = _given()
    with pytest.raises(TypeError, match="expected contiguous arrays"):
        _entry()((other, *rest), (np.zeros(3),))


@pytest.mark.parametrize("given", [(), _given()[:3], (*_given(), np.zeros(5)), list(_given()), _given()[0], None])
def test_a_tuple_of_another_length_is_refused(given):
    with pytest.raises(TypeError, match="expected contiguous arrays"):
        _entry()(given, (np.zeros(3),))


def test_read_only_arrays_are_accepted_as_input_and_refused_as_output():
    given, sums = _given(), np.zeros(3)
    for each in (*given, sums):
        each.flags.writeable = False
    with pytest.raises(TypeError, match="expected contiguous arrays"):
        _entry()(given, (sums,))
    assert not sums.any()
    assert _entry()(given, (np.zeros(3),)) == (5, 3, 5)
