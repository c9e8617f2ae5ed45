"""A fleet of logs: survey, replay in parallel, manifest, figures.

The folder of the results has a file for each window, `law=LAW/log=NAME/window=NUMBER/ticks.parquet`, and `_manifest.json`. A
file is a function of the log, its settings, law, selection and window only: a stopped run continues. A task has the path of
its log, which the worker reads: sent with the tasks, the messages would pass through one process.
"""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from controllers.config.loading import parse
from controllers.config.tables import merged
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from sim_harness.compare.jobs import Job, Progress, code_digest, digest_of, run_jobs
from sim_harness.export.files import parquet
from sim_harness.fleet.ticks import TickWriter, digest, read, rows_of, write
from sim_harness.report.tables import Table
from transport.log.provenance import recorded_settings
from transport.log.reader import LogReader
from transport.log.recorder import LogError
from transport.log.replay import replayed
from transport.server.process import steady

RECORDED = "recorded"  # name of the law that the log was recorded with


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How logs are replayed."""

    laws: tuple[str, ...] = (RECORDED,)  # contact laws, `RECORDED` for the log's own
    selection: str | None = None  # None: the log's own
    window: int = 20_000  # ticks of a window


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """A log. name: its file's name and the begin of its digest; sha256: of everything that a replay reads"""

    path: Path
    name: str
    sha256: str
    ticks: int  # number of states that were answered by a torque
    complete: bool  # whether it was read to its end


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
        snapshot, _ = recorded_settings(reader)
        for law in how.laws:
            changes = {} if law == RECORDED else {"law": law}
            parse(merged(snapshot["settings"], changes), ControllerSettings, "controller")
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


def windows(log: Log, how: How) -> tuple[Window, ...]:
    """Return the windows of a log, the last one with the rest of the ticks."""
    firsts = range(0, log.ticks, how.window)
    return tuple(Window(i, first, min(how.window, log.ticks - first)) for i, first in enumerate(firsts))


FILE = "ticks.parquet"


class Task(Job, frozen=True, kw_only=True):
    """A log under a law, with its windows in order, which share one replay. folder: of their results"""

    log: Log
    law: str
    selection: str | None
    windows: tuple[Window, ...]

    def file(self, window: Window) -> Path:
        """Return the path of the results of a window."""
        return self.folder / f"window={window.number:06d}" / FILE

    @property
    def missing(self) -> tuple[Window, ...]:
        """The windows without results."""
        return tuple(window for window in self.windows if rows_of(self.file(window)) != window.ticks)


def tasks_of(logs: list[Log], how: How, root: Path) -> list[Task]:
    """Return the tasks of a fleet, the longest first."""
    tasks = [
        Task(
            digest=digest_of([log.sha256, law, how.selection, how.window]),
            folder=root / f"law={law}" / f"log={log.name}",
            log=log,
            law=law,
            selection=how.selection,
            windows=windows(log, how),
        )
        for law in how.laws
        for log in logs
    ]
    return sorted(tasks, key=lambda task: -sum(window.ticks for window in task.windows))


def run_task(task: Task) -> None:
    """Replay the windows of a task that have no results, and write a file for each. Raises LogError."""
    missing = task.missing
    if not missing:
        return
    law = None if task.law == RECORDED else task.law
    with LogReader(task.log.path) as reader, steady():
        exchanges = replayed(reader, law=law, selection=task.selection)
        ticks = (exchange for exchange in exchanges if exchange.entry.answered)
        tick = 0
        for window in missing:
            for _ in range(window.first - tick):  # not kept
                next(ticks, None)
            writer = TickWriter()
            for exchange in ticks:
                writer.add(exchange)
                if len(writer) == window.ticks:
                    break
            if len(writer) < window.ticks:
                raise LogError(f"{task.log.path}: expected {task.log.ticks} ticks, got fewer: the log has changed")
            tick = window.first + window.ticks
            write(task.file(window), writer.take())


MANIFEST = "_manifest.json"  # readers of partitioned Parquet skip names that begin with an underscore or a dot
PACKAGES = ("idyn", "pin", "numpy", "scipy")  # packages whose versions the manifest names


class WindowResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a window, in figures."""

    law: str
    log: str
    window: int
    first: int
    ticks: int
    sha256: str  # of its columns
    identical: int  # ticks with the recorded torques bit for bit
    refused: int  # ticks that the replay did not answer
    change_sum: float  # sum of mean |Δτ| over the answered ticks [N·m]
    change_max: float  # max |Δτ| [N·m], 0 without an answered tick


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a fleet. sha256: of the results of all windows, ordered by law, log and window"""

    sha256: str
    logs: list[Log]
    windows: list[WindowResult]

    @property
    def table(self) -> Table:
        """The figures of each law."""
        rows = [["law", "logs", "ticks", "identical", "refused", "mean |Δτ| [N·m]", "max |Δτ| [N·m]"]]
        for law in dict.fromkeys(result.law for result in self.windows):
            rows.append(_row(law, [result for result in self.windows if result.law == law]))
        return rows

    def exact(self, law: str) -> bool:
        """Return whether a law gave the recorded torques bit for bit in all ticks."""
        return all(result.identical == result.ticks for result in self.windows if result.law == law)


def _row(law: str, results: Sequence[WindowResult]) -> list[str]:
    ticks, refused = sum(result.ticks for result in results), sum(result.refused for result in results)
    change = sum(result.change_sum for result in results) / max(ticks - refused, 1)
    return [
        law,
        str(len({result.log for result in results})),
        str(ticks),
        f"{sum(result.identical for result in results) / ticks:.2%}",
        str(refused),
        f"{change:.4g}",
        f"{max(result.change_max for result in results):.4g}",
    ]


def run_fleet(paths: Sequence[Path], how: How, out: Path, executor: tuple[str, int], progress: Progress) -> FleetReport:
    """Replay logs in parallel and write the results below `out`.

    executor: its name, and the number of parallel tasks
    Raises ConfigError for settings and for a folder with results of other settings or code, LogError for a log, and JobFailed
    when tasks failed, after all others have ended.
    """
    parquet("--out")
    _check(how)
    logs = [survey(path, how) for path in paths]
    if len({log.name for log in logs}) < len(logs):
        raise ConfigError("logs", "expected different logs, got one twice")
    out = out.absolute()
    about = _about(how)
    _claim(out, about, logs)
    tasks = tasks_of(logs, how, out)
    run_jobs(tasks, run_task, lambda task: not task.missing, executor, progress)
    results = [_result(task, window) for task in tasks for window in task.windows]
    results.sort(key=lambda result: (result.law, result.log, result.window))
    text = "".join(f"{result.law} {result.log} {result.window} {result.sha256}\n" for result in results)
    report = FleetReport(sha256=hashlib.sha256(text.encode()).hexdigest(), logs=logs, windows=results)
    _write(out, about | {"sha256": report.sha256} | _listed(logs) | {"windows": msgspec.to_builtins(results)})
    return report


def _check(how: How) -> None:
    if how.window < 1:
        raise ConfigError("--window", f"expected a number of ticks ≥ 1, got {how.window}")
    if len(set(how.laws)) < len(how.laws):
        raise ConfigError("--law", f"expected different laws, got {', '.join(how.laws)}")


def _about(how: How) -> dict[str, Any]:
    return {
        "window": how.window,
        "selection": how.selection or RECORDED,
        "code": code_digest(),
        "versions": {package: version(package) for package in PACKAGES},
    }


def _claim(out: Path, about: dict[str, Any], logs: Sequence[Log]) -> None:
    """Write the manifest of a run that begins. Raises ConfigError for a folder with other results."""
    path = out / MANIFEST
    if path.is_file():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ConfigError("--out", f"{path} is damaged ({error}); expected a new folder") from error
        if others := [name for name, value in about.items() if found.get(name) != value]:
            raise ConfigError("--out", f"{out} has results of another {', '.join(others)}; expected a new folder")
    elif out.is_dir() and any(out.iterdir()):
        raise ConfigError("--out", f"expected a new folder, or one of an earlier replay, got {out} without {MANIFEST}")
    _write(out, about | _listed(logs))


def _listed(logs: Sequence[Log]) -> dict[str, Any]:
    return {"logs": msgspec.to_builtins(list(logs), enc_hook=str)}


def _write(out: Path, manifest: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    part = out / f"{MANIFEST}.part"
    part.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    part.replace(out / MANIFEST)


def _result(task: Task, window: Window) -> WindowResult:
    ticks = read(task.file(window))
    answered = np.isfinite(ticks["change_mean"])
    return WindowResult(
        law=task.law,
        log=task.log.name,
        window=window.number,
        first=window.first,
        ticks=window.ticks,
        sha256=digest(ticks),
        identical=int(ticks["identical"].sum()),
        refused=int((~answered).sum()),
        change_sum=float(ticks["change_mean"][answered].sum()),
        change_max=float(ticks["change_max"][answered].max(initial=0.0)),
    )
