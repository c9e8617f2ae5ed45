"""Access control of a server that other machines can reach: known keys, and the role of each.

CurveZMQ encrypts every message and authenticates both sides; unknown keys are rejected. A role says what a client may send.
"""

from pathlib import Path

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import z85

from idyn.errors import ConfigError
from transport.keys import read_secret
from transport.protocol.codec import decode, message_type
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.hello import Hello
from transport.server.settings import CurveSettings, Role

_COMMON = {"hello", "state", "reset", "heartbeat", "stop", "stats_get", "config_get"}
MAY_SEND: dict[str, set[str]] = {"control": _COMMON, "watch": _COMMON, "configure": _COMMON | {"config_set"}}
"""Message types that each role may send. Roles other than 'control' may only connect as a shadow."""


class AccessControl:
    """Lets known keys in and knows their roles. context: in which it does; each has its own"""

    def __init__(self, settings: CurveSettings) -> None:
        """Raises ConfigError for keys that cannot be used."""
        self._roles: dict[str, Role] = {client.key: client.role for client in settings.clients.values()}
        for name, client in settings.clients.items():
            try:
                z85.decode(client.key.encode("ascii"))
            except (ValueError, KeyError) as error:
                raise ConfigError(f"server.curve.clients.{name}.key", "expected a public key of 40 characters (Z85)") from error
        self._pair = read_secret(Path(settings.secret))
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator = ThreadAuthenticator(self.context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback("*", self)

    def protect(self, socket: "zmq.Socket[bytes]") -> None:
        """Let only known keys connect. The socket must not be bound yet."""
        public, secret = self._pair
        socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
        socket.setsockopt(zmq.CURVE_SERVER, 1)

    def callback(self, domain: str, key: bytes) -> bool:
        """Asked by the authenticator's thread."""
        return key.decode() in self._roles

    def objection(self, key: str, data: bytes) -> str:
        """Why a client of this key may not send these bytes, '' when it may. What cannot be read is refused elsewhere."""
        role, kind = self._roles[key], message_type(data)
        if kind is not None and kind not in MAY_SEND[role]:
            return f"the role '{role}' may not send '{kind}'"
        if kind == "hello" and role != "control" and _wants_control(data):
            return f"the role '{role}' may only be a shadow"
        return ""

    def close(self) -> None:
        """After the guarded socket."""
        self._authenticator.stop()
        self.context.destroy(linger=0)


def _wants_control(data: bytes) -> bool:
    try:
        hello = decode(data)
    except ProtocolError:
        return False
    return isinstance(hello, Hello) and hello.client.kind != "shadow"
