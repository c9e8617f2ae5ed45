"""How a tick's arrays cross into compiled code: lent, in tuples, for about 1 ns each.

numba looks at the type of every argument of every call and counts the users of every array, which makes 60 ns an array and
300 ns a record. An `entrance` is compiled for one list of types and asks for nothing else: arrays in tuples of a type `Lent`
are looked at as they cross, nobody counts who uses them, the caller's tuple keeps them alive for as long as the call takes.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.datamodel.models import TupleModel
from numba.core.pythonapi import NativeValue
from numba.extending import register_model, unbox

ARRAY_CLASS = "idyn_PyArray_Type"
llvmlite.binding.add_symbol(ARRAY_CLASS, id(np.ndarray))

BYTE, INT, LONG, POINTER = ir.IntType(8), ir.IntType(32), ir.IntType(64), cgutils.voidptr_t
LONGS = LONG.as_pointer()

HEAD = (LONG, POINTER)  # of every Python object: how many use it, and its class
ARRAY = ir.LiteralStructType((*HEAD, POINTER, INT, LONGS, LONGS, POINTER, POINTER, INT))
CLASS, DATA, DIMENSIONS, SHAPE, STRIDES, DTYPE, FLAGS = 1, 2, 3, 4, 5, 7, 8
NUMBERS = ir.LiteralStructType((*HEAD, POINTER, BYTE, BYTE, BYTE, BYTE, INT))
ORDER, KIND = 5, 7
"""Arrays and their dtypes as numpy's binary interface fixes them: structures PyArrayObject_fields and PyArray_Descr."""

CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
"""numpy's flags of arrays."""

FOREIGN = ord(">")
"""The byte order that is not this machine's."""

KINDS = {numba.float64: np.dtype(np.float64), numba.int64: np.dtype(np.int64), numba.boolean: np.dtype(np.bool_)}


class Lent(numba.types.Tuple):  # type: ignore[misc]
    """Type of a tuple of contiguous arrays that are lent to an entrance to be read: whatever else is handed in is a TypeError.
    Never put one of them into a record or return it."""

    flags = CONTIGUOUS | ALIGNED

    def __new__(cls, *_: Any) -> "Lent":
        return object.__new__(cls)  # also where all are of one type, which numba makes another kind of tuple

    def __init__(self, *kinds: Any) -> None:
        super().__init__(kinds)


class Filled(Lent):
    """Of arrays that are written to."""

    flags = CONTIGUOUS | ALIGNED | WRITABLE


register_model(Lent)(TupleModel)
register_model(Filled)(TupleModel)


def entrance(function: Callable[..., Any], *types: Any) -> Callable[..., Any]:
    """What to call instead of `function`, compiled for arguments of these types and no others: records and tuples of arrays
    that are `Lent`. It looks at these arrays, and believes that the records are of their types."""
    if numba.config.DISABLE_JIT:
        return function
    return function.compile(types)  # type: ignore[attr-defined]


@unbox(Lent)
@unbox(Filled)
def _taken(kind: Lent, given: Any, c: Any) -> NativeValue:
    """The arrays of a Python tuple, and whether they are what they should be."""
    taken = cgutils.alloca_once_value(c.builder, cgutils.get_null_value(c.context.get_value_type(kind)))
    refused, end = cgutils.alloca_once_value(c.builder, cgutils.true_bit), c.builder.append_basic_block("crossed")
    crossing = _Crossing(c, end)
    crossing.insist(crossing.is_of(given, "PyTuple_Type"))
    crossing.insist(_equal(c, c.pyapi.tuple_size(given), len(kind)))
    arrays = [crossing.array(each, kind.flags, c.pyapi.tuple_getitem(given, i)) for i, each in enumerate(kind)]
    c.builder.store(c.context.make_tuple(c.builder, kind, arrays), taken)
    c.builder.store(cgutils.false_bit, refused)
    c.builder.branch(end)
    c.builder.position_at_end(end)
    is_refused = c.builder.load(refused)
    with c.builder.if_then(is_refused, likely=False):
        c.pyapi.err_set_string("PyExc_TypeError", f"expected contiguous arrays {kind}")
    return NativeValue(c.builder.load(taken), is_error=is_refused)


class _Crossing:
    """Writes what looks at Python objects; what is not sound goes to the end at once."""

    def __init__(self, c: Any, end: Any) -> None:
        self._c, self._builder, self._end = c, c.builder, end

    def insist(self, holds: Any) -> None:
        go_on = self._builder.append_basic_block("sound")
        self._builder.cbranch(holds, go_on, self._end)
        self._builder.position_at_end(go_on)

    def is_of(self, thing: Any, name: str) -> Any:
        """Whether a Python object is of just that class."""
        fields = self._builder.bitcast(thing, ir.LiteralStructType(HEAD).as_pointer())
        known = self._builder.bitcast(self._c.pyapi.get_c_object(name), POINTER)
        return self._builder.icmp_unsigned("==", self._field(fields, CLASS), known)

    def array(self, kind: Any, flags: int, thing: Any) -> Any:
        """The array that a Python object is; insists that it is one of this kind, with these flags."""
        b, c, numbers = self._builder, self._c, KINDS[kind.dtype]
        self.insist(self.is_of(thing, ARRAY_CLASS))
        fields = b.bitcast(thing, ARRAY.as_pointer())
        dtype = b.bitcast(self._field(fields, DTYPE), NUMBERS.as_pointer())
        self.insist(_equal(c, self._field(fields, DIMENSIONS), kind.ndim))
        self.insist(_equal(c, b.and_(self._field(fields, FLAGS), INT(flags)), flags))
        self.insist(_equal(c, self._field(dtype, KIND), numbers.num))
        self.insist(b.not_(_equal(c, self._field(dtype, ORDER), FOREIGN)))
        shape, strides = self._numbers(fields, SHAPE, kind.ndim), self._numbers(fields, STRIDES, kind.ndim)
        view, count = c.context.make_array(kind)(c.context, b), LONG(1)
        for extent in shape:
            count = b.mul(count, extent)
        view.meminfo, view.parent = (cgutils.get_null_value(each.type) for each in (view.meminfo, view.parent))
        view.nitems, view.itemsize = count, LONG(numbers.itemsize)
        view.data = b.bitcast(self._field(fields, DATA), view.data.type)
        view.shape, view.strides = cgutils.pack_array(b, shape), cgutils.pack_array(b, strides)
        return view._getvalue()

    def _field(self, fields: Any, number: int) -> Any:
        return self._builder.load(cgutils.gep_inbounds(self._builder, fields, 0, number))

    def _numbers(self, fields: Any, number: int, count: int) -> list[Any]:
        first = self._field(fields, number)
        return [self._builder.load(cgutils.gep_inbounds(self._builder, first, i)) for i in range(count)]


def _equal(c: Any, value: Any, constant: int) -> Any:
    return c.builder.icmp_signed("==", value, value.type(constant))
