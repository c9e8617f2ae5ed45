"""Interpreted kernels: the results of the compiled ones, on the same memory, with the same refusals."""

from typing import NamedTuple

import numba
import numpy as np
import pytest

from idyn.jit.compiled import VECTOR
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.jit.interpret import Interpreted
from idyn.jit.probe import Sample, caller
from idyn.jit.records import ArrayRecord, Vector
from idyn.jit.twins import twin
from idyn.prediction.solve import tick

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="everything is interpreted")

TYPES = Sample.TYPE, Borrowed(VECTOR, numba.float64[:, ::1]), Output(VECTOR)


class Other(ArrayRecord):
    x: Vector


class Case(NamedTuple):
    record: Sample
    arguments: tuple


def case():
    record = Sample()
    record.put(x=np.zeros(2), A=np.arange(6.0).reshape(2, 3) + 0.1, factor=0.3, count=5, doubled=True)
    return Case(record, (record.fields, (np.linspace(0.1, 0.7, 3), np.linspace(1, 2, 8).reshape(4, 2)), (np.zeros(4),)))


def run(kernels):
    """Results and output arrays of kernels called one after the other on one record: the kernel doubles its factor."""
    sample, found = case(), []
    for kernel in kernels:
        returned = kernel(*sample.arguments)
        assert type(returned) is float
        found.append([returned, *sample.record.x, *sample.arguments[2][0]])
    return found


def test_compiled_and_interpreted_calls_may_follow_each_other():
    compiled, interpreted = entry_point(caller, *TYPES), Interpreted(caller, TYPES)
    wanted = run([compiled] * 4)
    assert len({first for first, *_ in wanted}) == 4
    for order in ([interpreted] * 4, [interpreted, compiled, interpreted, compiled], [compiled, interpreted] * 2):
        assert run(order) == wanted


@pytest.mark.parametrize(
    "wrong",
    [np.zeros(6)[::2], np.zeros(3, np.float32), np.zeros(3, ">f8"), np.zeros((3, 1)), [0.0] * 3, None],
    ids=["strided", "float32", "byte order", "matrix", "list", "none"],
)
def test_refused_arguments_are_those_of_compiled_kernels(wrong):
    sample = case()
    record, (x, B), out = sample.arguments
    for kernel in entry_point(caller, *TYPES), Interpreted(caller, TYPES):
        for arguments in ((record, (wrong, B), out), (record, (x, B, x), out), (record, [x, B], out), (7, (x, B), out)):
            with pytest.raises(TypeError):
                kernel(*arguments)


def test_an_output_must_be_writable():
    record, given, (y,) = case().arguments
    y.flags.writeable = False
    for kernel in entry_point(caller, *TYPES), Interpreted(caller, TYPES):
        with pytest.raises(TypeError):
            kernel(record, given, (y,))


def test_a_record_of_another_type_is_refused():
    other = Other()
    _, given, out = case().arguments
    for kernel in entry_point(caller, *TYPES), Interpreted(caller, TYPES):
        with pytest.raises(TypeError, match=r"expected a record idyn\.jit\.probe\.Sample"):
            kernel(other.fields, given, out)


def test_twins_call_no_compiled_code():
    """All functions that a tick reaches by the names in its module and the modules below are plain Python."""
    seen, waiting = set(), [twin(tick)]
    while waiting:
        function = waiting.pop()
        assert not hasattr(function, "py_func"), function
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if hasattr(value, "__code__") and value.__module__.startswith("idyn.") and value not in seen:
                seen.add(value)
                waiting.append(value)
    assert len(seen) > 20
