"""A client of an idyn server that needs pyzmq and msgpack only.

`Client.tick` is called once per period with the measured state and returns the torques to apply. It starts the session, sends
the state, waits a bounded time for the answer and keeps the robot safe without one. The last joints of q and vel are those
with motors, as in a robot on a free base.
"""

import math
import time
from array import array
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgpack  # type: ignore[import-untyped]
import zmq

RETRY_NS = 100_000_000
"""Interval at which `hello` and `reset` are repeated until they succeed [ns]."""

FADE_NS, STOP_NS = 50_000_000, 100_000_000
"""Without answers: time in which the last torque fades, and time after which the robot is stopped until `reset` [ns]."""

GIVE_WAY = 0.6
"""Largest distance of a joint from its resting posture; beyond it the robot damps [rad]."""

Message = dict[str, Any]
Vector = list[float]


class Phase(Enum):
    ABSENT = "absent"  # no session: `hello` is sent
    RUNNING = "running"
    LATCHED = "latched"  # stopped until `reset`, by the server or by this side


@dataclass
class Robot:
    """hello: what the client says of itself and its robot (without `t` and `v`); damping of each motor [N·m·s/rad]"""

    hello: Message
    damping: float

    @property
    def na(self) -> int:
        return len(self.hello["actuated"])


@dataclass
class Answer:
    """What the drives need of a `torque`. posture: rows q_ref, v_ref, kp, kd; None: damp without answers"""

    tau: Vector
    posture: tuple[Vector, Vector, Vector, Vector] | None
    t_ns: int
    until_ns: int
    damps: bool


def floats(value: bytes | list[float], n: int) -> Vector:
    """Return a vector of a message. Raises ValueError for a wrong length and for numbers that are not finite."""
    numbers = list(array("d", value)) if isinstance(value, bytes) else [float(each) for each in value]
    if len(numbers) != n or not all(map(math.isfinite, numbers)):
        raise ValueError(f"expected {n} finite numbers")
    return numbers


class Failsafe:
    """Chooses the torque of every tick: docs/concepts/safety.md#between-answers."""

    def __init__(self, na: int, damping: float) -> None:
        self.na, self.damping = na, damping
        self.limits: list[Vector] = [[math.inf] * na, [math.inf] * na]  # of the welcome: tau_max, dtau_max
        self.sent: tuple[int, Vector] | None = None  # time and torques of the last tick
        self.reset()

    def reset(self) -> None:
        self.last: Answer | None = None
        self.latched = ""  # "stopped" or "damping", until `reset`

    def torque(self, now: int, q: Vector, v: Vector, answer: Answer | None, fault: bool) -> Vector:
        """now: robot's clock [ns]; q, v: of the motors; fault: the server stopped the robot"""
        if not self.latched and self.last and now - self.last.t_ns >= STOP_NS:
            self.latched = "stopped"
        elif not self.latched and fault:
            self.latched = "damping"
        if answer and not self.latched:
            self.last = answer
            tau = answer.tau
        else:
            tau = self._without_answer(now, q, v)
        self.sent = now, self._gate(now, tau)
        return self.sent[1]

    def _without_answer(self, now: int, q: Vector, v: Vector) -> Vector:
        damping = [-self.damping * each for each in v]
        last = self.last
        if not last or last.damps or not last.posture or self.latched == "damping":
            return damping
        q_ref, v_ref, kp, kd = last.posture
        t = (min(now, last.until_ns) - last.t_ns) * 1e-9
        error = [a + b * t - c for a, b, c in zip(q_ref, v_ref, q, strict=True)]
        if now < last.until_ns and not self.latched:  # follow
            return [last.tau[i] + kp[i] * error[i] + kd[i] * (v_ref[i] - v[i]) for i in range(self.na)]
        if max(map(abs, error)) > GIVE_WAY:
            self.latched = "damping"
            return damping
        share = max(0.0, 1.0 - (now - last.until_ns) / FADE_NS)  # rest
        return [share * last.tau[i] + kp[i] * error[i] - max(kd[i], self.damping) * v[i] for i in range(self.na)]

    def _gate(self, now: int, tau: Vector) -> Vector:
        """Limit the torque's rate, then the torque."""
        passed = [each if math.isfinite(each) else 0.0 for each in tau]
        tau_max, dtau_max = self.limits
        if self.sent:
            dt = (now - self.sent[0]) * 1e-9
            for i, before in enumerate(self.sent[1]):
                passed[i] = min(max(passed[i], before - dtau_max[i] * dt), before + dtau_max[i] * dt)
        return [min(max(each, -most), most) for each, most in zip(passed, tau_max, strict=True)]


class Client:
    """A connection to a server. phase; status and message of the last torque; refusal: the last `error`, '' without one"""

    def __init__(self, endpoint: str, robot: Robot, deadline_ms: int = 2) -> None:
        """deadline_ms: time to wait for an answer in each tick [ms]"""
        self.robot, self.deadline_ms = robot, deadline_ms
        self.failsafe = Failsafe(robot.na, robot.damping)
        self.phase, self.status, self.message, self.refusal = Phase.ABSENT, "", "", ""
        self.session = self.seq = self.applied = 0
        self._asked_ns = -RETRY_NS
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # without a server nothing is queued
        self._socket.setsockopt(zmq.LINGER, 100)
        self._socket.connect(endpoint)

    def tick(self, now: int, q: Vector, vel: Vector, contacts: list[Message]) -> Vector:
        """Send the state and return the torques to apply now [N·m] (na).

        now: time of the measurement, a monotonic clock [ns]; q (nq), vel (nv): as in the protocol
        """
        na = self.robot.na
        if self.phase is Phase.ABSENT:
            if now - self._asked_ns >= RETRY_NS:
                self._asked_ns = now
                self._send({"t": "hello"} | self.robot.hello)
        else:
            self._send_state(now, q, vel, contacts)
        answer, fault = self._listen()
        tau = self.failsafe.torque(now, q[-na:], vel[-na:], answer, fault)
        if answer and not self.failsafe.latched:
            self.applied = self.seq
        if self.failsafe.latched and self.phase is Phase.RUNNING:
            self.phase = Phase.LATCHED
        return tau

    def reset(self, now: int, q: Vector, vel: Vector) -> None:
        """Ask the server to release the robot. Call it in phase LATCHED, when the robot is at rest and may move again."""
        if self.phase is Phase.LATCHED and now - self._asked_ns >= RETRY_NS:
            self._asked_ns = now
            self._send({"t": "reset", "session": self.session, "q": pack(q), "vel": pack(vel)})

    def close(self) -> None:
        """Give control back and disconnect."""
        if self.session:
            self._send({"t": "stop", "session": self.session})
            self._socket.poll(100)
        self._socket.close()

    def _send_state(self, now: int, q: Vector, vel: Vector, contacts: list[Message]) -> None:
        self.seq += 1
        state = {"t": "state", "session": self.session, "seq": self.seq, "t_robot": now, "q": pack(q), "vel": pack(vel)}
        state |= {"contacts": contacts, "last_applied_seq": self.applied, "t_send": time.monotonic_ns()}
        if self.failsafe.sent:
            state["tau_applied"] = pack(self.failsafe.sent[1])
        self._send(state)

    def _send(self, message: Message) -> None:
        try:
            self._socket.send(msgpack.packb(message | {"v": "1.2"}), zmq.NOBLOCK)
        except zmq.Again:
            self.refusal = "no server"

    def _listen(self) -> tuple[Answer | None, bool]:
        """Read messages until the answer to this tick's message, or until the deadline. Return (answer, fault)."""
        limit = time.monotonic_ns() + self.deadline_ms * 1_000_000
        while self._socket.poll(max(0, -((time.monotonic_ns() - limit) // 1_000_000))):
            message = msgpack.unpackb(self._socket.recv())
            kind = message["t"]
            if kind == "welcome":
                if self.phase is not Phase.ABSENT and message["session"] == self.session:
                    continue  # a repeated hello is answered again: that session goes on
                self._begin(message)
                break
            if kind == "reset_ack":
                self.failsafe.reset()
                self.phase = Phase.RUNNING
            elif kind == "stop_ack" and message["reason"]:  # the server ends
                self.phase, self.refusal = Phase.ABSENT, message["reason"]
                break
            elif kind == "error" and message["seq"] in (None, self.seq):
                self.refusal = f"{message['code']}: {message['message']}"
                if message["code"] == "not_controlling":  # also after a restart of the server
                    self.phase = Phase.ABSENT
                if message["seq"] is not None or self.phase is Phase.ABSENT:
                    return None, message["code"] == "latched_fault"
            elif kind == "torque" and (message["session"], message["seq"]) == (self.session, self.seq):
                return self._read(message)
        return None, False

    def _begin(self, welcome: Message) -> None:
        """Start a session. A robot that is stopped, on either side, stays stopped until `reset`."""
        self.session, self.seq, self.applied, self.refusal = welcome["session"], 0, 0, ""
        limits = (welcome["limits"][name] for name in ("tau_max", "dtau_max"))
        self.failsafe.limits = [list(array("d", each)) for each in limits]  # inf: no limit
        stopped = welcome["mode"] == "latched" or self.failsafe.latched
        self.phase = Phase.LATCHED if stopped else Phase.RUNNING

    def _read(self, torque: Message) -> tuple[Answer | None, bool]:
        """Return the answer, None when its torque must not be applied, and whether it reports a fault."""
        self.status, self.message = torque["status"], torque["message"]
        if torque["dry_run"]:
            return None, False
        na, ref, kp, kd = self.robot.na, torque["ref"], torque["kp"], torque["kd"]
        try:
            posture = None
            if ref and kp and kd:
                posture = floats(ref["q"], na), floats(ref["v"], na), floats(kp, na), floats(kd, na)
            damps = self.status in ("damping", "fault")
            answer = Answer(floats(torque["tau"], na), posture, torque["t_robot"], torque["valid_until"], damps)
        except ValueError as error:
            self.refusal = f"torque: {error}"
            return None, False
        return answer, self.status == "fault"


def pack(vector: Vector) -> bytes:
    """Return a vector as little-endian float64 (of a little-endian machine)."""
    return array("d", vector).tobytes()
