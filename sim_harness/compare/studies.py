"""The studies of `idyn compare` by name, the one list of them; scenes of bodies. Without numerics: help and completion use it.

A study is a module with a function `study` that returns a `Study`. What is in `sim_harness.studies` is not in a wheel.
"""

from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from controllers.config.loading import load
from idyn.errors import ConfigError

if TYPE_CHECKING:
    from sim_harness.studies.study import Study

CHECKOUT = "sim_harness.studies"
"""Package that is in a checkout of the repository only."""

ENGINES = "engines"  # word of the command line for all shipped scenes
BODY_TABLES = frozenset({"body", "arch"})  # tables of a scene that define bodies
RECORDING = "recording.npz"  # file in the folder of a scene's run

PEERS = ("tsid", "placo")
"""Other projects whose controllers `tasks` runs, and the first of them `contact-models`; each name is that of a module."""

SHARED = ("out", "seeds")
"""Options of the command that other comparisons have too; the others of a study belong to studies only."""


class Entry(NamedTuple):
    """A study. options: of the command that its `study` takes by name; words: whether it takes words behind its name"""

    module: str
    options: tuple[str, ...] = ()
    words: bool = False


STUDIES = {
    "sap-study": Entry(f"{CHECKOUT}.sap_study"),
    "first-order-study": Entry(f"{CHECKOUT}.first_order_study"),
    "cone-study": Entry(f"{CHECKOUT}.cone_study"),
    "mujoco-law": Entry(f"{CHECKOUT}.mujoco_law"),
    "tasks": Entry(f"{CHECKOUT}.tasks", PEERS),
    "contact-models": Entry(f"{CHECKOUT}.contact_models", (PEERS[0], "seeds")),
    "mpc": Entry(f"{CHECKOUT}.mpc", ("seeds",)),
    "own-robots": Entry(f"{CHECKOUT}.own_robots", words=True),
    "unitree": Entry(f"{CHECKOUT}.unitree", ("seeds",), words=True),
    "cube-tosses": Entry(f"{CHECKOUT}.cube_tosses", ("out", "engines", "data", "parameters")),
}
"""Studies of one engine or law, of task controllers, of robots, and of measured data."""


def study_of(what: list[str], options: Namespace) -> "Study":
    """Return a study. what: its name and the words behind it

    Raises ConfigError for words that it does not take, and for a study that is not installed.
    """
    name, *words = what
    entry = STUDIES[name]
    if words and not entry.words:
        raise ConfigError(name, f"expected nothing behind the name, got {' '.join(words)}")
    given = {option: getattr(options, option) for option in entry.options}
    study: Study = study_module(name, entry.module).study(*words, **given)
    return study


def study_module(name: str, module: str) -> Any:
    """Return the module of a study. Raises ConfigError with its name where only a checkout has it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != CHECKOUT:
            raise
        raise ConfigError(name, "this study runs from a checkout of the repository only") from None


def is_scene(name_or_path: str) -> bool:
    """Return true when the experiment is a scene, i.e. defines bodies. Raises ConfigError for a missing or malformed file."""
    return not BODY_TABLES.isdisjoint(load("experiments", name_or_path, dict))


def scene_runs(path: Path) -> list[Path]:
    """Return the folder of a scene's run, or those of the runs in its subfolders; empty without runs."""
    return [path] if (path / RECORDING).is_file() else sorted(file.parent for file in path.glob(f"*/{RECORDING}"))


def scene_module(name: str) -> Any:
    """Return the module that simulates, shows and checks scenes. Raises ConfigError with the name outside of a checkout."""
    return study_module(name, f"{CHECKOUT}.scenes.commands")


def comparison_module(name: str) -> Any:
    """Return the module that reads and runs a comparison, a matrix or a study. name: or path. Raises ConfigError."""
    from sim_harness.compare.settings import study_of_comparison  # noqa: PLC0415 - numerics

    kind = study_of_comparison(name)
    return study_module(name, f"{CHECKOUT}.{kind}") if kind else import_module("sim_harness.compare.matrix")


def check_options(what: list[str], options: Namespace) -> None:
    """Raise ConfigError for an option of a study that is not asked for. what: words of the command"""
    owners: dict[str, list[str]] = {}
    for name, entry in STUDIES.items():
        for option in entry.options:
            owners.setdefault(option, []).append(name)
    for option, names in owners.items():
        if option not in SHARED and getattr(options, option) is not None and what[0] not in names:
            raise ConfigError(f"--{option}", f"expected the comparison {' or '.join(names)}, got {', '.join(what)}")
