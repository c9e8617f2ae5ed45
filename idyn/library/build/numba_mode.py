"""Kernels in numba: the types of records and arrays, and the functions that kernels call by name."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", "idyn.library.build.locator.Locator")

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.imputils import impl_ret_new_ref
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    overload,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from idyn.library.dispatch import LAWS, attempt, stack_array
from idyn.library.kinds import ArrayKind, Named, Number, RecordType
from idyn.library.records import StructHandle

WORD = ir.IntType(64)
HANDLE_CLASS = "idyn_StructHandle"
llvmlite.binding.add_symbol(HANDLE_CLASS, id(StructHandle))

SMALL = 8192
"""Maximum size of an array on the stack; larger arrays are on the heap [bytes]."""

NUMBERS = {"d": numba.float64, "q": numba.int64, "?": numba.boolean}


class Record(numba.types.Type):  # type: ignore[misc]
    """numba's type of a record."""

    def __init__(self, record: RecordType) -> None:
        super().__init__(record.name)
        self.record = record

    @property
    def key(self) -> tuple[str, int]:
        return self.record.name, self.record.tag


def as_numba(kind: Any) -> Any:
    """Return numba's type for a type of an argument or field."""
    if isinstance(kind, Number):
        return NUMBERS[kind.code]
    if isinstance(kind, ArrayKind):
        return numba.types.Array(NUMBERS[kind.code], kind.ndim, "C")
    if isinstance(kind, RecordType):
        return Record(kind)
    members = [as_numba(each) for each in kind]
    return numba.types.NamedTuple(members, kind.source) if isinstance(kind, Named) else numba.types.Tuple(members)


BUILDING: list[Any] = []
"""Set by the build before kernels are defined: it keeps no cache and compiles no variants for literal arguments."""


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache of a kernel, which several processes may write.

    numba reads the index, takes the next free number for the file, writes the index, then the file. Two processes that do so at
    once take the same number for different argument types, and later ones call machine code of other types.
    """

    def save_overload(self, types: Any, result: Any) -> None:
        self._impl.locator.ensure_cache_path()
        with (Path(self.cache_path) / "lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            super().save_overload(types, result)


def compiled(function: Callable[..., Any], cache: bool = False, **options: Any) -> Any:
    """Return a kernel that numba compiles when it is first called, or takes from its cache (with `cache`)."""
    kernel = numba.njit(**options)(function)
    if not BUILDING:
        if cache:
            kernel._cache = _Cache(function)
        return kernel
    template, plain = kernel.get_call_template, numba.types.unliteral

    def of_numbers(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return template(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})

    kernel.get_call_template = of_numbers
    return kernel


register_model(Record)(models.OpaqueModel)


@typeof_impl.register(StructHandle)
def _type_of_handle(given: StructHandle, _: Any) -> Record:
    return Record(given.kind)


@unbox(Record)
def _unbox_handle(kind: Record, given: Any, c: Any) -> NativeValue:
    """Emit the address of a block of this type; the call raises TypeError for other objects."""
    b = c.builder
    address = cgutils.alloca_once_value(b, cgutils.get_null_value(cgutils.voidptr_t))
    refused = cgutils.alloca_once(b, cgutils.bool_t)
    own_class = c.pyapi.get_type(given)  # borrowed reference
    is_handle = b.icmp_unsigned("==", own_class, b.bitcast(c.pyapi.get_c_object(HANDLE_CLASS), own_class.type))
    b.store(b.not_(is_handle), refused)
    with b.if_then(is_handle, likely=True):
        block = c.pyapi.long_as_voidptr(given)
        tag = b.load(b.bitcast(block, WORD.as_pointer()))
        b.store(block, address)
        b.store(b.icmp_unsigned("!=", tag, WORD(kind.record.tag)), refused)
    with b.if_then(b.load(refused), likely=False):
        c.pyapi.err_set_string("PyExc_TypeError", f"expected a record {kind}")
    return NativeValue(b.load(address), is_error=b.load(refused))


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Record

    def generic_resolve(self, kind: Record, name: str) -> Any:
        field = kind.record.fields.get(name)
        return None if field is None else as_numba(field)


@lower_getattr_generic(Record)
def _read(context: Any, builder: Any, kind: Record, address: Any, name: str) -> Any:
    field, place = as_numba(kind.record.fields[name]), _place(builder, kind, address, name)
    if not isinstance(field, numba.types.Array):
        value = builder.load(builder.bitcast(place, _wide(context, field).as_pointer()))
        return builder.icmp_unsigned("!=", value, WORD(0)) if field == numba.boolean else value
    data, *shape = (builder.load(cgutils.gep_inbounds(builder, place, k)) for k in range(1 + field.ndim))
    return _array(context, builder, field, data, shape, None)


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any], owner: Any) -> Any:
    """Emit an array struct for an address and a shape."""
    view, item = context.make_array(kind)(context, builder), WORD(as_dtype(kind.dtype).itemsize)
    strides = [item]
    for extent in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], extent))
    data = builder.inttoptr(data, view.data.type) if data.type == WORD else builder.bitcast(data, view.data.type)
    populate_array(view, data=data, shape=shape, strides=strides, itemsize=item, meminfo=owner)
    return view._getvalue()


@lower_setattr_generic(Record)
def _write(context: Any, builder: Any, signature: Any, args: Any, name: str) -> None:
    (kind, given), (address, value) = signature.args, args
    field, place = as_numba(kind.record.fields[name]), _place(builder, kind, address, name)
    value = context.cast(builder, value, given, field)
    if not isinstance(field, numba.types.Array):
        value = builder.zext(value, WORD) if field == numba.boolean else value
        builder.store(value, builder.bitcast(place, value.type.as_pointer()))
        return
    view = context.make_array(field)(context, builder, value)
    words = [builder.ptrtoint(view.data, WORD), *cgutils.unpack_tuple(builder, view.shape, field.ndim)]
    for k, word in enumerate(words):
        builder.store(word, cgutils.gep_inbounds(builder, place, k))


def _place(builder: Any, kind: Record, address: Any, name: str) -> Any:
    """Emit a pointer to the first word of a field."""
    return cgutils.gep_inbounds(builder, builder.bitcast(address, WORD.as_pointer()), kind.record.places[name])


def _wide(context: Any, kind: Any) -> Any:
    """Return the LLVM type of the word that stores a number or record."""
    return WORD if kind == numba.boolean else context.get_value_type(kind)


@intrinsic
def _alloca_array(_: Any, shape: Any, kind: Any) -> Any:
    one, number = isinstance(shape, numba.types.Integer), kind.dtype
    array = numba.types.Array(number, 1 if one else len(shape), "C")

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        extents = [args[0]] if one else cgutils.unpack_tuple(builder, args[0])
        size = WORD(as_dtype(number).itemsize)
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

    return array(shape, kind), codegen


@overload(stack_array, inline="always")
def _on_stack(shape: Any, kind: Any = np.float64) -> Any:
    def on_stack(shape: Any, kind: Any = np.float64) -> Any:
        return _alloca_array(shape, kind)

    return on_stack


@overload(attempt)
def _attempt(problem: Any, law: Any, basis: Any, rung: Any) -> Callable[..., Any]:
    kernel = LAWS.kernel(law.record)

    def call(problem: Any, law: Any, basis: Any, rung: Any) -> Any:
        return kernel(problem, law, basis, rung)

    return call
