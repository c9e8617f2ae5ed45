"""The low-level interface of one robot: its newest state in, motor commands out. Arrays are in the order of the model's joints.

A motor adds feedback of its own to the torque:  τ + kp (q* − q) + kd (q̇* − q̇).
"""

from time import monotonic, sleep

import msgspec
import numpy as np

from idyn.errors import ConfigError
from idyn.types import Array, Record
from transport.bridges.unitree.dds import Bus
from transport.bridges.unitree.low_state import LowState, StateDecoder, stops, wishes
from transport.bridges.unitree.messages import COMMAND, REMOTE, STATE, Message, RawLog

DISCOVERY_S = 0.5  # time in which participants on a network find each other [s]

BETWEEN_S = 0.006
"""Longest usual time between two commands [s]: three periods. Until then the joints move on under the old command."""

REMOTE_TOPIC, REMOTE_S = "rt/wirelesscontroller", 0.5
"""Topic of a remote control beside the one in the states, and the time for which its message holds [s]."""

SERVO = 1  # mode of a motor that follows commands
HEAD, LOW_LEVEL = (0xFE, 0xEF), 0xFF  # first bytes of a command of the family `go`, and its level flag


class MotorCommand(Record, frozen=True):
    """What the motors shall do: targets q [rad], v [rad/s] with gains kp [N·m/rad], kd [N·m·s/rad]; torques tau [N·m] (na)."""

    q: Array
    v: Array
    tau: Array
    kp: Array
    kd: Array


def damping(state: LowState, kd: Array) -> MotorCommand:
    """Return the command that brakes all joints. kd: of the motors [N·m·s/rad] (na)"""
    zero = np.zeros_like(state.q)
    return MotorCommand(q=state.q, v=zero, tau=zero, kp=zero, kd=kd)


def bounded(command: MotorCommand, state: LowState, most: Array, age: float = 0.0) -> MotorCommand:
    """Return a command whose motors stay within their limits until the next one, at the speeds of this state.

    Torques and feedback are bounded in sum: first the torque is changed; where that does not suffice, the gains fall.

    most: limits of the torques [N·m] (na); age: of the state [s]
    """
    error, rate = command.q - state.q, command.v - state.v
    feedback = command.kp * error + command.kd * rate
    drift = command.kp * np.abs(state.v) * (BETWEEN_S + age)  # change of the feedback until the next command
    scale = np.minimum(1.0, most / np.maximum(np.abs(feedback) + drift, 1e-9))
    feedback, room = scale * feedback, most - scale * drift
    tau = np.clip(command.tau + feedback, -room, room) - feedback
    return MotorCommand(q=command.q, v=command.v, tau=tau, kp=scale * command.kp, kd=scale * command.kd)


class LowLevel:
    """Reads states and writes commands of one robot. decoder: counts the messages"""

    def __init__(self, decoder: StateDecoder, bus: Bus, log: RawLog | None = None) -> None:
        """log: of all messages

        Raises ConfigError if another process sends commands.
        """
        family = decoder.robot.family
        self.decoder, self._bus, self._log = decoder, bus, log  # without a reference the bus closes
        self._states = bus.reader(STATE, family.state)
        self._commands = bus.reader(COMMAND, family.command)
        self._remotes, self._remote, self._held_s = bus.reader(REMOTE_TOPIC, REMOTE), Message(REMOTE), -np.inf
        sleep(DISCOVERY_S)
        if self._commands.writers:
            raise ConfigError(
                "robot", f"another process sends commands to it ({COMMAND}: {self._commands.writers} writers); see --release"
            )
        self._writer, begin = bus.writer(COMMAND, family.command), monotonic()
        while self._writer.readers < 2 and monotonic() < begin + DISCOVERY_S:  # ours and the robot's, which misses earlier ones
            sleep(0.01)
        self._command = Message(family.command)
        self._command["motor_cmd.mode"] = SERVO * np.isin(np.arange(family.motors), decoder.motors)
        if family.name == "go":
            self._command["head"], self._command["level_flag"] = np.array(HEAD), LOW_LEVEL

    @property
    def is_alone(self) -> bool:
        """Whether no other process sends commands now."""
        return self._commands.writers <= 1  # this one

    def states(self, timeout: float) -> list[LowState]:
        """Return the states that have arrived since the last call, see `StateDecoder`; wait up to `timeout` [s] for one."""
        messages = self._states.take(timeout)
        if self._log is not None:
            self._log.states(messages)
        states = self.decoder.states(messages)
        if told := self._remotes.take():
            self._remote, self._held_s = told[-1], monotonic()
        return [self._steered(state) for state in states] if monotonic() - self._held_s < REMOTE_S else states

    def _steered(self, state: LowState) -> LowState:
        """Return a state with the sticks of the topic, whose buttons stop the robot as those in the state do."""
        left_x, left_y, right_x = (float(self._remote[stick][0]) for stick in ("lx", "ly", "rx"))
        stop = state.stop or stops(int(self._remote["keys"][0]))
        return msgspec.structs.replace(state, stop=stop, sticks=wishes(left_x, left_y, right_x))

    def state(self, timeout: float) -> LowState | None:
        """Return the newest state, see `states`; None without one."""
        found = self.states(timeout)
        return found[-1] if found else None

    def send(self, command: MotorCommand, state: LowState) -> MotorCommand:
        """Send a command, bounded for this state. Return it as sent."""
        command, out = bounded(command, state, self.decoder.robot.model.limits.tau_max, monotonic() - state.at), self._command
        if "mode_machine" in out.layout.places:
            out["mode_machine"] = state.message["mode_machine"]
        for name, values in (("q", command.q), ("dq", command.v), ("tau", command.tau), ("kp", command.kp), ("kd", command.kd)):
            numbers = np.zeros(self.decoder.robot.family.motors)
            numbers[self.decoder.motors] = values
            out[f"motor_cmd.{name}"] = numbers
        data = out.sealed()
        self._writer.write(data)
        if self._log is not None:
            self._log.command(data)
        return command
