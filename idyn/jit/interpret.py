"""Kernels run as plain Python on the memory of their compiled versions.

An interpreted kernel takes the arguments of the compiled one, refuses the same ones with a TypeError, and returns the same
Python types. A record arrives as a `RecordView` of its block, so both versions read and write the same words, and a call of one
may follow a call of the other at any time. Division by zero gives inf or NaN without a warning, as in compiled code.
"""

import ctypes
from typing import Any

import numba
import numpy as np
from numba.np.numpy_support import as_dtype

from idyn.jit.entry import Borrowed, check_arrays, is_array
from idyn.jit.layouts import CONTIGUOUS
from idyn.jit.records import RecordType, StructHandle
from idyn.jit.twins import twin

NUMBERS: dict[Any, Any] = {numba.float64: np.float64, numba.int64: int, numba.boolean: bool}
"""What numbers become: np.float64 divides by zero as compiled code does."""


class RecordView:
    """The block of a record as an object with the record's fields. TYPE: type of the record in compiled code"""

    def __init__(self, kind: RecordType, address: int) -> None:
        words = numba.carray(ctypes.c_void_p(address), (kind.size,), np.int64)
        vars(self).update(TYPE=kind, _words=words, _reals=words.view(np.float64), _known={})

    def __getattr__(self, name: str) -> Any:
        """Read a field. Arrays and records are views, kept as long as the block holds the same address and shape."""
        kind = vars(self)["TYPE"].fields.get(name)
        if kind is None:
            raise AttributeError(f"{vars(self)['TYPE']} has no field {name}")
        begin = self.TYPE.places[name]
        if kind == numba.float64:
            return self._reals[begin]
        if kind in NUMBERS:
            return NUMBERS[kind](self._words[begin])
        words = self._words[begin : begin + 1 + getattr(kind, "ndim", 0)].tolist()
        known = self._known.get(name)
        if known is None or known[0] != words:
            known = self._known[name] = words, _view(kind, words)
        return known[1]

    def __setattr__(self, name: str, value: Any) -> None:
        """Write a field. As in compiled code, the caller keeps arrays alive."""
        begin, words = self.TYPE.places[name], self.TYPE.words(name, value)
        self._words[begin : begin + len(words)] = words


def _view(kind: Any, words: list[int]) -> Any:
    """Return the record or array at an address. words: address, then the shape of an array"""
    address, *shape = words
    if isinstance(kind, RecordType):
        return RecordView(kind, address)
    dtype = as_dtype(kind.dtype)
    return numba.carray(ctypes.c_void_p(address), tuple(shape), dtype) if np.prod(shape) else np.empty(shape, dtype)


class Interpreted:
    """A kernel for arguments of these types, run as Python. Calls raise TypeError for arguments of other types."""

    def __init__(self, kernel: Any, types: tuple[Any, ...]) -> None:
        self._function, self._types = twin(kernel), types

    def __call__(self, *arguments: Any) -> Any:
        if len(arguments) != len(self._types):
            raise TypeError(f"expected {len(self._types)} arguments, got {len(arguments)}")
        given = [_argument(kind, each) for kind, each in zip(self._types, arguments, strict=True)]
        with np.errstate(all="ignore"):
            return _result(self._function(*given))


def _argument(kind: Any, value: Any) -> Any:
    """Return an argument as interpreted code takes it. Raises TypeError if it is of another type."""
    if isinstance(kind, RecordType):
        if not isinstance(value, StructHandle) or value.kind != kind:
            raise TypeError(f"expected a record {kind}")
        view = vars(value).get("view")
        if view is None:
            view = vars(value)["view"] = RecordView(kind, value)
        return view
    if kind in NUMBERS:
        return NUMBERS[kind](value)
    if isinstance(kind, Borrowed):
        check_arrays(kind, value)
    elif isinstance(kind, numba.types.BaseTuple):
        parts = map(_argument, kind, value)
        return tuple(parts) if type(value) is tuple else type(value)(*parts)
    elif isinstance(kind, numba.types.Array) and kind.layout == "C" and not is_array(kind, value, CONTIGUOUS):
        raise TypeError(f"expected a contiguous array {kind}")
    return value


def _result(value: Any) -> Any:
    """Return a result with Python's numbers, as compiled code returns it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        parts = map(_result, value)
        return tuple(parts) if type(value) is tuple else type(value)(*parts)
    return value
