"""Reading of a log, complete or cut off by a crash."""

import logging
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import lz4.frame
import mcap.records
import msgspec
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import EndOfFile, McapError
from mcap.opcode import Opcode
from mcap.records import Attachment, Chunk, Metadata
from mcap.stream_reader import StreamReader

from transport.log.recorder import (
    CONTINUES,
    NEXT,
    REFUSED,
    REPLY,
    SESSION,
    STATE,
    TORQUE,
    Entry,
    LogError,
    damaged,
    wall_offset_ns,
)
from transport.protocol.codec import decode, message_type
from transport.protocol.errors import ProtocolError, printable
from transport.protocol.messages.base import ErrorMessage

CHUNK_MAX_BYTES = 16 * 1024 * 1024  # a chunk longer than this, decompressed, is refused [bytes]


def chunk_data(chunk: Chunk) -> bytes:
    """Return the records of a chunk.

    Raises LogError for a chunk that is too long or has an unknown compression, ValueError for a damaged one.
    """
    if chunk.uncompressed_size > CHUNK_MAX_BYTES:
        raise LogError(f"expected chunks of at most {CHUNK_MAX_BYTES} bytes, got one that declares {chunk.uncompressed_size}")
    data = _decompressed(chunk.compression, chunk.data)
    if len(data) > CHUNK_MAX_BYTES:
        raise LogError(f"expected chunks of at most {CHUNK_MAX_BYTES} bytes, got a longer one")
    if chunk.uncompressed_crc not in (0, zlib.crc32(data)):
        raise ValueError("wrong checksum of a chunk")
    return data


def _decompressed(compression: str, data: bytes) -> bytes:
    """Return the data, or their first CHUNK_MAX_BYTES + 1 bytes."""
    if compression == "":
        return data
    try:
        if compression == "zstd":
            unpack = zstandard.ZstdDecompressor(max_window_size=CHUNK_MAX_BYTES)
            with unpack.stream_reader(BytesIO(data), read_across_frames=True) as stream:
                return stream.read(CHUNK_MAX_BYTES + 1)
        if compression == "lz4":
            return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, CHUNK_MAX_BYTES + 1))
    except (zstandard.ZstdError, RuntimeError, EOFError) as error:
        raise ValueError(f"a chunk cannot be decompressed ({error})") from error
    raise LogError(f"expected chunks compressed by zstd, lz4 or not at all, got '{compression[:40]}'")


log = logging.getLogger(__name__)

RECORD_MAX_BYTES = 64 * 1024 * 1024  # a record longer than this is damaged [bytes]

EMPTY_MAX = 10_000
"""Records in a row, other than messages and chunks, after which a log is damaged; at its end each chunk has one more."""

RECORD, MESSAGE = struct.Struct("<BQ"), struct.Struct("<HIQQ")
"""Head of a record: opcode, length; head of a message: channel, sequence, log time, publish time."""

OF_MESSAGE, OF_CHANNEL, OF_SCHEMA = int(Opcode.MESSAGE), int(Opcode.CHANNEL), int(Opcode.SCHEMA)
"""Opcodes as plain integers: using the enumeration would double the reading time of a message."""

SPECIAL = {stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device"}
"""Kinds of files that are no logs."""

_DAMAGE = (McapError, struct.error, ValueError)
"""Exceptions at a cut: end of file, impossible lengths, wrong checksums, incomplete UTF-8."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message of a log. channel: its number; log_time: arrival, wall-clock time [ns]"""

    channel: int
    sequence: int
    log_time: int
    data: bytes


class Channel(msgspec.Struct, frozen=True, gc=False):
    """Metadata of a channel: one client, one topic, one direction."""

    identity: bytes
    topic: str
    replies: bool


class LogReader:
    """A log: its head, then its exchanges in the order in which they were handled, with all continuation files.

    attachments, metadata: by name, of the first file
    wall_offset_ns: offset from `Entry.t_recv_ns` to wall-clock time [ns]
    messages: number of messages read so far; refused: number of those, other than states, that were refused
    complete: whether the end was reached; False when the log is cut off, or a part of it is damaged or missing
    """

    def __init__(self, path: Path) -> None:
        """Read the header. Raises LogError for a file that is not a log, or whose header is missing or damaged."""
        self.path = path
        self.messages = self.refused = 0
        self.complete = False
        self._part = _Part(path)
        self.attachments, self.metadata = self._part.attachments, self._part.metadata
        try:
            self.wall_offset_ns = wall_offset_ns(self.metadata)
        except LogError as error:
            self._part.close()
            raise LogError(f"{path}: {error}") from error

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *exception: object) -> None:
        self._part.close()

    def exchanges(self) -> Iterator[Entry]:
        """Yield every request with its reply, overtaken states without one. Ends where the log is cut off or damaged; see
        `complete`. Refused messages are logged at the end: their number, and the first."""
        first, begin_ns = "", None
        for entry in self._entries():
            begin_ns = entry.t_recv_ns if begin_ns is None else begin_ns
            if entry.refused:
                self.refused += 1
                first = first or _refusal(entry, begin_ns)
            yield entry
        if first:
            _say(f"{self.path}: the server refused {self.refused} messages besides states, the first {first}")

    def _entries(self) -> Iterator[Entry]:
        request: tuple[Message, Channel] | None = None
        for message in self._messages():
            channel = self._part.channels.get(message.channel)
            if channel is None:
                raise LogError(f"{self._part.path}: a message has the channel {message.channel}, which the log does not define")
            if not channel.replies:
                if request is not None:
                    yield self._entry(request, b"", "")
                request = message, channel
            elif request is not None:
                yield self._entry(request, message.data, channel.topic)
                request = None

    def _entry(self, request: tuple[Message, Channel], reply: bytes, answer: str) -> Entry:
        """Return an exchange. answer: topic of its reply. Logs without the topic `/refused` have refusals in `/session`."""
        message, channel = request
        t_recv_ns = message.log_time - self.wall_offset_ns
        refused = channel.topic == REFUSED or (channel.topic == SESSION and message_type(reply) == "error")
        return Entry(channel.identity, t_recv_ns, message.data, reply, channel.topic == STATE, answer == TORQUE, refused)

    def _messages(self) -> Iterator[Message]:
        seen = {self.path.name}
        while True:
            for messages in self._part.chunks():
                for message in messages:
                    if message.sequence != self.messages:
                        return  # messages are missing: a replay cannot continue
                    self.messages += 1
                    yield message
            following = self._part.metadata.get(CONTINUES)
            if following is None or not self._part.complete:
                self.complete = self._part.complete
                return
            name = following.get(NEXT, "")
            if name in seen or name in ("", ".", "..") or any(character in name for character in "/\\\0"):
                raise LogError(f"{self._part.path}: {CONTINUES}: expected another file in the same folder, got {name[:200]!r}")
            seen.add(name)
            try:
                part = _Part(self.path.with_name(name))
            except LogError:
                return  # `complete` stays False
            self._part.close()
            self._part = part


def _refusal(entry: Entry, begin_ns: int) -> str:
    """Return a refused message in words. begin_ns: arrival of the first message of the log, server's clock [ns]"""
    said = "no reason is recorded"
    with suppress(ProtocolError):
        if isinstance(error := decode(entry.reply), ErrorMessage):
            said = f"{error.code}: {error.message}"
    since = (entry.t_recv_ns - begin_ns) * 1e-9
    return f"at {since:.3f} s from client {entry.identity.hex()}, of length {len(entry.request)}: {printable(said)}"


@cache
def _say(text: str) -> None:
    """Log a text once: a tool may read a log several times."""
    log.warning("%s", text)


class _Part:
    """One file of a log. channels: by number; complete: whether its end was reached"""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attachments: dict[str, bytes] = {}
        self.metadata: dict[str, dict[str, str]] = {}
        self.channels: dict[int, Channel] = {}
        self.complete = False
        try:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):  # opening a pipe would wait for its writer
                raise LogError(f"{path}: expected a regular file, got {SPECIAL.get(stat.S_IFMT(mode), 'another kind of file')}")
            self._file = path.open("rb")
        except OSError as error:
            raise LogError(f"{path}: cannot be read ({error})") from error
        self._chunks = self._read()
        self._first = self._read_head()
        if problem := damaged(self.attachments, {k: v for k, v in self.metadata.items() if k != CONTINUES}):
            self.close()
            raise LogError(f"{path}: the head of the log is damaged ({problem})")

    def close(self) -> None:
        self._file.close()

    def chunks(self) -> Iterator[list[Message]]:
        """Yield the messages of each chunk."""
        if self._first is None:
            return
        yield self._first
        try:
            yield from self._chunks
        except _DAMAGE:
            return  # `complete` stays False
        self.complete = True

    def _read_head(self) -> list[Message] | None:
        """Read up to the end of the first chunk. Return its messages, None without any."""
        try:
            first = next(self._chunks, None)
        except _DAMAGE as error:
            if not self.attachments:
                self.close()
                raise LogError(f"{self.path}: not a log, or its head is damaged ({error or type(error).__name__})") from error
            return None
        self.complete = first is None
        return first

    def _read(self) -> Iterator[list[Message]]:
        for record in _Records(self._file, emit_chunks=True, validate_crcs=True, record_size_limit=RECORD_MAX_BYTES).records:
            if isinstance(record, Chunk):
                if messages := self._in_chunk(self._data_of(record)):
                    yield messages
            elif isinstance(record, mcap.records.Message):
                yield [Message(record.channel_id, record.sequence, record.log_time, record.data)]
            else:
                self._note(record)

    def _data_of(self, chunk: Chunk) -> bytes:
        try:
            return chunk_data(chunk)
        except LogError as error:
            self.close()
            raise LogError(f"{self.path}: {error}") from error

    def _note(self, record: object) -> None:
        if isinstance(record, Attachment):
            self.attachments[record.name] = record.data
        elif isinstance(record, Metadata):
            self.metadata[record.name] = record.metadata
        elif isinstance(record, mcap.records.Channel):
            identity = bytes.fromhex(record.metadata.get("identity", ""))
            self.channels[record.id] = Channel(identity, record.topic, record.metadata.get("direction") == REPLY)

    def _in_chunk(self, data: bytes) -> list[Message]:
        """Return the messages of a chunk, as `mcap.stream_reader.breakup_chunk`, but without one function call per number."""
        found: list[Message] = []
        end = 0
        while end < len(data):
            opcode, length = RECORD.unpack_from(data, end)
            begin, end = end + RECORD.size, end + RECORD.size + length
            if end > len(data):
                raise EndOfFile
            if opcode == OF_MESSAGE:
                channel, sequence, log_time, _ = MESSAGE.unpack_from(data, begin)
                found.append(Message(channel, sequence, log_time, data[begin + MESSAGE.size : end]))
            elif opcode == OF_CHANNEL:
                self._note(mcap.records.Channel.read(ReadDataStream(BytesIO(data[begin:end]))))
            elif opcode != OF_SCHEMA:
                raise ValueError(f"a chunk with a record of type {opcode}")
        return found


class _Records(StreamReader):
    """Record reader that skips message indices, which sequential reading does not need, and bounds what has no messages."""

    _full = _empty = 0

    def _read_record(self, opcode: int, length: int) -> Any:
        full = opcode in (Opcode.CHUNK, Opcode.MESSAGE)
        self._full, self._empty = self._full + full, 0 if full else self._empty + 1
        if opcode == 0:
            raise ValueError("a record of type 0")
        if self._empty > EMPTY_MAX + self._full:
            raise ValueError(f"more than {EMPTY_MAX + self._full} records in a row without a message")
        return None if opcode == Opcode.MESSAGE_INDEX else super()._read_record(opcode, length)
