"""Trial of the executors: `python -m sim_harness.fleet.trial LOG… --law LAW --law LAW --out DIR`.

Replays the logs with each executor and number of workers. Each run is killed by SIGKILL, with all its processes, when half of
the windows are written, and continued by the same command. All results must have the same SHA-256.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from idyn.errors import ConfigError
from sim_harness.compare.executors import EXECUTORS
from sim_harness.fleet.logs import How, survey, windows
from sim_harness.fleet.run import MANIFEST
from sim_harness.fleet.ticks import read
from sim_harness.report.report import Report
from sim_harness.report.tables import Table

POLL = 0.01
"""Time between two looks at the results [s]."""


class Trial(NamedTuple):
    """A run that was killed and continued.

    killed: windows that were written before the kill, of `windows`
    ticks: of all results; rate: ticks per processor second without start [1/s]; seconds: wall-clock time of both parts [s]
    sha256: of the results
    """

    executor: str
    workers: int
    killed: int
    windows: int
    ticks: int
    rate: float
    seconds: float
    sha256: str


def tried(words: Sequence[str], count: int, executor: str, workers: int, out: Path) -> Trial:
    """Run, kill and continue a replay of `count` windows into the new folder `out`.

    Raises ConfigError if it fails, or ends before the kill.
    """
    command = [
        sys.executable,
        "-m",
        "idyn",
        "replay",
        *words,
        "--executor",
        executor,
        "--jobs",
        str(workers),
        "--out",
        str(out),
    ]
    begin = time.monotonic()
    with (out.parent / f"{out.name}.txt").open("w", encoding="utf-8") as text:
        first = subprocess.Popen(command, start_new_session=True, stdout=text, stderr=text)
        while len(_files(out)) < count // 2 and first.poll() is None:
            time.sleep(POLL)
        if first.poll() is not None:
            raise ConfigError(
                "executor", f"'{executor}' ended with exit code {first.returncode} before the kill, see {text.name}"
            )
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        killed = len(_files(out))
        if subprocess.run(command, stdout=text, stderr=text, check=False).returncode > 1:  # 1: not the recorded torques
            raise ConfigError("executor", f"'{executor}' cannot continue, see {text.name}")
    seconds = time.monotonic() - begin
    contents = [read(file) for file in _files(out)]
    ticks = sum(len(ticks["seq"]) for ticks, _ in contents)
    rate = ticks / sum(about.kept_s for _, about in contents)
    sha256 = msgspec.json.decode((out / MANIFEST).read_bytes())["sha256"]
    return Trial(executor, workers, killed, len(contents), ticks, rate, seconds, sha256)


def _files(out: Path) -> list[Path]:
    return sorted(out.rglob("*.parquet"))


def table(trials: Sequence[Trial]) -> Table:
    """Return one row for each run."""
    rows = [["executor", "workers", "killed after", "ticks", "ticks/s per core", "wall clock [s]", "SHA-256"]]
    for t in trials:
        rate, seconds = f"{t.rate:.0f}", f"{t.seconds:.0f}"
        rows.append(
            [t.executor, str(t.workers), f"{t.killed} of {t.windows}", str(t.ticks), rate, seconds, f"{t.sha256[:16]}…"]
        )
    return rows


def main() -> int:
    """Print the table. Return 1 if results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--law", action="append", required=True)
    parser.add_argument("--window", type=int, default=How().window, help="ticks of a window")
    parser.add_argument("--executor", action="append", choices=EXECUTORS)
    parser.add_argument("--workers", action="append", type=int)
    parser.add_argument("--out", type=Path, required=True, help="folder, a folder below it for each run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    how = How(laws=tuple(options.law), window=options.window)
    count = len(how.laws) * sum(len(windows(survey(Path(log), how), how)) for log in options.logs)
    words = [*options.logs, "--window", str(how.window), *(word for law in options.law for word in ("--law", law))]
    trials = []
    for executor in options.executor or EXECUTORS:
        for workers in options.workers or (1, 2):
            out = options.out / f"{executor}-{workers}"
            trials.append(tried(words, count, executor, workers, out))
            print(trials[-1], flush=True)
    report = Report("Executors of `idyn replay`", f"Each run was killed and continued; laws {', '.join(options.law)}.")
    report.table(table(trials))
    print(report.text)
    return int(len({trial.sha256 for trial in trials}) > 1)


if __name__ == "__main__":
    raise SystemExit(main())
