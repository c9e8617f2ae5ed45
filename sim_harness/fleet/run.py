"""A fleet of logs: survey, replay in parallel, manifest, figures.

The folder of the results has a file for each log under each law, `law=LAW/log=NAME/ticks.parquet`, and `_manifest.json`. A
file is a function of the log, its settings, law and selection only: a stopped run continues. A task has the path of its log,
which the worker reads: sent with the tasks, the messages would pass through one process.
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
from sim_harness.fleet.ticks import TickFile, add_to_digest, groups, rows_of
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


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """A log. name: its file's name and the begin of its digest; sha256: of everything that a replay reads"""

    path: Path
    name: str
    sha256: str
    ticks: int  # number of states that were answered by a torque
    complete: bool  # whether it was read to its end


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


FILE = "ticks.parquet"


class Task(Job, frozen=True, kw_only=True):
    """A log under a law. folder: of its results"""

    log: Log
    law: str
    selection: str | None

    @property
    def done(self) -> bool:
        """Whether the results of all ticks are there."""
        return rows_of(self.folder / FILE) == self.log.ticks


def tasks_of(logs: list[Log], how: How, root: Path) -> list[Task]:
    """Return the tasks of a fleet, the longest first."""
    tasks = [
        Task(
            digest=digest_of([log.sha256, law, how.selection]),
            folder=root / f"law={law}" / f"log={log.name}",
            log=log,
            law=law,
            selection=how.selection,
        )
        for law in how.laws
        for log in logs
    ]
    return sorted(tasks, key=lambda task: -task.log.ticks)


def run_task(task: Task) -> None:
    """Replay a log and write the file of its results. Raises LogError."""
    law = None if task.law == RECORDED else task.law
    with LogReader(task.log.path) as reader, steady(), TickFile(task.folder / FILE) as file:
        for exchange in replayed(reader, law=law, selection=task.selection):
            if exchange.entry.answered:
                file.add(exchange)
        if file.ticks != task.log.ticks:
            raise LogError(f"{task.log.path}: expected {task.log.ticks} ticks, got {file.ticks}: the log has changed")


MANIFEST = "_manifest.json"  # readers of partitioned Parquet skip names that begin with an underscore or a dot
PACKAGES = ("idyn", "pin", "numpy", "scipy")  # packages whose versions the manifest names


class LogResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a log under a law, in figures."""

    law: str
    log: str
    ticks: int
    sha256: str  # of its columns
    identical: int  # ticks with the recorded torques bit for bit
    refused: int  # ticks that the replay did not answer
    change_sum: float  # sum of mean |Δτ| over the answered ticks [N·m]
    change_max: float  # max |Δτ| [N·m], 0 without an answered tick


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a fleet. sha256: of all results, ordered by law and log"""

    sha256: str
    logs: list[Log]
    results: list[LogResult]

    @property
    def table(self) -> Table:
        """The figures of each law."""
        rows = [["law", "logs", "ticks", "identical", "refused", "mean |Δτ| [N·m]", "max |Δτ| [N·m]"]]
        for law in dict.fromkeys(result.law for result in self.results):
            rows.append(_row(law, [result for result in self.results if result.law == law]))
        return rows

    def exact(self, law: str) -> bool:
        """Return whether a law gave the recorded torques bit for bit in all ticks."""
        return all(result.identical == result.ticks for result in self.results if result.law == law)


def _row(law: str, results: Sequence[LogResult]) -> list[str]:
    ticks, refused = sum(result.ticks for result in results), sum(result.refused for result in results)
    change = sum(result.change_sum for result in results) / max(ticks - refused, 1)
    return [
        law,
        str(len(results)),
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
    if len(set(how.laws)) < len(how.laws):
        raise ConfigError("--law", f"expected different laws, got {', '.join(how.laws)}")
    logs = [survey(path, how) for path in paths]
    if len({log.name for log in logs}) < len(logs):
        raise ConfigError("logs", "expected different logs, got one twice")
    out = out.absolute()
    about = _about(how)
    _claim(out, about, logs)
    tasks = tasks_of(logs, how, out)
    run_jobs(tasks, run_task, lambda task: task.done, executor, progress)
    results = sorted(map(_result, tasks), key=lambda result: (result.law, result.log))
    text = "".join(f"{result.law} {result.log} {result.sha256}\n" for result in results)
    report = FleetReport(sha256=hashlib.sha256(text.encode()).hexdigest(), logs=logs, results=results)
    _write(out, about | {"sha256": report.sha256} | _listed(logs) | {"results": msgspec.to_builtins(results)})
    return report


def _about(how: How) -> dict[str, Any]:
    return {
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


def _result(task: Task) -> LogResult:
    sha256, identical, refused, change_sum, change_max = hashlib.sha256(), 0, 0, 0.0, 0.0
    for ticks in groups(task.folder / FILE):
        add_to_digest(sha256, ticks)
        answered = np.isfinite(ticks["change_mean"])
        identical, refused = identical + int(ticks["identical"].sum()), refused + int((~answered).sum())
        change_sum += float(ticks["change_mean"][answered].sum())
        change_max = max(change_max, float(ticks["change_max"][answered].max(initial=0.0)))
    return LogResult(
        law=task.law,
        log=task.log.name,
        ticks=task.log.ticks,
        sha256=sha256.hexdigest(),
        identical=identical,
        refused=refused,
        change_sum=change_sum,
        change_max=change_max,
    )
