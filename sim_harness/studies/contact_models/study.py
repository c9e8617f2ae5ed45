"""Contact models below the same planner: `idyn compare contact-models [--tsid PYTHON]`."""

from pathlib import Path

import numpy as np

from sim_harness.compare.study import Figures, Picture, Study, Sweep
from sim_harness.report.plots import Line, Plot, picture
from sim_harness.report.tables import Table
from sim_harness.studies.contact_models.runs import AFTER, ROBOTS, SCENES, SECONDS, SEEDS, Outcome, outcome_of

TSID = "TSID: feet stick"

HEAD = (
    *("scene", "robot", "contact model", "upright", "forward [m/s]", "slip of loaded feet [mm/s]", "tracking [mrad]"),
    *("mean |dτ/dt| [N·m/s]", "error of Σ f_N [% of weight]", "after touch-down [% of weight]", "no solution [%]"),
)

Point = tuple[str, str, str, str]
"""Scene, robot, contact model, seed."""


def models_table(found: Figures) -> Table:
    """Return the figures of each contact model, means over the seeds; those of a robot that falls until it falls."""
    runs: dict[Point, Outcome] = found["runs"]
    body = []
    for key in dict.fromkeys(point[:3] for point in runs):
        outcomes = [outcome for point, outcome in runs.items() if point[:3] == key]
        falls = [each.summary.verdict.text for each in outcomes if not each.summary.upright]
        ended = f"{len(outcomes) - len(falls)} of {len(outcomes)}" + (f" ({'; '.join(falls)})" if falls else "")
        means = np.mean([_row(each) for each in outcomes], axis=0)
        body.append([*key, ended, *(f"{value:.3g}" for value in means)])
    return [[*HEAD], *body]


def _row(outcome: Outcome) -> list[float]:
    """Return the figures of a run in the order of `HEAD`, from the speed on."""
    s = outcome.summary
    forces = 100.0 * outcome.force / s.weight, 100.0 * float(np.nanmean(outcome.after)) / s.weight
    return [s.forward, 1e3 * outcome.slip, 1e3 * s.tracking, s.torque_rate, *forces, 100.0 * outcome.failed]


def touch_down_picture(found: Figures) -> bytes:
    """Draw the error of the predicted forces over the time since a touch-down, one panel per scene."""
    runs: dict[Point, Outcome] = found["runs"]
    panels = []
    for scene in dict.fromkeys(point[0] for point in runs):
        lines: dict[str, Line] = {}
        for robot, model in dict.fromkeys(point[1:3] for point in runs if point[0] == scene):
            each = [o for point, o in runs.items() if point[:3] == (scene, robot, model)]
            error = np.mean([100 * o.after / o.summary.weight for o in each], axis=0)
            lines[f"{robot}, {model}"] = 1e3 * AFTER * np.arange(len(error)) / len(error), error
        axes = {"title": scene, "xlabel": "time since touch-down [ms]", "ylabel": "|error of Σ f_N| [% of weight]"}
        panels.append(Plot(lines=lines, legend=True, axes=axes))
    return picture(panels, size=(7.0, 2.4 * len(panels)))


def study(tsid: Path | None = None, seeds: int | None = None) -> Study:
    """Return the study. tsid: interpreter of an environment with TSID, None: without it; seeds: per robot, None: `SEEDS`"""
    models: dict[str, tuple[str, Path | None]] = {"coulomb": ("coulomb", None), "no-slip": ("no-slip", None)}
    if tsid is not None:
        models[TSID] = "coulomb", tsid
    notes = [
        "Planner, gains, limits, foot switches and starts are the same; only the torque that realises the demanded joint "
        "accelerations is computed otherwise. Slip: mean speed along the ground of feet that carry load. Σ f_N: sum of the "
        "normal forces that the model predicts, against MuJoCo's in the same tick; after touch-down: in its first "
        f"{1e3 * AFTER:.0f} ms. Figures of a robot that falls are those until it falls."
    ]
    if tsid is None:
        notes.append("Left out: TSID (--tsid PYTHON not given).")

    def measure(scene: object, robot: str, model: tuple[str, Path | None], seed: int) -> Outcome:
        return outcome_of(robot, SCENES[str(scene)], *model, seed)

    return Study(
        "Contact models",
        f"Trots of {SECONDS:g} s in MuJoCo on its default ground, with the friction that model and world share.",
        sweeps={"runs": Sweep(({name: name for name in SCENES}, ROBOTS, models, range(seeds or SEEDS)), measure)},
        tables=(models_table,),
        pictures=(Picture("contact-models", "Error of the predicted forces after a touch-down.", touch_down_picture),),
        notes=lambda _: notes,
    )
