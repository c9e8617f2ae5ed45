"""Native entry points: kernels compiled for fixed argument types, called without numba's type dispatch.

numba inspects the type of every argument of every call and counts references to every array: 60 ns for each array, 300 ns for a
record. An entry point checks its arguments in compiled code, about 1 ns each. Arrays are passed in tuples of type `Borrowed` or
`Output` and read at the offsets of NumPy's fields (`idyn.jit.layouts`). No references are counted; the caller's tuple keeps the
arrays alive during the call. In fallback mode (`idyn.jit.mode`) the same checks are made in Python.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.datamodel.models import TupleModel
from numba.extending import NativeValue, register_model, unbox

from idyn.jit.layouts import ALIGNED, CONTIGUOUS, LAYOUT, WRITABLE
from idyn.jit.mode import PLAIN
from idyn.jit.stand_ins import stand_in
from idyn.types import Array

ARRAY_CLASS = "idyn_PyArray_Type"
llvmlite.binding.add_symbol(ARRAY_CLASS, id(np.ndarray))

BYTE, INT, LONG, POINTER = ir.IntType(8), ir.IntType(32), ir.IntType(64), cgutils.voidptr_t

FOREIGN = ord(">" if np.little_endian else "<")
"""NumPy's code of the byte order that this machine does not have."""

KINDS = {numba.float64: np.dtype(np.float64), numba.int64: np.dtype(np.int64), numba.boolean: np.dtype(np.bool_)}


class Borrowed(numba.types.Tuple):  # type: ignore[misc]
    """Type of a tuple of contiguous arrays that an entry point reads. Other arguments raise TypeError. A kernel must not store
    such an array in a record or return it."""

    flags = CONTIGUOUS | ALIGNED

    def __new__(cls, *_: Any) -> "Borrowed":
        return object.__new__(cls)  # numba's constructor returns another class (UniTuple) if all members are of one type

    def __init__(self, *kinds: Any) -> None:
        super().__init__(kinds)


class Output(Borrowed):
    """Type of a tuple of arrays that an entry point writes."""

    flags = CONTIGUOUS | ALIGNED | WRITABLE


register_model(Borrowed)(TupleModel)
register_model(Output)(TupleModel)


def entry_point(function: Callable[..., Any], *types: Any) -> Callable[..., Any]:
    """Return `function` compiled for arguments of these types only: records, numbers, and tuples of arrays that are `Borrowed`
    or `Output`. Calls raise TypeError for arguments of other types.

    A kernel of idyn that is not in the cache may be compiled by another process, and be run as Python until then
    (`idyn.jit.background`)."""
    if numba.config.DISABLE_JIT:
        return function
    if not PLAIN:
        return stand_in(function, types) or function.compile(types)  # type: ignore[attr-defined]
    plain = tuple(numba.types.Tuple(each.types) if isinstance(each, Borrowed) else each for each in types)
    kernel = function.compile(plain)  # type: ignore[attr-defined]

    def checked(*arguments: Any) -> Any:
        for kind, argument in zip(types, arguments, strict=True):
            if isinstance(kind, Borrowed):
                check_arrays(kind, argument)
        return kernel(*arguments)

    return checked


def check_arrays(kind: Borrowed, given: Any) -> None:
    """Raise TypeError unless `given` is a tuple of arrays of that type."""
    sound = type(given) is tuple and len(given) == len(kind)
    if not (sound and all(is_array(each, array, kind.flags) for each, array in zip(kind, given, strict=True))):
        raise TypeError(f"expected contiguous arrays {kind}")


def is_array(kind: Any, array: Any, flags: int) -> bool:
    """Return whether `array` is a contiguous array of that type. flags: `Borrowed.flags` or `Output.flags`"""
    if type(array) is not np.ndarray or array.dtype != KINDS[kind.dtype] or array.ndim != kind.ndim:
        return False
    own: Array = array
    return own.flags.c_contiguous and own.flags.aligned and (own.flags.writeable or not flags & WRITABLE)


@unbox(Borrowed)
@unbox(Output)
def _unbox_tuple(kind: Borrowed, given: Any, c: Any) -> NativeValue:
    """Return the array structs of a Python tuple; the call raises TypeError if an array is of another type."""
    unboxed = cgutils.alloca_once_value(c.builder, cgutils.get_null_value(c.context.get_value_type(kind)))
    refused, end = cgutils.alloca_once_value(c.builder, cgutils.true_bit), c.builder.append_basic_block("unboxed")
    reader = _Reader(c, end)
    reader.require(reader.is_of(given, "PyTuple_Type"))
    reader.require(_equal(c, c.pyapi.tuple_size(given), len(kind)))
    arrays = [reader.array(each, kind.flags, c.pyapi.tuple_getitem(given, i)) for i, each in enumerate(kind)]
    c.builder.store(c.context.make_tuple(c.builder, kind, arrays), unboxed)
    c.builder.store(cgutils.false_bit, refused)
    c.builder.branch(end)
    c.builder.position_at_end(end)
    is_refused = c.builder.load(refused)
    with c.builder.if_then(is_refused, likely=False):
        c.pyapi.err_set_string("PyExc_TypeError", f"expected contiguous arrays {kind}")
    return NativeValue(c.builder.load(unboxed), is_error=is_refused)


class _Reader:
    """Emits code that reads Python objects and jumps to the block `end` if a condition fails."""

    def __init__(self, c: Any, end: Any) -> None:
        self._c, self._builder, self._end = c, c.builder, end

    def require(self, holds: Any) -> None:
        go_on = self._builder.append_basic_block("sound")
        self._builder.cbranch(holds, go_on, self._end)
        self._builder.position_at_end(go_on)

    def is_of(self, thing: Any, name: str) -> Any:
        """Emit the test whether a Python object is of exactly this class."""
        known = self._builder.bitcast(self._c.pyapi.get_c_object(name), POINTER)
        return self._builder.icmp_unsigned("==", self._field(thing, LAYOUT.object_type, POINTER), known)

    def array(self, kind: Any, flags: int, thing: Any) -> Any:
        """Emit the array struct of a Python object, which must be an array of this type with these flags."""
        b, c, dtype = self._builder, self._c, KINDS[kind.dtype]
        self.require(self.is_of(thing, ARRAY_CLASS))
        descriptor = self._field(thing, LAYOUT.dtype, POINTER)
        self.require(_equal(c, self._field(thing, LAYOUT.ndim, INT), kind.ndim))
        self.require(_equal(c, b.and_(self._field(thing, LAYOUT.flags, INT), INT(flags)), flags))
        self.require(_equal(c, self._field(descriptor, LAYOUT.type_number, INT), dtype.num))
        self.require(b.not_(_equal(c, self._field(descriptor, LAYOUT.byte_order, BYTE), FOREIGN)))
        shape, strides = (self._numbers(thing, place, kind.ndim) for place in (LAYOUT.shape, LAYOUT.strides))
        view, count = c.context.make_array(kind)(c.context, b), LONG(1)
        for extent in shape:
            count = b.mul(count, extent)
        view.meminfo, view.parent = (cgutils.get_null_value(each.type) for each in (view.meminfo, view.parent))
        view.nitems, view.itemsize = count, LONG(dtype.itemsize)
        view.data = b.bitcast(self._field(thing, LAYOUT.data, POINTER), view.data.type)
        view.shape, view.strides = cgutils.pack_array(b, shape), cgutils.pack_array(b, strides)
        return view._getvalue()

    def _field(self, thing: Any, offset: int, kind: Any) -> Any:
        place = self._builder.gep(self._builder.bitcast(thing, POINTER), [LONG(offset)])
        return self._builder.load(self._builder.bitcast(place, kind.as_pointer()))

    def _numbers(self, thing: Any, offset: int, count: int) -> list[Any]:
        first = self._field(thing, offset, LONG.as_pointer())
        return [self._builder.load(cgutils.gep_inbounds(self._builder, first, i)) for i in range(count)]


def _equal(c: Any, value: Any, constant: int) -> Any:
    return c.builder.icmp_signed("==", value, value.type(constant))
