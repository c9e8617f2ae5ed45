"""Robots that nobody set up: `idyn compare own-robots`.

Each URDF of example-robot-data, or each robot that is given, is drafted as by `idyn new`, and simulated in MuJoCo as by
`idyn simulate`: it stands or holds its pose, and if the draft has a gait it also walks.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from controllers.robot.load import ROBOT_DATA, load_robot
from idyn.errors import ConfigError, IdynError
from sim_harness.measure.metrics import tracking_errors
from sim_harness.new.draft import OWN, WEAK, draft
from sim_harness.new.source import find_model, poses_of, shared_models
from sim_harness.report.tables import Table, listed
from sim_harness.run.experiment import Run, run_in_process
from sim_harness.run.plan import Plan, load_plan
from sim_harness.studies.study import Figures, Study, Sweep

SECONDS = 10.0
"""Simulated time of each run [s]."""

STILL, FOLLOWED = 0.05, 0.1
"""A robot has stood if its base is displaced by less than this [m] and no joint is off its reference by more [rad or m]."""

WALKED = 0.8
"""A robot has walked if it covered this share of the way that was asked for."""

DONE = ("stood", "held", "walked")
"""Outcomes of robots that did their task."""


class Outcome(NamedTuple):
    """What a robot did."""

    outcome: str  # 'stood', 'held' (fixed base), 'walked', 'moved', a verdict ('fell at t s'), or 'refused', with NaN figures
    tilt: float = np.nan  # largest tilt of the base [rad]
    rate: float = np.nan  # mean |dτ/dt| [N·m/s]
    error: float = np.nan  # largest error of a joint [rad or m]
    distance: float = np.nan  # displacement of the base in the plane, and asked: what the gait asks for [m]
    asked: float = np.nan
    reason: str = ""  # of a refusal, of a fixed base of a robot with feet, or of another engine than MuJoCo


def robots() -> dict[str, str]:
    """Return the URDFs of example-robot-data as `idyn new` takes them, by the name of the folder and of the file."""
    return {
        f"{Path(path).parts[0].removesuffix('_description')}, {Path(path).stem}": ROBOT_DATA + path for path in shared_models()
    }


def given_robots(words: Sequence[str]) -> dict[str, str]:
    """Return the robots that a user gives, by folder and file.

    words: folders, for all URDFs below them, or robots as `idyn new` takes them
    Raises ConfigError for a folder without a URDF, and for a robot that is not found.
    """
    found: dict[str, str] = {}
    for word in words:
        folder = Path(word).resolve()
        models = {str(path): path for path in sorted(folder.rglob("*.urdf"))}
        if folder.is_dir() and not models:
            raise ConfigError("own-robots", f"expected a folder with URDFs, got none below {word}")
        for reference, path in (models or {word: find_model(word, Path.cwd()).path.resolve()}).items():
            root = folder.parent if models else path.parent.parent
            name = str(path.relative_to(root).with_suffix(""))
            found[str(path) if name in found else name] = reference
    return found


def outcome_of(reference: str, task: str) -> Outcome | None:
    """Return what the draft of a robot does. task: 'stand' or 'walk'; None where a walk has no gait"""
    model = find_model(reference, Path.cwd())
    try:
        drafted = draft(model, poses_of(model), stand=task == "stand")
        if task == "walk" and not drafted.walks:
            return None
        with TemporaryDirectory() as folder:
            path = Path(folder) / "robot.toml"
            path.write_text(drafted.text, encoding="utf-8")
            plan = load_plan(str(path), SECONDS)
            found = _judged(plan, run_in_process(plan, task, lambda *_: None))
        reasons = [line for line in drafted.found if line.startswith((OWN, WEAK))]
        if found.outcome not in DONE:
            reasons += drafted.warnings
        return found._replace(reason="; ".join(reasons))
    except IdynError as error:
        reason = str(error).replace(f"{model.path}: ", "").replace(str(model.path), model.path.name)
        return Outcome("refused", reason=reason) if task == "stand" else None


def _judged(plan: Plan, run: Run) -> Outcome:
    robot, _ = load_robot(plan.controller.robot)
    summary = run.summary
    error = float(np.abs(tracking_errors(run.trace, robot)).max(initial=0.0))
    velocity = getattr(getattr(plan.controller.reference, "path", None), "velocity", None)
    asked = np.nan if velocity is None else SECONDS * float(np.linalg.norm(velocity[:2]))
    if not summary.upright:
        outcome = summary.verdict.text
    elif velocity is not None:
        outcome = "walked" if summary.drift > WALKED * asked else "upright, but walked too little"
    elif summary.drift < STILL and error < FOLLOWED:
        outcome = "stood" if robot.floating else "held"
    else:
        outcome = "moved"
    return Outcome(outcome, summary.tilt, summary.torque_rate, error, summary.drift, asked)


TILT: tuple[str, Callable[[Outcome], str]] = "base tilt [rad]", lambda o: _g(o.tilt)
RATE: tuple[str, Callable[[Outcome], str]] = "mean of abs dτ/dt [N·m/s]", lambda o: _g(o.rate)
ENDED: tuple[str, Callable[[Outcome], str]] = "outcome", lambda o: o.outcome


def summary_table(found: Figures) -> Table:
    """Return how many robots ended in which way, with the largest figures among them."""
    ends: dict[str, list[Outcome]] = {}
    for outcome in found["runs"].values():
        if outcome is not None:
            ends.setdefault(outcome.outcome, []).append(outcome)
    columns: dict[str, Callable[[list[Outcome]], str]] = {
        "robots": lambda all_of: str(len(all_of)),
        "base tilt, largest [rad]": lambda all_of: _g(max(o.tilt for o in all_of)),
        "mean of abs dτ/dt, largest [N·m/s]": lambda all_of: _g(max(o.rate for o in all_of)),
    }
    return listed("outcome", ends.items(), columns)


def standing_table(found: Figures) -> Table:
    """Return what each robot does that shall stand still."""
    columns = dict([ENDED, TILT, RATE, ("largest tracking error [rad or m]", lambda o: _g(o.error))])
    return listed("robot", _of_task(found, "stand"), columns)


def walking_table(found: Figures) -> Table:
    """Return what each robot does whose draft has a gait."""
    columns = dict([ENDED, ("walked [m]", lambda o: _g(o.distance)), ("asked [m]", lambda o: _g(o.asked)), TILT, RATE])
    return listed("robot", _of_task(found, "walk"), columns)


def _of_task(found: Figures, task: str) -> list[tuple[str, Outcome]]:
    return [(name, outcome) for (name, each), outcome in found["runs"].items() if each == task and outcome is not None]


def reasons(found: Figures) -> list[str]:
    """Return why robots were refused, fixed to the world, or simulated in another engine: one paragraph for each."""
    return [f"{name}: {o.outcome}; {o.reason}" for name, o in _of_task(found, "stand") if o.reason]


def _g(value: float) -> str:
    return f"{value:.2g}" if np.isfinite(value) else "–"


def study(*models: str) -> Study:
    """Return the study of robots that nobody set up.

    models: folders of URDFs, or robots as `idyn new` takes them; none: those of example-robot-data
    """
    return Study(
        "Robots that nobody set up",
        f"Each {'robot' if models else 'URDF of example-robot-data'}: drafted by `idyn new`, then {SECONDS:g} s in MuJoCo with "
        "its default ground.",
        sweeps={"runs": Sweep((given_robots(models) if models else robots(), ("stand", "walk")), outcome_of)},
        tables=(summary_table, standing_table, walking_table),
        notes=reasons,
    )
