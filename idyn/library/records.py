"""What kernels receive: numbers, arrays, tuples and records. Their types are annotations:

    float, int, bool             numbers
    Vector, Matrix, Indices, …   arrays, contiguous in C order; `written(Vector)`: one that the kernel writes
    (Vector, float), Pair        tuples: of these types; of the fields of a NamedTuple class, which are annotated so
    a subclass of `ArrayRecord`  records: arrays and numbers by name, passed as one struct, whose memory Python uses, too

A kernel must not store an array of a tuple in a record, nor return it.
"""

import struct
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Annotated, Any, ClassVar, Self, get_type_hints

import numpy as np

from idyn.library.digest import digest
from idyn.library.mode import MODE, PYTHON


@dataclass(frozen=True)
class Numbers:
    """Numbers: one or an array. code: 'd', 'l' or '?'; ndim: of a number 0; written: whether a kernel writes the array"""

    code: str
    ndim: int = 0
    written: bool = False

    def __repr__(self) -> str:
        name = np.dtype(self.code).name
        return f"{name} array of {self.ndim} dimension{'s' * (self.ndim > 1)}" if self.ndim else name


Vector = Annotated[np.ndarray, Numbers("d", 1)]
Matrix = Annotated[np.ndarray, Numbers("d", 2)]
Cube = Annotated[np.ndarray, Numbers("d", 3)]
Indices = Annotated[np.ndarray, Numbers("l", 1)]
Spans = Annotated[np.ndarray, Numbers("l", 2)]
Flags = Annotated[np.ndarray, Numbers("?", 1)]
Mask = Annotated[np.ndarray, Numbers("?", 2)]
Bases = Annotated[np.ndarray, Numbers("?", 3)]

NUMBERS = {int: Numbers("l"), float: Numbers("d"), bool: Numbers("?")}


def kind_of(hint: Any) -> Any:
    """Return the type that an annotation stands for: `Numbers`, a class of records, or a tuple or named tuple of these."""
    if isinstance(hint, tuple):
        return tuple(map(kind_of, hint))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return hint(*map(kind_of, get_type_hints(hint, include_extras=True).values()))
    if isinstance(hint, type):
        return hint if issubclass(hint, ArrayRecord) else NUMBERS.get(hint)
    return getattr(hint, "__metadata__", (hint,))[0]


def written(hint: Any) -> Any:
    """Return the type of an array that a kernel writes, or of a tuple of such arrays."""
    kind = kind_of(hint)
    return tuple(map(written, kind)) if isinstance(kind, tuple) else replace(kind, written=True)


def signature(kind: Any) -> list[int]:
    """Return four words that describe an argument to `call.c`, of a tuple then those of its members: a letter; dimensions or
    members; whether an array is written; the letter of its numbers, or the tag of a record."""
    if isinstance(kind, tuple):
        return [ord("("), len(kind), 0, 0, *chain.from_iterable(map(signature, kind))]
    if isinstance(kind, Numbers):
        return [ord("A" if kind.ndim else kind.code), kind.ndim, kind.written, ord(kind.code)]
    return [ord("R"), 0, 0, kind.TAG]


class ArrayRecord(int):
    """Arrays and numbers by name. To a kernel a record is the address of a block of words, which is its value as a number; the
    Python object keeps block and arrays alive. A subclass annotates its fields (`x: Vector`; another record), and sets them by
    assignment or by `put`. Attributes with other annotations or without one exist in Python only.

    Kernels may write into arrays and set numbers, which Python sees, and may set fields to other arrays, which Python does not
    see. References are not counted: the caller must keep alive the arrays that kernels set, and the record itself as long as
    its block is in use.
    """

    FIELDS: ClassVar[dict[str, Any]]
    """Types of the fields by name."""
    PLACES: ClassVar[dict[str, int]]
    """Offsets of the fields in the block [words]; an array is its address, then its shape. The last one is the size."""
    TAG: ClassVar[int]
    """Number of the type, the first word of each block, which every call checks: a digest of the fields, nested ones too."""
    read_only: ClassVar[bool] = False
    """Whether the arrays in Python are read-only views; kernels that run as Python get the arrays themselves."""
    own: dict[str, Any]
    """Arrays and records by name, writable."""

    def __init_subclass__(cls) -> None:
        kinds = {name: kind_of(hint) for name, hint in get_type_hints(cls, include_extras=True).items()}
        cls.FIELDS = {name: kind for name, kind in kinds.items() if isinstance(kind, Numbers | type)}
        ends = accumulate((1 + getattr(kind, "ndim", 0) for kind in cls.FIELDS.values()), initial=1)
        cls.PLACES = dict(zip([*cls.FIELDS, ""], ends, strict=True))
        described = [cls.__module__, cls.__qualname__, *((name, signature(kind)) for name, kind in cls.FIELDS.items())]
        cls.TAG = int(digest(str(described).encode())[:14], 16)

    def __new__(cls, *_: Any, **__: Any) -> Self:
        block = np.zeros(cls.PLACES[""], np.int64)
        block[0] = cls.TAG
        record = super().__new__(cls, block.ctypes.data)
        vars(record).update(block=block, own={})
        return record

    def __repr__(self) -> str:
        return f"record {type(self).__qualname__}"

    def __getattr__(self, name: str) -> Any:
        """Read a number, which kernels may have set."""
        kind = self.FIELDS.get(name)
        if not isinstance(kind, Numbers) or kind.ndim:
            raise AttributeError(f"{self}: no value of {name}")
        return struct.unpack_from(kind.code, self.block, 8 * self.PLACES[name])[0]

    def __setattr__(self, name: str, value: Any) -> None:
        self.put(**{name: value}) if name in self.FIELDS else super().__setattr__(name, value)

    def put(self, **values: Any) -> None:
        """Set fields. Raises TypeError for a value of another type, whose field is unchanged."""
        for name, value in values.items():
            kind, place, words = self.FIELDS[name], self.PLACES[name], _words(self.FIELDS[name], value)
            if not words:
                array = isinstance(value, np.ndarray)
                got = f"{value.dtype} {value.shape} with strides {value.strides}" if array else repr(value)
                raise TypeError(f"{type(self).__qualname__}.{name}: expected {kind}, got {got}")
            self.block[place : place + len(words)] = words
            if kind not in NUMBERS.values():
                vars(self)[name] = self.own[name] = value
            if self.read_only and MODE != PYTHON and isinstance(value, np.ndarray):
                vars(self)[name] = value.view()
                vars(self)[name].flags.writeable = False

    def __getstate__(self) -> dict[str, Any]:
        """Return attributes and fields for copies, which have blocks of their own."""
        numbers = {name: getattr(self, name) for name, kind in self.FIELDS.items() if kind in NUMBERS.values()}
        return {name: value for name, value in vars(self).items() if name not in ("block", "own")} | numbers | self.own

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


def _words(kind: Any, value: Any) -> list[int]:
    """Return the words of a field with this value; none if the value is of another type."""
    if not isinstance(kind, Numbers):
        return [int(value)] if isinstance(value, ArrayRecord) and value.TAG == kind.TAG else []
    if kind.ndim:
        fits = isinstance(value, np.ndarray) and (value.dtype, value.ndim) == (kind.code, kind.ndim) and value.flags.carray
        return [value.ctypes.data, *value.shape] if fits else []
    given = np.array(value)
    fits = given.ndim == 0 and np.can_cast(given.dtype, kind.code)
    return [int(given.astype(np.int64 if kind.code == "?" else kind.code).view(np.int64))] if fits else []
