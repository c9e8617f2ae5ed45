"""The bridge: a loop that answers each state of a robot with a motor command, step by step of a script."""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

import numpy as np

from idyn.errors import IdynError
from idyn.model.robot import Robot
from idyn.types import Array
from transport.bridges.unitree.low_level import LowLevel, MotorCommand, damping
from transport.bridges.unitree.low_state import LowState
from transport.bridges.unitree.script import KD, PostureMotion, Step, Wanted
from transport.protocol.messages.base import Code
from transport.protocol.messages.command import CommandMessage
from transport.protocol.messages.requests import Stop
from transport.protocol.messages.state import Imu, Reference, StateMessage
from transport.protocol.torque_gate import limits_of
from transport.robot.client import RobotClient
from transport.robot.failsafe import DriveCommand, Failsafe, FailsafeMode, drive_command

VELOCITY_S, REPEAT_NS = 0.5, 50_000_000  # validity of a velocity command [s], and time after which it is sent again [ns]
STICKS = np.array([0.4, 0.25, 1.0])  # velocities at the ends of the remote control's sticks: forward, left [m/s], turn [rad/s]


class ServedRobot:
    """Answers states with motor commands of a server.

    modes: number of states by the status of the answer, or by the mode of the failsafe
    problem: why the server does not answer with torques, '' while it does
    latched: the server has stopped the robot until `reset`
    """

    def __init__(self, robot: Robot, client: RobotClient, kd: float) -> None:
        """client: without a session; its hello says that the base is not measured
        kd: damping of the failsafe [N·m·s/rad]
        """
        self._robot, self._client = robot, client
        self._failsafe = Failsafe(damping=np.full(robot.na, kd), limits=limits_of(robot.limits))
        self._drive: DriveCommand | None = None
        self._motion: PostureMotion | None = None  # of the reference
        self._order: Array | None = None  # velocity that is commanded (3)
        self._ordered_ns, self._serving, self._remote = 0, False, False
        self.modes: Counter[str] = Counter()
        self.problem, self.latched = "", False

    def begin(self) -> None:
        """Start a session with a robot at rest. Raises ConnectionFailed."""
        self._failsafe.reset()
        self._drive, self._order, self._remote, self._motion = None, None, False, None
        self._client.hello()
        self._serving = True

    def pause(self) -> None:
        """End the session, if there is one; `begin` may start another one."""
        if self._serving:
            self._client.ask(Stop(session=self._client.session))
            self._serving = False

    def end(self) -> None:
        """Disconnect."""
        self._client.close()

    def drive(self, velocity: Array | None) -> None:
        """Command the velocity of the base from now on: forward, left [m/s], turn [rad/s] (3); None: by the remote control."""
        self._order, self._ordered_ns, self._remote = velocity, 0, velocity is None

    def command(self, states: Sequence[LowState]) -> MotorCommand:
        """Return the motor command for the newest of these states. Of the others the IMU's readings are used."""
        last = states[-1]
        now = last.clock_ns
        if self._remote:
            self._order = STICKS * last.sticks
        self._repeat(now)
        reply = self._client.exchange(_message(states, None if self._motion is None else self._motion.wanted(last.t)))
        drive, fault = None, False
        if reply is not None:
            drive = drive_command(reply, self._robot.na)
            fault = reply.status == "fault"
            self._drive, self.problem = drive, reply.message if fault else ""
        elif self._client.error is not None:
            fault = self.latched = self._client.error.code is Code.LATCHED_FAULT
            self.problem = self._client.error.message
        tau, mode = self._failsafe.torque(now, last.q, last.v, drive, fault=fault)
        self.modes[reply.status if reply is not None and mode is FailsafeMode.OK else f"failsafe:{mode}"] += 1
        return self._with_feedback(tau, mode, last)

    def move(self, goal: Array, state: LowState, speed: float) -> None:
        """Let the reference of the joints go to these angles from now on [rad] (na). speed: see `PostureMotion` [rad/s]"""
        start = state.q if self._motion is None else self._motion.wanted(state.t).q
        self._motion = PostureMotion(start, state.t, goal, kp=0.0, speed=speed)

    def _repeat(self, now_ns: int) -> None:
        if self._order is None or now_ns - self._ordered_ns < REPEAT_NS:
            return
        self._ordered_ns = now_ns
        order, number = self._order.tolist(), now_ns  # it increases
        self._client.tell(CommandMessage(session=self._client.session, seq=number, valid_for=VELOCITY_S, velocity=order))

    def _with_feedback(self, tau: Array, mode: FailsafeMode, state: LowState) -> MotorCommand:
        """Return the command whose torque and feedback are `tau` at this state."""
        last = self._drive
        if mode in (FailsafeMode.DAMPING, FailsafeMode.STOPPED) or last is None or last.posture is None:
            zero = np.zeros_like(tau)
            return MotorCommand(q=state.q, v=zero, tau=tau, kp=zero, kd=zero)
        q, v, kp, kd = last.posture
        return MotorCommand(q=q, v=v, tau=tau - kp * (q - state.q) - kd * (v - state.v), kp=kp, kd=kd)


def _message(states: Sequence[LowState], wanted: Wanted | None) -> StateMessage:
    last = states[-1]
    gyro, acceleration = (np.mean(rows, axis=0) for rows in zip(*((s.rate, s.acceleration) for s in states), strict=True))
    return StateMessage(
        q=last.q.tobytes(),
        vel=last.v.tobytes(),
        t_robot=last.clock_ns,
        tau_meas=last.tau.tobytes(),
        ref=None if wanted is None else Reference(q=wanted.q.tobytes(), v=wanted.v.tobytes(), a=wanted.a.tobytes()),
        imu=Imu(quat=last.attitude.tobytes(), gyro=gyro.tobytes(), acc=acceleration.tobytes()),
        temp=last.temperature.tobytes() if last.temperature.any() else None,
        volt=last.voltage or None,
    )


SILENCE_S = 0.1  # time without states after which the bridge damps and ends [s]
START_S = 5.0  # time to wait for the first state [s]

HOLD_S, RISE_SPEED, MOVE_SPEED = 0.3, 0.1, 0.5
"""Time for which the motors of a robot that hangs hold it before torques do [s]; speeds of its knees then, and of a step
`move` [rad/s]."""

ALONE_EVERY = 50  # states between two looks for another process that sends commands
COLUMNS = 4  # figures kept of each answered state, 32 bytes: time, delay, tilt, largest torque

DAMPING_S, SINKING_S, AT_REST = 0.2, 2.0, 0.1
"""Shortest and longest time for which a bridge damps before it ends [s]; it ends when no joint is faster than this [rad/s]."""


class Report(NamedTuple):
    """What happened."""

    answered: int  # number of states that were answered
    missed: int  # that arrived together with a later one
    periods: Array  # times between answered states [s]
    delays: Array  # from the arrival of a state to its command [s]
    tilts: Array  # angle between the vertical axes of IMU and world [rad]
    torques: Array  # largest |τ| of each answered state [N·m]
    modes: dict[str, int]  # number of served states by the status of the answer, or by the mode of the failsafe
    ended: str  # why the script ended early, or what the server said last; '': it was completed


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
