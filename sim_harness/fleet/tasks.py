"""Tasks of a fleet: windows of one log under one law, replayed by a worker, which writes a file for each.

A task has the path of its log; the worker reads settings, robot and messages from there. A log has 2 kB per tick: sent with the
tasks, the messages would pass through the one process that distributes them. A worker only needs the folders of logs and
results under the same path.
"""

from collections.abc import Iterator
from pathlib import Path
from time import thread_time

from sim_harness.compare.jobs import Job, digest_of
from sim_harness.fleet.logs import RECORDED, How, Log, Window, windows
from sim_harness.fleet.ticks import About, TickWriter, rows_of, write
from transport.log.part import LogError
from transport.log.reader import LogReader
from transport.log.replay import replayed
from transport.server.realtime import steady

FILE = "ticks.parquet"


class Task(Job, frozen=True, kw_only=True):
    """Windows of a log under a law, in order. folder: of their results; lead_in: see `How`"""

    log: Log
    law: str
    selection: str | None
    lead_in: int | None
    windows: tuple[Window, ...]

    def file(self, window: Window) -> Path:
        """Return the path of the results of a window."""
        return self.folder / f"window={window.number:06d}" / FILE

    @property
    def missing(self) -> tuple[Window, ...]:
        """The windows without results."""
        return tuple(window for window in self.windows if rows_of(self.file(window)) != window.ticks)


def tasks_of(logs: list[Log], how: How, root: Path) -> list[Task]:
    """Return the tasks of a fleet, the longest first.

    With a lead-in each window is a task. Without one, all windows of a log under a law are one task: they share one replay.
    """
    tasks = []
    for law in how.laws:
        for log in logs:
            found = windows(log, how)
            shares = [found] if how.lead_in is None else [(window,) for window in found]
            for share in shares:
                digest = digest_of([log.sha256, law, how.selection, how.lead_in, [window.number for window in share]])
                tasks.append(
                    Task(
                        digest=digest,
                        folder=root / f"law={law}" / f"log={log.name}",
                        log=log,
                        law=law,
                        selection=how.selection,
                        lead_in=how.lead_in,
                        windows=share,
                    )
                )
    return sorted(tasks, key=lambda task: -sum(window.ticks for window in task.windows))


def run_task(task: Task) -> None:
    """Replay the windows of a task that have no results, and write a file for each. Raises LogError."""
    missing = task.missing
    if not missing:
        return
    since = thread_time()
    begin = 0 if task.lead_in is None else max(missing[0].first - task.lead_in, 0)
    law = None if task.law == RECORDED else task.law
    with LogReader(task.log.path) as reader, steady():
        exchanges = replayed(reader, law=law, selection=task.selection, unanswered=begin)
        ticks = (exchange for exchange in exchanges if exchange.entry.answered)
        tick = begin
        for window in missing:
            _skip(ticks, window.first - tick)
            kept, writer = thread_time(), TickWriter()
            for exchange in ticks:
                writer.add(exchange)
                if len(writer) == window.ticks:
                    break
            if len(writer) < window.ticks:
                raise LogError(f"{task.log.path}: expected {task.log.ticks} ticks, got fewer: the log has changed")
            tick = window.first + window.ticks
            now = thread_time()
            write(task.file(window), writer.take(), About(kept_s=now - kept, total_s=now - since))
            since = now


def _skip(ticks: Iterator[object], count: int) -> None:
    """Replay ticks that are not kept."""
    for _ in range(count):
        next(ticks, None)
