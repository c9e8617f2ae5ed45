"""What is compared: `configs/experiments/table-3.toml` and its like."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from controllers.config import Settings, load, parse
from controllers.paper import CONTROLLERS
from idyn.errors import ConfigError, nearest
from sim_harness.compare.quantities import QUANTITIES
from sim_harness.experiment import ExperimentSettings, Plan, build_plan, merged, with_controller

Count = Annotated[int, msgspec.Meta(ge=1)]

PaperRow = tuple[float, ...] | Literal["fell"]

PAPER = (
    "table-3", "table-4", "table-5", "figure-14", "figure-15", "figure-16", "figure-17", "figure-18", "figure-19", "appendix-a",
)  # fmt: skip
"""The paper's set, in `configs/experiments`; its Figure 6 is the same as Figure 15."""

FIGURES = ("tracking", "torque-rate", "path", "forces")
"""Pictures of a scene: see `sim_harness.compare.figures`."""


class SceneSettings(Settings, frozen=True):
    """One set of circumstances.

    experiment: instead of the comparison's; changes: to its settings, table by table
    controllers: instead of the comparison's
    """

    name: str
    experiment: str = ""
    changes: dict[str, Any] = msgspec.field(default_factory=dict)
    controllers: tuple[str, ...] = ()


class CheckSettings(Settings, frozen=True):
    """A claim that the data decide, in each of its scenes (without any: in all).

    Either about two sets of controllers: in the means over seeds, each of `larger` has at least `factor` times the quantity of
    each of `smaller`; or about one set: all `controllers` have it between `at_least` and `at_most`.
    A robot that fell lets no claim hold, but one: that it tracked worse than another that did not.

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
    """Passed or failed, as in the paper's Appendix A: a run passes when the robot stays up and its torque does not chatter.

    Torque chatters when its mean |dτ/dt| is more than `factor` times that of the controller `smooth` in the same scene.
    """

    smooth: str = "id-qp-mu"
    factor: float = 10.0


class TimingSettings(Settings, frozen=True):
    """Run time against the number of contacts.

    contacts: controller → numbers of contacts; repeat: predictions for each figure
    slope: controller → numbers of contacts between which it is claimed to be linear
    """

    contacts: dict[str, tuple[Count, ...]]
    robot: str = "quadruped"
    repeat: Count = 200
    slope: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)


class ComparisonSettings(Settings, frozen=True):
    """A table or a figure.

    experiment: name or path of one that is run in every scene; changes: to its settings, in every scene
    controllers: rows of `controllers.paper.CONTROLLERS`
    quantities: rows of `sim_harness.compare.quantities.QUANTITIES`, the columns of the table
    paper: scene → controller → the paper's values of the first quantities, or 'fell'
    paper_verdicts: scene → controller → what the paper's Appendix A says
    seeds: runs of each controller in each scene
    figures: of each scene's first seed
    checks, notes: claims to be decided, paragraphs to be printed
    timing: instead of scenes
    """

    title: str
    experiment: str = ""
    changes: dict[str, Any] = msgspec.field(default_factory=dict)
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


def is_comparison(name_or_path: str) -> bool:
    """Whether this experiment compares others: it has a title. Raises ConfigError for a name without a file, or no TOML."""
    return "title" in load("experiments", name_or_path, dict)


def load_comparison(name_or_path: str) -> ComparisonSettings:
    """Read and check a comparison. Raises ConfigError naming the first thing that does not exist."""
    c = load("experiments", name_or_path, ComparisonSettings)
    scenes = [scene.name for scene in c.scene]
    if (c.timing is None) == (not scenes):
        raise ConfigError("comparison.scene", "expected at least one scene, or [timing]")
    if len(set(scenes)) != len(scenes):
        raise ConfigError("comparison.scene", "two scenes have the same name")
    _known("comparison.quantities", c.quantities, QUANTITIES)
    _known("comparison.controllers", c.controllers, CONTROLLERS)
    _known("comparison.figures", c.figures, FIGURES)
    for scene in c.scene:
        if "/" in scene.name:
            raise ConfigError("comparison.scene.name", f"files are named after it: expected no '/', got '{scene.name}'")
        _known(f"comparison.scene.{scene.name}.controllers", scene.controllers, CONTROLLERS)
        if c.verdict is not None:
            _known("comparison.verdict.smooth", [c.verdict.smooth], controllers_of(c, scene))
    for table in (c.paper, c.paper_verdicts):
        _known("comparison.paper", table, scenes)
        for name, rows in table.items():
            _known(f"comparison.paper.{name}", rows, CONTROLLERS)
    for check in c.check:
        _known("comparison.check.quantity", [check.quantity], QUANTITIES)
        _known("comparison.check.controllers", (*check.larger, *check.smaller, *check.controllers), CONTROLLERS)
        _known("comparison.check.scenes", check.scenes, scenes)
        _check_check(c, check)
    if c.timing is not None:
        _known("comparison.timing.contacts", c.timing.contacts, CONTROLLERS)
        _known("comparison.timing.slope", c.timing.slope, c.timing.contacts)
    return c


def _check_check(comparison: ComparisonSettings, check: CheckSettings) -> None:
    """Raises ConfigError for a claim that no data could decide."""
    if bool(check.larger) != bool(check.smaller) or bool(check.larger) == bool(check.controllers):
        raise ConfigError("comparison.check", f"expected larger and smaller, or controllers: '{check.claim}'")
    named = {*check.larger, *check.smaller, *check.controllers}
    run = {scene.name for scene in comparison.scene if named <= set(controllers_of(comparison, scene))}
    if not run or not run.issuperset(check.scenes):
        where = "any scene" if not run else ", ".join(sorted(set(check.scenes) - run))
        raise ConfigError("comparison.check", f"not all of {', '.join(sorted(named))} are run in {where}: '{check.claim}'")


def _known(where: str, names: Iterable[str], table: Iterable[str]) -> None:
    table = list(table)
    for name in names:
        if name not in table:
            raise ConfigError(where, f"there is no '{name}'{nearest(name, table)}")


def controllers_of(comparison: ComparisonSettings, scene: SceneSettings) -> tuple[str, ...]:
    return scene.controllers or comparison.controllers


def plan_of(comparison: ComparisonSettings, scene: SceneSettings, controller: str, seconds: float | None = None) -> Plan:
    """What is run for a controller in a scene, `seconds` long instead of the experiment's duration. Raises ConfigError."""
    settings = load("experiments", scene.experiment or comparison.experiment, ExperimentSettings)
    values = msgspec.to_builtins(settings)
    for where, changes in (("comparison", comparison.changes), (f"scene.{scene.name}", scene.changes)):
        own = dict(changes)
        inner = {key: own.pop(key, {}) for key in ("controller", "robot")}  # tables in which new keys may be right
        values = _joined(merged(values, own, f"{where}.changes"), inner)
    if seconds is not None:
        values["duration"] = seconds
    plan = build_plan(parse(values, ExperimentSettings, f"scene.{scene.name}.changes"))
    return with_controller(plan, CONTROLLERS[controller].changes, f"controllers.{controller}")


def _joined(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` put in, key by key; keys may be new."""
    result = dict(base)
    for key, value in changes.items():
        inner = result.get(key)
        result[key] = _joined(inner if isinstance(inner, dict) else {}, value) if isinstance(value, dict) else value
    return result
