"""One file of a log: MCAP with the exact bytes of every exchange.

Channels `/state`, `/torque`, `/refused` (refused messages besides states, with their refusals) and `/session` (all others, and
refusals of states), one set for each client. The metadata of a channel holds the client's identity and the direction. Records
have the order in which the service handled them, each request followed by its reply. An overtaken state (one that arrived
together with a newer one) has no reply. `log_time` is the arrival time that the service was given, as wall-clock time. A
`kill -9` loses at most the last chunk.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from mcap.writer import CompressionType, IndexType, Writer

from idyn.errors import IdynError
from transport.log.checksums import RECORD, checksums
from transport.protocol.messages.base import SCHEMA

CHUNK_BYTES = 64 * 1024
"""Length at which a chunk is written [bytes]: about 30 ticks."""

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a file is created: never in the place of another one, or of a link."""

PROFILE = "idyn"
STATE, TORQUE, SESSION, REFUSED = "/state", "/torque", "/session", "/refused"
REQUEST, REPLY = "request", "reply"

CLOCKS = "clocks"
"""Metadata record with the time on both clocks at the start of the log: `monotonic_ns`, `wall_ns`."""

CONTINUES, NEXT = "continues", "next"
"""Metadata record at the end of a file that is continued in another one, and its key for that file's name."""

_SCHEMA_TEXT = (
    f"idyn wire schema {SCHEMA}: a msgpack map with string keys, `t` the type and `v` the version; "
    "vectors are little-endian float64 bin"
)


class LogError(IdynError):
    """A log cannot be written, read or replayed."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One exchange, as the service handled it.

    identity: ZMQ identity of the client
    t_recv_ns: arrival time on the server's clock [ns]
    request, reply: bytes; the reply is empty for an overtaken state (one that arrived together with a newer one)
    about_state: the request is a state
    answered: the reply is a torque
    refused: the request is no state, and the reply refuses it; the request may be any bytes
    """

    identity: bytes
    t_recv_ns: int
    request: bytes
    reply: bytes
    about_state: bool
    answered: bool
    refused: bool = False


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


def part_path(first: Path, number: int) -> Path:
    """Return the path of file `number` of a log: run.mcap, run.001.mcap, …"""
    return first if number == 0 else first.with_name(f"{first.stem}.{number:03d}{first.suffix}")


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
