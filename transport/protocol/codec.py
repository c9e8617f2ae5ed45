"""Bytes ↔ messages: the only door to the wire encoding. Any bytes give a message or a `ProtocolError`, nothing else."""

import re
from typing import Any

import msgspec
import numpy as np

from idyn.errors import nearest
from idyn.terms.inputs import finite
from idyn.types import Array
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import Message
from transport.protocol.messages.base import SCHEMA, Vector
from transport.protocol.messages.error import Code
from transport.protocol.sizes import MAX_BYTES

_MAJOR = SCHEMA.split(".", maxsplit=1)[0]
_PREFIX = _MAJOR + "."
_TYPES = tuple(kind.__struct_config__.tag for kind in Message.__args__)
_FLOAT64 = np.dtype("<f8")


class _Envelope(msgspec.Struct):
    """What can be read of a message that does not fit the schema."""

    t: Any = None
    v: Any = None
    seq: Any = None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_ENVELOPE = msgspec.msgpack.Decoder(_Envelope)
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode(message: Message) -> bytes:
    return _ENCODER.encode(message)


def decode(data: bytes) -> Message:
    """The message in `data`. Raises ProtocolError naming the field to blame; it carries `seq` when that can be read."""
    if len(data) > MAX_BYTES:
        raise ProtocolError(Code.BAD_SCHEMA, None, f"expected at most {MAX_BYTES} bytes, got {len(data)}")
    try:
        message = _DECODER.decode(data)
    except _MALFORMED as error:
        raise _refusal(data, error) from None
    if not message.v.startswith(_PREFIX):
        raise _version_error(message.v, getattr(message, "seq", None))
    return message


def message_type(data: bytes) -> str | None:
    """The `t` of a message without reading the rest; None when it cannot be told, or is not to be read."""
    if len(data) > MAX_BYTES:
        return None
    return t if isinstance(t := _envelope(data).t, str) else None


def _envelope(data: bytes) -> _Envelope:
    try:
        return _ENVELOPE.decode(data)
    except _MALFORMED:
        return _Envelope()


def _version_error(version: str, seq: int | None) -> ProtocolError:
    return ProtocolError(Code.VERSION_MISMATCH, "v", f"expected schema {_PREFIX}x, got {version}", seq)


def _refusal(data: bytes, error: Exception) -> ProtocolError:
    """Why `data` is refused: first another version, then an unknown type, then the field that does not fit."""
    envelope = _envelope(data)
    seq = envelope.seq if type(envelope.seq) is int and envelope.seq >= 0 else None  # True is an int, too
    if isinstance(envelope.v, str) and not envelope.v.startswith(_PREFIX):
        return _version_error(envelope.v, seq)
    if isinstance(envelope.t, str) and envelope.t not in _TYPES:
        unknown = f"unknown message type '{envelope.t}'{nearest(envelope.t, _TYPES)}"
        return ProtocolError(Code.BAD_SCHEMA, "t", unknown, seq)
    return ProtocolError(Code.BAD_SCHEMA, *_field_and_reason(error), seq)


def _field_and_reason(error: Exception) -> tuple[str | None, str]:
    """The field that does not fit, and why, for the reader of the refusal: the decoder tells both in one text only, and
    nothing is decided by it."""
    message, _, place = str(error).partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    if named := re.search(r"field `(\w+)`", message):
        field = f"{field}.{named[1]}".lstrip(".")
    return field or None, message[:1].lower() + message[1:]


# -- vectors ----------------------------------------------------------------------------------------------------------


def vector(value: Vector, n: int, field: str) -> Array:
    """A writable copy (n) of a wire vector. Raises ProtocolError for a wrong length or a number that is not finite."""
    return vectors((value, n, field))


Parts = tuple[tuple[Vector, int, str], ...]
"""Wire vectors, each (value, n, field)."""


def vectors(*parts: tuple[Vector, int, str]) -> Array:
    """Several wire vectors one behind the other in one writable array; checked at one go."""
    joined = concatenated(parts).copy()
    if not finite(joined):
        refuse_non_finite(joined, parts)
    return joined


def concatenated(parts: Parts) -> Array:
    """The numbers of wire vectors one behind the other, finite or not; not to be written to. Raises ProtocolError for a wrong
    length."""
    values = []
    for value, n, field in parts:
        values.append(value if isinstance(value, bytes) and len(value) == 8 * n else _numbers(value, n, field))
    return np.frombuffer(b"".join(values), dtype=_FLOAT64)


def limits(value: Vector, n: int, field: str) -> Array:
    """As `vector`, but a number may be infinite: no limit."""
    values = np.frombuffer(bytearray(_numbers(value, n, field)), dtype=_FLOAT64)
    if np.isnan(values).any():
        raise ProtocolError(Code.NON_FINITE, f"{field}[{int(np.isnan(values).argmax())}]", "expected a number, got nan")
    return values


def _numbers(value: Vector, n: int, field: str) -> bytes:
    """The little-endian float64 of a wire vector of the right length."""
    if isinstance(value, bytes):
        if len(value) == 8 * n:
            return value
        if len(value) % 8:
            raise ProtocolError(Code.WRONG_LENGTH, field, f"expected {n} numbers of 8 bytes, got {len(value)} bytes")
        raise ProtocolError(Code.WRONG_LENGTH, field, f"expected {n} numbers, got {len(value) // 8}")
    if len(value) != n:
        raise ProtocolError(Code.WRONG_LENGTH, field, f"expected {n} numbers, got {len(value)}")
    return np.array(value, dtype=_FLOAT64).tobytes()


def refuse_non_finite(joined: Array, parts: Parts) -> None:
    """Raises ProtocolError that names the first number that is not finite."""
    start = 0
    for _, n, field in parts:
        bad = ~np.isfinite(joined[start : start + n])
        if bad.any():
            i = int(bad.argmax())
            raise ProtocolError(Code.NON_FINITE, f"{field}[{i}]", f"expected a finite number, got {joined[start + i]}")
        start += n
