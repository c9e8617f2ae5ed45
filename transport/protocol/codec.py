"""Encoding and decoding of messages. Any bytes give either a message or a `ProtocolError`."""

import re
from typing import Any

import msgspec
import numpy as np

from idyn.errors import nearest
from idyn.terms.inputs import finite
from idyn.types import Array
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import Message
from transport.protocol.messages.base import SCHEMA, Code, Vector

MAX_BYTES = 64 * 1024  # largest message that is decoded [bytes]. A state of a 50-joint robot with 20 contacts has about 8 KiB

HIGH_WATER = 64
"""Messages that may wait in a socket (ZMQ high-water mark).

Fewer would suffice, but libzmq reports read messages to the sender in batches of half this number, and checks for such reports
once a millisecond: with a mark of 4 it occasionally refuses a message although the queue is empty.
"""

PARTS = b"\xc1"
"""Prefix of a message that arrived in several parts, which are joined: no MessagePack begins with it, so it is refused."""

_MAJOR = SCHEMA.split(".", maxsplit=1)[0]
_PREFIX = _MAJOR + "."
_TYPES = tuple(kind.__struct_config__.tag for kind in Message.__args__)
FLOAT64 = np.dtype("<f8")


class _Envelope(msgspec.Struct):
    """The fields that are read from a message that does not fit the schema."""

    t: Any = None
    v: Any = None
    seq: Any = None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_ENVELOPE = msgspec.msgpack.Decoder(_Envelope)
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode(message: Message) -> bytes:
    """Encode a message as MessagePack."""
    return _ENCODER.encode(message)


def decode(data: bytes) -> Message:
    """Decode a message. Raises ProtocolError with the invalid field, and with `seq` when that is readable."""
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
    """Return the `t` of a message without decoding the rest; None for a malformed message and for one above MAX_BYTES."""
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
    """Return the error for malformed data. Reported is the first of: other version, unknown type, invalid field."""
    envelope = _envelope(data)
    seq = envelope.seq if type(envelope.seq) is int and envelope.seq >= 0 else None  # not bool, which is a subclass of int
    if isinstance(envelope.v, str) and not envelope.v.startswith(_PREFIX):
        return _version_error(envelope.v, seq)
    if isinstance(envelope.t, str) and envelope.t not in _TYPES:
        unknown = f"unknown message type '{envelope.t}'{nearest(envelope.t, _TYPES)}"
        return ProtocolError(Code.BAD_SCHEMA, "t", unknown, seq)
    return ProtocolError(Code.BAD_SCHEMA, *_field_and_reason(error), seq)


def _field_and_reason(error: Exception) -> tuple[str | None, str]:
    """Return the invalid field and the reason, parsed from the decoder's text. They are used in messages only."""
    message, _, place = str(error).partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    if named := re.search(r"field `(\w+)`", message):
        field = f"{field}.{named[1]}".lstrip(".")
    return field or None, message[:1].lower() + message[1:]


# -- vectors ----------------------------------------------------------------------------------------------------------


def numbers(value: Vector) -> Array:
    """Return a wire vector of the server as an array."""
    return np.frombuffer(value, FLOAT64) if isinstance(value, bytes) else np.array(value, FLOAT64)


def vector(value: Vector, n: int, field: str) -> Array:
    """Return a writable copy (n) of a wire vector. Raises ProtocolError for a wrong length and for non-finite numbers."""
    return vectors((value, n, field))


Parts = tuple[tuple[Vector, int, str], ...]  # wire vectors, each (value, n, field)


def vectors(*parts: tuple[Vector, int, str]) -> Array:
    """Concatenate wire vectors into one writable array. Raises ProtocolError for a wrong length and for non-finite numbers.

    parts: (value, n, field) each
    """
    joined = concatenated(parts).copy()
    if not finite(joined):
        refuse_non_finite(joined, parts)
    return joined


def concatenated(parts: Parts) -> Array:
    """Concatenate wire vectors into one read-only array. Raises ProtocolError for a wrong length; numbers are not checked."""
    values = []
    for value, n, field in parts:
        values.append(value if isinstance(value, bytes) and len(value) == 8 * n else _numbers(value, n, field))
    return np.frombuffer(b"".join(values), dtype=FLOAT64)


def limits(value: Vector, n: int, field: str) -> Array:
    """Return a writable copy (n) of a wire vector of limits; inf: no limit. Raises ProtocolError for a wrong length and NaN."""
    values = np.frombuffer(bytearray(_numbers(value, n, field)), dtype=FLOAT64)
    if np.isnan(values).any():
        raise ProtocolError(Code.NON_FINITE, f"{field}[{int(np.isnan(values).argmax())}]", "expected a number or inf, got nan")
    return values


def _numbers(value: Vector, n: int, field: str) -> bytes:
    """Return a wire vector as little-endian float64. Raises ProtocolError for a wrong length."""
    if isinstance(value, bytes):
        if len(value) == 8 * n:
            return value
        if len(value) % 8:
            raise ProtocolError(Code.WRONG_LENGTH, field, f"expected {n} numbers of 8 bytes, got {len(value)} bytes")
        raise ProtocolError(Code.WRONG_LENGTH, field, f"expected {n} numbers, got {len(value) // 8}")
    if len(value) != n:
        raise ProtocolError(Code.WRONG_LENGTH, field, f"expected {n} numbers, got {len(value)}")
    return np.array(value, dtype=FLOAT64).tobytes()


def not_finite(field: str, value: float) -> ProtocolError:
    """Return the error for a number that is NaN or infinite."""
    return ProtocolError(Code.NON_FINITE, field, f"expected a finite number, got {value}")


def refuse_non_finite(joined: Array, parts: Parts) -> None:
    """Raise ProtocolError with the first non-finite number of concatenated wire vectors."""
    start = 0
    for _, n, field in parts:
        bad = ~np.isfinite(joined[start : start + n])
        if bad.any():
            i = int(bad.argmax())
            raise not_finite(f"{field}[{i}]", joined[start + i])
        start += n
