"""The log: MCAP with the exact bytes of every exchange, written by a thread of its own.

Channels `/state`, `/torque` and `/session` (everything else, and every refusal), one set per client; the metadata of a
channel carry the client's identity and the direction. Records lie in the order in which the service handled them, each
request followed by its reply, save for states that were overtaken by newer ones; `log_time` is the time of arrival that the
service was given. A `kill -9` loses at most the last chunk.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from mcap.writer import CompressionType, IndexType, Writer

from transport.checksums import RECORD, checksums
from transport.errors import LogError
from transport.messages import SCHEMA

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
"""A chunk is written as soon as it is this long: about 30 ticks."""

WAITING_MAX = 20_000
"""So many exchanges may wait for the disk, 20 s at 1 kHz and some 40 MB; more end the log."""

LOOK_S = 1.0
"""How often the writer looks whether its file is still there [s]."""

PROFILE = "idyn"
STATE, TORQUE, SESSION = "/state", "/torque", "/session"
REQUEST, REPLY = "request", "reply"

_SCHEMA_TEXT = (
    f"idyn wire schema {SCHEMA}: a msgpack map with string keys, `t` the type and `v` the version; "
    "vectors are little-endian float64 bin"
)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One exchange, as the service handled it.

    about_state: the request is a state; answered: the reply is a torque
    reply: empty for a state that was overtaken by a newer one
    """

    identity: bytes
    t_recv_ns: int
    request: bytes
    reply: bytes
    about_state: bool
    answered: bool


class Attachment(msgspec.Struct, frozen=True):
    """A file inside the log."""

    name: str
    media_type: str
    data: bytes


class Recorder:
    """Writes a log. `put` costs the caller one queue append.

    problem: why the log has stopped, '' while all is well; nothing is kept from then on, and `close` raises it, too
    """

    def __init__(self, path: Path, attachments: list[Attachment], metadata: Mapping[str, Mapping[str, str]]) -> None:
        """Create the file and write what is known from the start. Raises LogError when that is impossible."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("xb")
        except OSError as error:
            raise LogError(f"{path}: cannot be created ({error})") from error
        self._writer = Writer(self._file, chunk_size=CHUNK_BYTES, compression=CompressionType.NONE, index_types=IndexType.ALL)
        self._writer.start(profile=PROFILE)
        self._schema = self._writer.register_schema("idyn.message", "text", _SCHEMA_TEXT.encode())
        now = time.time_ns()
        for attachment in attachments:
            self._writer.add_attachment(now, now, attachment.name, attachment.media_type, attachment.data)
        digests = checksums({attachment.name: attachment.data for attachment in attachments}, metadata)
        for name, data in (*metadata.items(), (RECORD, digests)):
            self._writer.add_metadata(name, dict(data))
        self._channels: dict[tuple[bytes, str, str], int] = {}
        self._sequence = 0
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._looked = time.monotonic()
        self.problem = ""
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Hand over one exchange; returns at once."""
        if self.problem:
            return
        if self._queue.qsize() >= WAITING_MAX:
            self._fail(f"the disk is {WAITING_MAX} exchanges behind")
        else:
            self._queue.put(entry)

    def close(self) -> None:
        """Write everything out and finish the file. Raises LogError when anything could not be written."""
        self._queue.put(None)
        self._thread.join()
        with suppress(OSError):  # what could not be flushed has failed before
            self._file.close()
        if self.problem:
            raise LogError(f"{self.path}: cannot be written ({self.problem})")

    def _run(self) -> None:
        try:
            while (entry := self._queue.get()) is not None:
                if not self.problem:
                    self._write(entry)
            if not self.problem:
                self._writer.finish()
        except Exception as error:  # it ends the thread; `problem` tells whoever answers, `close` raises it
            self._fail(str(error))

    def _fail(self, problem: str) -> None:
        """The log ends here: what came later would not follow on what is there."""
        if not self.problem:
            self.problem = problem
            log.error("%s: the log has stopped (%s)", self.path, problem)

    def _look(self) -> None:
        """Once a while: whether the file is still where it was."""
        now = time.monotonic()
        if now - self._looked > LOOK_S:
            self._looked = now
            if not self.path.exists() or self.path.stat().st_ino != os.fstat(self._file.fileno()).st_ino:
                self._fail("the file was removed")

    def _write(self, entry: Entry) -> None:
        self._add(entry, STATE if entry.about_state else SESSION, REQUEST, entry.request)
        if entry.reply:
            self._add(entry, TORQUE if entry.answered else SESSION, REPLY, entry.reply)
        self._file.flush()  # a finished chunk must not wait in this process
        self._look()

    def _add(self, entry: Entry, topic: str, direction: str, data: bytes) -> None:
        key = (entry.identity, topic, direction)
        channel = self._channels.get(key)
        if channel is None:
            metadata = {"identity": entry.identity.hex(), "direction": direction}
            channel = self._channels[key] = self._writer.register_channel(topic, "msgpack", self._schema, metadata)
        self._writer.add_message(channel, entry.t_recv_ns, data, entry.t_recv_ns, self._sequence)
        self._sequence += 1
