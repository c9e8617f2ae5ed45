"""The bridge: a loop that answers each state of a robot with a motor command, step by step of a script."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

import numpy as np

from idyn.errors import IdynError
from idyn.types import Array
from transport.bridges.unitree.low_level import LowLevel, MotorCommand, damping
from transport.bridges.unitree.low_state import LowState
from transport.bridges.unitree.script import KD, PostureMotion, Step
from transport.bridges.unitree.served import ServedRobot

SILENCE_S = 0.1
"""Time without states after which the bridge damps and ends [s]."""

START_S = 5.0
"""Time to wait for the first state [s]."""

HOLD_S, RISE_SPEED, MOVE_SPEED = 0.3, 0.1, 0.5
"""Time for which the motors of a robot that hangs hold it before torques do [s]; speeds of its knees then, and of a step
`move` [rad/s]."""

ALONE_EVERY = 50
"""States between two looks for another process that sends commands."""

COLUMNS = 4
"""Figures kept of each answered state, 32 bytes: time, delay, tilt, largest torque."""

DAMPING_S, SINKING_S, AT_REST = 0.2, 2.0, 0.1
"""Shortest and longest time for which a bridge damps before it ends [s]; it ends when no joint is faster than this [rad/s]."""


class Report(NamedTuple):
    """What happened.

    answered: number of states that were answered; missed: that arrived together with a later one
    periods: times between answered states [s]; delays: from the arrival of a state to its command [s]
    tilts: angle between the vertical axes of IMU and world [rad]; torques: largest |τ| of each answered state [N·m]
    modes: number of served states by the status of the answer, or by the mode of the failsafe
    ended: why the script ended early, or what the server said last; '': it was completed
    """

    answered: int
    missed: int
    periods: Array
    delays: Array
    tilts: Array
    torques: Array
    modes: dict[str, int]
    ended: str


class Bridge:
    """Does the steps of a script with one robot."""

    def __init__(
        self, link: LowLevel, postures: dict[str, Array], note: Callable[[str], None], served: ServedRobot | None = None
    ) -> None:
        """postures: goals of `stand` and, for a robot that can lie, `lie`, angles [rad] (na); another one hangs at the start
        note: called with a line for each step; served: what answers after standing up; None: the motors hold the posture"""
        self._link, self._postures, self._note, self._served = link, postures, note, served
        self._rows = array("d")
        self._last: LowState | None = None

    def run(self, steps: Sequence[Step], stopped: Callable[[], bool] = lambda: False) -> Report:
        """Do the steps; then damp. stopped: whether the user asks to end"""
        self._last = self._link.state(START_S)
        if self._last is None:
            return self._report(f"no state within {START_S:g} s")
        ended = ""
        try:
            for step in steps:
                ended = ended or self._do(step, stopped)
        except IdynError as error:
            ended = str(error)
        finally:  # whatever happened: the last command stays in force
            self._damp()
            if self._served is not None:
                self._served.end()
        return self._report(ended)

    def _do(self, step: Step, stopped: Callable[[], bool]) -> str:
        """Do a step. Return why it ended early, or ''."""
        served, last, soft = self._served, self._last, not self._rows
        assert last is not None
        if step.word in ("velocity", "move", "remote"):
            if served is None:
                return f"the step '{step.word}' needs a server (--connect)"
            self._note(f"{step.word} {step.velocity or dict(step.joints) or ''}: {step.seconds:g} s")
            if step.word == "move":
                served.move(self._posture("stand", step.joints), last, MOVE_SPEED)
            else:
                served.drive(np.array(step.velocity) if step.word == "velocity" else None)
            return self._go_on(served.command, step.seconds, stopped)
        if served is not None:
            served.pause()
        hangs, kp = "lie" not in self._postures, self._link.decoder.robot.kp
        goal = last.q if hangs else self._postures[step.word]
        motion = PostureMotion(last.q, last.t, goal, kp=kp, soft=soft and not hangs)
        seconds = HOLD_S if hangs and served is not None else motion.seconds
        self._note(f"{step.word}: {seconds:.1f} s" + (f", then {step.seconds:g} s" if step.seconds else ""))
        ended = self._go_on(lambda states: motion.command(states[-1].t), seconds, stopped)
        if ended or not step.seconds:
            return ended
        if served is None:
            return self._go_on(lambda states: motion.command(states[-1].t), step.seconds, stopped)
        served.begin()
        if hangs:  # torques bend its knees; targets alone would let it fall
            served.move(self._postures["stand"], last, RISE_SPEED)
        else:  # without a velocity it steps in place
            served.drive(np.zeros(3))
        return self._go_on(served.command, step.seconds, stopped)

    def _posture(self, name: str, joints: Mapping[str, float]) -> Array:
        """Return a posture with other angles of some joints (na)."""
        angles = self._postures[name].copy()
        for joint, angle in joints.items():
            angles[self._link.decoder.joints.index(joint)] = angle
        return angles

    def _go_on(self, answer: Callable[[Sequence[LowState]], MotorCommand], seconds: float, stopped: Callable[[], bool]) -> str:
        """Answer all states for some time. Return why it ended early, or ''."""
        assert self._last is not None
        until = self._last.t + seconds
        while self._last.t < until:
            if stopped():
                return "stopped by the user"
            states = self._link.states(SILENCE_S)
            if not states:
                if monotonic() - self._last.at > SILENCE_S:
                    return f"no state for {SILENCE_S:g} s"
                continue
            self._last = last = states[-1]
            if problem := self._problem(states):
                return problem
            self._link.send(answer(states), last)
            x, y = last.attitude[:2]
            tilt = np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))
            self._rows.extend((last.at, monotonic() - last.at, float(tilt), float(np.abs(last.tau).max())))
        return ""

    def _problem(self, states: Sequence[LowState]) -> str:
        """Return why the bridge must end now, '' if it may go on."""
        if any(state.stop for state in states):
            return "stopped by the remote control (L2 and B)"
        if self._served is not None and self._served.latched:
            return self._served.problem
        if len(self._rows) // COLUMNS % ALONE_EVERY == 0 and not self._link.is_alone:
            return "another process sends commands, too"
        return next((state.problem for state in states if state.problem), "")

    def _damp(self) -> None:
        """Brake all joints until they rest; without states for a short time."""
        begin, last = monotonic(), self._last
        while last is not None and monotonic() < begin + SINKING_S:
            self._last = last = self._link.state(0.01) or last
            self._link.send(damping(last, KD), last)
            rests = np.abs(last.v).max() < AT_REST and monotonic() - begin > DAMPING_S
            if rests or monotonic() - last.at > DAMPING_S:
                break

    def _report(self, ended: str) -> Report:
        times, delays, tilts, torques = np.array(self._rows).reshape(-1, COLUMNS).T
        counts, served = self._link.decoder, self._served
        missed = max(counts.received - counts.repeated - len(times), 0)
        modes, problem = ({}, "") if served is None else (dict(served.modes), served.problem)
        return Report(len(times), missed, np.diff(times), delays, tilts, torques, modes, ended or problem)
