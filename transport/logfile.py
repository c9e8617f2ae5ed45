"""Reads a log, whole or cut off by a crash."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcap.exceptions import McapError
from mcap.records import Attachment, Channel, Message, Metadata
from mcap.stream_reader import StreamReader

from transport.checksums import damaged
from transport.errors import LogError
from transport.recorder import REPLY, STATE, TORQUE, Entry

RECORD_MAX_BYTES = 64 * 1024 * 1024
"""A longer record is a sign of damage."""

_DAMAGE = (McapError, struct.error, ValueError)
"""What the reader raises at the cut: ends of file, impossible lengths, wrong checksums, torn texts."""


class LogReader:
    """One log file: what it carries at its head, then its exchanges in the order in which they were handled.

    attachments: by name; metadata: by name
    messages: how many have been read so far; complete: whether the end was reached (False: the file is cut off)
    """

    def __init__(self, path: Path) -> None:
        """Read the head. Raises LogError when this is no log, or one whose head is missing or not as it was written."""
        self.path = path
        self.attachments: dict[str, bytes] = {}
        self.metadata: dict[str, dict[str, str]] = {}
        self.messages = 0
        self.complete = False
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise LogError(f"{path}: cannot be read ({error})") from error
        self._channels: dict[int, Channel] = {}
        reader: Any = StreamReader(self._file, validate_crcs=True, record_size_limit=RECORD_MAX_BYTES)
        self._records: Iterator[Any] = iter(reader.records)
        self._first = self._read_head()
        if problem := damaged(self.attachments, self.metadata):
            self._file.close()
            raise LogError(f"{path}: its head is damaged ({problem})")

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def exchanges(self) -> Iterator[Entry]:
        """Every request with its reply, or without one if it was overtaken; ends quietly where the file is cut off, and
        `complete` tells."""
        request: Message | None = None
        for message in self._messages():
            if self._channels[message.channel_id].metadata["direction"] != REPLY:
                if request is not None:
                    yield self._entry(request, None)
                request = message
            elif request is not None:
                yield self._entry(request, message)
                request = None

    def _entry(self, request: Message, reply: Message | None) -> Entry:
        channel = self._channels[request.channel_id]
        return Entry(
            identity=bytes.fromhex(channel.metadata["identity"]),
            t_recv_ns=request.log_time,
            request=request.data,
            reply=b"" if reply is None else reply.data,
            about_state=channel.topic == STATE,
            answered=reply is not None and self._channels[reply.channel_id].topic == TORQUE,
        )

    def _read_head(self) -> Message | None:
        try:
            for record in self._records:
                if isinstance(record, Message):
                    return record
                self._note(record)
        except _DAMAGE as error:
            if not self.attachments:
                self._file.close()
                raise LogError(f"{self.path}: not a log that can be read ({error or type(error).__name__})") from error
            return None
        self.complete = True
        return None

    def _messages(self) -> Iterator[Message]:
        if self._first is None:
            return
        self.messages += 1
        yield self._first
        try:
            for record in self._records:
                if isinstance(record, Message):
                    self.messages += 1
                    yield record
                else:
                    self._note(record)
        except _DAMAGE:
            return  # `complete` stays False: the recovered part is what there is
        self.complete = True

    def _note(self, record: object) -> None:
        if isinstance(record, Attachment):
            self.attachments[record.name] = record.data
        elif isinstance(record, Metadata):
            self.metadata[record.name] = record.metadata
        elif isinstance(record, Channel):
            self._channels[record.id] = record
