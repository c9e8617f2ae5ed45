"""Tables of the study of a walking person."""

import numpy as np

from idyn.explain.explanation import Explanation, centre_of_pressure
from idyn.types import Array
from sim_harness.compare.study import Figures
from sim_harness.report.tables import Table
from sim_harness.studies.walk.measure import Found, Half, Sensitivity, constant_weight, per_foot
from sim_harness.studies.walk.person import Person
from sim_harness.studies.walk.scores import COMPONENTS, HEADS, cells, score

WAYS = {"explained": "explained", "predicted": "predicted", "given": "plates' sum, shared"}
"""Field of `Found` → name in tables."""


def sums_table(person: Person, figures: Figures) -> Table:
    """Return the scores of the sum of both feet over the judged frames."""
    found: Found = figures["forces"]["walk"]
    weight = person.walker.robot.weight
    totals = {name: getattr(found, way).wrenches.sum(axis=0) for way, name in WAYS.items() if way != "given"}
    rows = []
    for component, i in COMPONENTS.items():
        for name, total in {**totals, "constant weight": constant_weight(person)}.items():
            got = score(total[person.judged, i], person.total[person.judged, i], weight)
            rows.append([f"sum, {component}", name, *cells(got)])
    return [["force", "way", *HEADS], *rows]


def feet_table(person: Person, figures: Figures) -> Table:
    """Return the scores of each foot while its plate has more than 20 N."""
    found: Found = figures["forces"]["walk"]
    rows = [
        [f"{foot}, {component}", name, *cells(per_foot(person, getattr(found, way), k, i))]
        for component, i in COMPONENTS.items()
        for way, name in WAYS.items()
        for k, foot in enumerate(found.explained.feet)
    ]
    return [["force", "way", *HEADS], *rows]


def pressure_table(person: Person, figures: Figures) -> Table:
    """Return errors of centre of pressure and free moment of each foot while it stands."""
    found: Found = figures["forces"]["walk"]
    head = ["foot", "way", "fore-aft, rms [mm]", "fore-aft, mean [mm]", "mediolateral, rms [mm]", "mediolateral, mean [mm]"]
    head += ["free moment, rms [N·m]", "free moment, rms / range"]
    rows = []
    for way, name in WAYS.items():
        for k, foot in enumerate(found.explained.feet):
            at = person.stands(k)
            centre, free = (each[at] for each in getattr(found, way).pressure(foot))
            own, moment = (each[at] for each in centre_of_pressure(person.wrenches[k], person.surface))
            gaps = 1e3 * (centre - own)[:, [0, 2]]
            numbers = [f"{value:.0f}" for i in (0, 1) for value in (_rms(gaps[:, i]), np.nanmean(gaps[:, i]))]
            error = _rms(free - moment)
            rows.append([foot, name, *numbers, f"{error:.1f}", _share(error, moment)])
    return [head, *rows]


def _share(error: float, wanted: Array) -> str:
    span = float(np.nanmax(wanted) - np.nanmin(wanted)) if np.isfinite(wanted).any() else 0.0
    return f"{error / span:.2f}" if span > 0.0 else "–"


def _rms(values: Array) -> float:
    return float(np.sqrt(np.nanmean(np.square(values))))


def moments_table(person: Person, figures: Figures) -> Table:
    """Return errors of the generalised forces against OpenSim's: with measured, explained and predicted forces."""
    found: Found = figures["forces"]["walk"]
    head = ["coordinate", "range [N·m or N]", "measured forces: largest error", "by range", "explained: RMSE / range"]
    head += ["predicted: RMSE / range"]
    rows = []
    for k, name in enumerate(found.plates.names):
        wanted = opensim_moment(person, name)
        if wanted is None:
            continue
        exact = float(np.nanmax(np.abs(found.plates.moments[:, k] - wanted)[person.judged]))
        span = float(np.nanmax(wanted[person.judged]) - np.nanmin(wanted[person.judged]))
        if span < 1.0 or "pelvis" in name:
            others = ["–", "–"]
        else:
            others = [f"{_error(each, k, wanted, person) / span:.3f}" for each in (found.explained, found.predicted)]
        rows.append([name, f"{span:.1f}", f"{exact:.3f}", f"{exact / max(span, 1e-9):.4f}", *others])
    return [head, *rows]


def _error(found: Explanation, k: int, wanted: Array, person: Person) -> float:
    return _rms((found.moments[:, k] - wanted)[person.judged])


def opensim_moment(person: Person, name: str) -> Array | None:
    """Return OpenSim's generalised force of a coordinate, None where it is missing."""
    columns = {} if person.opensim is None else person.opensim.columns
    return next((columns[each] for each in (f"{name}_moment", f"{name}_force") if each in columns), None)


def halves_table(figures: Figures) -> Table:
    """Return the scores of predictions by softness, on halves of the frames."""
    head = ["softness ρ", "first half: RMSE / range", "second half: RMSE / range", "all: RMSE / range"]
    rows = [
        [name, *(f"{each.range:.3f}" for each in (half.first, half.second, half.all))]
        for name, half in figures["halves"].items()
    ]
    return [head, *rows]


def chosen(figures: Figures) -> list[tuple[str, Half]]:
    """Return the softness that the first half chooses, then that of the second half, each with its scores."""
    tried: list[tuple[str, Half]] = list(figures["halves"].items())
    return [min(tried, key=lambda item: item[1].first.range), min(tried, key=lambda item: item[1].second.range)]


def sensitivity_table(sweep: str, way: str, figures: Figures) -> Table:
    """Return the scores of forces under changed settings. sweep: that measured them; way: how the forces were found"""
    head = [
        f"change, {way}",
        "sum, vertical: RMSE / range",
        "sum, fore-aft: correlation",
        "sum, mediolateral: RMSE [% of weight]",
    ]
    head += ["worse foot, vertical: RMSE / range", "worse foot, fore-aft: RMSE / range"]
    rows = [[name, *_sensitivity_cells(each)] for name, each in figures[sweep].items()]
    return [head, *rows]


def _sensitivity_cells(each: Sensitivity) -> list[str]:
    return [
        f"{each.vertical.range:.3f}",
        f"{each.fore_aft.correlation:.3f}",
        f"{100 * each.mediolateral.weight:.1f}",
        f"{each.foot_vertical.range:.3f}",
        f"{each.foot_fore_aft.range:.3f}",
    ]
