"""Settings of a comparison, for instance `configs/experiments/paper/table-3.toml`."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from controllers.config.loading import Settings, load
from idyn.errors import ConfigError
from sim_harness.compare.controllers import CONTROLLERS, Changes, check_known, plan_with
from sim_harness.compare.matrix.settings import Cell, Count, MatrixSettings, cells, check_matrix, layers
from sim_harness.compare.quantities import QUANTITIES
from sim_harness.compare.race.run import RaceSettings, check_race
from sim_harness.run.plan import Plan, with_controller

PaperRow = tuple[float, ...] | Literal["fell"]

PAPER = (
    "table-3", "table-4", "table-5", "figure-14", "figure-15", "figure-16", "figure-17", "figure-18", "figure-19", "appendix-a",
)  # fmt: skip
"""Comparisons of the paper in `configs/experiments`; its Figure 6 equals Figure 15."""

FIGURES = ("tracking", "torque-rate", "path", "forces")
"""Names of the plots of a scene (`sim_harness.compare.report`)."""


class SceneSettings(Settings, frozen=True):
    """Conditions under which controllers are compared.

    experiment: replaces the comparison's; changes: to the settings of the experiment, table by table
    controllers: replace the comparison's
    """

    name: str
    experiment: str = ""
    changes: Changes = msgspec.field(default_factory=dict)
    controllers: tuple[str, ...] = ()


class CheckSettings(Settings, frozen=True):
    """A claim about the means over seeds in `scenes` (default: all).

    With `larger` and `smaller`: the quantity of each controller in `larger` is at least `factor` times that of each controller
    in `smaller`. With `controllers`: the quantity of each is between `at_least` and `at_most`. A claim about a controller whose
    robot fell, in an order the smaller one, does not hold. An order is not decided if the larger one fell: there is nothing to
    compare with. A refusal and a stop count as a fall.

    explanation: printed when the claim does not hold
    """

    claim: str
    quantity: str
    larger: tuple[str, ...] = ()
    smaller: tuple[str, ...] = ()
    factor: float = 1.0
    controllers: tuple[str, ...] = ()
    at_least: float = -float("inf")
    at_most: float = float("inf")
    scenes: tuple[str, ...] = ()
    explanation: str = ""


class VerdictSettings(Settings, frozen=True):
    """Pass or fail, as in the paper's Appendix A: a run passes when the robot stays upright and its torque does not chatter.

    Torque chatters when its mean |dτ/dt| is more than `factor` times that of the controller `smooth` in the same scene.
    """

    smooth: str = "id-qp-mu"
    factor: float = 10.0


class TimingSettings(Settings, frozen=True):
    """Run time over the number of contacts.

    contacts: controller → numbers of contacts; repeat: predictions per figure
    slope: controller → (least, largest) number of contacts between which the run time is claimed to be linear
    """

    contacts: dict[str, tuple[Count, ...]]
    robot: str = "quadruped"
    repeat: Count = 200
    slope: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)


class ComparisonSettings(Settings, frozen=True):
    """A comparison: a table or a figure.

    experiment: name or path; changes: to its settings, in every scene
    controllers: rows of `sim_harness.compare.controllers.CONTROLLERS`
    quantities: rows of `sim_harness.compare.quantities.QUANTITIES`, the columns of the table
    paper: scene → controller → the paper's values of the first quantities, or 'fell'
    paper_verdicts: scene → controller → verdict of the paper's Appendix A
    seeds: number of runs of each controller in each scene
    figures: plots of the first seed of each scene
    check: claims; notes: paragraphs of the report
    timing, matrix, race: replace the scenes
    """

    title: str
    experiment: str = ""
    changes: Changes = msgspec.field(default_factory=dict)
    controllers: tuple[str, ...] = ()
    quantities: tuple[str, ...] = ()
    seeds: Count = 3
    scene: tuple[SceneSettings, ...] = ()
    paper: dict[str, dict[str, PaperRow]] = msgspec.field(default_factory=dict)
    paper_verdicts: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    verdict: VerdictSettings | None = None
    figures: tuple[str, ...] = ()
    check: tuple[CheckSettings, ...] = ()
    notes: tuple[str, ...] = ()
    timing: TimingSettings | None = None
    matrix: MatrixSettings | None = None
    race: RaceSettings | None = None


def is_comparison(name_or_path: str) -> bool:
    """Return whether an experiment file is a comparison: it has a title. Raises ConfigError if it is missing or malformed."""
    return "title" in load("experiments", name_or_path, dict)


def load_comparison(name_or_path: str) -> ComparisonSettings:
    """Read and check a comparison. Raises ConfigError for the first error."""
    c = load("experiments", name_or_path, ComparisonSettings)
    scenes = [scene.name for scene in c.scene]
    if sum(part is not None for part in (c.timing, c.matrix, c.race)) + bool(scenes) != 1:
        raise ConfigError("comparison", "expected exactly one of: at least one scene, or [timing], or [matrix], or [race]")
    if len(set(scenes)) != len(scenes):
        raise ConfigError("comparison.scene", f"expected scenes with different names, got {scenes}")
    check_known("comparison.quantities", c.quantities, QUANTITIES)
    check_known("comparison.controllers", c.controllers, CONTROLLERS)
    check_known("comparison.figures", c.figures, FIGURES)
    for scene in c.scene:
        if "/" in scene.name:
            raise ConfigError("comparison.scene.name", f"expected a name without '/', got '{scene.name}'")
        check_known(f"comparison.scene.{scene.name}.controllers", scene.controllers, CONTROLLERS)
        if c.verdict is not None:
            check_known("comparison.verdict.smooth", [c.verdict.smooth], controllers_of(c, scene))
    for table in (c.paper, c.paper_verdicts):
        check_known("comparison.paper", table, scenes)
        for name, rows in table.items():
            check_known(f"comparison.paper.{name}", rows, CONTROLLERS)
    for check in c.check:
        check_known("comparison.check.quantity", [check.quantity], QUANTITIES)
        check_known("comparison.check.controllers", (*check.larger, *check.smaller, *check.controllers), CONTROLLERS)
        check_known("comparison.check.scenes", check.scenes, scenes)
        _check_claim(c, check)
    if c.timing is not None:
        check_known("comparison.timing.contacts", c.timing.contacts, CONTROLLERS)
        check_known("comparison.timing.slope", c.timing.slope, c.timing.contacts)
    if c.matrix is not None:
        check_matrix(c.matrix, "comparison.matrix")
    if c.race is not None:
        check_race(c.race, "comparison.race")
    return c


def _check_claim(comparison: ComparisonSettings, check: CheckSettings) -> None:
    """Check that the runs of the comparison can decide a claim. Raises ConfigError."""
    if bool(check.larger) != bool(check.smaller) or bool(check.larger) == bool(check.controllers):
        raise ConfigError("comparison.check", f"'{check.claim}': expected larger and smaller, or controllers alone")
    named = {*check.larger, *check.smaller, *check.controllers}
    run = {scene.name for scene in comparison.scene if named <= set(controllers_of(comparison, scene))}
    if not run or not run.issuperset(check.scenes):
        where = "any scene" if not run else ", ".join(sorted(set(check.scenes) - run))
        missing = f"expected all of {', '.join(sorted(named))} in {where}, not all of them run there"
        raise ConfigError("comparison.check", f"'{check.claim}': {missing}")


def controllers_of(comparison: ComparisonSettings, scene: SceneSettings) -> tuple[str, ...]:
    """Return the names of the controllers of a scene."""
    return scene.controllers or comparison.controllers


def plan_of(comparison: ComparisonSettings, scene: SceneSettings, controller: str, seconds: float | None = None) -> Plan:
    """Return the plan of a controller in a scene. seconds: replaces the duration. Raises ConfigError."""
    layers = [("comparison", comparison.changes), (f"scene.{scene.name}", scene.changes)]
    plan = plan_with(scene.experiment or comparison.experiment, layers, seconds)
    return with_controller(plan, CONTROLLERS[controller].changes, f"controllers.{controller}")


def plan_of_cell(comparison: ComparisonSettings, cell: Cell, seconds: float | None = None) -> Plan:
    """Return the plan of a cell of the matrix. seconds: replaces the duration. Raises ConfigError."""
    matrix = [] if comparison.matrix is None else layers(comparison.matrix, cell)
    return plan_with(comparison.experiment, [("comparison", comparison.changes), *matrix], seconds)


def runs_of(comparison: ComparisonSettings, seconds: float | None = None) -> Iterator[tuple[tuple[str, ...], Plan, int]]:
    """Yield key, plan and number of seeds of all runs. A key is (scene, controller) or a `Cell`. Raises ConfigError."""
    for scene in comparison.scene:
        for controller in controllers_of(comparison, scene):
            yield (scene.name, controller), plan_of(comparison, scene, controller, seconds), comparison.seeds
    if comparison.matrix is not None:
        seeds = {part.name: part.seeds or comparison.seeds for part in comparison.matrix.part}
        for cell in cells(comparison.matrix):
            yield cell, plan_of_cell(comparison, cell, seconds), seeds[cell.part]


def plans(comparison: ComparisonSettings) -> Iterator[Plan]:
    """Yield the plans of all runs of a comparison. Raises ConfigError."""
    return (plan for _, plan, _ in runs_of(comparison))
