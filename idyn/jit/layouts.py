"""Where CPython and NumPy keep an array's data: offsets in bytes, and a probe that compares them with what Python says.

The offsets are those of `PyArrayObject_fields` and `PyArray_Descr` in NumPy 2's binary interface, on 64-bit CPython. Compiled
code reads them without a call (`idyn.jit.entry`), so they are probed once in every process.
"""

import ctypes
from typing import Any, NamedTuple

import numpy as np

from idyn.types import Array

CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
"""NumPy's flags of arrays."""


class ArrayLayout(NamedTuple):
    """Offsets in an object [bytes]: its type, which all objects have; of an array; of a dtype."""

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
    """Why arrays must not be read by these offsets; empty when all samples are read correctly."""
    for array in _samples():
        wrong = _first_difference(layout, array)
        if wrong:
            return f"the layout of NumPy {np.__version__} arrays differs in '{wrong}'"
    return ""


def _samples() -> list[Array]:
    """Arrays of every dtype, dimension, order and flag that compiled code tells apart."""
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
    """Name of the first field that is read wrongly. Pointers are followed only when the fields around them are right."""
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
    """Whether all offsets are inside the objects."""
    of_array, of_dtype = layout[:7], (layout.object_type, layout.byte_order, layout.type_number)
    return max(of_array) + 8 <= np.ndarray.__basicsize__ and max(of_dtype) + 4 <= type(array.dtype).__basicsize__


def _read(kind: Any, address: int) -> int:
    return int(kind.from_address(address).value)
