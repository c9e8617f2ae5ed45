"""Measured figures of a run and their known values."""

import numpy as np

from idyn.types import Record
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.scenes.residuals import NAMES
from sim_harness.scenes.results.formulas import FORMULAS
from sim_harness.scenes.results.quantities import QUANTITIES
from sim_harness.scenes.results.recording import Recording

UNITS = {"momentum": "N·s", "cone": "N·s", "gap_work": "J", "power": "W", "closure": "m"}
"""Units of the residuals."""


class Measured(Record, frozen=True):
    """A measured figure.

    what: description
    unit: unit of the value
    value: measured value
    known: analytic value, None without one
    holds: whether the error is within the expected bound, None without a bound
    """

    what: str
    unit: str
    value: float
    known: float | None
    holds: bool | None

    @property
    def error(self) -> float | None:
        """Return the error of the value, None without a known value."""
        return error_of(self.value, self.known)


def error_of(value: float, known: float | None) -> float | None:
    """Return the error relative to the known value, absolute when that is 0, None without a known value."""
    return None if known is None else abs(value - known) / (abs(known) or 1.0)


class Outcome(Record, frozen=True):
    """Summary of a run.

    scene, engine: names
    steps: number of steps
    seconds: simulated time [s]
    measured: figures
    residuals: largest residuals of all steps, by name
    iterations: mean per step
    engine_us: median computation time of the engine per step [µs]
    pace: simulated time over computation time of whole steps
    unsolved: number of steps that the engine did not solve
    e_m: largest momentum error of the convex problem [SAP §VI-C], None for engines without one
    """

    scene: str
    engine: str
    steps: int
    seconds: float
    measured: tuple[Measured, ...]
    residuals: dict[str, float]
    iterations: float
    engine_us: float
    pace: float
    unsolved: int
    e_m: float | None

    @property
    def good(self) -> bool:
        """Return true when every step is solved and no figure exceeds its expected error."""
        return not self.unsolved and not any(each.holds is False for each in self.measured)


def outcome_of(scene: str, engine: str, settings: SceneSettings, run: Recording) -> Outcome:
    """Return the summary of a run; scene, engine: names."""
    names = [body.name for body in settings.body]
    measured = []
    for m in settings.measure:
        if m.engines and engine not in m.engines:
            continue
        body = names.index(m.body) if m.body else 0
        quantity = QUANTITIES[m.quantity]
        known = None if m.known is None else FORMULAS[m.known](settings, body)
        what = m.quantity if m.quantity.endswith(("of all", "of loose")) else f"{m.quantity} of {names[body]}"
        value = quantity.value(run, body)
        error = error_of(value, known)
        holds = None if m.within is None or error is None else bool(error <= m.within)
        measured.append(Measured(what=what, unit=quantity.unit, value=value, known=known, holds=holds))
    return Outcome(
        scene=scene,
        engine=engine,
        steps=run.steps,
        seconds=float(run.t[-1]),
        measured=tuple(measured),
        residuals=dict(zip(NAMES, run.residuals.max(axis=0).tolist(), strict=True)),
        iterations=float(run.iterations.mean()),
        engine_us=float(1e6 * np.median(run.seconds)),
        pace=run.pace,
        unsolved=int((~run.ok).sum()),
        e_m=None if np.isnan(run.accuracy[:, 0]).all() else float(np.nanmax(run.accuracy[:, 0])),
    )


def figures_table(outcome: Outcome) -> list[list[str]]:
    """Return a table of the figures: headings, then one row per figure."""
    words = {True: "yes", False: "NO", None: "–"}
    rows = [["figure", "unit", "measured", "known", "error", "as expected"]]
    for each in outcome.measured:
        known = "–" if each.known is None else f"{each.known:.6g}"
        error = "–" if each.error is None else f"{each.error:.2g}" if not each.known else f"{100 * each.error:.3g} %"
        rows.append([each.what, each.unit, f"{each.value:.6g}", known, error, words[each.holds]])
    return rows


def steps_table(outcome: Outcome) -> list[list[str]]:
    """Return a table with headings and one row of residuals and computation times."""
    heads = [f"{name.replace('_', ' ')} {UNITS[name]}" for name in outcome.residuals]
    values = [f"{value:.2g}" for value in outcome.residuals.values()]
    return [
        ["engine", *heads, "e_m", "iterations", "engine µs", "× real time", "unsolved"],
        [
            outcome.engine,
            *values,
            "–" if outcome.e_m is None else f"{outcome.e_m:.1e}",
            f"{outcome.iterations:.1f}",
            f"{outcome.engine_us:.0f}",
            f"{outcome.pace:.2f}",
            f"{outcome.unsolved} of {outcome.steps}",
        ],
    ]
