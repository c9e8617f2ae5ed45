"""Reads a log, whole or cut off by a crash."""

import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import mcap.records
import msgspec
from mcap.data_stream import ReadDataStream
from mcap.exceptions import EndOfFile, McapError
from mcap.opcode import Opcode
from mcap.records import Attachment, Chunk, Metadata
from mcap.stream_reader import StreamReader, get_chunk_data_stream

from transport.log.checksums import damaged
from transport.log.part import CONTINUES, NEXT, REPLY, STATE, TORQUE, Entry, LogError, wall_offset_ns

RECORD_MAX_BYTES = 64 * 1024 * 1024
"""A longer record is a sign of damage."""

RECORD, MESSAGE = struct.Struct("<BQ"), struct.Struct("<HIQQ")
"""How a record begins: opcode, length; and what comes before a message's data: channel, sequence, log time, publish time."""

OF_MESSAGE, OF_CHANNEL = int(Opcode.MESSAGE), int(Opcode.CHANNEL)
"""Opcodes as plain numbers: a member of an enumeration costs as much as to read one."""

_DAMAGE = (McapError, struct.error, ValueError)
"""What the reader raises at the cut: ends of file, impossible lengths, wrong checksums, torn texts."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message of a log; channel: the number of its own, log_time: wall-clock time of its arrival [ns]."""

    channel: int
    sequence: int
    log_time: int
    data: bytes


class Channel(msgspec.Struct, frozen=True, gc=False):
    """Of one client's messages of one kind."""

    identity: bytes
    topic: str
    replies: bool


class LogReader:
    """One log: what it carries at its head, then its exchanges in the order in which they were handled, file after file.

    attachments: by name; metadata: by name, of the first file
    wall_offset_ns: what makes `Entry.t_recv_ns` wall-clock time
    messages: how many have been read so far; complete: whether the end was reached (False: the log is cut off, or a piece of it
        is damaged or missing; what was read is what comes before)
    """

    def __init__(self, path: Path) -> None:
        """Read the head. Raises LogError when this is no log, or one whose head is missing or not as it was written."""
        self.path = path
        self.messages = 0
        self.complete = False
        self._part = _Part(path)
        self.attachments, self.metadata = self._part.attachments, self._part.metadata
        self.wall_offset_ns = wall_offset_ns(self.metadata)

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *exception: object) -> None:
        self._part.close()

    def exchanges(self) -> Iterator[Entry]:
        """Every request with its reply, or without one if it was overtaken; ends quietly where the log is cut off, and
        `complete` tells."""
        request: tuple[Message, Channel] | None = None
        for message in self._messages():
            channel = self._part.channels[message.channel]
            if not channel.replies:
                if request is not None:
                    yield self._entry(request, b"", answered=False)
                request = message, channel
            elif request is not None:
                yield self._entry(request, message.data, answered=channel.topic == TORQUE)
                request = None

    def _entry(self, request: tuple[Message, Channel], reply: bytes, *, answered: bool) -> Entry:
        message, channel = request
        t_recv_ns = message.log_time - self.wall_offset_ns
        return Entry(channel.identity, t_recv_ns, message.data, reply, channel.topic == STATE, answered)

    def _messages(self) -> Iterator[Message]:
        while True:
            for messages in self._part.chunks():
                for message in messages:
                    if message.sequence != self.messages:
                        return  # a piece is missing: what follows does not follow on what was read
                    self.messages += 1
                    yield message
            following = self._part.metadata.get(CONTINUES)
            if following is None or not self._part.complete:
                self.complete = self._part.complete
                return
            try:
                part = _Part(self.path.with_name(following[NEXT]))
            except LogError:
                return  # `complete` stays False: the files before are what there is
            self._part.close()
            self._part = part


class _Part:
    """One file. channels: by their number; complete: whether its end was reached"""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attachments: dict[str, bytes] = {}
        self.metadata: dict[str, dict[str, str]] = {}
        self.channels: dict[int, Channel] = {}
        self.complete = False
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise LogError(f"{path}: cannot be read ({error})") from error
        self._chunks = self._read()
        self._first = self._read_head()
        if problem := damaged(self.attachments, {k: v for k, v in self.metadata.items() if k != CONTINUES}):
            self.close()
            raise LogError(f"{path}: its head is damaged ({problem})")

    def close(self) -> None:
        self._file.close()

    def chunks(self) -> Iterator[list[Message]]:
        """The messages of one after the other."""
        if self._first is None:
            return
        yield self._first
        try:
            yield from self._chunks
        except _DAMAGE:
            return  # `complete` stays False: the recovered part is what there is
        self.complete = True

    def _read_head(self) -> list[Message] | None:
        """What is before the first messages, and those."""
        try:
            first = next(self._chunks, None)
        except _DAMAGE as error:
            if not self.attachments:
                self.close()
                raise LogError(f"{self.path}: not a log that can be read ({error or type(error).__name__})") from error
            return None
        self.complete = first is None
        return first

    def _read(self) -> Iterator[list[Message]]:
        """The messages of one chunk after the other; of everything else it is noted what it says."""
        for record in _Records(self._file, emit_chunks=True, validate_crcs=True, record_size_limit=RECORD_MAX_BYTES).records:
            if isinstance(record, Chunk):
                stream, size = get_chunk_data_stream(record, validate_crc=True)
                if messages := self._in_chunk(stream.read(size)):
                    yield messages
            elif isinstance(record, mcap.records.Message):
                yield [Message(record.channel_id, record.sequence, record.log_time, record.data)]
            else:
                self._note(record)

    def _note(self, record: object) -> None:
        if isinstance(record, Attachment):
            self.attachments[record.name] = record.data
        elif isinstance(record, Metadata):
            self.metadata[record.name] = record.metadata
        elif isinstance(record, mcap.records.Channel):
            identity = bytes.fromhex(record.metadata.get("identity", ""))
            self.channels[record.id] = Channel(identity, record.topic, record.metadata.get("direction") == REPLY)

    def _in_chunk(self, data: bytes) -> list[Message]:
        """What `mcap.stream_reader.breakup_chunk` finds, without a call for every number."""
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
        return found


class _Records(StreamReader):
    """Passes over indices of messages: they tell nothing to who reads all of them."""

    def _read_record(self, opcode: int, length: int) -> Any:
        return None if opcode == Opcode.MESSAGE_INDEX else super()._read_record(opcode, length)
