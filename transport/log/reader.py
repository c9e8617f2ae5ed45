"""Reads a log, whole or cut off by a crash."""

import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from mcap.data_stream import ReadDataStream
from mcap.exceptions import EndOfFile, McapError
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Chunk, Message, Metadata
from mcap.stream_reader import StreamReader, get_chunk_data_stream

from transport.log.checksums import damaged
from transport.log.part import CONTINUES, NEXT, REPLY, STATE, TORQUE, Entry, LogError, wall_offset_ns

RECORD_MAX_BYTES = 64 * 1024 * 1024
"""A longer record is a sign of damage."""

RECORD, MESSAGE = struct.Struct("<BQ"), struct.Struct("<HIQQ")
"""How a record begins: opcode, length; and what comes before a message's data: channel, sequence, log time, publish time."""

_DAMAGE = (McapError, struct.error, ValueError)
"""What the reader raises at the cut: ends of file, impossible lengths, wrong checksums, torn texts."""


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
        for message, channel in self._messages():
            if channel.metadata["direction"] != REPLY:
                if request is not None:
                    yield self._entry(request, None)
                request = message, channel
            elif request is not None:
                yield self._entry(request, (message, channel))
                request = None

    def _messages(self) -> Iterator[tuple[Message, Channel]]:
        while True:
            for message in self._part.messages():
                if message.sequence != self.messages:
                    return  # a piece is missing: what follows does not follow on what was read
                self.messages += 1
                yield message, self._part.channels[message.channel_id]
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

    def _entry(self, request: tuple[Message, Channel], reply: tuple[Message, Channel] | None) -> Entry:
        message, channel = request
        return Entry(
            identity=bytes.fromhex(channel.metadata["identity"]),
            t_recv_ns=message.log_time - self.wall_offset_ns,
            request=message.data,
            reply=b"" if reply is None else reply[0].data,
            about_state=channel.topic == STATE,
            answered=reply is not None and reply[1].topic == TORQUE,
        )


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
        self._records = _records(_Records(self._file, emit_chunks=True, validate_crcs=True, record_size_limit=RECORD_MAX_BYTES))
        self._first = self._read_head()
        if problem := damaged(self.attachments, {k: v for k, v in self.metadata.items() if k != CONTINUES}):
            self.close()
            raise LogError(f"{path}: its head is damaged ({problem})")

    def close(self) -> None:
        self._file.close()

    def messages(self) -> Iterator[Message]:
        if self._first is None:
            return
        yield self._first
        try:
            for record in self._records:
                if isinstance(record, Message):
                    yield record
                else:
                    self._note(record)
        except _DAMAGE:
            return  # `complete` stays False: the recovered part is what there is
        self.complete = True

    def _read_head(self) -> Message | None:
        try:
            for record in self._records:
                if isinstance(record, Message):
                    return record
                self._note(record)
        except _DAMAGE as error:
            if not self.attachments:
                self.close()
                raise LogError(f"{self.path}: not a log that can be read ({error or type(error).__name__})") from error
            return None
        self.complete = True
        return None

    def _note(self, record: object) -> None:
        if isinstance(record, Attachment):
            self.attachments[record.name] = record.data
        elif isinstance(record, Metadata):
            self.metadata[record.name] = record.metadata
        elif isinstance(record, Channel):
            self.channels[record.id] = record


class _Records(StreamReader):
    """Passes over indices of messages: they tell nothing to who reads all of them."""

    def _read_record(self, opcode: int, length: int) -> Any:
        return None if opcode == Opcode.MESSAGE_INDEX else super()._read_record(opcode, length)


def _records(reader: StreamReader) -> Iterator[Any]:
    """Those of a file, with those of a chunk in its place."""
    for record in reader.records:
        if isinstance(record, Chunk):
            stream, size = get_chunk_data_stream(record, validate_crc=True)
            yield from _in_chunk(stream.read(size))
        else:
            yield record


def _in_chunk(data: bytes) -> list[Message | Channel]:
    """Its messages and channels: what `mcap.stream_reader.breakup_chunk` finds, without a call for every number."""
    found: list[Message | Channel] = []
    end = 0
    while end < len(data):
        opcode, length = RECORD.unpack_from(data, end)
        begin, end = end + RECORD.size, end + RECORD.size + length
        if end > len(data):
            raise EndOfFile
        if opcode == Opcode.MESSAGE:
            channel, sequence, log_time, publish_time = MESSAGE.unpack_from(data, begin)
            found.append(Message(channel, log_time, data[begin + MESSAGE.size : end], publish_time, sequence))
        elif opcode == Opcode.CHANNEL:
            found.append(Channel.read(ReadDataStream(BytesIO(data[begin:end]))))
    return found
