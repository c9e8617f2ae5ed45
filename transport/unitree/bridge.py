"""The bridge: a loop that answers each state of a robot with a motor command, step by step of a script."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

import numpy as np

from idyn.types import Array
from transport.unitree.low_level import LowLevel, LowState, MotorCommand, damping
from transport.unitree.postures import KD, PostureMotion
from transport.unitree.script import Step

SILENCE_S = 0.1
"""Time without states after which the bridge damps and ends [s]."""

START_S = 5.0
"""Time to wait for the first state [s]."""

DAMPING_S = 0.2
"""Time for which a bridge damps before it ends [s]."""


class Report(NamedTuple):
    """What happened.

    answered: number of states that were answered; missed: that arrived together with a later one
    periods: times between answered states [s]; delays: from the arrival of a state to its command [s]
    tilts: angle between the vertical axes of IMU and world [rad]; torques: largest |τ| of each answered state [N·m]
    ended: why the script ended early; '': it was completed
    """

    answered: int
    missed: int
    periods: Array
    delays: Array
    tilts: Array
    torques: Array
    ended: str


def run_script(
    link: LowLevel,
    steps: Sequence[Step],
    postures: dict[str, Array],
    note: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
) -> Report:
    """Do the steps of a script; then damp.

    postures: goal of each word of a script, angles [rad] (na); note: called with a line for each step
    stopped: whether the user asks to end
    """
    state = link.state(START_S)
    if state is None:
        return _report([], link, f"no state within {START_S:g} s")
    rows: list[tuple[float, float, float, float]] = []
    last, ended = state, ""
    for k, step in enumerate(steps):
        motion = PostureMotion(last, postures[step.word], soft=k == 0)
        note(f"{step.word}: {motion.seconds:.1f} s" + (f", then {step.seconds:g} s" if step.seconds else ""))
        until = last.at + motion.seconds + step.seconds
        while not ended and last.at < until:
            ended = "stopped by the user" if stopped() else ""
            state = link.state(SILENCE_S)
            if state is None:
                ended = ended or f"no state for {SILENCE_S:g} s"
                break
            _answer(link, motion.command(state.at), state, rows)
            last = state
        if ended:
            break
    _damp(link, last)
    return _report(rows, link, ended)


def _answer(link: LowLevel, command: MotorCommand, state: LowState, rows: list[tuple[float, float, float, float]]) -> None:
    link.send(command, state)
    x, y = state.attitude[:2]
    tilt = np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))
    rows.append((state.at, monotonic() - state.at, float(tilt), float(np.abs(state.tau).max())))


def _damp(link: LowLevel, last: LowState) -> None:
    """Brake all joints until they rest. The last command stays in force after the process has ended."""
    until = monotonic() + DAMPING_S
    while monotonic() < until:
        last = link.state(0.01) or last
        link.send(damping(last, KD), last)


def _report(rows: list[tuple[float, float, float, float]], link: LowLevel, ended: str) -> Report:
    times, delays, tilts, torques = np.array(rows).reshape(-1, 4).T
    return Report(len(rows), max(link.received - len(rows), 0), np.diff(times), delays, tilts, torques, ended)
