"""`idyn explain`: ground forces and joint moments of a person from a motion file alone.

Each motion gets `forces.mot`, which OpenSim takes as external loads, `moments.sto` and a report.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import ConfigError
from idyn.explain.distribution import Distribution
from idyn.explain.explanation import (
    WALKING,
    Explanation,
    Settings,
    explain,
    force_table,
    load_walker,
    moment_table,
    paced_motion,
)
from idyn.explain.predicted import predict_forces
from idyn.explain.soles import feet_of
from idyn.motion.plates import even_rate, plates_of
from idyn.motion.smoothing import Filter
from idyn.motion.storage import Table, read_table, write_table
from idyn.types import Array
from sim_harness.report.plots import Line, stacked
from sim_harness.report.report import Report
from sim_harness.report.tables import Table as Rows
from sim_harness.report.tables import text_table
from sim_harness.view.person import Shown, person_page

COMPONENTS = {"fore-aft (x)": 0, "vertical (y)": 1, "mediolateral (z)": 2}


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    walker = load_walker(options.model)
    settings = Settings(
        filter=None if options.cutoff is None else Filter(cutoff=options.cutoff, order=options.order),
        distribution=Distribution(mu=options.mu),
        floor=options.floor,
    )
    stems = [path.stem for path in options.motion]
    if len(set(stems)) < len(stems):
        raise ConfigError("MOTION", "expected files with different names: each gets a folder of its name")
    tables = {path.stem: read_table(path) for path in options.motion}
    figures = {}
    for stem, table in tables.items():
        way = predict_forces if options.predicted else explain
        found = way(walker, table, settings=settings)
        plates = None if options.plates is None else _plates(options.plates, table, found)
        folder = options.out / stem if len(tables) > 1 else options.out
        q = paced_motion(walker, table, settings.filter, WALKING)[0].q
        shown = Shown(walker, feet_of(walker.robot, settings.soles), q, found, plates)
        figures[stem] = _write(folder, stem, shown, options.view)
    return figures, True


def _plates(path: Path, table: Table, found: Explanation) -> Array:
    """Return the wrenches of the plates in the order of the feet: each foot gets the plate nearest in force over time."""
    measured = read_table(path)
    wrenches = np.stack([plate.wrench(table.time, np.eye(3)) for plate in plates_of(measured, even_rate(measured.time))])
    if len(wrenches) != len(found.feet):
        raise ConfigError("--plates", f"expected {len(found.feet)} plates, one for each foot, got {len(wrenches)}")
    errors = [np.abs(found.wrenches - order)[..., 1].sum() for order in (wrenches, wrenches[::-1])]
    return wrenches if errors[0] <= errors[1] else wrenches[::-1]


def _write(folder: Path, stem: str, shown: Shown, view: bool) -> Rows:
    """Write the files of a motion, print its table and return it."""
    found, weight = shown.found, shown.walker.robot.weight
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "forces.mot", f"{stem}: ground forces", force_table(found))
    write_table(folder / "moments.sto", f"{stem}: generalised forces", moment_table(found))
    report = Report(f"Ground forces of {stem}", _lead(found))
    rows = _rows(shown, weight)
    report.table(rows)
    report.picture(_picture(shown), "Forces of each foot, and the residual that no force of the ground explains", "forces")
    if view:
        (folder / "view.html").write_text(person_page(stem, shown), encoding="utf-8")
        report.link("view.html", "The person in three dimensions, with arrows of the forces")
    path = report.write(folder, figures=rows)
    print(f"{stem}\n{text_table(rows)}\nforces, moments, report: {path.parent}")
    return rows


def _lead(found: Explanation) -> str:
    belt = ", ".join(f"{value:.3f}" for value in found.belt)
    return (
        f"{len(found.time)} frames, {found.time[0]:.3f} to {found.time[-1]:.3f} s. Floor at {found.floor:.3f} m; it moves with "
        f"({belt}) m/s, zero for a floor that rests. Ground frame: x forward, y up, z to the right."
    )


def _rows(shown: Shown, weight: float) -> Rows:
    found = shown.found
    head = ["force", "mean [N]", "largest [N]", "largest [% of weight]"]
    head += [] if shown.plates is None else ["RMSE to the plate [N]", "RMSE / range"]
    rows = [head]
    for k, foot in enumerate(found.feet):
        for name, i in COMPONENTS.items():
            wanted = None if shown.plates is None else shown.plates[k, :, i]
            rows.append([f"{foot}, {name}", *_cells(found.wrenches[k, :, i], weight, wanted)])
    for name, i in COMPONENTS.items():
        rows.append([f"residual, {name}", *_cells(found.residual[:, i], weight, None), *[""] * (len(head) - 4)])
    return rows


def _cells(values: Array, weight: float, wanted: Array | None) -> list[str]:
    largest = values[np.abs(values).argmax()]
    cells = [f"{values.mean():.1f}", f"{largest:.1f}", f"{100 * largest / weight:.1f}"]
    if wanted is not None:
        error = float(np.sqrt(np.mean((values - wanted) ** 2)))
        cells += [f"{error:.1f}", f"{error / max(float(np.ptp(wanted)), 1e-9):.3f}"]
    return cells


def _picture(shown: Shown) -> bytes:
    found, panels = shown.found, {}
    for name, i in COMPONENTS.items():
        lines: dict[str, Line] = {}
        for k, foot in enumerate(found.feet):
            lines[foot] = (found.time, found.wrenches[k, :, i], f"C{k}-")
            if shown.plates is not None:
                lines[f"{foot}, plate"] = (found.time, shown.plates[k, :, i], f"C{k}:")
        lines["residual"] = (found.time, found.residual[:, i], "0.6")
        panels[f"{name} [N]"] = lines
    return stacked(panels)
