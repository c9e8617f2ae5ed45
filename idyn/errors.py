"""Every error the package raises while something is built or handed in. During a tick a `Status` is returned instead."""

from collections.abc import Iterable
from difflib import get_close_matches


class IdynError(Exception):
    """Base of all errors raised on purpose: the message is one sentence for the person who can mend it."""


class ConfigError(IdynError):
    """A setting is wrong. `path` names it (`controllers.stand.feedback.kp`), the message says expected and got."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.message = path, message


class ModelError(IdynError):
    """A robot model cannot be loaded or used."""


class FrameNotFound(ModelError):
    """A frame that the model does not have; the message lists the nearest names."""

    def __init__(self, name: str, available: Iterable[str]) -> None:
        super().__init__(f"no frame named '{name}' in the model{nearest(name, available)}")


class InputError(IdynError):
    """A datum from outside is malformed. `field` names it, `message` says what was expected; nothing was applied."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message


LONGEST_NAME = 100
"""Nothing is alike a longer one: comparing takes time that grows with the square."""


def nearest(name: str, available: Iterable[str]) -> str:
    """` (nearest: a, b)` with the names most like `name`, or the whole list when it is short and none is alike."""
    names = sorted(available)
    close = get_close_matches(name[:LONGEST_NAME], names, n=3, cutoff=0.4) or (names if len(names) <= 8 else [])
    return f" (nearest: {', '.join(close)})" if close else ""
