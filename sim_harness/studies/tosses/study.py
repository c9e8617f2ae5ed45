"""Engines judged by measured tosses: `idyn compare cube-tosses`."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from idyn.errors import ConfigError, nearest
from sim_harness.compare.study import Figures, Page, Picture, Study, Sweep
from sim_harness.judge.tosses import Toss, default_folder, load_tosses
from sim_harness.report.tables import Table
from sim_harness.studies.tosses import pictures, plan, tables
from sim_harness.studies.tosses.entries import ENTRIES, REFERENCE, installed
from sim_harness.studies.tosses.film import tosses_page
from sim_harness.studies.tosses.fit import identify
from sim_harness.studies.tosses.flight import Flight, identify_flight
from sim_harness.studies.tosses.judge import WINDOWS
from sim_harness.studies.tosses.outcome import Outcome, judge
from sim_harness.studies.tosses.parameters import Identified, Parameters, load_parameters, resumed, save_parameters

SWEEP = "engines"

FILE = "parameters.json"
"""Name of the file with the parameters that a study identifies."""

GIVEN = "mujoco, source's constants"
"""Row of MuJoCo with the constants of the source of the data and its default contact: nothing is identified."""

GIVEN_FLIGHT = Flight(gravity=9.81, centre=(0.0, 0.0, 0.0))
GIVEN_VALUES = {"mu": 0.18, "inertia": 0.295, "time_constant": 0.02, "damping_ratio": 1.0}


def study(out: Path, names: Sequence[str] = (), data: Path | None = None, parameters: Path | None = None) -> Study:
    """Return the study.

    out: folder for the file with the identified parameters; those of the same data and rules in it are not identified again
    names: engines, () for all that are installed
    data: folder with measured tosses, or an .npz file; None: `default_folder`
    parameters: file with parameters; nothing is identified then. With `data` all its tosses are judged

    Raises ConfigError for unknown engines, and for data or parameters that are missing or malformed.
    """
    for name in names:
        if name not in ENTRIES:
            raise ConfigError("--engines", f"unknown engine '{name}'{nearest(name, ENTRIES)}")
    tosses = load_tosses(default_folder() if data is None else data)
    longest, shortest = max(samples for samples in WINDOWS.values() if samples), min(map(len, tosses))
    if shortest < longest:
        raise ConfigError("--data", f"expected at least {longest} samples per toss, got a toss of {shortest}")
    known = None if parameters is None else load_parameters(parameters)
    for name in names:
        if known is not None and name not in known.engines:
            raise ConfigError("--parameters", f"expected parameters of '{name}', got those of {', '.join(known.engines)}")
    chosen = list(names) or [name for name in installed() if known is None or name in known.engines]
    fitted, judged = ([], tosses) if known is not None and data is not None else _parts(tosses)
    if known is None:
        begun = Parameters(flight=identify_flight(fitted), tosses=len(fitted), rules=plan.rules(), engines={})
        known = resumed(out / FILE, begun)
    run = _Judge(known, fitted, judged, None if parameters is not None else out / FILE)
    rows = [*chosen, *([GIVEN] if REFERENCE in chosen else [])]
    return Study(
        "Engines judged by measured tosses of a block",
        _lead(known, len(judged), parameters),
        sweeps={SWEEP: Sweep((rows,), run.outcome)},
        tables=tuple(map(_table, tables.ALL)),
        pictures=(
            Picture(
                "errors",
                "Median errors and energy over time, while half of the tosses last. Dashed: measured.",
                lambda found: pictures.curves(found[SWEEP]),
            ),
            Picture(
                "tosses",
                f"Best, median and worst toss of {chosen[0]}: measured black, forecast red.",
                lambda found: pictures.tosses_in_space(found[SWEEP][chosen[0]], judged, tables.WHOLE),
            ),
        ),
        pages=(
            Page(
                "tosses in three dimensions",
                f"Best, median and worst toss of {chosen[0]}: measured, and the forecast transparent.",
                lambda found: _page(found[SWEEP][chosen[0]], judged),
            ),
        ),
        notes=_notes,
    )


class _Judge:
    """Identifies and judges engines one by one, and keeps the file of parameters up to date."""

    def __init__(self, known: Parameters, fitted: Sequence[Toss], judged: Sequence[Toss], file: Path | None) -> None:
        self._known, self._fitted, self._judged, self._file = known, fitted, judged, file

    def outcome(self, name: str) -> Outcome:
        """Return the outcome of an engine, which is identified first unless its parameters are known."""
        if name == GIVEN:
            given = Identified(values=GIVEN_VALUES, intervals={}, loss=0.0, evaluations=0)
            return judge(ENTRIES[REFERENCE], GIVEN_FLIGHT, given, self._judged)
        flight, engines = self._known.flight, self._known.engines
        if name not in engines:
            engines[name] = identify(ENTRIES[name], flight, self._fitted)
            if self._file is not None:
                save_parameters(self._file, self._known)
        return judge(ENTRIES[name], flight, engines[name], self._judged)


def _parts(tosses: Sequence[Toss]) -> tuple[list[Toss], list[Toss]]:
    """Return the tosses for fits and those for the judge. Raises ConfigError for too few tosses."""
    fitted, judged = ([tosses[i] for i in part] for part in plan.split(len(tosses)))
    if len(fitted) < plan.EVERY or not judged:
        raise ConfigError("--data", f"expected at least {plan.EVERY + 2} tosses to identify parameters, got {len(tosses)}")
    return fitted, judged


def _table(rows: Callable[[tables.Outcomes], Table]) -> Callable[[Figures], Table]:
    """Return a table of the study's figures."""
    return lambda found: rows(found[SWEEP])


def _lead(known: Parameters, judged: int, parameters: Path | None) -> str:
    """Return the first paragraph: what is judged, where the parameters come from, and the body."""
    flight = known.flight
    source = f"those of {parameters.name}" if parameters is not None else f"identified on {known.tosses} other tosses"
    centre = ", ".join(f"{1e3 * c:.1f} ± {1e3 * e:.1f}" for c, e in zip(flight.centre, flight.centre_error, strict=True))
    return (
        f"{judged} tosses, each forecast from its first measured state alone. Parameters: {source}. Body, from "
        f"{flight.tosses} free flights: gravity {flight.gravity:.3f} ± {flight.gravity_error:.3f} m/s² in measured lengths, so "
        f"lengths are {flight.scale:.4f} of metres; centre of mass at ({centre}) mm."
    )


def _page(outcome: Outcome, tosses: Sequence[Toss]) -> str:
    """Return the animation of the best, the median and the worst toss of an engine."""
    errors = outcome.windows[tables.WHOLE].position
    numbers = pictures.best_median_worst(errors)
    return tosses_page(
        {
            f"{label}, {errors[number]:.3f} block widths": (tosses[number], outcome.forecasts[number])
            for label, number in numbers.items()
        }
    )


def _notes(found: Figures) -> list[str]:
    """Return what the columns mean, and the penetration of the measured block."""
    depth = np.median([1e3 * np.median(outcome.measured_depth) for outcome in found[SWEEP].values()])
    return [
        "Errors: mean over the samples of a toss after the first, then over tosses; a block width is 0.1048 m. Windows: error "
        "of the last sample, mean over the windows of a toss, then over tosses. Differences are paired toss by toss, with one "
        "standard error; better and worse: beyond two. Parameters: with 95 % intervals by a bootstrap over tosses. Energy "
        "error: mean difference to the measured energy, as a share of that of the first sample above rest.",
        f"Deepest corner of the measured block: {depth:.2f} mm (median).",
    ]
