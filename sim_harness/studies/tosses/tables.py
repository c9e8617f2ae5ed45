"""Tables of the study. Means are over tosses; ± is one standard error."""

from collections.abc import Mapping

import numpy as np

from idyn.types import Array
from sim_harness.report.tables import Table, listed
from sim_harness.studies.tosses.entries import REFERENCE
from sim_harness.studies.tosses.judge import WINDOWS
from sim_harness.studies.tosses.outcome import Outcome
from sim_harness.studies.tosses.plan import BOUNDS

Outcomes = Mapping[str, Outcome]
"""Name of the engine → its outcome."""

WHOLE = "whole toss"

CLAIMED = 2.0
"""A difference counts beyond this many standard errors of the paired differences."""


def whole_table(outcomes: Outcomes) -> Table:
    """Return the errors of whole tosses, and the paired differences to the reference engine."""
    columns = {
        "position mean": lambda o: f"{o.windows[WHOLE].position.mean():.4f}",
        "median [block widths]": lambda o: f"{np.median(o.windows[WHOLE].position):.4f}",
        "rotation mean": lambda o: f"{np.degrees(o.windows[WHOLE].rotation.mean()):.2f}",
        "median [°]": lambda o: f"{np.degrees(np.median(o.windows[WHOLE].rotation)):.2f}",
    }
    reference = outcomes.get(REFERENCE)
    if reference is not None:
        other = reference.windows[WHOLE]
        columns |= {
            f"position minus {REFERENCE}": lambda o: paired(o.windows[WHOLE].position - other.position, ".4f"),
            f"rotation minus {REFERENCE} [°]": lambda o: paired(np.degrees(o.windows[WHOLE].rotation - other.rotation), ".2f"),
        }
    return listed("whole toss", outcomes.items(), columns)


def windows_table(outcomes: Outcomes) -> Table:
    """Return the errors at the end of windows from measured states: mean, and median over tosses."""
    columns = {}
    for name in WINDOWS:
        if name == WHOLE:
            continue
        columns[f"{name}: position [block widths]"] = lambda o, name=name: _both(o.windows[name].position, ".4f")
        columns[f"{name}: rotation [°]"] = lambda o, name=name: _both(np.degrees(o.windows[name].rotation), ".2f")
    return listed("end of window, mean (median)", outcomes.items(), columns)


def parameters_table(outcomes: Outcomes) -> Table:
    """Return the parameters of each engine with their 95 % intervals."""
    names = [name for name in BOUNDS if any(name in o.identified.values for o in outcomes.values())]
    heads = {name: f"{name.replace('_', ' ')}{f' [{BOUNDS[name].unit}]' if BOUNDS[name].unit else ''}" for name in names}
    columns = {heads[name]: lambda o, name=name: _interval(o, name) for name in names}
    return listed(
        "parameters",
        outcomes.items(),
        columns | {"loss of the fit": lambda o: f"{o.identified.loss:.4f}" if o.identified.evaluations else "–"},
    )


def physics_table(outcomes: Outcomes) -> Table:
    """Return penetration, energy and failures."""
    columns = {
        "deepest corner, median [mm]": lambda o: f"{1e3 * np.median(o.depth):.2f}",
        "deepest corner, largest [mm]": lambda o: f"{1e3 * o.depth.max():.2f}",
        "energy error, mean [%]": lambda o: f"{100.0 * o.energy.mean():.1f}",
        "failed steps": lambda o: f"{o.failed}",
        "tosses beyond 45° on average": lambda o: f"{np.count_nonzero(o.windows[WHOLE].rotation > np.pi / 4)}",
    }
    return listed("whole toss", outcomes.items(), columns)


ALL = (whole_table, windows_table, parameters_table, physics_table)


def paired(differences: Array, form: str) -> str:
    """Return mean ± standard error of paired differences, marked where the mean is beyond `CLAIMED` standard errors."""
    mean, error = differences.mean(), differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else np.inf
    if not differences.any():
        return "–"
    mark = "" if abs(mean) <= CLAIMED * error else " better" if mean < 0.0 else " worse"
    return f"{mean:+{form}} ± {error:{form}}{mark}"


def _both(values: Array, form: str) -> str:
    return f"{values.mean():{form}} ({np.median(values):{form}})"


def _interval(outcome: Outcome, name: str) -> str:
    found = outcome.identified
    if name not in found.values:
        return "–"
    if name not in found.intervals:
        return f"{found.values[name]:.3g}"
    low, high = found.intervals[name]
    return f"{found.values[name]:.3g} ({low:.3g} to {high:.3g})"
