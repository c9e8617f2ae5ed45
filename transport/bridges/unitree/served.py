"""A robot whose torques come from an idyn server: it sends what its own sensors say, answers become motor commands.

The server estimates the base from the IMU, the joints and their torques.

The motor's own feedback goes on between two answers. The torque that is sent leaves out what this feedback adds at the measured
state, so that their sum there is the torque of the server, or of the failsafe while answers are missing.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array
from transport.bridges.unitree.low_level import MotorCommand
from transport.bridges.unitree.low_state import LowState
from transport.bridges.unitree.script import PostureMotion, Wanted
from transport.protocol.messages.command import CommandMessage
from transport.protocol.messages.error import Code
from transport.protocol.messages.requests import Stop
from transport.protocol.messages.state import Imu, Reference, StateMessage
from transport.protocol.torque_gate import limits_of
from transport.robot.client import RobotClient
from transport.robot.failsafe import DriveCommand, Failsafe, FailsafeMode, drive_command

VELOCITY_S, REPEAT_NS = 0.5, 50_000_000
"""Validity of a velocity command [s], and time after which it is sent again [ns]."""

STICKS = np.array([0.4, 0.25, 1.0])
"""Velocities at the ends of the remote control's sticks: forward, left [m/s], turn [rad/s]."""


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
        self._failsafe.warm_up()
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
        """Send the velocity again before it expires."""
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
    """Return the message for the newest of these states, with the mean readings of the IMU. wanted: reference of the joints"""
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
