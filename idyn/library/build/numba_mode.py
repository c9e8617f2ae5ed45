"""Kernels in numba: the types of records and arrays, and the functions that kernels call by name."""

import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba
import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile
from numba.core.imputils import impl_ret_new_ref
from numba.core.typing.templates import AttributeTemplate
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from idyn.library.build.sources import code, reached
from idyn.library.digest import digest
from idyn.library.mode import BUILD, MODE
from idyn.library.records import ArrayRecord

WORD = ir.IntType(64)

SMALL = 8192  # size of the largest arrays on the stack; larger ones are on the heap [bytes]

CLASSES: dict[str, type[ArrayRecord]] = {}
"""Classes of records by the names of their types, which numba's cache keeps."""


class Record(numba.types.Type):  # type: ignore[misc]
    """numba's type of a record."""

    def __init__(self, kind: type[ArrayRecord]) -> None:
        super().__init__(f"{kind.__module__}.{kind.__qualname__} {kind.TAG}")
        CLASSES[self.name] = kind


def as_numba(kind: Any) -> Any:
    """Return numba's type for a type of an argument or field."""
    if isinstance(kind, type):
        return Record(kind)
    if isinstance(kind, tuple):
        return numba.types.BaseTuple.from_types([*map(as_numba, kind)], type(kind) if hasattr(kind, "_fields") else None)
    number = numba.from_dtype(np.dtype(kind.code))
    return numba.types.Array(number, kind.ndim, "C") if kind.ndim else number


def compiled(function: Callable[..., Any]) -> Any:
    """Return a kernel that numba compiles when it is first called, or takes from its cache; never for literal arguments."""
    kernel = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    if MODE != BUILD:
        keep(kernel, function)
    template, plain = kernel.get_call_template, numba.types.unliteral

    def of_numbers(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return template(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})

    kernel.get_call_template = of_numbers
    return kernel


def keep(kernel: Any, function: Callable[..., Any]) -> None:
    """Let numba keep a kernel, in one folder for each state of the sources that its module may use.

    Several processes may write: each gives its files names of its own. By numba's two at once take the same name for different
    argument types, and later ones call machine code of other types."""
    root = os.environ.get("NUMBA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idyn"
    state = digest("".join(map(code, sorted(reached(Path(function.__code__.co_filename))))).encode())
    folder, name = Path(root) / f"{function.__module__}-{state}", f"{function.__name__}.{sys.implementation.cache_tag}"
    folder.mkdir(parents=True, exist_ok=True)
    kernel.enable_caching()
    kernel._cache._cache_file = files = IndexDataCacheFile(str(folder), name, "")
    files._data_name_pattern = f"{name}.{uuid4().hex}.{{number:d}}.nbc"


extending.register_model(Record)(extending.models.OpaqueModel)


@extending.typeof_impl.register(ArrayRecord)
def _type_of_record(given: ArrayRecord, _: Any) -> Record:
    return Record(type(given))


@extending.unbox(Record)
def _unbox_record(_kind: Record, given: Any, c: Any) -> extending.NativeValue:
    return extending.NativeValue(c.pyapi.long_as_voidptr(given))


@extending.infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Record

    def generic_resolve(self, kind: Record, name: str) -> Any:
        """Return the type of a field, or of a kernel that is an attribute of the class."""
        record = CLASSES[kind.name]
        return as_numba(record.FIELDS[name]) if name in record.FIELDS else numba.typeof(getattr(record, name))


@extending.lower_getattr_generic(Record)
def _read(context: Any, builder: Any, kind: Record, address: Any, name: str) -> Any:
    record = CLASSES[kind.name]
    if name not in record.FIELDS:
        return context.get_dummy_value()
    return read(context, builder, as_numba(record.FIELDS[name]), places(builder, address, count(record.PLACES[name])))


@extending.lower_setattr_generic(Record)
def _write(context: Any, builder: Any, signature: Any, args: Any, name: str) -> None:
    (kind, given), (address, value) = signature.args, args
    field, place = as_numba(CLASSES[kind.name].FIELDS[name]), places(builder, address, count(CLASSES[kind.name].PLACES[name]))
    write(context, builder, field, context.cast(builder, value, given, field), place)


def places(builder: Any, block: Any, indices: Iterator[int]) -> Iterator[Any]:
    """Emit pointers to words of a block."""
    block = builder.bitcast(block, WORD.as_pointer())
    return (cgutils.gep_inbounds(builder, block, k) for k in indices)


def read(context: Any, builder: Any, kind: Any, place: Iterator[Any]) -> Any:
    """Emit a value of this type from the words at the next places."""
    if isinstance(kind, numba.types.BaseTuple):
        return context.make_tuple(builder, kind, [read(context, builder, each, place) for each in kind])
    if isinstance(kind, numba.types.Array):
        data, *shape = (builder.load(next(place)) for _ in range(1 + kind.ndim))
        return _array(context, builder, kind, data, shape, None)
    if kind == numba.boolean:
        return builder.icmp_unsigned("!=", builder.load(next(place)), WORD(0))
    return builder.load(builder.bitcast(next(place), context.get_value_type(kind).as_pointer()))


def write(context: Any, builder: Any, kind: Any, value: Any, place: Iterator[Any]) -> None:
    """Emit stores of a value of this type to the words at the next places: an array is its address and its shape."""
    if isinstance(kind, numba.types.Array):
        view = context.make_array(kind)(context, builder, value)
        words = [builder.ptrtoint(view.data, WORD), *cgutils.unpack_tuple(builder, view.shape, kind.ndim)]
    elif isinstance(kind, Record):
        words = [builder.ptrtoint(value, WORD)]
    else:
        words = [builder.zext(value, WORD) if kind == numba.boolean else builder.bitcast(value, WORD)]
    for word in words:
        builder.store(word, next(place))


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any], owner: Any) -> Any:
    """Emit an array struct for an address and a shape."""
    view, item = context.make_array(kind)(context, builder), WORD(as_dtype(kind.dtype).itemsize)
    strides = [item]
    for extent in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], extent))
    data = builder.inttoptr(data, view.data.type) if data.type == WORD else builder.bitcast(data, view.data.type)
    populate_array(view, data=data, shape=shape, strides=strides, itemsize=item, meminfo=owner)
    return view._getvalue()


def _alloca_array(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Emit `stack_array` for an array of the type that the signature returns."""
    array = signature.return_type
    extents = [args[0]] if isinstance(signature.args[0], numba.types.Integer) else cgutils.unpack_tuple(builder, args[0])
    size = WORD(as_dtype(array.dtype).itemsize)
    for extent in extents:
        size = builder.mul(size, extent)
    counted, data = (cgutils.alloca_once(builder, cgutils.voidptr_t) for _ in range(2))
    with builder.if_else(builder.icmp_unsigned("<=", size, WORD(SMALL))) as (small, large):
        with small:
            block = builder.alloca(cgutils.int8_t, size=size)
            block.align = 16
            builder.store(block, data)
            builder.store(cgutils.get_null_value(cgutils.voidptr_t), counted)
        with large:
            owner = context.nrt.meminfo_alloc_aligned(builder, size, context.get_constant(numba.uint32, 16))
            builder.store(context.nrt.meminfo_data(builder, owner), data)
            builder.store(owner, counted)
    view = _array(context, builder, array, builder.load(data), extents, builder.load(counted))
    return impl_ret_new_ref(context, builder, array, view)


def _type_of(shape: Any, kind: Any = None) -> Any:
    ndim = 1 if isinstance(shape, numba.types.Integer) else len(shape)
    return numba.types.Array(numba.float64 if kind is None else kind.dtype, ndim, "C")


def know(stack_array: Any) -> None:
    """Let kernels call `stack_array` of `idyn.library.kernels`. Its code is emitted in its callers, not inlined by numba, which
    would then remove stores to arrays of tuples."""
    extending.type_callable(stack_array)(lambda _context: _type_of)
    extending.lower_builtin(stack_array, numba.types.Any)(_alloca_array)
    extending.lower_builtin(stack_array, numba.types.Any, numba.types.Any)(_alloca_array)
