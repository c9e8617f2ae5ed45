"""Types of what kernels receive: numbers, arrays, tuples and records, as the library and the build know them."""

import hashlib
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np


@dataclass(frozen=True)
class Number:
    """A single number. code: its letter in a signature, 'd', 'q' or '?'"""

    code: str

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.code)

    def __str__(self) -> str:
        return self.dtype.name


@dataclass(frozen=True)
class ArrayKind:
    """An array, contiguous in C order. code: letter of its numbers; written: whether a kernel writes this argument"""

    code: str
    ndim: int
    written: bool = False

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.code)

    def __str__(self) -> str:
        return f"{self.dtype.name} array of {self.ndim} dimension{'s' * (self.ndim > 1)}"


WHOLE, REAL, FLAG = Number("q"), Number("d"), Number("?")

VECTOR, MATRIX, CUBE = (ArrayKind("d", n) for n in (1, 2, 3))
INDICES, SPANS = (ArrayKind("q", n) for n in (1, 2))
FLAGS, MASK, BASES = (ArrayKind("?", n) for n in (1, 2, 3))


class Members(tuple[Any, ...]):
    """Type of a tuple of these types."""

    writable = False


class Borrowed(Members):
    """Type of a tuple of arrays that a kernel reads. A kernel must not store such an array in a record or return it."""

    def __new__(cls, *kinds: Any) -> "Borrowed":
        return super().__new__(cls, kinds)


class Output(Borrowed):
    """Type of a tuple of arrays that a kernel writes."""

    writable = True


def several(kind: Number, count: int) -> Members:
    """Return the type of a tuple of `count` numbers."""
    return Members([kind] * count)


class Named(Members):
    """Type of a named tuple, of class `source`."""

    source: type

    def __new__(cls, source: type, kinds: list[Any]) -> "Named":
        made = super().__new__(cls, kinds)
        made.source = source
        return made


def written(kind: ArrayKind) -> ArrayKind:
    """Return the type of an array argument that the kernel writes."""
    return ArrayKind(kind.code, kind.ndim, written=True)


class RecordType:
    """Type of a record.

    fields: types of the fields by name
    places: offsets of the fields in the block [words]; an array field is its address, then its shape
    size: length of the block [words]
    tag: number of the type, the first word of each block. It depends on the fields, and on those of nested records.
    """

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name, self.fields, self.places, self.size = name, fields, dict[str, int](), 1
        described = f"{name} {[(field, str(kind), getattr(kind, 'tag', 0)) for field, kind in fields.items()]}"
        self.tag = int.from_bytes(hashlib.sha256(described.encode()).digest()[:7], "little")
        for field, kind in fields.items():
            self.places[field] = self.size
            self.size += 1 + getattr(kind, "ndim", 0)

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordType) and (self.name, self.tag) == (other.name, other.tag)

    def __hash__(self) -> int:
        return hash((self.name, self.tag))

    def words(self, name: str, value: Any) -> list[int]:
        """Return the words that represent `value` in field `name`. Raises TypeError for a value of another type."""
        kind = self.fields[name]
        if isinstance(kind, RecordType):
            if value.fields.kind != kind:
                raise TypeError(f"{self}.{name}: expected a record {kind}, got {value.fields.kind}")
            return [int(value.fields)]
        if isinstance(kind, Number):
            given = np.array(value)
            if not np.can_cast(given.dtype, kind.dtype):
                raise TypeError(f"{self}.{name}: expected {kind}, got {value!r}")
            return [int(given.astype(np.int64 if kind == FLAG else kind.dtype).view(np.int64))]
        if value.dtype != kind.dtype or value.ndim != kind.ndim or not value.flags.carray:
            raise TypeError(f"{self}.{name}: expected {kind}, got {value.dtype} {value.shape} with strides {value.strides}")
        return [value.ctypes.data, *value.shape]


Kind: TypeAlias = Number | ArrayKind | RecordType | Members


def signature(kind: Kind) -> list[int]:
    """Return the words that describe an argument to `call.c`: a letter; for arrays also the number of dimensions and whether it
    is written, for records the tag, for tuples the number of members and these."""
    if isinstance(kind, Number):
        return [ord(kind.code)]
    if isinstance(kind, ArrayKind):
        return [ord("A"), ord(kind.code), kind.ndim, int(kind.written)]
    if isinstance(kind, RecordType):
        return [ord("R"), kind.tag]
    words = [ord("("), len(kind)]
    for member in kind:
        part = signature(member)
        words += [*part[:-1], int(kind.writable)] if isinstance(member, ArrayKind) else part
    return words


def described(kind: Kind) -> str:
    """Return an argument's type in words."""
    if isinstance(kind, Members):
        return f"({', '.join(map(described, kind))})"
    return f"record {kind}" if isinstance(kind, RecordType) else str(kind)
