"""The low-level interface of one robot: its newest state in, motor commands out. Arrays are in the order of the model's joints.

A motor adds feedback of its own to the torque:  τ + kp (q* − q) + kd (q̇* − q̇).
"""

from collections.abc import Sequence
from time import monotonic, sleep

import numpy as np

from idyn.errors import ConfigError
from idyn.types import Array, Record
from transport.unitree.clock import RobotClock
from transport.unitree.dds import Bus
from transport.unitree.layout import Message
from transport.unitree.robots import UnitreeRobot

STATE, COMMAND = "rt/lowstate", "rt/lowcmd"

DISCOVERY_S = 0.5
"""Time in which participants on a network find each other [s]."""

REPEATED_NS = 20_000_000
"""Time for which a state that repeats the one before is left out [ns]; then the robot rests."""

BETWEEN_S = 0.006
"""Longest usual time between two commands [s]: three periods. Until then the joints move on under the old command."""

STOP_BUTTONS = 1 << 5 | 1 << 9
"""L2 and B of the remote control, in its 16 bits of buttons."""

SERVO = 1
"""Mode of a motor that follows commands."""

HEAD, LOW_LEVEL = (0xFE, 0xEF), 0xFF
"""First bytes of a command of the family `go`, and its level flag."""


class LowState(Record, frozen=True):
    """A state as the robot measured it.

    at: time of arrival by the monotonic clock [s]; clock_ns: the robot's own time [ns]
    q, v, tau: angle [rad], speed [rad/s] and torque [N·m] of each joint (na)
    attitude: of the IMU, quaternion x, y, z, w (4)
    rate, acceleration: in the axes of the IMU [rad/s] (3), [m/s²] (3); the acceleration is that of free fall subtracted
    temperature: hottest of each motor [°C] (na); voltage: of the supply [V], 0: not reported
    stop: whether L2 and B of the remote control are pressed
    message: all of it
    """

    at: float
    clock_ns: int
    q: Array
    v: Array
    tau: Array
    attitude: Array
    rate: Array
    acceleration: Array
    temperature: Array
    voltage: float
    stop: bool
    message: Message


class MotorCommand(Record, frozen=True):
    """What the motors shall do: targets q [rad], v [rad/s] with gains kp [N·m/rad], kd [N·m·s/rad]; torques tau [N·m] (na)."""

    q: Array
    v: Array
    tau: Array
    kp: Array
    kd: Array


def damping(state: LowState, kd: float) -> MotorCommand:
    """Return the command that brakes all joints."""
    zero = np.zeros_like(state.q)
    return MotorCommand(q=state.q, v=zero, tau=zero, kp=zero, kd=np.full_like(zero, kd))


def bounded(command: MotorCommand, state: LowState, most: Array) -> MotorCommand:
    """Return a command whose motors stay within their limits until the next one, at the speeds of this state.

    Torques and feedback are bounded in sum: first the torque is changed; where that does not suffice, the gains fall.

    most: limits of the torques [N·m] (na)
    """
    error, rate = command.q - state.q, command.v - state.v
    feedback = command.kp * error + command.kd * rate
    drift = command.kp * np.abs(state.v) * BETWEEN_S  # change of the feedback until the next command
    scale = np.minimum(1.0, most / np.maximum(np.abs(feedback) + drift, 1e-9))
    feedback, room = scale * feedback, most - scale * drift
    tau = np.clip(command.tau + feedback, -room, room) - feedback
    return MotorCommand(q=command.q, v=command.v, tau=tau, kp=scale * command.kp, kd=scale * command.kd)


class LowLevel:
    """Reads states and writes commands of one robot."""

    def __init__(self, robot: UnitreeRobot, joints: Sequence[str], most: Array, bus: Bus) -> None:
        """joints: of the model, in its order; most: limits of their torques [N·m] (na)

        Raises ConfigError for joints that no motor drives, and if another process sends commands.
        """
        missing = [name for name in joints if name not in robot.joints]
        if missing:
            raise ConfigError("joints", f"no motor of this robot drives {', '.join(missing)}")
        self._robot, self.most, self._bus = robot, most, bus  # without a reference the bus closes
        self._motors = np.array([robot.joints.index(name) for name in joints], np.int64)
        self._states = bus.reader(STATE, robot.family.state)
        commands = bus.reader(COMMAND, robot.family.command)
        sleep(DISCOVERY_S)
        if commands.writers:
            raise ConfigError("robot", f"another process sends commands to it ({COMMAND}: {commands.writers} writers)")
        self._writer = bus.writer(COMMAND, robot.family.command)
        self._command = Message(robot.family.command)
        self._command["motor_cmd.mode"] = SERVO * np.isin(np.arange(robot.family.motors), self._motors)
        if robot.family.name == "go":
            self._command["head"], self._command["level_flag"] = np.array(HEAD), LOW_LEVEL
        self._clock = RobotClock()
        self._seen, self._seen_ns = bytearray(), 0
        self.received = self.wrong = self.repeated = 0

    def states(self, timeout: float) -> list[LowState]:
        """Return the states that have arrived since the last call, the oldest first; wait up to `timeout` [s] for one. States
        with a wrong checksum are counted and left out. So are those that repeat the one before, for up to 20 ms: a simulator
        sends them when it has not gone on."""
        found = []
        for message in self._states.take(timeout):
            self.received += 1
            if message["crc"][0] and not message.is_sound:  # Unitree's simulator sends 0
                self.wrong += 1
            elif message.data == self._seen and message.sent_ns - self._seen_ns < REPEATED_NS:
                self.repeated += 1
            else:
                self._seen, self._seen_ns = message.data, message.sent_ns
                found.append(self._read(message))
        return found

    def state(self, timeout: float) -> LowState | None:
        """Return the newest state, see `states`; None without one."""
        found = self.states(timeout)
        return found[-1] if found else None

    def _read(self, message: Message) -> LowState:
        w, x, y, z = message["imu_state.quaternion"].tolist()
        low, high = message["wireless_remote"][2:4].tolist()
        motors = message["motor_state.temperature"].astype(np.float64)
        return LowState(
            at=monotonic(),
            clock_ns=self._clock.time_ns(int(message["tick"][0]), message.sent_ns),
            q=self._of_motors(message, "q"),
            v=self._of_motors(message, "dq"),
            tau=self._of_motors(message, "tau_est"),
            attitude=np.array([x, y, z, w]),
            rate=message["imu_state.gyroscope"].astype(np.float64),
            acceleration=message["imu_state.accelerometer"].astype(np.float64),
            temperature=motors.reshape(self._robot.family.motors, -1).max(axis=1)[self._motors],
            voltage=float(message["power_v"][0]) if "power_v" in message.layout.places else 0.0,
            stop=(low | high << 8) & STOP_BUTTONS == STOP_BUTTONS,
            message=message,
        )

    def _of_motors(self, message: Message, name: str) -> Array:
        found: Array = message[f"motor_state.{name}"][self._motors].astype(np.float64)
        return found

    def send(self, command: MotorCommand, state: LowState) -> MotorCommand:
        """Send a command, bounded for this state. Return it as sent."""
        command, out = bounded(command, state, self.most), self._command
        if "mode_machine" in out.layout.places:
            out["mode_machine"] = state.message["mode_machine"]
        for name, values in (("q", command.q), ("dq", command.v), ("tau", command.tau), ("kp", command.kp), ("kd", command.kd)):
            numbers = np.zeros(self._robot.family.motors)
            numbers[self._motors] = values
            out[f"motor_cmd.{name}"] = numbers
        self._writer.write(out.sealed())
        return command
