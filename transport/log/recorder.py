"""SHA-256 of the header of a log, so that a replay never uses a damaged robot or controller."""

import hashlib
import json
import logging
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from mcap.writer import CompressionType, IndexType, Writer

from idyn.errors import IdynError
from transport.protocol.messages.base import SCHEMA

RECORD = "sha256"  # metadata record that holds the checksums
METADATA = "metadata"  # key of the checksum of all other metadata records; the other keys are names of attachments


def checksums(attachments: Mapping[str, bytes], metadata: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the SHA-256 of each attachment and of all metadata except the checksums, in hexadecimal."""
    others = {name: dict(record) for name, record in metadata.items() if name != RECORD}
    text = json.dumps(others, sort_keys=True).encode()
    return {name: _digest(data) for name, data in attachments.items()} | {METADATA: _digest(text)}


def damaged(attachments: Mapping[str, bytes], metadata: Mapping[str, Mapping[str, str]]) -> str:
    """Return which parts of a head differ from what was recorded, '' without a difference."""
    recorded, found = metadata.get(RECORD), checksums(attachments, metadata)
    if recorded is None:
        return "its checksums are missing"
    wrong = sorted(name for name in recorded.keys() | found.keys() if recorded.get(name) != found.get(name))
    return f"wrong checksum of {', '.join(wrong)}" if wrong else ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


CHUNK_BYTES = 64 * 1024  # length at which a chunk is written [bytes]: about 30 ticks

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a file is created: never in the place of another one, or of a link."""

PROFILE = "idyn"
STATE, TORQUE, SESSION, REFUSED = "/state", "/torque", "/session", "/refused"
REQUEST, REPLY = "request", "reply"

CLOCKS = "clocks"  # metadata record with the time on both clocks at the start of the log: `monotonic_ns`, `wall_ns`

CONTINUES, NEXT = "continues", "next"
"""Metadata record at the end of a file that is continued in another one, and its key for that file's name."""

_SCHEMA_TEXT = (
    f"idyn wire schema {SCHEMA}: a msgpack map with string keys, `t` the type and `v` the version; "
    "vectors are little-endian float64 bin"
)


class LogError(IdynError):
    """A log cannot be written, read or replayed."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One exchange, as the service handled it."""

    identity: bytes  # ZMQ identity of the client
    t_recv_ns: int  # arrival time on the server's clock [ns]
    # request, reply: bytes; the reply is empty for an overtaken state (one that arrived together with a newer one)
    request: bytes
    reply: bytes
    about_state: bool  # the request is a state
    answered: bool  # the reply is a torque
    refused: bool = False  # the request is no state, and the reply refuses it; the request may be any bytes


class Attachment(msgspec.Struct, frozen=True):
    """A file inside the log."""

    name: str
    media_type: str
    data: bytes


Metadata = Mapping[str, Mapping[str, str]]


def wall_offset_ns(metadata: Metadata) -> int:
    """Return the offset from the service's clock to wall-clock time [ns]. Raises LogError for malformed clocks."""
    clocks = metadata.get(CLOCKS)
    if clocks is None:
        return 0
    try:
        wall_ns, monotonic_ns = (int(clocks[name]) for name in ("wall_ns", "monotonic_ns"))
    except (KeyError, ValueError) as error:
        raise LogError(f"{CLOCKS}: expected whole numbers wall_ns and monotonic_ns ({error})") from error
    if not 0 <= wall_ns < 2**63 or not 0 <= monotonic_ns < 2**63:
        raise LogError(f"{CLOCKS}: expected wall_ns and monotonic_ns from 0 to 2⁶³ − 1")
    return wall_ns - monotonic_ns


class LogPart:
    """One file of a log, open for writing. folder: descriptor of its folder, also when another one takes the folder's path"""

    def __init__(self, path: Path, attachments: Sequence[Attachment], metadata: Metadata, *, folder: int | None = None) -> None:
        """Create the file and write its head. Raises LogError when the file exists or cannot be created.

        folder: descriptor of the folder to create it in; None: that of `path`
        """
        self.path = path
        try:
            if folder is None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self.folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY) if folder is None else os.dup(folder)
            try:
                self._file = os.fdopen(os.open(path.name, NEW_FILE, 0o666, dir_fd=self.folder), "wb")
            except OSError:
                os.close(self.folder)
                raise
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
        self._wall_offset_ns = wall_offset_ns(metadata)

    @property
    def size(self) -> int:
        """Size of the file so far [bytes]."""
        return self._file.tell()

    @property
    def exists(self) -> bool:
        """Whether the file still exists in its folder."""
        try:
            found = os.stat(self.path.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._file.fileno()))

    @property
    def moved(self) -> bool:
        """Whether the path of the folder leads elsewhere by now, or nowhere."""
        try:
            return not os.path.samestat(os.stat(self.path.parent), os.fstat(self.folder))
        except OSError:
            return True

    def write(self, entry: Entry, sequence: int) -> int:
        """Add an exchange. Return the next sequence number."""
        other = REFUSED if entry.refused else SESSION
        self._add(entry, STATE if entry.about_state else other, REQUEST, entry.request, sequence)
        if entry.reply:
            self._add(entry, TORQUE if entry.answered else other, REPLY, entry.reply, sequence + 1)
        self._file.flush()  # a finished chunk must not wait in this process
        return sequence + (2 if entry.reply else 1)

    def finish(self, following: Path | None = None) -> None:
        """Write the end of the file. following: the file that continues it"""
        if following is not None:
            self._writer.add_metadata(CONTINUES, {NEXT: following.name})
        self._writer.finish()

    def close(self) -> None:
        """Close the file, after `finish` or a failure. Further calls have no effect."""
        if not self._file.closed:
            with suppress(OSError):  # a failed flush has been reported before
                self._file.close()
            os.close(self.folder)

    def _add(self, entry: Entry, topic: str, direction: str, data: bytes, sequence: int) -> None:
        key = (entry.identity, topic, direction)
        channel = self._channels.get(key)
        if channel is None:
            metadata = {"identity": entry.identity.hex(), "direction": direction}
            channel = self._channels[key] = self._writer.register_channel(topic, "msgpack", self._schema, metadata)
        wall_ns = entry.t_recv_ns + self._wall_offset_ns
        self._writer.add_message(channel, wall_ns, data, wall_ns, sequence)


log = logging.getLogger(__name__)

WAITING_MAX = 20_000  # exchanges that may wait for the disk: 20 s at 1 kHz, about 40 MB. More end the log
CHECK_S = 1.0  # interval at which the writer checks that its file still exists [s]
PART_BYTES = 500_000_000  # length at which a file is continued in the next one [bytes]: about four minutes at 1 kHz
PART_S = 3600.0  # age at which a file is continued in the next one [s]


class Recorder:
    """Writes a log. `put` costs the caller one queue append.

    path: of the first file
    problem: why recording has stopped, '' while it runs; later exchanges are dropped, and `close` raises LogError
    """

    def __init__(
        self,
        path: Path,
        attachments: list[Attachment],
        metadata: Metadata,
        *,
        part_bytes: int = PART_BYTES,
        part_s: float = PART_S,
    ) -> None:
        """Create the first file and write its head. Raises LogError when the file exists or cannot be created.

        part_bytes, part_s: length [bytes] and age [s] at which a file is continued in the next one
        """
        self.path = path
        self.problem = ""
        self._attachments, self._metadata = attachments, metadata
        self._part_bytes, self._part_s = part_bytes, part_s
        self._number = self._sequence = 0
        self._part = LogPart(path, attachments, metadata)
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._begun = self._checked = time.monotonic()
        self._moved = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Append one exchange to the queue of the writer; never blocks."""
        if self.problem:
            return
        if self._queue.qsize() >= WAITING_MAX:
            self._fail(f"{WAITING_MAX} exchanges wait for the disk")
        else:
            self._queue.put(entry)

    def close(self) -> None:
        """Write all queued exchanges and finish the log. Raises LogError when one could not be written."""
        self._queue.put(None)
        self._thread.join()
        self._part.close()
        if self.problem:
            raise LogError(f"{self.path}: cannot be written ({self.problem})")

    def _run(self) -> None:
        while True:
            entry = self._queue.get()
            try:
                if entry is not None and not self.problem:
                    self._write(entry)
                elif entry is None and not self.problem:
                    self._part.finish()
            except Exception as error:  # reported by `problem` and by `close`
                self._fail(str(error))
            if entry is None:
                return

    def _fail(self, problem: str) -> None:
        """Stop recording: a log with a gap cannot be replayed."""
        if not self.problem:
            self.problem = problem
            log.error("%s: recording stopped (%s)", self.path, problem)

    def _write(self, entry: Entry) -> None:
        self._sequence = self._part.write(entry, self._sequence)
        now = time.monotonic()
        if now - self._checked > CHECK_S:
            self._checked = now
            if not self._part.exists:
                self._fail("the file was removed")
            elif self._part.moved and not self._moved:
                self._moved = True
                log.warning("%s: the folder was moved or replaced; the log goes on in the one that it began in", self.path)
        if self._part.size >= self._part_bytes or now - self._begun >= self._part_s:
            self._begin_next_part()
            self._begun = now

    def _begin_next_part(self) -> None:
        path = self.path.with_name(f"{self.path.stem}.{self._number + 1:03d}{self.path.suffix}")  # run.001.mcap, …
        following = LogPart(path, self._attachments, self._metadata, folder=self._part.folder)
        self._part.finish(following.path)
        self._part.close()
        self._number, self._part = self._number + 1, following
