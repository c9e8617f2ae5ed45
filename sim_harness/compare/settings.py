"""Settings of comparisons that are matrices of runs: robots × worlds × laws × disturbances ("cases").

Each axis is a table: name → changes to one experiment. A part is all combinations of selected names, one panel of the picture.
Every part runs in all variants. Other comparisons are studies.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec

from controllers.config.loading import Settings, load, parse
from controllers.config.tables import Table, kind_of, merged
from controllers.settings import AnyControlLaw
from idyn.errors import ConfigError, nearest
from sim_harness.measure.metrics import QUANTITIES
from sim_harness.run.plan import ExperimentSettings, Plan, build_plan

KINDS = tuple(str(kind_of(each)) for each in get_args(AnyControlLaw))  # kinds of laws that a controller can have
Count = Annotated[int, msgspec.Meta(ge=1)]
Changes = Table  # settings that replace those of an experiment, table by table


def plan_with(experiment: str, layers: Iterable[tuple[str, Changes]], seconds: float | None = None) -> Plan:
    """Return the plan of an experiment with changes.

    layers: name and changes; later layers override earlier ones; seconds: replaces the duration of the experiment
    Raises ConfigError with the name of the faulty layer.
    """
    settings = load("experiments", experiment, ExperimentSettings)
    for where, changes in layers:
        settings = parse(merged(msgspec.to_builtins(settings), changes), ExperimentSettings, f"{where}.changes")
    if seconds is not None:
        settings = msgspec.structs.replace(settings, duration=seconds)
    return build_plan(settings)


def check_known(where: str, names: Iterable[str], table: Iterable[str]) -> None:
    """Check that all names are in the table. Raises ConfigError, with the path `where`, for the first one that is not."""
    table = list(table)
    for name in names:
        if name not in table:
            raise ConfigError(where, f"unknown name '{name}'{nearest(name, table)}")


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
    # rows of `sim_harness.measure.metrics.QUANTITIES`; each has a table
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


class ComparisonSettings(Settings, frozen=True):
    """A comparison of robots."""

    title: str
    experiment: str  # name or path
    matrix: MatrixSettings
    changes: Changes = msgspec.field(default_factory=dict)  # to its settings, in every cell
    seeds: Count = 3  # number of runs of each cell
    notes: tuple[str, ...] = ()  # paragraphs of the report


def of_robot(comparison: ComparisonSettings, path: Path) -> ComparisonSettings:
    """Return a comparison of one robot, in place of all its own; claims that name some of these leave with them.

    path: of its server's settings, or of a draft
    """
    replace, matrix, name = msgspec.structs.replace, comparison.matrix, path.stem
    parts = tuple(replace(part, robots=(name,)) for part in matrix.part)
    claims, robots = tuple(check for check in matrix.check if not check.robots), {name: {"server": str(path.absolute())}}
    return replace(comparison, matrix=replace(matrix, robots=robots, part=parts, check=claims))


def in_real_time(comparison: ComparisonSettings) -> ComparisonSettings:
    """Return a comparison whose runs are in real time, or slower where replies are late."""
    return msgspec.structs.replace(comparison, changes=comparison.changes | {"paced": True, "patience": 1.0})


STUDIES = {"timing": "timing", "race": "race", "scene": "paper"}
"""Table or list of a comparison that is a study → module of the study."""


def is_comparison(name_or_path: str) -> bool:
    """Return whether an experiment file is a comparison: it has a title. Raises ConfigError if it is missing or malformed."""
    return "title" in load("experiments", name_or_path, dict)


def study_of_comparison(name_or_path: str) -> str:
    """Return the module of the study that a comparison is, '' for a matrix. Raises ConfigError if there is none, or several."""
    data = load("experiments", name_or_path, dict)
    found = [module for key, module in STUDIES.items() if key in data] + [""] * ("matrix" in data)
    if len(found) != 1:
        raise ConfigError("comparison", "expected exactly one of: at least one scene, or [timing], or [matrix], or [race]")
    return found[0]


def plan_of_cell(comparison: ComparisonSettings, cell: Cell, seconds: float | None = None) -> Plan:
    """Return the plan of a cell of the matrix. seconds: replaces the duration. Raises ConfigError."""
    changes = layers(comparison.matrix, cell)
    return plan_with(comparison.experiment, [("comparison", comparison.changes), *changes], seconds)


def runs_of(comparison: ComparisonSettings, seconds: float | None = None) -> Iterator[tuple[Cell, Plan, int]]:
    """Yield cell, plan and number of seeds of all runs. Raises ConfigError."""
    seeds = {part.name: part.seeds or comparison.seeds for part in comparison.matrix.part}
    for cell in cells(comparison.matrix):
        yield cell, plan_of_cell(comparison, cell, seconds), seeds[cell.part]
