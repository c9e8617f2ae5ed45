"""States of a robot as its own sensors measured them. Arrays are in the order of the model's joints."""

from collections.abc import Iterable
from time import monotonic

import numpy as np

from idyn.types import Array, Record
from transport.bridges.unitree.messages import Message
from transport.bridges.unitree.robot import UnitreeRobot

PERIOD_NS = 2_000_000  # period of the states [ns]
WRAP = 2**32  # number of values of the robot's tick
MILLISECOND_NS = 1_000_000  # unit of the tick [ns]
MOVING = 0.3  # norm of the joint speeds at which motion and times of sending count equally [rad/s]
MOST_PERIODS = 50  # longest time between two states by their motion; after a longer pause the times of sending count [periods]


class RobotClock:
    """Time by the robot's tick [ms], which wraps. Without a tick, for a simulator that sends none: by motion, or, at rest, by
    the times of sending.

    A simulator that has fallen behind makes its steps up at once. Between two states then lies more time than between their
    times of sending, and less between the next ones. The joints tell how much, Δq = n T v̄, with T the period of a state and v̄
    the mean speed, so that angles and speeds agree. Times of sending still pull the clock, so that both do not drift apart.
    """

    def __init__(self) -> None:
        self._ns: int | None = None
        self._tick = self._first = 0
        self._q = self._v = np.zeros(0)

    def time_ns(self, tick: int, sent_ns: int, q: Array, v: Array) -> int:
        """Return the time of the next state [ns], later than that of the one before.

        tick: of the state, 0: the robot has none; sent_ns: time of sending by the sender's clock [ns]
        q, v: angles [rad] and speeds [rad/s] of the joints
        """
        if self._ns is None:
            self._ns = self._first = sent_ns
        elif tick:
            self._ns += max((tick - self._tick) % WRAP * MILLISECOND_NS, 1)
        else:
            self._ns += max(round(self._periods(sent_ns - self._ns, q, v)), 1) * PERIOD_NS
        self._tick, self._q, self._v = tick, q, v
        return self._ns

    def step(self, q: Array, v: Array) -> float:
        """Return the time since the last state by the motion of the joints [periods], for a simulator's q ← q + T v; 1 at rest.

        Less than 1: some joints are still those of the last state.
        """
        squared = float(v @ v)
        if self._ns is None or squared < MOVING**2:
            return 1.0
        return float((q - self._q) @ v) / squared / (1e-9 * PERIOD_NS)

    def _periods(self, sent_ns: int, q: Array, v: Array) -> float:
        """Return the time since the last state [periods]. sent_ns: time of sending since the last state's time [ns]"""
        by_sending, mean = sent_ns / PERIOD_NS, 0.5 * (self._v + v)
        squared = float(mean @ mean)
        if squared == 0.0 or by_sending > MOST_PERIODS:
            return by_sending
        by_motion = float((q - self._q) @ mean) / squared / (1e-9 * PERIOD_NS)
        share = squared / (squared + MOVING**2)
        return share * min(max(by_motion, 1.0), MOST_PERIODS) + (1.0 - share) * by_sending


REPEATED_NS = 20_000_000  # time for which a state that repeats the one before is left out [ns]; then the robot rests

MID_STEP_NS, WHOLE = 5_000_000, 0.75
"""Time after a state in which one in the middle of a simulator's step may follow [ns]; least share of a step of a whole one."""

STOP_BUTTONS = 1 << 5 | 1 << 9  # L2 and B of the remote control, in its 16 bits of buttons
FROZEN = 25  # number of states after which an IMU that sends the same numbers is broken; its noise changes the last digits
MOST_LOST = 100  # largest number of commands that a motor may lose


class LowState(Record, frozen=True):
    """A state as the robot measured it."""

    at: float  # time of arrival by the monotonic clock [s]
    clock_ns: int  # the robot's own time [ns]
    # q, v, tau: angle [rad], speed [rad/s] and torque [N·m] of each joint (na)
    q: Array
    v: Array
    tau: Array
    attitude: Array  # of the IMU, quaternion x, y, z, w (4)
    # rate, acceleration: in the axes of the IMU [rad/s] (3), [m/s²] (3); the acceleration is that of free fall subtracted
    rate: Array
    acceleration: Array
    temperature: Array  # hottest of each motor [°C] (na)
    voltage: float  # of the supply [V], 0: not reported
    stop: bool  # whether L2 and B of the remote control are pressed
    sticks: Array  # its wishes forward, left and turn, −1 to 1 (3)
    problem: str  # what is broken, '' if nothing is
    message: Message  # all of it

    @property
    def t(self) -> float:
        """The robot's own time [s]."""
        return 1e-9 * self.clock_ns


class StateDecoder:
    """Reads the states of one robot from its messages, the oldest first.

    wrong: number of messages with a wrong checksum; repeated: that repeat the one before
    """

    def __init__(self, robot: UnitreeRobot) -> None:
        self.robot, self.joints = robot, robot.model.joint_names
        self.motors = np.array([robot.motors.index(name) for name in self.joints], np.int64)
        self._clock = RobotClock()
        self._seen, self._seen_ns = bytearray(), 0
        self._imu, self._angles, self._frozen = b"", b"", 0
        self._lost: Array | None = None
        self.wrong = self.repeated = 0

    def states(self, messages: Iterable[Message]) -> list[LowState]:
        """Return the states of messages. States with a wrong checksum are counted and left out. So are those that repeat the
        one before, for up to 20 ms: a simulator sends them when it has not gone on, or is in the middle of a step."""
        found = []
        for message in messages:
            if message["crc"][0] and not message.is_sound:  # Unitree's simulator sends 0
                self.wrong += 1
            elif message.sent_ns - self._seen_ns < REPEATED_NS and self._repeats(message):
                self.repeated += 1
            else:
                self._seen, self._seen_ns = message.data, message.sent_ns
                found.append(self._state(message))
        return found

    def _repeats(self, message: Message) -> bool:
        """Whether a message is that of the last state; or, without a tick, has less than a step more of its motion."""
        if message.data == self._seen:
            return True
        if message["tick"][0] or message.sent_ns - self._seen_ns > MID_STEP_NS:
            return False
        return self._clock.step(self._of_motors(message, "q"), self._of_motors(message, "dq")) < WHOLE

    def _state(self, message: Message) -> LowState:
        w, x, y, z = message["imu_state.quaternion"].tolist()
        remote = message["wireless_remote"].astype(np.uint8).tobytes()
        motors = message["motor_state.temperature"].astype(np.float64)
        q, v = self._of_motors(message, "q"), self._of_motors(message, "dq")
        return LowState(
            at=monotonic(),
            clock_ns=self._clock.time_ns(int(message["tick"][0]), message.sent_ns, q, v),
            q=q,
            v=v,
            tau=self._of_motors(message, "tau_est"),
            attitude=np.array([x, y, z, w]),
            rate=message["imu_state.gyroscope"].astype(np.float64),
            acceleration=message["imu_state.accelerometer"].astype(np.float64),
            temperature=motors.reshape(self.robot.family.motors, -1).max(axis=1)[self.motors],
            voltage=float(message["power_v"][0]) if "power_v" in message.layout.places else 0.0,
            stop=stops(int.from_bytes(remote[2:4], "little")),
            sticks=wishes(*np.frombuffer(remote, "<f4", 5, 4)[[0, 4, 1]].tolist()),
            problem=self._problem(message),
            message=message,
        )

    def _of_motors(self, message: Message, name: str) -> Array:
        found: Array = message[f"motor_state.{name}"][self.motors].astype(np.float64)
        return found

    def _problem(self, message: Message) -> str:
        """Return what the robot's own diagnostics, or an IMU that repeats itself, say is broken."""
        imu = b"".join(message[f"imu_state.{name}"].tobytes() for name in ("quaternion", "gyroscope", "accelerometer"))
        angles = message["motor_state.q"].tobytes()
        self._frozen = 0 if imu != self._imu else self._frozen + (angles != self._angles)
        self._imu, self._angles = imu, angles
        if self._frozen >= FROZEN:
            return f"the IMU repeats itself: {self._frozen} states with the same numbers, while joints change"
        if "motor_state.motorstate" in message.layout.places:
            errors = message["motor_state.motorstate"][self.motors]
            if errors.any():
                k = int(errors.argmax())
                return f"the motor of {self.joints[k]} reports the error {int(errors[k])}"
            return ""
        lost = message["motor_state.lost"][self.motors].astype(np.int64)
        self._lost = lost if self._lost is None else self._lost
        k = int((lost - self._lost).argmax())
        if lost[k] - self._lost[k] > MOST_LOST:
            return f"the motor of {self.joints[k]} has lost {lost[k] - self._lost[k]} commands"
        return ""


def stops(buttons: int) -> bool:
    """Return whether the buttons that stop the robot are pressed."""
    return buttons & STOP_BUTTONS == STOP_BUTTONS


def wishes(left_x: float, left_y: float, right_x: float) -> Array:
    """Return the wishes of a remote control: forward and left by the left stick, turn by the right one (3)."""
    return np.clip(np.nan_to_num([left_y, -left_x, -right_x]), -1.0, 1.0)
