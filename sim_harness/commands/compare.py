"""`idyn compare`: the paper's tables and figures from our own runs, its numbers beside ours; engines on scenes with known
answers; or figures of recorded logs."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
from tqdm import tqdm

from idyn.errors import ConfigError
from sim_harness.commands.output import add_json
from sim_harness.compare.engines.jobs import ENGINES, jobs_of, run_jobs
from sim_harness.compare.engines.report import engines_table, summary, write_engine_report
from sim_harness.compare.executors import EXECUTORS
from sim_harness.compare.matrix.table import Panel, quantity_table, upright_table
from sim_harness.compare.race.report import race_table
from sim_harness.compare.race.run import run_race, standings
from sim_harness.compare.report import Finding, claims_table, scene_table, write_report
from sim_harness.compare.results import Outcome
from sim_harness.compare.run import Options, run_comparisons, run_timings
from sim_harness.compare.settings import PAPER, load_comparison
from sim_harness.compare.timing import timing_table
from sim_harness.measure.metrics import table, text_table
from sim_harness.run.logs import summarise_log
from sim_harness.scenes.bodies.settings import is_scene
from sim_harness.studies import cone_study, first_order_study, newton_study, sap_study

STUDIES = {
    "sap-study": sap_study.study,
    "newton-study": newton_study.study,
    "first-order-study": first_order_study.study,
    "cone-study": cone_study.study,
}
"""Pages about one engine or law."""


def add_to(subparsers: Any) -> None:
    parser = subparsers.add_parser("compare", help="experiments of the paper with its numbers beside ours, or recorded logs")
    parser.add_argument(
        "what",
        nargs="*",
        help="names or paths of comparisons, 'paper' for all of the paper's; scenes, 'engines' for all; one of "
        f"{', '.join(STUDIES)}; log.mcap",
    )
    parser.add_argument("--all", action="store_true", help="all of the paper's")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once (default: %(default)s)")
    parser.add_argument("--seeds", type=int, help="runs of each controller in each scene instead of the comparison's number")
    parser.add_argument("--seconds", type=float, help="simulated time of each run instead of the experiments'")
    parser.add_argument("--out", type=Path, default=Path("runs/compare"), help="folder; what is done there is not done again")
    parser.add_argument(
        "--executor", default="processes", choices=tuple(EXECUTORS), help="who runs them (default: %(default)s)"
    )
    parser.add_argument("--no-logs", action="store_true", help="no MCAP of each run (they take 2 MB for each second)")
    add_json(parser, "the claims, or the logs' figures,")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    what = list(PAPER) if options.all else [name for given in options.what for name in (PAPER if given == "paper" else [given])]
    if not what:
        raise ConfigError("compare", f"expected names of comparisons ({', '.join(PAPER)}, paper) or log.mcap files")
    if len(what) == 1 and what[0] in STUDIES:
        return _study(what[0], options.out)
    if what[0] == ENGINES or (not what[0].endswith(".mcap") and is_scene(what[0])):
        return engines(what, options)
    logs = [name.endswith(".mcap") for name in what]
    if any(logs) and not all(logs):
        raise ConfigError("compare", "expected comparisons or logs, not both")
    return _logs(what) if any(logs) else _comparisons(what, options)


def engines(words: list[str], options: argparse.Namespace) -> tuple[Any, bool]:
    """The figures of every engine on every scene it claims, and whether all are as they are known to be."""
    jobs = jobs_of(words, options.out.absolute() / "scenes", options.seconds)
    with run_bar() as progress:
        cells = run_jobs(jobs, options.executor, options.jobs, progress)
    write_engine_report(cells, options.out)
    print(text_table(engines_table(cells)))
    print(f"report: {options.out / 'engines.html'}")
    return summary(cells), all(cell.kept is not None and cell.kept.outcome.good for cell in cells)


@contextmanager
def run_bar() -> Iterator[Callable[[int, int, str], None]]:
    """A bar on stderr of runs that are done; silent when stderr is no terminal."""
    with tqdm(unit="run", smoothing=0.1, leave=False, disable=not sys.stderr.isatty()) as bar:

        def progress(done: int, total: int, name: str) -> None:
            bar.total = total
            bar.set_description_str(name, refresh=False)
            bar.update(done - bar.n)
            bar.refresh()

        yield progress


def _study(name: str, out: Path) -> tuple[Any, bool]:
    """The study's tables."""
    with run_bar() as progress:
        tables = STUDIES[name](out, progress)
    print("\n\n".join(map(text_table, tables)))
    print(f"report: {out / 'report.html'}")
    return tables, True


def _logs(paths: list[str]) -> tuple[Any, bool]:
    """The figures of all sessions, and whether no robot fell."""
    summaries = [summary for path in paths for summary in summarise_log(Path(path))]
    print(text_table(table(summaries)))
    return msgspec.to_builtins(summaries), all(summary.upright for summary in summaries)


def _comparisons(names: list[str], options: argparse.Namespace) -> tuple[Any, bool]:
    """The claims, and whether none was disproved."""
    comparisons = [load_comparison(name) for name in names]
    how = Options(
        seeds=options.seeds,
        seconds=options.seconds,
        jobs=options.jobs,
        executor=options.executor,
        keep_logs=not options.no_logs,
    )
    runs = options.out.absolute() / "runs"  # workers may be elsewhere
    with run_bar() as progress:
        results = run_comparisons(comparisons, runs, how, progress)
        timings = [run_timings(comparison, runs, progress) for comparison in comparisons]
        races = [None if comparison.race is None else run_race(comparison.race, progress) for comparison in comparisons]
    findings = [
        Finding(name=Path(name).stem, comparison=comparison, results=result, timings=timing, race=race)
        for name, comparison, result, timing, race in zip(names, comparisons, results, timings, races, strict=True)
    ]
    write_report(findings, options.out)
    outcomes = [outcome for finding in findings for outcome in _show(finding)]
    print(f"report: {options.out / 'report.html'}")
    return [outcome._asdict() for outcome in outcomes], not any(outcome.holds is False for outcome in outcomes)


def _show(finding: Finding) -> list[Outcome]:
    """Print the tables of one comparison; its claims."""
    print(f"\n{finding.name}: {finding.comparison.title}")
    for scene in finding.comparison.scene:
        print(f"\n{scene.name}")
        print(text_table(scene_table(finding.comparison, scene, finding.results)))
    matrix = finding.comparison.matrix
    for part, variant in () if matrix is None else product(matrix.part, matrix.variants):
        print(f"\n{part.name}, {variant}")
        panel = Panel(part, variant)
        print(text_table(upright_table(panel, finding.results)))
        for quantity in part.quantities:
            print(text_table(quantity_table(panel, quantity, finding.results)))
    if finding.timings is not None:
        print(text_table(timing_table(finding.timings)))
    if finding.race is not None and finding.comparison.race is not None:
        print(text_table(race_table(finding.comparison.race, standings(finding.comparison.race, finding.race))))
    outcomes = finding.outcomes
    if outcomes:
        print(text_table(claims_table(outcomes)))
    return outcomes
