"""Array records: arrays and numbers by name that are passed to compiled code as one struct; Python uses the same memory.

In compiled code a record is the address of its fields. Reading an array field counts no references, which saves 6 ns each time;
the Python object keeps fields and arrays alive. The argument passed is a `StructHandle`, an integer subclass whose value is the
address. Each block of fields begins with the number of its record type (tag), which entry points check.
"""

import hashlib
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self, get_origin, get_type_hints

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import as_dtype

from idyn.jit.compiled import BASES, CUBE, FLAG, FLAGS, INDICES, MASK, MATRIX, REAL, SPANS, VECTOR, WHOLE
from idyn.jit.mode import PLAIN

WORD = ir.IntType(64)

HANDLE_CLASS = "idyn_StructHandle"

Vector = Annotated[np.ndarray, VECTOR]
Matrix = Annotated[np.ndarray, MATRIX]
Cube = Annotated[np.ndarray, CUBE]
Indices = Annotated[np.ndarray, INDICES]
Spans = Annotated[np.ndarray, SPANS]
Flags = Annotated[np.ndarray, FLAGS]
Mask = Annotated[np.ndarray, MASK]
Bases = Annotated[np.ndarray, BASES]
"""Annotations of a record's array fields; single numbers are `int`, `float` and `bool`."""

NUMBERS = {int: WHOLE, float: REAL, bool: FLAG}


class RecordType(numba.types.Type):  # type: ignore[misc]
    """Type of a record in compiled code.

    fields: types of the fields by name
    places: offsets of the fields in the block [words]; an array field is its address, then its shape
    size: length of the block [words]
    tag: number of the type, the first word of each block. It depends on the fields, and on those of nested records; so does
        the type's key, by which numba finds kernels in its cache: a kernel's sources need not include the record's module.
    """

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        super().__init__(name)
        self.fields, self.places, self.size = fields, {}, 1
        described = f"{name} {[(field, str(kind), getattr(kind, 'tag', 0)) for field, kind in fields.items()]}"
        self.tag = int.from_bytes(hashlib.sha256(described.encode()).digest()[:7], "little")
        for field, kind in fields.items():
            self.places[field] = self.size
            self.size += 1 + getattr(kind, "ndim", 0)

    @property
    def key(self) -> tuple[str, int]:
        return self.name, self.tag

    def words(self, name: str, value: Any) -> list[int]:
        """Return the words that represent `value` in field `name`. Raises TypeError for a value of another type."""
        kind = self.fields[name]
        if isinstance(kind, RecordType):
            if value.fields.kind != kind:
                raise TypeError(f"{self}.{name}: expected a record {kind}, got {value.fields.kind}")
            return [value.fields.array.ctypes.data]
        if not isinstance(kind, numba.types.Array):
            wide, given = np.int64 if kind == numba.boolean else as_dtype(kind), np.array(value)
            if not np.can_cast(given.dtype, as_dtype(kind)):
                raise TypeError(f"{self}.{name}: expected {kind}, got {value!r}")
            return [int(given.astype(wide).view(np.int64))]
        if value.dtype != as_dtype(kind.dtype) or value.ndim != kind.ndim or not value.flags.carray:
            raise TypeError(f"{self}.{name}: expected {kind}, got {value.dtype} {value.shape} with strides {value.strides}")
        return [value.ctypes.data, *value.shape]


register_model(RecordType)(models.OpaqueModel)


class StructHandle(int):
    """Address of a record's block, which compiled functions receive instead of the record. array: the block; kind: its type"""

    array: np.ndarray
    kind: RecordType

    def __new__(cls, kind: RecordType) -> "StructHandle":
        block = np.zeros(kind.size, np.int64)
        block[0] = kind.tag
        handle = int.__new__(cls, block.ctypes.data)
        handle.array, handle.kind = block, kind
        return handle


llvmlite.binding.add_symbol(HANDLE_CLASS, id(StructHandle))


class ArrayRecord:
    """Arrays by name, the same memory for Python (attributes of this object) and for compiled code (fields of `.fields`).

    A subclass annotates its fields and sets each of them with `put`. `TYPE` is its type in compiled code:

        class Pair(ArrayRecord):
            x: Vector
            A: Matrix

            def __init__(self, x, A):
                self.put(x=x, A=A)

    A field may be another record. Attributes with other annotations or without one exist in Python only, and so does a value
    that is assigned to an attribute without `put`.

    Compiled code may write into arrays, which Python sees, and may set fields to other arrays or numbers, which Python does not
    see. References are not counted: the caller must keep alive the arrays that compiled code sets or returns, and the record
    itself as long as `.fields` is in use.
    """

    field_types: ClassVar[dict[str, Any]]
    TYPE: ClassVar[RecordType]
    read_only: ClassVar[bool] = False
    """Whether the attributes in Python are read-only views."""
    fields: Any
    own: dict[str, Any]
    """Values of the fields, writable."""

    def __init_subclass__(cls) -> None:
        cls.field_types = {
            name: kind for name, hint in get_type_hints(cls, None, None, True).items() if (kind := _kind_of(hint))
        }
        cls.TYPE = RecordType(f"{cls.__module__}.{cls.__qualname__}", cls.field_types)

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create the record and its struct handle `fields`; with `NUMBA_DISABLE_JIT` `fields` is the record itself."""
        record = object.__new__(cls)
        record.fields = record if numba.config.DISABLE_JIT else StructHandle(cls.TYPE)
        record.own = {}
        return record

    def put(self, **values: Any) -> None:
        """Set fields in Python and in compiled code. Raises TypeError for a value of another type, whose field is unchanged."""
        for name, value in values.items():
            if self.fields is not self:
                begin, words = self.TYPE.places[name], self.TYPE.words(name, value)
                self.fields.array[begin : begin + len(words)] = words
            self.own[name] = value
            setattr(self, name, self._shown(value))

    def _shown(self, value: Any) -> Any:
        """Return the attribute for a field's value: the value, or a read-only view of it."""
        if not self.read_only or self.fields is self or not isinstance(value, np.ndarray):
            return value
        view = value.view()
        view.flags.writeable = False
        return view

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies, without the struct handle: a copy has its own."""
        return {name: value for name, value in vars(self).items() if name != "fields" and name not in self.own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = state.pop("own")
        vars(self).update(state, own={})
        self.put(**own)


def _hints(cls: type) -> Any:
    return get_type_hints(cls, include_extras=True).items()


def _kind_of(hint: Any) -> Any:
    """Return the type of a field in compiled code; None for attributes that exist in Python only."""
    if get_origin(hint) is Annotated:
        return hint.__metadata__[0]
    if isinstance(hint, type) and issubclass(hint, ArrayRecord):
        return hint.TYPE
    return NUMBERS.get(hint) if isinstance(hint, type) else None


@typeof_impl.register(StructHandle)
def _type_of(handle: StructHandle, _: Any) -> RecordType:
    return handle.kind


@unbox(RecordType)
def _unbox_handle(kind: RecordType, given: Any, c: Any) -> NativeValue:
    """Emit the address of a block of this type; the call raises TypeError for other objects."""
    b = c.builder
    address, refused = (
        cgutils.alloca_once_value(b, cgutils.get_null_value(cgutils.voidptr_t)),
        cgutils.alloca_once(b, cgutils.bool_t),
    )
    own_class = c.pyapi.get_type(given)  # borrowed reference
    is_handle = b.icmp_unsigned("==", own_class, b.bitcast(c.pyapi.get_c_object(HANDLE_CLASS), own_class.type))
    b.store(b.not_(is_handle), refused)
    with b.if_then(is_handle, likely=True):
        block = c.pyapi.long_as_voidptr(given)
        tag = b.load(b.bitcast(block, WORD.as_pointer()))
        b.store(block, address)
        b.store(b.icmp_unsigned("!=", tag, WORD(kind.tag)), refused)
    with b.if_then(b.load(refused), likely=False):
        c.pyapi.err_set_string("PyExc_TypeError", f"expected a record {kind}")
    return NativeValue(b.load(address), is_error=b.load(refused))


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = RecordType

    def generic_resolve(self, record: RecordType, name: str) -> Any:
        return record.fields.get(name)


@lower_getattr_generic(RecordType)
def _read(context: Any, builder: Any, record: RecordType, address: Any, name: str) -> Any:
    kind, place = record.fields[name], _place(builder, record, address, name)
    if not isinstance(kind, numba.types.Array):
        value = builder.load(builder.bitcast(place, _wide(context, kind).as_pointer()))
        return builder.icmp_unsigned("!=", value, WORD(0)) if kind == numba.boolean else value
    words = [builder.load(cgutils.gep_inbounds(builder, place, k)) for k in range(1 + kind.ndim)]
    if PLAIN:
        signature = kind(*[numba.uint64] * (1 + kind.ndim))
        return context.compile_internal(builder, _array_reader(kind), signature, words)
    return _array_struct(context, builder, kind, words)


def _array_struct(context: Any, builder: Any, kind: Any, words: list[Any]) -> Any:
    """Emit numba's array struct for an address and a shape, without an owner."""
    from numba.np.arrayobj import populate_array  # noqa: PLC0415  (private)

    view, item = context.make_array(kind)(context, builder), WORD(as_dtype(kind.dtype).itemsize)
    data, *shape = words
    strides = [item]
    for extent in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], extent))
    data = builder.inttoptr(data, view.data.type)
    populate_array(view, data=data, shape=shape, strides=strides, itemsize=item, meminfo=None)
    return view._getvalue()


def _array_reader(kind: Any) -> Callable[..., Any]:
    """Return a function of address and shape that compiled code calls to build an array by numba's public `carray`: the
    replacement for `_array_struct` in fallback mode."""
    number = as_dtype(kind.dtype)

    @intrinsic
    def pointer(_: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return numba.types.CPointer(kind.dtype)(address), codegen

    def one(address: Any, n: Any) -> Any:
        return numba.carray(pointer(address), (np.int64(n),), number)

    def two(address: Any, n: Any, m: Any) -> Any:
        return numba.carray(pointer(address), (np.int64(n), np.int64(m)), number)

    def three(address: Any, n: Any, m: Any, k: Any) -> Any:
        return numba.carray(pointer(address), (np.int64(n), np.int64(m), np.int64(k)), number)

    readers: tuple[Callable[..., Any], ...] = one, two, three
    return readers[kind.ndim - 1]


@lower_setattr_generic(RecordType)
def _write(context: Any, builder: Any, signature: Any, args: Any, name: str) -> None:
    (record, given), (address, value) = signature.args, args
    kind, place = record.fields[name], _place(builder, record, address, name)
    value = context.cast(builder, value, given, kind)
    if not isinstance(kind, numba.types.Array):
        value = builder.zext(value, WORD) if kind == numba.boolean else value
        builder.store(value, builder.bitcast(place, value.type.as_pointer()))
        return
    view = context.make_array(kind)(context, builder, value)
    words = [builder.ptrtoint(view.data, WORD), *cgutils.unpack_tuple(builder, view.shape, kind.ndim)]
    for k, word in enumerate(words):
        builder.store(word, cgutils.gep_inbounds(builder, place, k))


def _place(builder: Any, record: RecordType, address: Any, name: str) -> Any:
    """Emit a pointer to the first word of a field."""
    return cgutils.gep_inbounds(builder, builder.bitcast(address, WORD.as_pointer()), record.places[name])


def _wide(context: Any, kind: Any) -> Any:
    """Return the LLVM type of the word that stores a number or record."""
    return WORD if kind == numba.boolean else context.get_value_type(kind)
