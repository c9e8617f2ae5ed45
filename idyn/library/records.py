"""What kernels receive: numbers, arrays, tuples and records. Their types are annotations:

    float, int, bool             numbers
    Vector, Matrix, Indices, …   arrays, contiguous in C order; `written(Vector)`: one that the kernel writes
    (Vector, float), Pair        tuples: of these types; of the fields of a NamedTuple class, which are annotated so
    a subclass of `ArrayRecord`  records: arrays and numbers by name, passed as one struct, whose memory Python uses, too

A kernel must not store an array of a tuple in a record, nor return it.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self, get_origin, get_type_hints

import numpy as np

from idyn.library.mode import MODE, PYTHON


@dataclass(frozen=True)
class Numbers:
    """Numbers: one or an array. code: 'd', 'q' or '?'; ndim: of a number 0; written: whether a kernel writes the array"""

    code: str
    ndim: int = 0
    written: bool = False

    def __str__(self) -> str:
        name = np.dtype(self.code).name
        return f"{name} array of {self.ndim} dimension{'s' * (self.ndim > 1)}" if self.ndim else name


Vector = Annotated[np.ndarray, Numbers("d", 1)]
Matrix = Annotated[np.ndarray, Numbers("d", 2)]
Cube = Annotated[np.ndarray, Numbers("d", 3)]
Indices = Annotated[np.ndarray, Numbers("q", 1)]
Spans = Annotated[np.ndarray, Numbers("q", 2)]
Flags = Annotated[np.ndarray, Numbers("?", 1)]
Mask = Annotated[np.ndarray, Numbers("?", 2)]
Bases = Annotated[np.ndarray, Numbers("?", 3)]

NUMBERS = {int: Numbers("q"), float: Numbers("d"), bool: Numbers("?")}


class RecordType:
    """Type of a record.

    fields: types of the fields by name
    places: offsets of the fields in the block [words]; an array field is its address, then its shape
    size: length of the block [words]
    tag: number of the type, the first word of each block. It depends on the fields, and on those of nested records.
    """

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name, self.fields, self.places, self.size = name, fields, dict[str, int](), 1
        described = f"{name} {[(field, *signature(kind)) for field, kind in fields.items()]}"
        self.tag = int.from_bytes(hashlib.sha256(described.encode()).digest()[:7], "little")
        for field, kind in fields.items():
            self.places[field] = self.size
            self.size += 1 + getattr(kind, "ndim", 0)

    def __str__(self) -> str:
        return f"record {self.name}"


def kind_of(hint: Any) -> Any:
    """Return the type that an annotation stands for: `Numbers`, `RecordType`, or a tuple or named tuple of these; None for
    attributes that exist in Python only."""
    if isinstance(hint, tuple):
        return tuple(map(kind_of, hint))
    if get_origin(hint) is Annotated:
        return hint.__metadata__[0]
    if isinstance(hint, type) and issubclass(hint, tuple):
        return hint(*map(kind_of, get_type_hints(hint, include_extras=True).values()))
    if isinstance(hint, type):
        return hint.TYPE if issubclass(hint, ArrayRecord) else NUMBERS.get(hint)
    return hint if isinstance(hint, Numbers | RecordType) else None


def written(hint: Any) -> Any:
    """Return the type of an array that a kernel writes, or of a tuple of such arrays."""
    kind = kind_of(hint)
    return tuple(map(written, kind)) if isinstance(kind, tuple) else replace(kind, written=True)


def signature(kind: Any) -> Iterator[int]:
    """Yield the words that describe an argument to `call.c`: a letter; for arrays also the number of dimensions and whether it
    is written, for records the tag, for tuples the number of members and these."""
    if isinstance(kind, tuple):
        yield from (ord("("), len(kind))
        for member in kind:
            yield from signature(member)
    elif isinstance(kind, RecordType):
        yield from (ord("R"), kind.tag)
    else:
        yield from (ord("A"), ord(kind.code), kind.ndim, kind.written) if kind.ndim else (ord(kind.code),)


def described(kind: Any) -> str:
    """Return an argument's type in words."""
    return f"({', '.join(map(described, kind))})" if isinstance(kind, tuple) else str(kind)


class ArrayRecord(int):
    """Arrays and numbers by name. To a kernel a record is the address of a block of words, which is its value as a number; the
    Python object keeps block and arrays alive. Each block begins with the number of its type (tag), which every call checks.

    A subclass annotates its fields and sets them, by assignment or by `put`. `TYPE` is its type in kernels:

        class Pair(ArrayRecord):
            x: Vector
            A: Matrix

            def __init__(self, x, A):
                self.put(x=x, A=A)

    A field may be another record. Attributes with other annotations or without one exist in Python only.

    Kernels may write into arrays and set numbers, which Python sees, and may set fields to other arrays, which Python does not
    see. References are not counted: the caller must keep alive the arrays that kernels set, and the record itself as long as
    its block is in use.
    """

    TYPE: ClassVar[RecordType]
    read_only: ClassVar[bool] = False
    """Whether the arrays in Python are read-only views; kernels that run as Python get the arrays themselves."""
    own: dict[str, Any]
    """Arrays and records by name, writable."""

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True)
        fields = {name: kind for name, hint in hints.items() if (kind := kind_of(hint)) is not None}
        cls.TYPE = RecordType(f"{cls.__module__}.{cls.__qualname__}", fields)

    def __new__(cls, *_: Any, **__: Any) -> Self:
        block = np.zeros(cls.TYPE.size, np.int64)
        block[0] = cls.TYPE.tag
        record = super().__new__(cls, block.ctypes.data)
        vars(record).update(block=block, own={})
        return record

    def __repr__(self) -> str:
        return str(self.TYPE)

    def __getattr__(self, name: str) -> Any:
        """Read a number, which kernels may have set."""
        kind = self.TYPE.fields.get(name)
        if not isinstance(kind, Numbers) or kind.ndim:
            raise AttributeError(f"{self}: no value of {name}")
        word = self.block[self.TYPE.places[name]]
        return word.view(np.float64) if kind.code == "d" else int(word) if kind.code == "q" else bool(word)

    def __setattr__(self, name: str, value: Any) -> None:
        self.put(**{name: value}) if name in self.TYPE.fields else super().__setattr__(name, value)

    def put(self, **values: Any) -> None:
        """Set fields. Raises TypeError for a value of another type, whose field is unchanged."""
        for name, value in values.items():
            kind, place, words = self.TYPE.fields[name], self.TYPE.places[name], _words(self.TYPE.fields[name], value)
            if not words:
                array = isinstance(value, np.ndarray)
                got = f"{value.dtype} {value.shape} with strides {value.strides}" if array else repr(value)
                raise TypeError(f"{self.TYPE.name}.{name}: expected {kind}, got {got}")
            self.block[place : place + len(words)] = words
            if kind not in NUMBERS.values():
                vars(self)[name] = self.own[name] = value
            if self.read_only and MODE != PYTHON and isinstance(value, np.ndarray):
                vars(self)[name] = value.view()
                vars(self)[name].flags.writeable = False

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return attributes and fields for copies, which have blocks of their own."""
        numbers = {name: getattr(self, name) for name, kind in self.TYPE.fields.items() if kind in NUMBERS.values()}
        others = {name: value for name, value in vars(self).items() if name not in {"block", "own", *self.own}}
        return others, numbers | self.own

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
        vars(self).update(state[0])
        self.put(**state[1])


def _words(kind: Any, value: Any) -> list[int]:
    """Return the words of a field with this value; none if the value is of another type."""
    if isinstance(kind, RecordType):
        return [int(value)] if isinstance(value, ArrayRecord) and value.TYPE.tag == kind.tag else []
    given = value if kind.ndim else np.array(value)
    if not (isinstance(given, np.ndarray) and given.ndim == kind.ndim and np.can_cast(given.dtype, kind.code)):
        return []
    if kind.ndim:
        return [value.ctypes.data, *value.shape] if value.dtype == kind.code and value.flags.carray else []
    return [int(given.astype(np.int64 if kind.code == "?" else kind.code).view(np.int64))]
