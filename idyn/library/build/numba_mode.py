"""Kernels in numba: the types of records and arrays, and the functions that kernels call by name."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
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

from idyn.library.build.cache import Kept
from idyn.library.mode import BUILD, MODE
from idyn.library.records import ArrayRecord, RecordType

WORD = ir.IntType(64)

SMALL = 8192
"""Maximum size of an array on the stack; larger arrays are on the heap [bytes]."""

NUMBERS = {"d": numba.float64, "q": numba.int64, "?": numba.boolean}


class Record(numba.types.Type):  # type: ignore[misc]
    """numba's type of a record."""

    def __init__(self, record: RecordType) -> None:
        super().__init__(f"{record.name} {record.tag}")
        self.record = record


def as_numba(kind: Any) -> Any:
    """Return numba's type for a type of an argument or field."""
    if isinstance(kind, RecordType):
        return Record(kind)
    if isinstance(kind, tuple):
        return numba.types.BaseTuple.from_types([*map(as_numba, kind)], type(kind) if hasattr(kind, "_fields") else None)
    number = NUMBERS[kind.code]
    return numba.types.Array(number, kind.ndim, "C") if kind.ndim else number


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Return a kernel that numba compiles when it is first called, or takes from its cache; never for literal arguments."""
    kernel = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    if MODE != BUILD:
        kernel._cache = Kept(function)
    template, plain = kernel.get_call_template, numba.types.unliteral

    def of_numbers(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return template(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})

    kernel.get_call_template = of_numbers
    return kernel


register_model(Record)(models.OpaqueModel)


@typeof_impl.register(ArrayRecord)
def _type_of_record(given: ArrayRecord, _: Any) -> Record:
    return Record(given.TYPE)


@unbox(Record)
def _unbox_record(_kind: Record, given: Any, c: Any) -> NativeValue:
    return NativeValue(c.pyapi.long_as_voidptr(given))


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Record

    def generic_resolve(self, kind: Record, name: str) -> Any:
        field = kind.record.fields.get(name)
        return None if field is None else as_numba(field)


@lower_getattr_generic(Record)
def _read(context: Any, builder: Any, kind: Record, address: Any, name: str) -> Any:
    return read(context, builder, as_numba(kind.record.fields[name]), _place(builder, kind, address, name))


@lower_setattr_generic(Record)
def _write(context: Any, builder: Any, signature: Any, args: Any, name: str) -> None:
    (kind, given), (address, value) = signature.args, args
    field, place = as_numba(kind.record.fields[name]), _place(builder, kind, address, name)
    for k, word in enumerate(words(context, builder, field, context.cast(builder, value, given, field))):
        builder.store(word, cgutils.gep_inbounds(builder, place, k))


def _place(builder: Any, kind: Record, address: Any, name: str) -> Any:
    """Emit a pointer to the first word of a field."""
    return cgutils.gep_inbounds(builder, builder.bitcast(address, WORD.as_pointer()), kind.record.places[name])


def read(context: Any, builder: Any, kind: Any, place: Any) -> Any:
    """Emit a field or an argument of this type from its words."""
    if isinstance(kind, numba.types.Array):
        data, *shape = (builder.load(cgutils.gep_inbounds(builder, place, k)) for k in range(1 + kind.ndim))
        return _array(context, builder, kind, data, shape, None)
    if kind == numba.boolean:
        return builder.icmp_unsigned("!=", builder.load(place), WORD(0))
    return builder.load(builder.bitcast(place, context.get_value_type(kind).as_pointer()))


def words(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """Emit the words of a value of this type: an array is its address and its shape."""
    if isinstance(kind, numba.types.Array):
        view = context.make_array(kind)(context, builder, value)
        return [builder.ptrtoint(view.data, WORD), *cgutils.unpack_tuple(builder, view.shape, kind.ndim)]
    if isinstance(kind, Record):
        return [builder.ptrtoint(value, WORD)]
    return [builder.zext(value, WORD) if kind == numba.boolean else builder.bitcast(value, WORD)]


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any], owner: Any) -> Any:
    """Emit an array struct for an address and a shape."""
    view, item = context.make_array(kind)(context, builder), WORD(as_dtype(kind.dtype).itemsize)
    strides = [item]
    for extent in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], extent))
    data = builder.inttoptr(data, view.data.type) if data.type == WORD else builder.bitcast(data, view.data.type)
    populate_array(view, data=data, shape=shape, strides=strides, itemsize=item, meminfo=owner)
    return view._getvalue()


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


def know(stack_array: Any, attempt: Any, chosen: dict[str, Any]) -> None:
    """Let kernels call `stack_array` and `attempt` of `idyn.library.kernels`. chosen: kernels of `attempt` by record type"""

    @overload(stack_array, inline="always")
    def on_stack(shape: Any, kind: Any = np.float64) -> Any:
        def call(shape: Any, kind: Any = np.float64) -> Any:
            return _alloca_array(shape, kind)

        return call

    @overload(attempt)
    def of_law(problem: Any, law: Any, basis: Any, rung: Any) -> Any:
        kernel = chosen[law.record.name]

        def call(problem: Any, law: Any, basis: Any, rung: Any) -> Any:
            return kernel(problem, law, basis, rung)

        return call
