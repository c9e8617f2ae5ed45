"""The client's side of the protocol without I/O, and the base class of clients."""

from typing import Literal, Self, TypeVar

import msgspec

from idyn.errors import IdynError
from idyn.model.robot import Robot
from transport.protocol.codec import decode, encode
from transport.protocol.joint_map import joint_slots
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.hello import Base, Client, ClientKind, Hello, Model, Welcome
from transport.protocol.messages.requests import StopAck
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage


class ConnectionFailed(IdynError):
    """The server does not answer, or refused the hello."""


Reply = TypeVar("Reply", bound=msgspec.Struct)


def expected(reply: msgspec.Struct, kind: type[Reply]) -> Reply:
    """Return a server's message, which must be of a type. Raises ConnectionFailed for another one, and names both."""
    if not isinstance(reply, kind):
        wanted, got = (each.__struct_config__.tag for each in (kind, type(reply)))
        raise ConnectionFailed(f"expected '{wanted}' as the server's answer, got '{got}'")
    return reply


def hello_for(
    robot: Robot,
    dt: float,
    *,
    kind: ClientKind = "robot",
    name: str = "idyn client",
    measured: Literal["state", "imu"] = "state",
) -> Hello:
    """Return the hello of a client that uses the robot's own order of joints.

    dt: nominal period [s]; measured: 'imu' if the states have no base, see `hello.Base`
    """
    return Hello(
        client=Client(name=name, kind=kind),
        model=Model(
            nq=robot.nq,
            nv=robot.nv,
            na=robot.na,
            total_mass=robot.total_mass,
            urdf_sha256=robot.urdf_sha256,
            name=robot.name,
        ),
        joint_names=[slot.name for slot in joint_slots(robot)],
        actuated=list(robot.joint_names),
        base=Base(type=robot.description.base, quat_order="xyzw", vel_frame="local", measured=measured),
        dt_nominal=dt,
    )


class Conversation:
    """A session from the client's view: numbers the states and skips answers to older states."""

    def __init__(self) -> None:
        self.session = 0
        self.seq = 0
        self._applied = 0
        self._sent_ns = 0
        self._rtt_us: float | None = None

    def begin(self, reply: bytes) -> Welcome:
        """Start a session with the server's answer to hello. Raises ConnectionFailed for a refusal."""
        message = decode(reply)
        if isinstance(message, ErrorMessage):
            raise ConnectionFailed(f"the server refused the hello ({message.code}): {message.message}")
        welcome = expected(message, Welcome)
        self.session, self.seq, self._applied, self._rtt_us = welcome.session, 0, 0, None
        return welcome

    def ask(self, state: StateMessage, now_ns: int) -> bytes:
        """Encode the next state, with session, seq, t_send, last_applied_seq and rtt_us filled in."""
        self.seq += 1
        self._sent_ns = now_ns
        envelope = msgspec.structs.replace(
            state,
            session=self.session,
            seq=self.seq,
            t_send=now_ns,
            last_applied_seq=self._applied,
            rtt_us=self._rtt_us,
        )
        return encode(envelope)

    def hear(self, reply: bytes, now_ns: int) -> TorqueMessage | ErrorMessage | StopAck | None:
        """Decode the answer to the last state; None when `reply` answers an older message. Raises ProtocolError.

        A `StopAck` is the server's goodbye: it ends, and no further state is answered.
        """
        message = decode(reply)
        if isinstance(message, StopAck) and message.reason:
            return message
        if isinstance(message, TorqueMessage):
            if message.seq != self.seq or message.session != self.session:
                return None
            self._applied = message.seq
            self._rtt_us = (now_ns - self._sent_ns) * 1e-3
            return message
        if isinstance(message, ErrorMessage) and message.seq in (None, self.seq):
            return message
        return None


class BaseClient:
    """Base class of clients. A subclass sends and receives the bytes.

    error: refusal of the last state; None: it was answered with a torque or not at all
    goodbye: why the server ended, as it said itself; '' while it runs and after `hello`
    """

    def __init__(self, hello: Hello) -> None:
        self._hello = hello
        self._conversation = Conversation()
        self.error: ErrorMessage | None = None
        self.goodbye = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Further calls have no effect."""

    @property
    def session(self) -> int:
        """Session number, 0 before the first hello."""
        return self._conversation.session

    def hello(self) -> Welcome:
        """Start a session. Raises ConnectionFailed without an answer or for a refusal."""
        self.goodbye = ""
        return self._conversation.begin(self._request(encode(self._hello)))

    def ask(self, message: FromClient) -> FromServer:
        """Send any message but a state and return the answer. Raises ConnectionFailed without one."""
        return decode(self._request(encode(message)))  # type: ignore[return-value]

    def _request(self, request: bytes) -> bytes:
        """Send a request and return the answer to it. Raises ConnectionFailed without one."""
        raise NotImplementedError
