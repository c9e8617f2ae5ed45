"""The log: what the service did, byte by byte, written by a thread of its own into one file after the other."""

import logging
import queue
import threading
import time
from pathlib import Path

from transport.log.part import Attachment, Entry, LogError, LogPart, Metadata, part_path

log = logging.getLogger(__name__)

WAITING_MAX = 20_000
"""So many exchanges may wait for the disk, 20 s at 1 kHz and some 40 MB; more end the log."""

CHECK_S = 1.0
"""How often the writer looks whether its file is still there [s]."""

PART_BYTES = 500_000_000
"""A file is followed by the next one when it is this long: about four minutes at 1 kHz."""

PART_S = 3600.0
"""… or was begun so long ago [s]."""


class Recorder:
    """Writes a log. `put` costs the caller one queue append.

    path: of the first file; `LogReader` goes on from one to the next
    problem: why the log has stopped, '' while all is well; nothing is kept from then on, and `close` raises it, too
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
        """Create the first file and write what is known from the start. Raises LogError when that is impossible."""
        self.path = path
        self.problem = ""
        self._attachments, self._metadata = attachments, metadata
        self._part_bytes, self._part_s = part_bytes, part_s
        self._number = self._sequence = 0
        self._part = LogPart(path, attachments, metadata)
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._begun = self._checked = time.monotonic()
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
        """Write everything out and finish the log. Raises LogError when anything could not be written."""
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
            except Exception as error:  # `problem` tells whoever answers, `close` raises it
                self._fail(str(error))
            if entry is None:
                return

    def _fail(self, problem: str) -> None:
        """The log ends here: what came later would not follow on what is there."""
        if not self.problem:
            self.problem = problem
            log.error("%s: the log has stopped (%s)", self.path, problem)

    def _write(self, entry: Entry) -> None:
        self._sequence = self._part.write(entry, self._sequence)
        now = time.monotonic()
        if now - self._checked > CHECK_S:
            self._checked = now
            if not self._part.exists:
                self._fail("the file was removed")
        if self._part.size >= self._part_bytes or now - self._begun >= self._part_s:
            self._begin_next_part()
            self._begun = now

    def _begin_next_part(self) -> None:
        """The next file, with the same head."""
        following = LogPart(part_path(self.path, self._number + 1), self._attachments, self._metadata)
        self._part.finish(following.path)
        self._part.close()
        self._number, self._part = self._number + 1, following
