"""The bridge: a loop that answers each state of a robot with a motor command, step by step of a script."""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from idyn.errors import IdynError
from idyn.model.robot import STANDARD_GRAVITY
from idyn.types import Array
from transport.bridges.unitree.low_level import LowLevel, MotorCommand, damping
from transport.bridges.unitree.low_state import LowState
from transport.bridges.unitree.robot import UnitreeRobot
from transport.bridges.unitree.script import LEAST_S, MOVE, PostureMotion, Step
from transport.protocol.messages.base import Code
from transport.protocol.messages.command import AnyTask, CommandMessage, PosturePart
from transport.protocol.messages.requests import Stop
from transport.protocol.messages.state import Imu, StateMessage
from transport.protocol.torque_gate import limits_of
from transport.robot.client import RobotClient
from transport.robot.failsafe import DriveCommand, Failsafe, FailsafeMode, drive_command

NEAR = 0.25  # largest torque of the motors' own stiffness, as a share of their limits
VALID_S, REPEAT_NS = 0.5, 50_000_000  # validity of a command [s], and time after which it is sent again [ns]
STICKS = np.array([0.22, 0.14, 0.2])  # ends of a remote control's sticks: forward, left, turn; × g/pace [m/s], × pace [rad/s]


class ServedRobot:
    """Answers states with motor commands of a server.

    modes: number of states by the status of the answer, or by the mode of the failsafe
    problem: why the server does not answer with torques, '' while it does
    latched: the server has stopped the robot until `reset`
    """

    def __init__(self, robot: UnitreeRobot, client: RobotClient) -> None:
        """client: without a session; its hello says that the base is not measured"""
        self._robot, self._client = robot, client
        self._failsafe = Failsafe(damping=robot.kd, limits=limits_of(robot.model.limits))
        self._ends = STICKS * [9.81 / robot.pace, 9.81 / robot.pace, robot.pace]
        self._drive: DriveCommand | None = None
        self._motion: PostureMotion | None = None  # of joints that steps `move` have named
        self._moved: set[str] = set()
        self._order: Array | None = None  # velocity that is commanded (3)
        self._ordered_ns, self._serving, self._remote = 0, False, False
        self.modes: Counter[str] = Counter()
        self.problem, self.latched = "", False

    def begin(self) -> None:
        """Start a session with a robot at rest. Raises ConnectionFailed."""
        self._failsafe.reset()
        self._drive, self._order, self._remote, self._motion, self._moved = None, None, False, None, set()
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
            self._order = self._ends * last.sticks
        self._repeat(last)
        reply = self._client.exchange(_message(states))
        drive, fault = None, False
        if reply is not None:
            drive = drive_command(reply, self._robot.model.na)
            fault = reply.status == "fault"
            self._drive, self.problem = drive, reply.message if fault else ""
        elif self._client.error is not None:
            fault = self.latched = self._client.error.code is Code.LATCHED_FAULT
            self.problem = self._client.error.message
        tau, mode = self._failsafe.torque(now, last.q, last.v, drive, fault=fault)
        self.modes[reply.status if reply is not None and mode is FailsafeMode.OK else f"failsafe:{mode}"] += 1
        return self._with_feedback(tau, mode, last)

    def move(self, joints: Mapping[str, float], state: LowState) -> None:
        """Let a task of the posture move these joints to angles from now on [rad], and earlier ones back to the stance."""
        goal = self._robot.postures["stand"].copy()
        self._moved |= set(joints)
        goal[[self._robot.model.joint_names.index(name) for name in joints]] = [*joints.values()]
        start = state if self._motion is None else replace(state, q=self._motion.wanted(state.t)[0])
        self._motion, self._ordered_ns = PostureMotion(self._robot, start, goal, speed=MOVE), 0

    def _repeat(self, last: LowState) -> None:
        if self._order is None or last.clock_ns - self._ordered_ns < REPEAT_NS:
            return
        self._ordered_ns = now = last.clock_ns  # it increases
        tasks: list[AnyTask] | None = None
        if self._motion is not None:
            rows = [k for k, name in enumerate(self._robot.model.joint_names) if name in self._moved]
            q, v, a = (each[rows].tolist() for each in self._motion.wanted(last.t))
            names = [self._robot.model.joint_names[k] for k in rows]
            tasks = [PosturePart(name="move", joints=names, angles=q, velocity=v, acceleration=a)]
        order, session = self._order.tolist(), self._client.session
        self._client.tell(CommandMessage(session=session, seq=now, valid_for=VALID_S, velocity=order, tasks=tasks))

    def _with_feedback(self, tau: Array, mode: FailsafeMode, state: LowState) -> MotorCommand:
        """Return the command whose torque and feedback are `tau` at this state."""
        last = self._drive
        if mode in (FailsafeMode.DAMPING, FailsafeMode.STOPPED) or last is None or last.posture is None:
            zero = np.zeros_like(tau)
            return MotorCommand(q=state.q, v=zero, tau=tau, kp=zero, kd=zero)
        q, v, kp, kd = last.posture
        near = NEAR * self._robot.model.limits.tau_max / np.maximum(kp, 1e-9)  # tasks may move joints far from the stance
        q = state.q + np.clip(q - state.q, -near, near)
        return MotorCommand(q=q, v=v, tau=tau - kp * (q - state.q) - kd * (v - state.v), kp=kp, kd=kd)


def _message(states: Sequence[LowState]) -> StateMessage:
    last = states[-1]
    gyro, acceleration = (np.mean(rows, axis=0) for rows in zip(*((s.rate, s.acceleration) for s in states), strict=True))
    return StateMessage(
        q=last.q.tobytes(),
        vel=last.v.tobytes(),
        t_robot=last.clock_ns,
        tau_meas=last.tau.tobytes(),
        imu=Imu(quat=last.attitude.tobytes(), gyro=gyro.tobytes(), acc=acceleration.tobytes()),
        temp=last.temperature.tobytes() if last.temperature.any() else None,
        volt=last.voltage or None,
    )


SILENCE_S = 0.1  # time without states after which the bridge damps and ends [s]
START_S = 5.0  # time to wait for the first state [s]

HOLD_S, BEND = 0.25, 0.12
"""Time for which the motors of a robot that hangs bear its weight before a server does [s], and largest angle by which they
move joints then [rad]: straight knees do not feel the ground."""

ALONE_EVERY = 50  # states between two looks for another process that sends commands
COLUMNS = 4  # figures kept of each answered state, 32 bytes: time, delay, tilt, largest torque

DAMPING_S, SINKING_S, AT_REST = 0.2, 2.0, 0.1
"""Shortest and longest time for which a bridge damps before it ends [s]; it ends when no joint is faster than this [rad/s]."""

REST_S, SETTLE_S, STILL, BORNE = 0.2, 5.0, 0.003, 1.0
"""A robot must not fall (largest ||a| − g| [m/s²]) for the first time [s] before it stands up, nor may its joints move farther
than this [rad] before a server gets it; longest time until then [s]."""


Answer = Callable[[Sequence[LowState]], MotorCommand]
"""Returns the command for the newest of these states."""


class Report(NamedTuple):
    """What happened."""

    answered: int  # number of states that were answered
    missed: int  # that arrived together with a later one, which was answered
    periods: Array  # times between answered states [s]
    delays: Array  # from the arrival of a state to its command [s]
    tilts: Array  # angle between the vertical axes of IMU and world [rad]
    torques: Array  # largest |τ| of each answered state [N·m]
    modes: dict[str, int]  # number of served states by the status of the answer, or by the mode of the failsafe
    ended: str  # why the script ended early, or what the server said last; '': it was completed


class Bridge:
    """Does the steps of a script with one robot."""

    def __init__(self, link: LowLevel, note: Callable[[str], None], served: ServedRobot | None = None) -> None:
        """note: called with a line for each step; served: what answers after standing up; None: the motors hold the posture"""
        self._link, self._robot, self._note, self._served = link, link.decoder.robot, note, served
        self._rows, self._missed = array("d"), 0
        self._last: LowState | None = None
        self._still: LowState | None = None  # since which the robot rests

    def run(self, steps: Sequence[Step], stopped: Callable[[], bool] = lambda: False) -> Report:
        """Do the steps; then damp. stopped: whether the user asks to end"""
        self._last = self._link.state(START_S)
        if self._last is None:
            return self._report(f"no state within {START_S:g} s")
        ended = ""
        try:
            if "lie" in self._robot.postures:
                ended = self._go_on(None, SETTLE_S, stopped, np.inf)
                steps = [Step("lie"), *steps]  # the feet slide to their places while they bear little
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
        served, last = self._served, self._last
        assert last is not None
        if step.word in ("velocity", "move", "remote"):
            if served is None:
                return f"the step '{step.word}' needs a server (--connect)"
            self._note(f"{step.word} {step.velocity or dict(step.joints) or ''}: {step.seconds:g} s")
            if step.word == "move":
                served.move(step.joints, last)
            else:
                served.drive(np.array(step.velocity) if step.word == "velocity" else None)
            return self._go_on(served.command, step.seconds, stopped)
        if served is not None:
            served.pause()
        hangs = "lie" not in self._robot.postures
        way = self._robot.postures["stand" if hangs else step.word] - last.q
        if hangs:
            way *= min(1.0, BEND / max(float(np.abs(way).max()), 1e-9)) if served is not None else 0.0
        motion = PostureMotion(self._robot, last, last.q + way, least=HOLD_S if hangs else LEAST_S)
        soft, tau = not (self._rows or hangs), self._robot.bearing(last.q + way) if step.word == "stand" else 0.0
        self._note(f"{step.word}: {motion.seconds:.1f} s" + (f", then {step.seconds:g} s" if step.seconds else ""))
        ended = self._go_on(lambda states: motion.command(states[-1].t, soft, tau), motion.seconds, stopped)
        if ended or not step.seconds:
            return ended

        def hold(states: Sequence[LowState]) -> MotorCommand:
            return motion.command(states[-1].t, tau=tau)

        if served is None:
            return self._go_on(hold, step.seconds, stopped)
        if not hangs and (ended := self._go_on(hold, SETTLE_S, stopped, STILL)):
            return ended
        served.begin()
        served.drive(np.zeros(3))  # without a velocity it steps in place
        return self._go_on(served.command, step.seconds, stopped)

    def _go_on(self, answer: Answer | None, seconds: float, stopped: Callable[[], bool], still: float = 0.0) -> str:
        """Answer all states for some time, or until the robot rests. Return why it ended early, or ''.

        still: largest motion of a joint of a robot at rest [rad]; 0: for the whole time
        """
        assert self._last is not None
        until, self._still = self._last.t + seconds, None
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
            if still and self._rests(last, still):
                return ""
            if answer is None:
                continue
            self._link.send(answer(states), last)
            self._missed += len(states) - 1
            x, y = last.attitude[:2]
            tilt = np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))
            self._rows.extend((last.at, monotonic() - last.at, float(tilt), float(np.abs(last.tau).max())))
        return f"the robot does not come to rest within {seconds:g} s" if still else ""

    def _rests(self, state: LowState, still: float) -> bool:
        since = self._still or state
        borne = abs(float(np.linalg.norm(state.acceleration)) - STANDARD_GRAVITY) < BORNE
        self._still = since if borne and np.abs(state.q - since.q).max() < still else state
        return state.t - self._still.t >= REST_S

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
            self._link.send(damping(last, self._robot.kd), last)
            rests = np.abs(last.v).max() < AT_REST and monotonic() - begin > DAMPING_S
            if rests or monotonic() - last.at > DAMPING_S:
                break

    def _report(self, ended: str) -> Report:
        times, delays, tilts, torques = np.array(self._rows).reshape(-1, COLUMNS).T
        served = self._served
        modes, problem = ({}, "") if served is None else (dict(served.modes), served.problem)
        return Report(len(times), self._missed, np.diff(times), delays, tilts, torques, modes, ended or problem)
