"""Parts of the fallback cascade that are not loaded yet.

A server that starts with an empty kernel cache is ready before the kernels of rarely used parts are compiled: another process
compiles them, and a thread loads them (`transport.startup.warm_up`). Until then predictions skip these parts, and
`Prediction.rung` reports this, so that a tick never waits for a compilation. As a library, all parts count as loaded and are
compiled on first use.
"""

from collections.abc import Iterable

SELECTION = "thorough selection"
"""Name of the part `idyn.prediction.finish.choose_again`."""

RUNGS = "Python rungs"
"""Name of the part that contains the Python rungs: the solver attempts of the requested law that are not compiled kernels."""

TASKS = "tasks"
"""Name of the part `idyn.tasks`."""

EVERYTHING = "all deferred parts"

NOT_LOADED = "not loaded"
"""Text in `Prediction.rung` if a part would have been used that is not loaded."""

_WAITING: set[str] = set()


def is_loaded(part: str) -> bool:
    """Return whether a part may be used: `SELECTION`, `RUNGS`, `TASKS` or the name of a fallback law."""
    return not _WAITING or (part not in _WAITING and EVERYTHING not in _WAITING)


def defer(parts: Iterable[str]) -> None:
    """Skip these parts in this process until `loaded` is called for them."""
    _WAITING.update(parts)


def loaded(parts: Iterable[str]) -> None:
    """Use these parts from now on."""
    _WAITING.difference_update(parts)


def waiting() -> tuple[str, ...]:
    """Return the parts that are not loaded."""
    return tuple(sorted(_WAITING))
