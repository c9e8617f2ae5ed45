"""Parts of the fallback cascade that are not loaded yet.

A server that starts with an empty kernel cache is ready before the kernels of rarely used parts are compiled: another process
compiles them, and a thread loads them (`transport.kernels`). Until then predictions do without these parts, and
`Prediction.rung` says so, so that a tick never waits for a compilation. In a library call everything counts as loaded and is
compiled on first use.
"""

SELECTION = "thorough selection"
"""`idyn.prediction.finish.choose_again`"""

_WAITING: set[str] = set()


def is_loaded(part: str) -> bool:
    """Return whether a part may be used: `SELECTION` or the name of a fallback law."""
    return part not in _WAITING


def defer(parts: set[str]) -> None:
    """Do without these parts, in this process, until `loaded` is called for each."""
    _WAITING.update(parts)


def loaded(part: str) -> None:
    _WAITING.discard(part)


def waiting() -> tuple[str, ...]:
    """Return the parts that are not loaded."""
    return tuple(sorted(_WAITING))
