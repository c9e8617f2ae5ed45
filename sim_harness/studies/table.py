"""The studies of `idyn compare` by name. Each is imported when it is asked for: some need extras."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from idyn.errors import ConfigError
from sim_harness.compare.study import Study
from sim_harness.compare.tasks import study as tasks_study
from sim_harness.compare.tasks.peer import PEERS
from sim_harness.studies import cone_study, first_order_study, newton_study, own_robots, sap_study

Make = Callable[[list[str], Namespace], Study]
"""Makes a study from the words behind its name and the options of the command."""


def _plain(name: str, study: Callable[[], Study]) -> Make:
    def make(words: list[str], options: Namespace) -> Study:
        _refuse(name, words)
        return study()

    return make


def _refuse(name: str, words: list[str]) -> None:
    """Raise ConfigError if there are words."""
    if words:
        raise ConfigError(name, f"expected nothing behind the name, got {' '.join(words)}")


def _tasks(words: list[str], options: Namespace) -> Study:
    _refuse("tasks", words)
    return tasks_study.study({name: path for name in PEERS if (path := getattr(options, name)) is not None})


def _contact_models(words: list[str], options: Namespace) -> Study:
    _refuse("contact-models", words)
    from sim_harness.studies import contact_models  # noqa: PLC0415

    return contact_models.study(options.tsid, options.seeds)


def _mpc(words: list[str], options: Namespace) -> Study:
    _refuse("mpc", words)
    from sim_harness.studies import mpc  # noqa: PLC0415

    return mpc.study(options.seeds)


def _mujoco_law(words: list[str], options: Namespace) -> Study:
    _refuse("mujoco-law", words)
    from sim_harness.studies import mujoco_law  # noqa: PLC0415

    return mujoco_law.study()


def _unitree(words: list[str], options: Namespace) -> Study:
    if len(words) not in (1, 2):
        raise ConfigError("unitree", "expected the folder of Unitree's simulator, and perhaps a scene of it, delays or g1")
    from sim_harness.studies import unitree  # noqa: PLC0415

    return unitree.study(Path(words[0]).resolve(), options.seeds or 1, *words[1:])


def _tosses(words: list[str], options: Namespace) -> Study:
    _refuse("cube-tosses", words)
    from sim_harness.studies import cube_tosses  # noqa: PLC0415

    engines = [name for name in (options.engines or "").split(",") if name]
    return cube_tosses.study(options.out, engines, options.data, options.parameters)


STUDIES: dict[str, Make] = {
    "sap-study": _plain("sap-study", sap_study.study),
    "newton-study": _plain("newton-study", newton_study.study),
    "first-order-study": _plain("first-order-study", first_order_study.study),
    "cone-study": _plain("cone-study", cone_study.study),
    "mujoco-law": _mujoco_law,
    "tasks": _tasks,
    "contact-models": _contact_models,
    "mpc": _mpc,
    "own-robots": lambda words, _: own_robots.study(words),
    "unitree": _unitree,
    "cube-tosses": _tosses,
}
"""Studies of one engine or law, of task controllers, of robots, and of measured data."""

OF_STUDIES = {
    "tsid": ("tasks", "contact-models"),
    "placo": ("tasks",),
    "engines": ("cube-tosses",),
    "parameters": ("cube-tosses",),
    "data": ("cube-tosses",),
}
"""Options of the command that belong to some studies only."""


def check_options(what: list[str], options: Namespace) -> None:
    """Raise ConfigError for an option of a study that is not asked for. what: words of the command"""
    for name, studies in OF_STUDIES.items():
        if getattr(options, name) is not None and what[0] not in studies:
            raise ConfigError(f"--{name}", f"expected the comparison {' or '.join(studies)}, got {', '.join(what)}")
