"""Messages of ROS 2 as bytes on the wire, by the table of `transport.bridges.ros2.messages`.

Plain CDR, little-endian: after a header of 4 bytes each number is aligned to its size. A string is its length with the final
zero byte, its bytes, and that byte. A sequence is its length and its elements. A message is a dict by the names of its fields.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from idyn.errors import InputError
from transport.bridges.ros2.messages import FIELDS, NUMBERS, STRING

HEADER = b"\x00\x01\x00\x00"
"""First bytes of a message on the wire: CDR, little-endian, no options."""

COUNT = "<u4"
"""Format of the length of a string or sequence."""

MOST_PADDING = 3
"""Bytes that may follow a message: DDS pads to a multiple of 4."""


def encode(kind: str, message: Mapping[str, Any]) -> bytes:
    """Return the bytes of a message. Fields that are absent are 0 or empty.

    Raises InputError for an unknown field, and for an array of a wrong length.
    """
    out = bytearray()
    _write(out, kind, message)
    return HEADER + bytes(out)


def decode(kind: str, data: bytes) -> dict[str, Any]:
    """Return a message; sequences and arrays of numbers as lists. Raises InputError for bytes that are none."""
    reader = _Reader(kind, data)
    message = reader.message(kind, kind)
    if len(data) - reader.at > MOST_PADDING:
        raise InputError(kind, f"expected {reader.at} bytes, got {len(data)}")
    return message


def _write(out: bytearray, kind: str, message: Mapping[str, Any]) -> None:
    fields = FIELDS[kind]
    if unknown := message.keys() - {field.name for field in fields}:
        raise InputError(kind, f"no field '{min(unknown)}'")
    for name, each, size in fields:
        if size == 0:
            _write_all(out, each, [message[name]] if name in message else _NOTHING.get(each, [{}]))
            continue
        elements = message.get(name, () if size < 0 else _NOTHING.get(each, [{}]) * size)
        if size < 0:
            _write_all(out, "uint32", [len(elements)])
        elif len(elements) != size:
            raise InputError(f"{kind}.{name}", f"expected {size} elements, got {len(elements)}")
        _write_all(out, each, elements)


_NOTHING: dict[str, list[Any]] = {STRING: [""]} | {name: [0] for name in NUMBERS}


def _write_all(out: bytearray, kind: str, values: Sequence[Any]) -> None:
    """Append values of one type."""
    if kind in NUMBERS:
        numbers = np.asarray(values, NUMBERS[kind].format)
        out += bytes(-len(out) % numbers.itemsize if len(values) else 0) + numbers.tobytes()
    elif kind == STRING:
        for value in values:
            text = value.encode() + b"\0"
            _write_all(out, "uint32", [len(text)])
            out += text
    else:
        for value in values:
            _write(out, kind, value)


@cache
def _least(kind: str) -> int:
    """Return the least number of bytes of a value of this type."""
    if kind in NUMBERS:
        return np.dtype(NUMBERS[kind].format).itemsize
    if kind == STRING:
        return np.dtype(COUNT).itemsize + 1
    return sum(np.dtype(COUNT).itemsize if size < 0 else max(size, 1) * _least(each) for _, each, size in FIELDS[kind])


class _Reader:
    """Reads a message. at: next byte"""

    def __init__(self, kind: str, data: bytes) -> None:
        if data[:2] != HEADER[:2] or len(data) < len(HEADER):
            raise InputError(kind, f"expected little-endian CDR, got {len(data)} bytes that begin with '{data[:2].hex()}'")
        self._data, self.at = data, len(HEADER)

    def message(self, kind: str, path: str) -> dict[str, Any]:
        message: dict[str, Any] = {}
        for name, each, size in FIELDS[kind]:
            place = f"{path}.{name}"
            if size == 0:
                (message[name],) = self._values(each, 1, place)
            else:
                message[name] = self._values(each, self._count(place) if size < 0 else size, place)
        return message

    def _values(self, kind: str, count: int, path: str) -> list[Any]:
        """Read values of one type. The bytes that they need at least are there before anything is made of them."""
        if count * _least(kind) > len(self._data) - self.at:
            raise InputError(path, f"expected {count} of '{kind}', got {len(self._data) - self.at} bytes")
        if kind in NUMBERS:
            return self._numbers(NUMBERS[kind].format, count, path)
        if kind == STRING:
            return [self._text(path) for _ in range(count)]
        return [self.message(kind, path) for _ in range(count)]

    def _numbers(self, form: str, count: int, path: str) -> list[Any]:
        size = np.dtype(form).itemsize
        start = self.at + (-(self.at - len(HEADER)) % size if count else 0)
        if start + count * size > len(self._data):
            raise InputError(path, f"expected {count} numbers of {size} bytes, got {len(self._data) - start} bytes")
        self.at = start + count * size
        found: list[Any] = np.frombuffer(self._data, form, count, start).tolist() if count else []
        return found

    def _count(self, path: str) -> int:
        return int(self._numbers(COUNT, 1, path)[0])

    def _text(self, path: str) -> str:
        length = self._count(path)
        end = self.at + length
        if not 0 < length <= len(self._data) - self.at or self._data[end - 1] != 0:
            raise InputError(path, f"expected a string of {length} bytes with a final zero")
        try:
            text = self._data[self.at : end - 1].decode()
        except UnicodeDecodeError:
            raise InputError(path, "expected UTF-8") from None
        self.at = end
        return text
