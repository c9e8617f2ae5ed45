"""Settings of comparisons, for instance `configs/experiments/paper/table-3.toml`, and of matrices of runs.

A matrix is robots × worlds × laws × disturbances ("cases"). Each axis is a table: name → changes to one experiment. A part of
the matrix consists of all combinations of selected names of each axis; it is one panel of the picture. Every part runs in all
variants, for instance with the shipped controllers and with the paper's.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from controllers.config.loading import Settings, load
from controllers.config.tables import kind_of
from controllers.settings import AnyControlLaw
from idyn.errors import ConfigError
from sim_harness.compare.controllers import CONTROLLERS, Changes, check_known, plan_with
from sim_harness.measure.metrics import QUANTITIES
from sim_harness.run.plan import Plan, with_controller
from sim_harness.scenes.scene_settings import Count

KINDS = tuple(str(kind_of(each)) for each in get_args(AnyControlLaw))
"""Kinds of laws that a controller can have."""


class Cell(NamedTuple):
    """A cell of the matrix: a name on each axis."""

    part: str
    variant: str
    robot: str
    world: str
    law: str
    case: str


class CaseSettings(Settings, frozen=True):
    """A disturbance. changes: to the experiment; robots: robot → further changes"""

    changes: Changes = msgspec.field(default_factory=dict)
    robots: dict[str, Changes] = msgspec.field(default_factory=dict)


class LawSettings(Settings, frozen=True):
    """A law. changes: to the experiment; worlds: world → further changes, such as the stiffness of its floor"""

    changes: Changes = msgspec.field(default_factory=dict)
    worlds: dict[str, Changes] = msgspec.field(default_factory=dict)


class PartSettings(Settings, frozen=True):
    """All combinations of some robots, worlds, laws and cases.

    seeds: number of runs per cell; None: that of the comparison; changes: to the experiment
    """

    name: str
    robots: tuple[str, ...]
    worlds: tuple[str, ...]
    laws: tuple[str, ...]
    cases: tuple[str, ...]
    columns: Literal["world", "law", "case"] = "case"  # the axis of the columns; all others form the rows
    seeds: Count | None = None
    changes: Changes = msgspec.field(default_factory=dict)
    # rows of `sim_harness.measure.metrics.QUANTITIES`; each has a table and a panel in the picture of the part
    quantities: tuple[str, ...] = ()


class CellCheckSettings(Settings, frozen=True):
    """A claim about the cells of some parts, robots, worlds, laws and cases (default: all) in a variant (default: the first).

    With `quantity`: in each cell the quantity's mean over the seeds is between `at_least` and `at_most`, and no robot falls.
    Without `quantity`: the share of upright robots among all runs is between `at_least` and `at_most`.
    """

    claim: str
    parts: tuple[str, ...] = ()
    robots: tuple[str, ...] = ()
    worlds: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    variant: str = ""
    quantity: str = ""
    at_least: float = -float("inf")
    at_most: float = float("inf")
    explanation: str = ""  # printed when the claim does not hold


class MatrixSettings(Settings, frozen=True):
    """A matrix of runs.

    variants, robots, worlds, cases, laws: name → changes to the comparison's experiment, applied in this order after the
        `changes` of a part; a law without an entry is a kind of law
    part: panels; check: claims
    """

    robots: dict[str, Changes]
    worlds: dict[str, Changes]
    cases: dict[str, CaseSettings]
    part: tuple[PartSettings, ...]
    variants: dict[str, Changes]
    laws: dict[str, LawSettings] = msgspec.field(default_factory=dict)
    check: tuple[CellCheckSettings, ...] = ()


def cells(matrix: MatrixSettings) -> Iterator[Cell]:
    """Yield all cells of the matrix."""
    for part in matrix.part:
        yield from cells_of(part, matrix.variants)


def cells_of(part: PartSettings, variants: Iterable[str]) -> Iterator[Cell]:
    """Yield the cells of a part, in the order of its settings."""
    for names in product(variants, part.robots, part.worlds, part.laws, part.cases):
        yield Cell(part.name, *names)


def layers(matrix: MatrixSettings, cell: Cell) -> list[tuple[str, Changes]]:
    """Return the changes of a cell, in order, each with the name of its table."""
    part = next(part for part in matrix.part if part.name == cell.part)
    case, law = matrix.cases[cell.case], matrix.laws.get(cell.law, LawSettings(changes={"controller": {"law": cell.law}}))
    return [
        (f"part.{part.name}", part.changes),
        (f"variants.{cell.variant}", matrix.variants[cell.variant]),
        (f"robots.{cell.robot}", matrix.robots[cell.robot]),
        (f"worlds.{cell.world}", matrix.worlds[cell.world]),
        (f"cases.{cell.case}", case.changes),
        (f"cases.{cell.case}.robots.{cell.robot}", case.robots.get(cell.robot, {})),
        (f"laws.{cell.law}", law.changes),
        (f"laws.{cell.law}.worlds.{cell.world}", law.worlds.get(cell.world, {})),
    ]


AXES = {"parts": "part", "robots": "robot", "worlds": "world", "laws": "law", "cases": "case"}
"""Field of a claim → field of a cell, which names the axis of the matrix."""


def chosen(matrix: MatrixSettings, check: CellCheckSettings) -> list[Cell]:
    """Return the cells that a claim is about."""
    variant = check.variant or next(iter(matrix.variants))
    wanted = [(axis, names) for field, axis in AXES.items() if (names := getattr(check, field))]
    return [c for c in cells(matrix) if c.variant == variant and all(getattr(c, axis) in names for axis, names in wanted)]


def check_matrix(matrix: MatrixSettings, where: str) -> None:
    """Check that all names exist and that every claim has cells. Raises ConfigError with a path below `where`."""
    if not matrix.variants:
        raise ConfigError(f"{where}.variants", "expected at least one variant, got an empty table")
    names = [part.name for part in matrix.part]
    if len(set(names)) != len(names):
        raise ConfigError(f"{where}.part", f"expected parts with different names, got {names}")
    for name, case in matrix.cases.items():
        check_known(f"{where}.cases.{name}.robots", case.robots, matrix.robots)
    for name, law in matrix.laws.items():
        check_known(f"{where}.laws.{name}.worlds", law.worlds, matrix.worlds)
    for part in matrix.part:
        for field in ("robots", "worlds", "cases"):
            check_known(f"{where}.part.{part.name}.{field}", getattr(part, field), getattr(matrix, field))
        check_known(f"{where}.part.{part.name}.laws", part.laws, [*matrix.laws, *KINDS])
        check_known(f"{where}.part.{part.name}.quantities", part.quantities, QUANTITIES)
    for check in matrix.check:
        check_known(f"{where}.check.variant", [check.variant] if check.variant else [], matrix.variants)
        check_known(f"{where}.check.quantity", [check.quantity] if check.quantity else [], QUANTITIES)
        about = chosen(matrix, check)
        for field, axis in AXES.items():
            check_known(f"{where}.check.{field}", getattr(check, field), {getattr(cell, axis) for cell in about})


PaperRow = tuple[float, ...] | Literal["fell"]

FIGURES = ("tracking", "torque-rate", "path", "forces")
"""Names of the plots of a scene (`sim_harness.compare.report`)."""


class SceneSettings(Settings, frozen=True):
    """Conditions under which controllers are compared."""

    name: str
    experiment: str = ""  # replaces the comparison's
    changes: Changes = msgspec.field(default_factory=dict)  # to the settings of the experiment, table by table
    controllers: tuple[str, ...] = ()  # replace the comparison's


class CheckSettings(Settings, frozen=True):
    """A claim about the means over seeds in `scenes` (default: all).

    With `larger` and `smaller`: the quantity of each controller in `larger` is at least `factor` times that of each controller
    in `smaller`. With `controllers`: the quantity of each is between `at_least` and `at_most`. A claim about a controller whose
    robot fell, in an order the smaller one, does not hold. An order is not decided if the larger one fell: there is nothing to
    compare with. A refusal and a stop count as a fall.
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
    explanation: str = ""  # printed when the claim does not hold


class VerdictSettings(Settings, frozen=True):
    """Pass or fail, as in the paper's Appendix A: a run passes when the robot stays upright and its torque does not chatter.

    Torque chatters when its mean |dτ/dt| is more than `factor` times that of the controller `smooth` in the same scene.
    """

    smooth: str = "id-qp-mu"
    factor: float = 10.0


class ComparisonSettings(Settings, frozen=True):
    """A comparison: a table or a figure."""

    title: str
    experiment: str = ""  # name or path
    changes: Changes = msgspec.field(default_factory=dict)  # to its settings, in every scene
    controllers: tuple[str, ...] = ()  # rows of `sim_harness.compare.controllers.CONTROLLERS`
    quantities: tuple[str, ...] = ()  # rows of `sim_harness.measure.metrics.QUANTITIES`, the columns of the table
    seeds: Count = 3  # number of runs of each controller in each scene
    scene: tuple[SceneSettings, ...] = ()
    # scene → controller → the paper's values of the first quantities, or 'fell'
    paper: dict[str, dict[str, PaperRow]] = msgspec.field(default_factory=dict)
    # scene → controller → verdict of the paper's Appendix A
    paper_verdicts: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    verdict: VerdictSettings | None = None
    figures: tuple[str, ...] = ()  # plots of the first seed of each scene
    check: tuple[CheckSettings, ...] = ()  # claims
    notes: tuple[str, ...] = ()  # paragraphs of the report
    # timing, matrix, race: replace the scenes; the first and the last are settings of the study of this name
    timing: dict[str, Any] | None = None
    matrix: MatrixSettings | None = None
    race: dict[str, Any] | None = None


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
    if c.matrix is not None:
        check_matrix(c.matrix, "comparison.matrix")
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
