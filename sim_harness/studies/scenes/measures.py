"""Measured figures of a run and their known values; a run saved in a folder (settings, recording, figures)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from idyn.errors import ConfigError
from idyn.types import Array, Record
from sim_harness.compare.studies import RECORDING
from sim_harness.studies.formulas import FORMULAS
from sim_harness.studies.scenes.recording import NAMES, Recording
from sim_harness.studies.scenes.scene_settings import SceneSettings


class Quantity(NamedTuple):
    """A quantity; value: function of a recording and the index of a body."""

    unit: str
    value: Callable[[Recording, int], float]


def late(r: Recording) -> slice:
    """Return the last quarter of the steps."""
    return slice(3 * r.steps // 4, None)


def openings(r: Recording) -> Array:
    """Return the largest error of rigid closures and stops at the beginning of each step [m or rad] (N)."""
    return np.asarray(r.residuals[:, NAMES.index("closure")])


def period(r: Recording, body: int) -> float:
    """Return the period of an oscillation along x about 0: twice the mean time between zero crossings [s].

    NaN with fewer than two crossings.
    """
    x = r.centres[:, body, 0]
    before = np.flatnonzero(x[:-1] * x[1:] < 0)
    if len(before) < 2:
        return float("nan")
    crossings = r.t[before] - x[before] * (r.t[before + 1] - r.t[before]) / (x[before + 1] - x[before])
    return float(2 * np.diff(crossings).mean())


def swing(r: Recording, body: int) -> float:
    """Return max |x| over the last quarter of the run, divided by |x| at the start, of an oscillation along x about 0."""
    x = np.abs(r.centres[:, body, 0])
    return float(x[1:][late(r)].max() / x[0])


def landing(r: Recording, body: int) -> float:
    """Return the end of the first step with a contact force on the body, NaN without any [s]."""
    pressed = np.abs(r.force[:, body]).max(axis=1) > 0
    return float(r.t[1 + np.argmax(pressed)]) if pressed.any() else float("nan")


QUANTITIES = {
    "travel": Quantity("m", lambda r, b: float(r.centres[-1, b, 0] - r.centres[0, b, 0])),
    "rise": Quantity("m", lambda r, b: float(r.centres[-1, b, 2] - r.centres[0, b, 2])),
    "displacement": Quantity("m", lambda r, b: float(np.linalg.norm(r.centres[-1, b] - r.centres[0, b]))),
    "speed": Quantity("m/s", lambda r, b: float(np.linalg.norm(r.velocities[-1, b]))),
    "acceleration": Quantity("m/s²", lambda r, b: float((r.velocities[-1, b, 0] - r.velocities[0, b, 0]) / r.t[-1])),
    "load": Quantity("N", lambda r, b: float(np.abs(r.force[late(r), b, 2]).mean())),
    "penetration": Quantity("m", lambda r, b: float(max(0.0, -r.gap[-1, b]))),
    "slip": Quantity("m/s", lambda r, b: float(r.slip[late(r), b].max())),
    "landing": Quantity("s", landing),
    "load of all": Quantity("N", lambda r, b: float(np.abs(r.force[late(r)][:, r.masses > 0, 2].sum(axis=1)).mean())),
    "load of loose": Quantity("N", lambda r, b: float(abs(r.force[late(r)][:, r.loose, 2].sum(axis=1).mean()))),
    "bearing": Quantity("N", lambda r, b: float(abs(r.force[late(r), b:, 2].sum(axis=1).mean()))),
    "squeeze": Quantity("N", lambda r, b: float(np.abs(r.force[late(r), b, 0]).mean())),
    "penetration of all": Quantity("m", lambda r, b: float(max(0.0, -r.gap[late(r)].min()))),
    "speed of all": Quantity("m/s", lambda r, b: float(np.linalg.norm(r.velocities[-1], axis=1).max())),
    "mean speed of all": Quantity("m/s", lambda r, b: float(np.linalg.norm(r.velocities[-1, r.masses > 0], axis=1).mean())),
    "lift": Quantity("m/s²", lambda r, b: float((r.velocities[-1, b, 2] - r.velocities[0, b, 2]) / r.t[-1])),
    "period": Quantity("s", period),
    "drift": Quantity("m", lambda r, b: float(openings(r).max())),
    "drift-growth": Quantity("m", lambda r, b: float(openings(r)[late(r)].max() - openings(r)[: r.steps // 4].max())),
    "swing": Quantity("–", swing),
    "energy-change": Quantity("J", lambda r, b: float(r.energy[-1] - r.energy[0])),
}
"""Quantities by name. `travel`, `acceleration`, `squeeze`, `period` and `swing` are along x, `lift` is upwards. Forces, slip
and `penetration of all` are those of the last quarter of the run. `bearing` is the total contact force on a body and all
bodies listed after it. `drift` is the largest error of a closure, `drift-growth` its increase from the first to the last
quarter."""


UNITS = {"momentum": "N·s", "cone": "N·s", "gap_work": "J", "power": "W", "closure": "m"}  # units of the residuals


class Measured(Record, frozen=True):
    """A measured figure."""

    what: str  # description
    unit: str  # unit of the value
    value: float  # measured value
    known: float | None  # analytic value, None without one
    holds: bool | None  # whether the error is within the expected bound, None without a bound

    @property
    def error(self) -> float | None:
        """Return the error of the value, None without a known value."""
        return error_of(self.value, self.known)


def error_of(value: float, known: float | None) -> float | None:
    """Return the error relative to the known value, absolute when that is 0, None without a known value."""
    return None if known is None else abs(value - known) / (abs(known) or 1.0)


class Outcome(Record, frozen=True):
    """Summary of a run."""

    scene: str  # name
    engine: str  # name
    steps: int  # number of steps
    seconds: float  # simulated time [s]
    measured: tuple[Measured, ...]  # figures
    residuals: dict[str, float]  # largest residuals of all steps, by name
    iterations: float  # mean per step
    engine_us: float  # median computation time of the engine per step [µs]
    pace: float  # simulated time over computation time of whole steps
    unsolved: int  # number of steps that the engine did not solve
    e_m: float | None  # largest momentum error of the convex problem [SAP §VI-C], None for engines without one

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
        formula = FORMULAS.get(m.known or "")
        known = None if formula is None else formula(settings, body)
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


SETTINGS, FIGURES = "scene.json", "result.json"


class SavedRun(Record, frozen=True):
    """A finished run of a scene."""

    settings: SceneSettings
    recording: Recording
    outcome: Outcome


def save_run(folder: Path, settings: SceneSettings, recording: Recording, outcome: Outcome) -> None:
    """Write a run to a folder, which is created if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / SETTINGS, settings)
    recording.save(folder / RECORDING)
    _write(folder / FIGURES, outcome)


def read(folder: Path) -> SavedRun:
    """Read a run written by `save_run`. Raises ConfigError for missing or malformed files."""
    try:
        settings = msgspec.convert(json.loads((folder / SETTINGS).read_text(encoding="utf-8")), SceneSettings)
        recording = Recording.load(folder / RECORDING)
        outcome = msgspec.convert(json.loads((folder / FIGURES).read_text(encoding="utf-8")), Outcome)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(str(folder), f"expected {SETTINGS}, {RECORDING} and {FIGURES} of a scene ({error})") from error
    return SavedRun(settings=settings, recording=recording, outcome=outcome)


def _write(path: Path, data: msgspec.Struct) -> None:
    """Write a struct as JSON. Non-finite numbers become NaN and Infinity, which the json module can read."""
    path.write_text(json.dumps(msgspec.to_builtins(data), indent=1), encoding="utf-8")
