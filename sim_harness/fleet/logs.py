"""The logs of a fleet: what each holds, and the windows that it is cut into."""

import hashlib
import json
from pathlib import Path

import msgspec

from controllers.config.loading import parse
from controllers.config.tables import merged
from controllers.planners.trajectory import HoldSettings
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from transport.log.part import LogError
from transport.log.provenance import recorded_settings
from transport.log.reader import LogReader

RECORDED = "recorded"
"""Name of the law that the log was recorded with."""


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How logs are replayed.

    laws: contact laws, `RECORDED` for the log's own
    selection: None: the log's own
    window: ticks of a window
    lead_in: ticks that are replayed before each window and not kept; None: all earlier ones of the log
    """

    laws: tuple[str, ...] = (RECORDED,)
    selection: str | None = None
    window: int = 20_000
    lead_in: int | None = None


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """A log. name: its file's name and the begin of its digest; sha256: of everything that a replay reads

    ticks: number of states that were answered by a torque; complete: whether it was read to its end
    """

    path: Path
    name: str
    sha256: str
    ticks: int
    complete: bool


class Window(msgspec.Struct, frozen=True):
    """Consecutive ticks of a log. number: of the window, from 0 on; first: number of its first tick, from 0 on"""

    number: int
    first: int
    ticks: int


def survey(path: Path, how: How) -> Log:
    """Read a log and return what it holds. Raises LogError, also for a log without a tick, and ConfigError.

    The digest depends on attachments, metadata and messages, but not on chunks, compression and continuation files.
    """
    digest, ticks = hashlib.sha256(), 0
    with LogReader(path) as reader:
        _check(reader, how)
        digest.update(json.dumps(reader.metadata, sort_keys=True).encode())
        for name, data in sorted(reader.attachments.items()):
            _add(digest, name.encode(), data)
        for entry in reader.exchanges():
            ticks += entry.answered
            _add(digest, entry.identity, str(entry.t_recv_ns).encode(), entry.request, entry.reply)
        if not ticks:
            raise LogError(f"{path}: expected states that were answered by torques, found none")
        text = digest.hexdigest()
        return Log(path=path.absolute(), name=f"{path.stem}-{text[:12]}", sha256=text, ticks=ticks, complete=reader.complete)


def _add(digest: "hashlib._Hash", *parts: bytes) -> None:
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)


def _check(reader: LogReader, how: How) -> None:
    """Check the laws, and that a lead-in can replace the past of this log. Raises ConfigError and LogError."""
    snapshot, _ = recorded_settings(reader)
    for law in how.laws:
        changes = {} if law == RECORDED else {"law": law}
        parse(merged(snapshot["settings"], changes), ControllerSettings, "controller")
    settings = parse(snapshot["settings"], ControllerSettings, str(reader.path))
    if how.lead_in is not None and not isinstance(settings.reference, HoldSettings):
        kind = snapshot["settings"]["reference"]["kind"]
        raise ConfigError(
            "--lead-in", f"{reader.path}: its reference '{kind}' depends on all earlier ticks; expected the reference 'hold'"
        )


def windows(log: Log, how: How) -> tuple[Window, ...]:
    """Return the windows of a log, the last one with the rest of the ticks."""
    firsts = range(0, log.ticks, how.window)
    return tuple(Window(i, first, min(how.window, log.ticks - first)) for i, first in enumerate(firsts))
