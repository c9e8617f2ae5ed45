"""Parts of the fallback cascade that are not loaded yet.

A server that starts with an empty kernel cache is ready before the kernels of rarely used parts are compiled: another process
compiles them, and a thread loads them (`transport.kernels`). Until then predictions do without these parts, and
`Prediction.rung` says so, so that a tick never waits for a compilation. In a library call everything counts as loaded and is
compiled on first use.
"""

from collections.abc import Iterable

SELECTION = "thorough selection"
"""`idyn.prediction.finish.choose_again`"""

RUNGS = "Python rungs"
"""Rungs of the requested law without a kernel."""

EVERYTHING = "all deferred parts"

NOT_LOADED = "not loaded"
"""In `Prediction.rung` when a deferred part would have been used."""

_WAITING: set[str] = set()


def is_loaded(part: str) -> bool:
    """Return whether a part may be used: `SELECTION`, `RUNGS` or the name of a fallback law."""
    return not _WAITING or (part not in _WAITING and EVERYTHING not in _WAITING)


def defer(parts: Iterable[str]) -> None:
    """Do without these parts in this process until `loaded` is called."""
    _WAITING.update(parts)


def loaded(parts: Iterable[str]) -> None:
    """Use these parts from now on."""
    _WAITING.difference_update(parts)


def waiting() -> tuple[str, ...]:
    """Return the parts that are not loaded."""
    return tuple(sorted(_WAITING))
