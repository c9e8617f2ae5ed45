"""Access control by CurveZMQ: listed keys, each with a role, which tells what a client may send.

The server's loop answers ZeroMQ's questions about new connections [ZeroMQ RFC 27, "ZAP"] in the time that it has for other
clients: a Python thread for it would interrupt the loop.
"""

from pathlib import Path

import msgspec
import zmq
from zmq.utils import z85

from idyn.errors import ConfigError
from transport.keys import read_secret
from transport.server.sessions.emergency_stop import told_apart
from transport.server.settings import CurveSettings, Role

_COMMON = {"hello", "state", "reset", "heartbeat", "stop", "stats_get", "config_get", "tick_get"}
MAY_SEND: dict[str, set[str]] = {
    "control": _COMMON | {"command"},
    "watch": _COMMON,
    "configure": _COMMON | {"config_set"},
    "plan": {"plan_hello", "command", "stop", "stats_get", "config_get", "tick_get"},
    "estop": {"estop", "stats_get"},
}
"""Message types that each role may send. Roles other than 'control' may only connect as a shadow."""

ZAP_ADDRESS, ZAP_VERSION = "inproc://zeromq.zap.01", b"1.0"

ROBOT_ROLES: frozenset[Role] = frozenset(("control", "estop"))  # roles that are admitted to an address of the robot's own


class AccessControl:
    """Accepts listed keys and checks their roles.

    context: of the protected sockets; descriptor: becomes readable when a handshake may wait (edge-triggered)
    """

    def __init__(
        self, settings: CurveSettings, context: "zmq.Context[zmq.Socket[bytes]]", admitted: frozenset[Role] | None = None
    ) -> None:
        """
        context: one of its own, which it destroys at the end; admitted: roles that may connect, None: all
        Raises ConfigError for malformed keys.
        """
        self._roles: dict[str, Role] = {client.key: client.role for client in settings.clients.values()}
        self._listed: dict[bytes, bytes] = {}  # by the key's 32 bytes: its text
        for name, client in settings.clients.items():
            try:
                key = z85.decode(client.key.encode("ascii"))
            except (ValueError, KeyError) as error:
                raise ConfigError(f"server.curve.clients.{name}.key", "expected a public key (Z85, 40 characters)") from error
            if admitted is None or client.role in admitted:
                self._listed[key] = client.key.encode("ascii")
        self._pair = read_secret(Path(settings.secret))
        self.context = context
        self._handshakes: zmq.Socket[bytes] = self.context.socket(zmq.REP)
        self._handshakes.bind(ZAP_ADDRESS)
        self.descriptor = int(self._handshakes.getsockopt(zmq.FD))

    def protect(self, socket: "zmq.Socket[bytes]") -> None:
        """Accept only listed keys on a socket, which must not be bound yet."""
        public, secret = self._pair
        socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
        socket.setsockopt(zmq.CURVE_SERVER, 1)

    def waiting(self) -> bool:
        """Return whether a handshake waits."""
        return bool(int(self._handshakes.getsockopt(zmq.EVENTS)) & _READABLE)

    def decide(self, most: int) -> None:
        """Admit or reject waiting handshakes, at most so many. The id of an admitted client is its key."""
        for _ in range(most):
            if not self.waiting():
                break
            request = self._handshakes.recv_multipart()  # version, number, domain, address, identity, mechanism, key
            text = self._listed.get(request[-1])
            verdict = [b"400", b"unknown key", b""] if text is None else [b"200", b"OK", text]
            self._handshakes.send_multipart([ZAP_VERSION, request[1], *verdict, b""])

    def objection(self, key: str, data: bytes) -> str:
        """Return why a client may not send a message, '' if it may: also of one that is too long, in parts or malformed.

        An unreadable type may be sent by the roles that may stop the robot.
        """
        role, kind = self._roles[key], told_apart(data)[0]
        if kind is None and role not in ROBOT_ROLES:
            return f"the role '{role}' may not send a message without a readable type"
        if kind is not None and kind not in MAY_SEND[role]:
            return f"the role '{role}' may not send '{kind}'"
        if kind == "hello" and role != "control" and wants_control(data):
            return f"the role '{role}' may only be a shadow"
        return ""

    def close(self) -> None:
        """Close the context. Call after closing the socket."""
        self.context.destroy(linger=0)


_READABLE = int(zmq.POLLIN)


class _Client(msgspec.Struct):
    kind: str = ""


class _Hello(msgspec.Struct):
    """The field of a hello that decides on its role. Whatever is a valid hello can be decoded as this, too."""

    client: _Client


_HELLO = msgspec.msgpack.Decoder(_Hello)


def wants_control(data: bytes) -> bool:
    """Return whether a hello is that of a controlling client; False for a malformed one, which is refused elsewhere."""
    try:
        return _HELLO.decode(data).client.kind != "shadow"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
