"""Array records: arrays and numbers by name that are passed to kernels as one struct; Python uses the same memory.

In a kernel a record is the address of its fields; the Python object keeps fields and arrays alive. The argument passed is a
`StructHandle`, an integer whose value is the address. Each block of fields begins with the number of its record type
(tag), which every call checks.
"""

import ctypes
from typing import Annotated, Any, ClassVar, Self, get_origin, get_type_hints

import numpy as np

from idyn.library.kinds import (
    BASES,
    CUBE,
    FLAG,
    FLAGS,
    INDICES,
    MASK,
    MATRIX,
    REAL,
    SPANS,
    VECTOR,
    WHOLE,
    Named,
    Number,
    RecordType,
)
from idyn.library.mode import MODE, PYTHON

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
READ = {WHOLE: int, REAL: np.float64, FLAG: bool}
"""What numbers of a block become in Python: np.float64 divides by zero as kernels do."""


class StructHandle(int):
    """Address of a record's block, which kernels receive instead of the record.

    array: the block [words]; kind: its type
    Kernels that run as Python read and write fields as attributes: they work on the same memory as the library's.
    """

    array: np.ndarray
    kind: RecordType

    def __new__(cls, kind: RecordType) -> "StructHandle":
        block = np.zeros(kind.size, np.int64)
        block[0] = kind.tag
        return cls._of(kind, block)

    @classmethod
    def _of(cls, kind: RecordType, block: np.ndarray) -> "StructHandle":
        handle = int.__new__(cls, block.ctypes.data)
        vars(handle).update(array=block, kind=kind, known={})
        return handle

    def __getattr__(self, name: str) -> Any:
        """Read a field. Arrays and records are views, kept as long as the block holds the same address and shape."""
        kind = self.kind.fields.get(name)
        if kind is None:
            raise AttributeError(f"{self.kind} has no field {name}")
        begin = self.kind.places[name]
        words = self.array[begin : begin + 1 + getattr(kind, "ndim", 0)]
        if isinstance(kind, Number):
            return READ[kind](words.view(np.float64 if kind == REAL else np.int64)[0])
        found, known = words.tolist(), vars(self)["known"]
        if name not in known or known[name][0] != found:
            known[name] = found, self._view(kind, *found)
        return known[name][1]

    def _view(self, kind: Any, address: int, *shape: int) -> Any:
        if isinstance(kind, RecordType):
            return self._of(kind, _numbers(address, WHOLE.dtype, (kind.size,)))
        return _numbers(address, kind.dtype, shape)

    def __setattr__(self, name: str, value: Any) -> None:
        """Write a field. As in a kernel, the caller keeps arrays alive."""
        begin, words = self.kind.places[name], self.kind.words(name, value)
        self.array[begin : begin + len(words)] = words


def _numbers(address: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array of these numbers at an address."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    return np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), dtype).reshape(shape)


class ArrayRecord:
    """Arrays by name, the same memory for Python (attributes of this object) and for kernels (fields of `.fields`).

    A subclass annotates its fields and sets each of them with `put`. `TYPE` is its type in kernels:

        class Pair(ArrayRecord):
            x: Vector
            A: Matrix

            def __init__(self, x, A):
                self.put(x=x, A=A)

    A field may be another record. Attributes with other annotations or without one exist in Python only, and so does a value
    that is assigned to an attribute without `put`.

    Kernels may write into arrays, which Python sees, and may set fields to other arrays or numbers, which Python does not
    see. References are not counted: the caller must keep alive the arrays that kernels sets or returns, and the record
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
        """Create the record and its struct handle `fields`; where kernels are Python functions, the record itself."""
        record = object.__new__(cls)
        record.fields = record if MODE == PYTHON else StructHandle(cls.TYPE)
        record.own = {}
        return record

    def put(self, **values: Any) -> None:
        """Set fields in Python and in kernels. Raises TypeError for a value of another type, whose field is unchanged."""
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


def _kind_of(hint: Any) -> Any:
    """Return the type of a field in kernels; None for attributes that exist in Python only."""
    if get_origin(hint) is Annotated:
        return hint.__metadata__[0]
    if isinstance(hint, type) and issubclass(hint, ArrayRecord):
        return hint.TYPE
    return NUMBERS.get(hint) if isinstance(hint, type) else None


def named(source: type) -> Named:
    """Return the type of a named tuple, whose fields are annotated like those of a record or are named tuples themselves."""
    hints = get_type_hints(source, include_extras=True)
    return Named(source, [named(hint) if hasattr(hint, "_fields") else _kind_of(hint) for hint in hints.values()])
