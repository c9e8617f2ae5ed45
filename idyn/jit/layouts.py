"""Memory layout of NumPy arrays in CPython: offsets of their fields in bytes, and a probe that compares the values read at
these offsets with those that Python reports.

The offsets are those of `PyArrayObject_fields` and `PyArray_Descr` in NumPy 2's binary interface, on 64-bit CPython. Compiled
code reads these fields without a call (`idyn.jit.entry`), so the offsets are probed once in every process.
"""

import ctypes
from typing import Any, NamedTuple

import numpy as np

from idyn.types import Array

CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
"""Bits of NumPy's array flags."""


class ArrayLayout(NamedTuple):
    """Offsets of fields [bytes].

    object_type: in every object
    data … flags: in an array
    byte_order, type_number: in a dtype
    """

    object_type: int = 8
    data: int = 16
    ndim: int = 24
    shape: int = 32
    strides: int = 40
    dtype: int = 56
    flags: int = 64
    byte_order: int = 26
    type_number: int = 28


LAYOUT = ArrayLayout()


def probe_layout(layout: ArrayLayout = LAYOUT) -> str:
    """Return why arrays must not be read by these offsets; '' if all samples are read correctly."""
    for array in _samples():
        wrong = _first_difference(layout, array)
        if wrong:
            return f"the layout of NumPy {np.__version__} arrays differs in '{wrong}'"
    return ""


def _samples() -> list[Array]:
    """Return arrays of every dtype, dimension, order and flag that compiled code distinguishes."""
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    return [
        np.arange(5.0),
        np.ones((2, 3)),
        np.zeros((2, 0, 4)),
        np.asfortranarray(np.ones((2, 3))),
        np.arange(10.0)[::2],
        np.zeros(41, np.int8)[1:].view(np.float64),
        np.zeros(3, ">f8"),
        np.arange(4),
        np.ones((2, 2), np.bool_),
        np.zeros(3, np.float32),
        read_only,
    ]


def _first_difference(layout: ArrayLayout, array: Array) -> str:
    """Return the name of the first field that is read wrongly, or ''. Pointers are followed only if all other fields are
    right."""
    if not _inside(layout, array):
        return "size"
    start, dtype = id(array), id(array.dtype)
    flags = _read(ctypes.c_int32, start + layout.flags)
    expected = (
        ("object_type", _read(ctypes.c_uint64, start + layout.object_type), id(np.ndarray)),
        ("data", _read(ctypes.c_uint64, start + layout.data), array.ctypes.data),
        ("ndim", _read(ctypes.c_int32, start + layout.ndim), array.ndim),
        ("dtype", _read(ctypes.c_uint64, start + layout.dtype), dtype),
        ("contiguous", bool(flags & CONTIGUOUS), array.flags.c_contiguous),
        ("aligned", bool(flags & ALIGNED), array.flags.aligned),
        ("writable", bool(flags & WRITABLE), array.flags.writeable),
        ("byte_order", chr(_read(ctypes.c_uint8, dtype + layout.byte_order)), array.dtype.byteorder),
        ("type_number", _read(ctypes.c_int32, dtype + layout.type_number), array.dtype.num),
    )
    for name, found, right in expected:
        if found != right:
            return name
    shape, strides = (_read(ctypes.c_uint64, start + each) for each in (layout.shape, layout.strides))
    if strides - shape != 8 * array.ndim:  # NumPy allocates both as one block
        return "shape"
    extents = (ctypes.c_int64 * (2 * array.ndim)).from_address(shape)
    return "" if tuple(extents) == array.shape + array.strides else "shape"


def _inside(layout: ArrayLayout, array: Array) -> bool:
    """Return whether all offsets are inside the array object and its dtype."""
    of_array, of_dtype = layout[:7], (layout.object_type, layout.byte_order, layout.type_number)
    return max(of_array) + 8 <= np.ndarray.__basicsize__ and max(of_dtype) + 4 <= type(array.dtype).__basicsize__


def _read(kind: Any, address: int) -> int:
    return int(kind.from_address(address).value)
