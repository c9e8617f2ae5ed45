"""Scripts of a bridge: what the robot shall do, one step per line, as in `docs/how-to/unitree.md`; `#` begins a comment."""

from collections.abc import Mapping
from math import isfinite, nan
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from idyn.errors import ConfigError
from idyn.types import Array
from transport.bridges.unitree.low_level import MotorCommand
from transport.bridges.unitree.low_state import LowState
from transport.bridges.unitree.robot import UnitreeRobot

SOFT_S = 0.3  # time over which the gains rise at the start of a motion [s]
SPEED = 0.27  # mean speed of the joint that moves farthest, as a share of the robot's pace
MOVE = 0.14  # the same of a step `move`
LEAST_S = 1.0  # shortest time of a motion [s]


class PostureMotion:
    """A motion from one posture to another one, which it then holds. It starts and ends at rest.

    seconds: time of the motion [s]
    """

    def __init__(self, robot: UnitreeRobot, state: LowState, goal: Array, speed: float = SPEED, least: float = LEAST_S) -> None:
        """state: at the start; goal: angles [rad] (na); speed: see `SPEED`; least: shortest time [s]"""
        self._robot, self._start, self._way, self._began = robot, state.q, goal - state.q, state.t
        self.seconds = max(least, float(np.abs(self._way).max()) / (speed * robot.pace))

    def wanted(self, now: float) -> tuple[Array, Array, Array]:
        """Return angles [rad], speeds [rad/s] and accelerations [rad/s²] at a time of the robot's clock [s], each (na)."""
        T = self.seconds
        s = min(max((now - self._began) / T, 0.0), 1.0)
        share, rate = s**3 * (10.0 - 15.0 * s + 6.0 * s * s), 30.0 * (s * (1.0 - s)) ** 2 / T
        return (self._start + share * self._way, rate * self._way, 60.0 * s * (1 - s) * (1 - 2 * s) / T**2 * self._way)

    def command(self, now: float, soft: bool = False, tau: Array | float = 0.0) -> MotorCommand:
        """Return the command at a time of the robot's clock [s]: targets for the motors' own feedback.

        soft: let the gains rise from 0, and the torques until the goal; tau: torques beside the feedback [N·m] (na)
        """
        (q, v, _), since = self.wanted(now), now - self._began
        gain, share = (min(since / SOFT_S, 1.0), min(since / self.seconds, 1.0)) if soft else (1.0, 1.0)
        return MotorCommand(q=q, v=v, tau=share * tau + np.zeros_like(q), kp=gain * self._robot.kp, kd=self._robot.kd)


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
    name, _, angle = text.partition("=")
    return name, _number(angle, place)
