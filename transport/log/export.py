"""Export of the messages of a log as JSON with a schema, for any reader of MCAP or JSON.

Vectors are lists, non-finite numbers null, times wall-clock times. Sessions are numbered 1, 2, …, which JavaScript does not
round; states and torques get the names of their joints.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
from mcap.writer import CompressionType, Writer

from transport.log.reader import LogReader
from transport.log.recorder import PROFILE, Entry, LogError
from transport.protocol.messages import Message

UNREADABLE = "unreadable"  # topic of malformed messages; only their length is exported


class Exported(msgspec.Struct, frozen=True):
    """The result of an export. messages: their number; complete: whether the log was read to its end"""

    messages: int
    complete: bool


def export(log: Path, out: Path, progress: Callable[[int], None] = lambda _: None) -> Exported:
    """Write all messages of a log, with its continuation files, into one file.

    progress: called with the number of exchanges written since the last call
    Raises LogError when the log cannot be read, or when `out` exists or cannot be written.
    """
    with LogReader(log) as reader:
        with new_file(out) as part, part.open("wb") as file:
            writer = Writer(file, compression=CompressionType.ZSTD)
            writer.start(profile=PROFILE)
            for name, data in reader.metadata.items():
                writer.add_metadata(name, data)
            count = _write(writer, reader.exchanges(), reader.wall_offset_ns, progress)
            writer.finish()
        return Exported(messages=count, complete=reader.complete)


@contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside `out`, which becomes `out` at the end; after an error it is deleted.

    Raises LogError when `out` exists or cannot be written.
    """
    part = out.with_name(f"{out.stem}.part{out.suffix}")
    if out.exists():
        raise LogError(f"{out}: file exists")
    part.unlink(missing_ok=True)  # of an export that was killed
    try:
        yield part
        part.rename(out)
    except OSError as error:
        raise LogError(f"{out}: cannot be written ({error})") from error
    finally:
        part.unlink(missing_ok=True)


def _write(writer: Writer, exchanges: Iterable[Entry], wall_offset_ns: int, progress: Callable[[int], None]) -> int:
    channels: dict[tuple[bytes, str], int] = {}
    names = _Names()
    count = 0
    for entry in exchanges:
        wall_ns = entry.t_recv_ns + wall_offset_ns
        for data in filter(None, (entry.request, entry.reply)):
            kind, fields = plain(data)
            names.add(entry.identity, kind, fields)
            channel = channels.get((entry.identity, kind))
            if channel is None:
                schema = writer.register_schema(f"idyn.{kind}", "jsonschema", msgspec.json.encode(schema_of(kind)))
                channel = writer.register_channel(f"/{kind}", "json", schema, {"identity": entry.identity.hex()})
                channels[entry.identity, kind] = channel
            writer.add_message(channel, wall_ns, msgspec.json.encode(fields), wall_ns, count)
            count += 1
        progress(1)
    return count


NAMED = {"state": ("joint_names", "actuated"), "torque": ("actuated",)}
"""Message type → lists of names of `hello` that its messages get."""


class _Names:
    """Numbers of the sessions, and the joints that each client named in its last `hello`."""

    def __init__(self) -> None:
        self._sessions: dict[int, int] = {}
        self._joints: dict[bytes, dict[str, Any]] = {}

    def add(self, identity: bytes, kind: str, fields: dict[str, Any]) -> None:
        """Replace the session of a message by its number, and add the names of its joints."""
        session = fields.get("session")
        if isinstance(session, int) and session:
            fields["session"] = self._sessions.setdefault(session, len(self._sessions) + 1)
        if kind == "hello":
            self._joints[identity] = fields
        elif (hello := self._joints.get(identity)) is not None:
            fields |= {name: hello[name] for name in NAMED.get(kind, ()) if name in hello}


def plain(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the type of a message and its fields as JSON values."""
    try:
        message = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        message = None
    kind = message.get("t") if isinstance(message, dict) else None
    if not isinstance(kind, str) or kind not in TYPES:
        return UNREADABLE, {"length": len(data)}
    return kind, {str(key): _plain(value) for key, value in message.items() if key != "t"}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return np.frombuffer(value).tolist() if len(value) % 8 == 0 else value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


REFUSALS = ("default", "required", "additionalProperties", "minimum", "maximum")
"""Schema keywords for validation. They are left out: a log also holds refused messages."""

TYPES: dict[str, Any] = {str(kind.__struct_config__.tag): kind for kind in get_args(Message)}  # message classes by message type


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON schema of a message type, without references, which not every tool resolves."""
    if kind == UNREADABLE:
        return {"type": "object", "properties": {"length": {"type": "integer"}}}
    (root,), parts = msgspec.json.schema_components([TYPES[kind]], ref_template="{name}")
    schema = _inlined(root, parts)
    schema["properties"].pop("t")
    schema["properties"] |= {name: {"type": "array", "items": {"type": "string"}} for name in NAMED.get(kind, ())}
    return {"type": "object", "title": schema["title"], "properties": schema["properties"]}


def _inlined(schema: Any, parts: dict[str, Any]) -> Any:
    """Return a schema with references resolved. Optional values get the type without null, vectors are lists of numbers."""
    if isinstance(schema, list):
        return [_inlined(part, parts) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(parts[schema["$ref"]], parts)
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if choices:  # a vector is bytes or a list: take the list
        return _inlined(next((choice for choice in choices if choice.get("type") == "array"), choices[0]), parts)
    return {key: _inlined(value, parts) for key, value in schema.items() if key not in REFUSALS}
