"""The log of a service: all exchanges, written by a separate thread, with continuation files."""

import logging
import queue
import threading
import time
from pathlib import Path

from transport.log.part import Attachment, Entry, LogError, LogPart, Metadata, part_path

log = logging.getLogger(__name__)

WAITING_MAX = 20_000
"""Exchanges that may wait for the disk: 20 s at 1 kHz, about 40 MB. More end the log."""

CHECK_S = 1.0
"""Interval at which the writer checks that its file still exists [s]."""

PART_BYTES = 500_000_000
"""Length at which a file is continued in the next one [bytes]: about four minutes at 1 kHz."""

PART_S = 3600.0
"""Age at which a file is continued in the next one [s]."""


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
        """Continue in the next file, with the same head."""
        path = part_path(self.path, self._number + 1)
        following = LogPart(path, self._attachments, self._metadata, folder=self._part.folder)
        self._part.finish(following.path)
        self._part.close()
        self._number, self._part = self._number + 1, following
