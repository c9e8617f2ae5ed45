"""Access control of a server that other machines can reach: listed keys, each with a role.

CurveZMQ encrypts every message and authenticates both sides; other keys are rejected. The role tells what a client may send.
"""

from pathlib import Path

import msgspec
import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import z85

from idyn.errors import ConfigError
from transport.keys import read_secret
from transport.protocol.codec import message_type
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


class AccessControl:
    """Accepts listed keys and checks their roles. context: ZMQ context with an authenticator of its own"""

    def __init__(self, settings: CurveSettings) -> None:
        """Start the authenticator. Raises ConfigError for malformed keys."""
        self._roles: dict[str, Role] = {client.key: client.role for client in settings.clients.values()}
        for name, client in settings.clients.items():
            try:
                z85.decode(client.key.encode("ascii"))
            except (ValueError, KeyError) as error:
                raise ConfigError(f"server.curve.clients.{name}.key", "expected a public key (Z85, 40 characters)") from error
        self._pair = read_secret(Path(settings.secret))
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator = ThreadAuthenticator(self.context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback("*", self)

    def protect(self, socket: "zmq.Socket[bytes]") -> None:
        """Accept only listed keys on a socket, which must not be bound yet."""
        public, secret = self._pair
        socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
        socket.setsockopt(zmq.CURVE_SERVER, 1)

    def callback(self, domain: str, key: bytes) -> bool:
        """Return whether a key is listed. Called by the authenticator's thread."""
        return key.decode() in self._roles

    def objection(self, key: str, data: bytes) -> str:
        """Return why a client may not send a message, '' if it may. Malformed messages are refused elsewhere."""
        role, kind = self._roles[key], message_type(data)
        if kind is not None and kind not in MAY_SEND[role]:
            return f"the role '{role}' may not send '{kind}'"
        if kind == "hello" and role != "control" and _wants_control(data):
            return f"the role '{role}' may only be a shadow"
        return ""

    def close(self) -> None:
        """Stop the authenticator. Call after closing the socket."""
        self._authenticator.stop()
        self.context.destroy(linger=0)


class _Client(msgspec.Struct):
    kind: str = ""


class _Hello(msgspec.Struct):
    """The field of a hello that decides on its role. Whatever is a valid hello can be decoded as this, too."""

    client: _Client


_HELLO = msgspec.msgpack.Decoder(_Hello)


def _wants_control(data: bytes) -> bool:
    """Return whether a hello is that of a controlling client; False for a malformed one, which is refused elsewhere."""
    try:
        return _HELLO.decode(data).client.kind != "shadow"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
