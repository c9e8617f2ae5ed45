"""Scripts of a bridge: what the robot shall do, step by step.

    stand 5                  # stand up if it lies, then stand for 5 s
    velocity 0.3 0 0 10      # forward 0.3 m/s, left 0 m/s, turn 0 rad/s, for 10 s; with a server
    move left_elbow_joint=1.2 waist_yaw_joint=0.3 4   # joints to these angles [rad], others as in `stand`; 4 s; with a server
    remote 60                # velocities by the sticks of the remote control, for 60 s; with a server
    lie                      # lie down

One step per line; `#` begins a comment.
"""

from collections.abc import Mapping
from math import isfinite, nan
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from idyn.errors import ConfigError

WORDS = {"stand": 1, "velocity": 4, "move": 1, "remote": 1, "lie": 0}
"""Word of a step → number of its numbers. The last one is the duration [s]."""


class Step(NamedTuple):
    """A step: what to do, and for how long [s]. velocity: forward, left [m/s], turn [rad/s]; joints: name → angle [rad]"""

    word: str
    seconds: float = 0.0
    velocity: tuple[float, ...] = ()
    joints: Mapping[str, float] = MappingProxyType({})


def read_script(path: Path) -> list[Step]:
    """Return the steps of a file. Raises ConfigError with the number of a wrong line."""
    return parse_script(path.read_text(encoding="utf-8"), str(path))


def parse_script(text: str, name: str) -> list[Step]:
    """Return the steps of a text. name: in errors"""
    lines = [line.split("#", 1)[0].split() for line in text.splitlines()]
    steps = [_step(words, f"{name}, line {number}") for number, words in enumerate(lines, 1) if words]
    if not steps:
        raise ConfigError(name, "expected at least one step")
    return steps


def _step(words: list[str], place: str) -> Step:
    """Return the step of a line. place: in errors"""
    word, arguments = words[0], words[1:]
    if word not in WORDS:
        raise ConfigError(place, f"expected one of {', '.join(WORDS)}, got '{word}'")
    joints = dict(_joint(each, place) for each in arguments if "=" in each)
    if bool(joints) is not (word == "move"):
        expected = "JOINT=ANGLE" if word == "move" else "numbers"
        raise ConfigError(place, f"'{word}': expected {expected}, got {' '.join(arguments)}")
    numbers = [each for each in arguments if "=" not in each]
    if len(numbers) != WORDS[word]:
        raise ConfigError(place, f"'{word}': expected {WORDS[word]} numbers, got {len(numbers)}")
    values = [_number(each, place) for each in numbers]
    if values and not 0.0 < values[-1] < 1e6:
        raise ConfigError(place, f"expected seconds > 0, got '{numbers[-1]}'")
    return Step(word, values[-1] if values else 0.0, tuple(values[:-1]), joints)


def _number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise ConfigError(place, f"expected a finite number, got '{text}'")
    return value


def _joint(text: str, place: str) -> tuple[str, float]:
    """Return the name and the angle of NAME=ANGLE."""
    name, _, angle = text.partition("=")
    return name, _number(angle, place)
