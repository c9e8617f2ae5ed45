"""Scripts of a bridge: what the robot shall do, step by step.

    stand 5        # stand up if it lies, then stand for 5 s
    lie            # lie down

One step per line; `#` begins a comment.
"""

from pathlib import Path
from typing import NamedTuple

from idyn.errors import ConfigError

WORDS = {"stand": 1, "lie": 0}
"""Word of a step → number of its arguments."""


class Step(NamedTuple):
    """A step: what to do, and for how long [s]."""

    word: str
    seconds: float


def read_script(path: Path) -> list[Step]:
    """Return the steps of a file. Raises ConfigError with the number of a wrong line."""
    return parse_script(path.read_text(encoding="utf-8"), str(path))


def parse_script(text: str, name: str) -> list[Step]:
    """Return the steps of a text. name: in errors"""
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        word, arguments = words[0], words[1:]
        if word not in WORDS:
            raise ConfigError(f"{name}, line {number}", f"expected one of {', '.join(WORDS)}, got '{word}'")
        if len(arguments) != WORDS[word]:
            raise ConfigError(f"{name}, line {number}", f"'{word}': expected {WORDS[word]} numbers, got {len(arguments)}")
        seconds = [_seconds(each, f"{name}, line {number}") for each in arguments]
        steps.append(Step(word, *seconds) if seconds else Step(word, 0.0))
    if not steps:
        raise ConfigError(name, "expected at least one step")
    return steps


def _seconds(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1e6:
        raise ConfigError(place, f"expected seconds > 0, got '{text}'")
    return value
