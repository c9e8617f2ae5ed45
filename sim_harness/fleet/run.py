"""A fleet of logs: survey, replay in parallel, manifest, figures.

The folder of the results has a file for each window, `law=LAW/log=NAME/window=NUMBER/ticks.parquet`, and `_manifest.json`. A
file is a function of the log, its settings, law, selection, window and lead-in only. A run that was stopped continues with the
windows that have no file.
"""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from idyn.errors import ConfigError
from sim_harness.compare.jobs import code_digest, run_jobs
from sim_harness.compare.study import Progress
from sim_harness.fleet.logs import RECORDED, How, Log, survey
from sim_harness.fleet.tasks import Task, run_task, tasks_of
from sim_harness.fleet.ticks import digest, parquet, read
from sim_harness.report.tables import Table

MANIFEST = "_manifest.json"
"""Readers of partitioned Parquet skip names that begin with an underscore or a dot."""

PACKAGES = ("idyn", "pin", "numpy", "numba", "scipy")
"""Packages whose versions the manifest names."""


class WindowResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a window, in figures.

    sha256: of its columns
    identical: ticks with the recorded torques bit for bit; refused: ticks that the replay did not answer
    change_sum: sum of mean |Δτ| over the answered ticks [N·m]; change_max: max |Δτ| [N·m], 0 without an answered tick
    kept_s, total_s: see `About`
    """

    law: str
    log: str
    window: int
    first: int
    ticks: int
    sha256: str
    identical: int
    refused: int
    change_sum: float
    change_max: float
    kept_s: float
    total_s: float


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a fleet. sha256: of the results of all windows, ordered by law, log and window"""

    sha256: str
    logs: list[Log]
    windows: list[WindowResult]

    @property
    def table(self) -> Table:
        """The figures of each law."""
        heads = ["law", "logs", "ticks", "identical", "refused", "mean |Δτ| [N·m]", "max |Δτ| [N·m]"]
        rows = [[*heads, "ticks/s per core", "with start and lead-in"]]
        for law in dict.fromkeys(result.law for result in self.windows):
            rows.append(_row(law, [result for result in self.windows if result.law == law]))
        return rows

    def exact(self, law: str) -> bool:
        """Return whether a law gave the recorded torques bit for bit in all ticks."""
        return all(result.identical == result.ticks for result in self.windows if result.law == law)


def _row(law: str, results: Sequence[WindowResult]) -> list[str]:
    ticks, refused = sum(result.ticks for result in results), sum(result.refused for result in results)
    change = sum(result.change_sum for result in results) / max(ticks - refused, 1)
    kept, total = sum(result.kept_s for result in results), sum(result.total_s for result in results)
    return [
        law,
        str(len({result.log for result in results})),
        str(ticks),
        f"{sum(result.identical for result in results) / ticks:.2%}",
        str(refused),
        f"{change:.4g}",
        f"{max(result.change_max for result in results):.4g}",
        f"{ticks / kept:.0f}" if kept > 0.0 else "–",
        f"{ticks / total:.0f}" if total > 0.0 else "–",
    ]


def run_fleet(paths: Sequence[Path], how: How, out: Path, executor: tuple[str, int], progress: Progress) -> FleetReport:
    """Replay logs in parallel and write the results below `out`.

    executor: its name, and the number of parallel tasks
    Raises ConfigError for settings and for a folder with results of other settings or code, LogError for a log, and JobFailed
    when tasks failed, after all others have ended.
    """
    parquet()
    _check(how)
    logs = [survey(path, how) for path in paths]
    if len({log.name for log in logs}) < len(logs):
        raise ConfigError("logs", "expected different logs, got one twice")
    out = out.absolute()
    about = _about(how)
    _claim(out, about, logs)
    tasks = tasks_of(logs, how, out)
    run_jobs(tasks, run_task, lambda task: not task.missing, executor, progress)
    results = sorted((_result(task, i) for task in tasks for i in range(len(task.windows))), key=_place)
    report = FleetReport(sha256=_digest(results), logs=logs, windows=results)
    _write(out, about | {"sha256": report.sha256} | _listed(logs) | {"windows": msgspec.to_builtins(results)})
    return report


def _check(how: How) -> None:
    """Raise ConfigError for an invalid setting."""
    if how.window < 1:
        raise ConfigError("--window", f"expected a number of ticks ≥ 1, got {how.window}")
    if how.lead_in is not None and how.lead_in < 0:
        raise ConfigError("--lead-in", f"expected a number of ticks ≥ 0, got {how.lead_in}")
    if len(set(how.laws)) < len(how.laws):
        raise ConfigError("--law", f"expected different laws, got {', '.join(how.laws)}")


def _about(how: How) -> dict[str, Any]:
    """Return what all results of a folder have in common."""
    return {
        "window": how.window,
        "lead_in": how.lead_in,
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


def _result(task: Task, i: int) -> WindowResult:
    window = task.windows[i]
    ticks, about = read(task.file(window))
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
        kept_s=about.kept_s,
        total_s=about.total_s,
    )


def _place(result: WindowResult) -> tuple[str, str, int]:
    return result.law, result.log, result.window


def _digest(results: Sequence[WindowResult]) -> str:
    text = "".join(f"{result.law} {result.log} {result.window} {result.sha256}\n" for result in results)
    return hashlib.sha256(text.encode()).hexdigest()
