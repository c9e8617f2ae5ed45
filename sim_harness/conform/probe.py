"""Rules of the protocol, their outcomes, and a client that tries a foreign server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic_ns
from typing import Any, NamedTuple

import msgspec
import numpy as np
import zmq

from idyn.errors import IdynError
from idyn.model.robot import Robot
from idyn.types import Array, Record
from transport.protocol.codec import decode, encode
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import SCHEMA
from transport.robot.client import hello_for
from transport.server.service import Service

WIRE = "reference/wire-protocol.md"
SAFETY = "concepts/safety.md"
CLIENT = "how-to/own-client.md"

Fields = dict[str, Any]  # a message as a map, as decoded from MessagePack


class Broken(Exception):
    """A rule is broken. field: of which message; got: its value; expected: in words"""

    def __init__(self, field: str, got: object, expected: object) -> None:
        super().__init__(f"{field}: got {_short(got)}, expected {_short(expected)}")
        self.field = field


class NotSeen(Exception):
    """A rule cannot be judged: the other side leaves out an optional field, or has ended."""


class Outcome(NamedTuple):
    """What came out of one rule. state: passed, wrong or not seen; problem: with field, value and what was expected"""

    rule: str
    page: str
    state: str
    problem: str = ""

    def __str__(self) -> str:
        text = f"{self.state:8s}  {self.rule}"
        return text if self.state == "passed" else f"{text}\n          {self.problem} (docs/{self.page})"


class Rule(Record, frozen=True):
    """One rule. claim: what holds, as printed; page: page and anchor of the manual; check: raises Broken or NotSeen"""

    claim: str
    page: str
    check: Callable[[Any], None]

    def judged(self, subject: object) -> Outcome:
        """Return the outcome of the check."""
        try:
            self.check(subject)
        except Broken as broken:
            return Outcome(self.claim, self.page, "wrong", str(broken))
        except NotSeen as reason:
            return Outcome(self.claim, self.page, "not seen", str(reason))
        return Outcome(self.claim, self.page, "passed")


class Rules(list[Rule]):
    """Rules in the order in which they are tried."""

    def add(self, claim: str, page: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        """Return a decorator that adds a check as a rule."""

        def decorate(check: Callable[[Any], None]) -> Callable[[Any], None]:
            self.append(Rule(claim=claim, page=page, check=check))
            return check

        return decorate


def expect(field: str, got: object, expected: object) -> None:
    """Raise Broken if a value differs from the expected one."""
    if got != expected or isinstance(got, bool) != isinstance(expected, bool):
        raise Broken(field, got, expected)


def expect_that(good: object, field: str, got: object, expected: str) -> None:
    """Raise Broken unless a condition holds. expected: the condition in words"""
    if not good:
        raise Broken(field, got, expected)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"


ANSWER_S = 5.0  # time in which a server must answer [s]


class Wire:
    """A DEALER connection that sends any frames."""

    def __init__(self, endpoint: str, identity: bytes = b"") -> None:
        """identity: ZMQ identity chosen by this client; b'': the server chooses it, as the protocol asks"""
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        if identity:
            self._socket.setsockopt(zmq.IDENTITY, identity)
        self._socket.setsockopt(zmq.SNDTIMEO, round(ANSWER_S * 1e3))
        self._socket.connect(endpoint)

    def close(self) -> None:
        self._socket.close()

    def send(self, *frames: bytes) -> None:
        self._socket.send_multipart(frames)

    def receive(self, seconds: float = ANSWER_S) -> list[bytes] | None:
        """Return the frames of the next message; None if none arrives in this time."""
        return self._socket.recv_multipart() if self._socket.poll(round(seconds * 1e3)) else None

    def answer(self) -> bytes:
        """Return the next message, which has one frame. Raises Broken without one."""
        frames = self.receive()
        if frames is None:
            raise Broken("answer", f"none within {ANSWER_S:g} s", "one message")
        if len(frames) != 1:
            raise Broken("answer", f"{len(frames)} frames", "1 frame")
        return frames[0]


class Stand:
    """A ROUTER in front of a service, whose answers may be withheld, altered or sent late."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._socket: zmq.Socket[bytes] | None = None

    def open(self, service: Service) -> None:
        """Bind the address. Raises IdynError if that fails."""
        self.service = service
        self._socket = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 50)
        try:
            self._socket.bind(self.endpoint)
        except zmq.ZMQError as error:
            raise IdynError(f"cannot bind {self.endpoint} ({error})") from error

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def next(self, seconds: float) -> list[bytes] | None:
        """Return the client's identity and the frames of the next message; None if none arrives in this time."""
        assert self._socket is not None
        return self._socket.recv_multipart() if self._socket.poll(max(1, round(seconds * 1e3))) else None

    def send(self, identity: bytes, reply: bytes) -> None:
        """Send a reply. The messages of clients that have gone are dropped."""
        assert self._socket is not None
        self._socket.send_multipart([identity, reply])


DT = 0.001
DT_NS = 1_000_000

ENCODER = msgspec.msgpack.Encoder()


def fields_of(data: bytes) -> Fields:
    """Return an answer as a map. Raises Broken unless it fits the schema of the server's messages."""
    try:
        fields: Fields = msgspec.msgpack.decode(data)
        decode(data)
    except ProtocolError as error:
        raise Broken(error.field or "answer", error.message, "a message as in docs/reference/messages.md") from None
    except msgspec.DecodeError:
        raise Broken("answer", data[:40], "a MessagePack map with string keys") from None
    return fields


class Bench:
    """A server under test, and the robot that it serves. stance: a configuration in which the robot stands (nq)"""

    def __init__(self, endpoint: str, robot: Robot, stance: Array) -> None:
        self.endpoint, self.robot, self.stance = endpoint, robot, stance

    @contextmanager
    def probe(self, *, begin: bool = True, **changes: Any) -> Iterator["Probe"]:
        """Give a new connection, with a session if `begin` holds. changes: of the hello"""
        probe = Probe(self)
        try:
            if begin:
                probe.begin(**changes)
            yield probe
        finally:
            probe.send({"t": "stop", "session": probe.session})
            probe.wire.receive(0.5)
            probe.wire.close()


class Probe:
    """One connection to the server. welcome: the answer to hello; session: its number; seq, time: of the last state"""

    def __init__(self, bench: Bench, identity: bytes = b"") -> None:
        self.bench, self.robot = bench, bench.robot
        self.wire = Wire(bench.endpoint, identity)
        self.welcome: Fields = {}
        self.session = self.seq = 0
        self.time = monotonic_ns()

    # -- messages -----------------------------------------------------------------------------------------------------

    def hello(self, **changes: Any) -> Fields:
        """Return the fields of a correct hello, with changes."""
        fields: Fields = msgspec.msgpack.decode(encode(hello_for(self.robot, DT, kind="sim", name="idyn conform")))
        return fields | changes

    def state(self, **changes: Any) -> Fields:
        """Return the next state of a robot that stands, with changes."""
        self.seq, self.time = self.seq + 1, self.time + DT_NS
        return {
            "t": "state",
            "session": self.session,
            "seq": self.seq,
            "t_robot": self.time,
            "t_send": self.time,
            "q": self.bench.stance.tobytes(),
            "vel": np.zeros(self.robot.nv).tobytes(),
            "contacts": [{"frame": frame} for frame in self.robot.contact_names],
        } | changes

    def reset(self, **changes: Any) -> Fields:
        return self.state() | {"t": "reset"} | changes

    # -- exchanges ----------------------------------------------------------------------------------------------------

    def send(self, message: Fields) -> bytes:
        """Send a message and return its bytes."""
        message = {"v": SCHEMA} | message
        if message["t"] == "reset":
            message = {name: message[name] for name in ("t", "v", "session", "q", "vel")}
        data = ENCODER.encode({name: value for name, value in message.items() if value is not None})
        self.wire.send(data)
        return data

    def ask(self, message: Fields) -> Fields:
        """Send a message and return the answer."""
        self.send(message)
        return fields_of(self.wire.answer())

    def begin(self, **changes: Any) -> Fields:
        """Start a session and release the robot. Return the welcome."""
        self.welcome = self.expect_type(self.ask(self.hello(**changes)), "welcome")
        self.session = self.welcome["session"]
        if self.welcome["mode"] == "latched":
            self.expect_type(self.ask(self.reset()), "reset_ack")
            self.seq = 0
        return self.welcome

    def torque(self, **changes: Any) -> Fields:
        """Send the next state and return the torque that answers it. changes: of the state"""
        return self.expect_type(self.ask(self.state(**changes)), "torque")

    def expect_type(self, answer: Fields, kind: str) -> Fields:
        """Return the answer. Raises Broken if it is of another type."""
        if answer["t"] != kind:
            got = f"{answer['t']} ({answer['code']}: {answer['message']})" if answer["t"] == "error" else answer["t"]
            raise Broken("t", got, kind)
        return answer

    def expect_refusal(self, message: Fields | bytes, code: str, field: str | None = None, *, recoverable: bool = True) -> None:
        """Send a message and check that it is refused with this code and field. bytes: as they are"""
        if isinstance(message, bytes):
            self.wire.send(message)
            answer = fields_of(self.wire.answer())
        else:
            answer = self.ask(message)
        expect("t", answer["t"], "error")
        expect("error.code", answer["code"], code)
        if field is not None:
            expect("error.field", answer.get("field"), field)
        expect("error.recoverable", answer["recoverable"], recoverable)
        if isinstance(message, dict) and message["t"] == "state":
            expect("error.seq", answer.get("seq"), message["seq"])


def numbers(value: bytes | list[float] | None) -> Array:
    """Return a vector of an answer."""
    if isinstance(value, bytes):
        return np.frombuffer(value, "<f8") if len(value) % 8 == 0 else np.zeros(0)
    return np.array(value or [], dtype=np.float64)
