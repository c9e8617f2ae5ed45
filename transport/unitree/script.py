"""Scripts of a bridge: what the robot shall do, step by step.

    stand 5                  # stand up if it lies, then stand for 5 s
    velocity 0.3 0 0 10      # forward 0.3 m/s, left 0 m/s, turn 0 rad/s, for 10 s; with a server
    remote 60                # velocities by the sticks of the remote control, for 60 s; with a server
    lie                      # lie down

One step per line; `#` begins a comment.
"""

from math import isfinite, nan
from pathlib import Path
from typing import NamedTuple

from idyn.errors import ConfigError

WORDS = {"stand": 1, "velocity": 4, "remote": 1, "lie": 0}
"""Word of a step → number of its arguments. The last one is the duration [s]."""


class Step(NamedTuple):
    """A step: what to do, and for how long [s]. velocity: forward, left [m/s], turn [rad/s]"""

    word: str
    seconds: float = 0.0
    velocity: tuple[float, ...] = ()


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
        values = [_number(each, f"{name}, line {number}") for each in arguments]
        if values and not 0.0 < values[-1] < 1e6:
            raise ConfigError(f"{name}, line {number}", f"expected seconds > 0, got '{arguments[-1]}'")
        steps.append(Step(word, values[-1] if values else 0.0, tuple(values[:-1])))
    if not steps:
        raise ConfigError(name, "expected at least one step")
    return steps


def _number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise ConfigError(place, f"expected a finite number, got '{text}'")
    return value
