"""Who may talk to a server that others can reach: keys, and what each of them may do.

CurveZMQ encrypts every message and proves both sides' keys; a client whose key the server does not know is not let in at all. A
role says what the others may send. Secret keys are files that nobody but their owner can read, or they are refused.
"""

import os
import stat
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import zmq
from zmq.auth import load_certificate
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import z85

from controllers.config import Settings
from idyn.errors import ConfigError
from transport.codec import decode, message_type
from transport.errors import ProtocolError
from transport.messages import Hello

Role = Literal["control", "watch", "configure"]
PublicKey = Annotated[str, msgspec.Meta(min_length=40, max_length=40)]

WATCHES = {"hello", "state", "reset", "heartbeat", "stop", "stats_get", "config_get"}
MAY_SEND: dict[str, set[str]] = {"control": WATCHES, "watch": WATCHES, "configure": WATCHES | {"config_set"}}
"""Types of messages by role; whose role is not 'control' may only be a shadow."""


class ClientKey(Settings, frozen=True):
    """key: the client's public key (Z85); role: what it may do: 'control' the robot, 'watch' as a shadow, or 'configure',
    which is to watch and to change settings while nobody controls."""

    key: PublicKey
    role: Role = "control"


class CurveSettings(Settings, frozen=True):
    """secret: path of the server's secret key, see `idyn keys`; clients: who is let in, by a name for people"""

    secret: str
    clients: dict[str, ClientKey]


class Keys(msgspec.Struct, frozen=True):
    """What a client needs: its own key pair and the server's public key, all Z85."""

    public: bytes
    secret: bytes
    server: bytes


def make_keys(folder: Path, name: str) -> tuple[Path, Path, str]:
    """A new key pair: the files of its public half and of its secret one, which only this user can read, and the public key.
    Raises ConfigError where there are such files already."""
    public, secret = zmq.curve_keypair()
    paths = folder / f"{name}.key", folder / f"{name}.key_secret"
    folder.mkdir(parents=True, exist_ok=True)
    half = f'curve\n    public-key = "{public.decode()}"\n'
    for path, text, mode in ((paths[0], half, 0o644), (paths[1], f'{half}    secret-key = "{secret.decode()}"\n', 0o600)):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise ConfigError(str(path), "a key is there already; keys are never overwritten") from None
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    return *paths, public.decode()


def read_secret(path: Path) -> tuple[bytes, bytes]:
    """Public and secret key of a file. Raises ConfigError when there are none, or when others may read or change it."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        public, secret = load_certificate(path)
    except (OSError, ValueError) as error:
        raise ConfigError(str(path), f"not a key that can be read ({error})") from error
    if mode & 0o077:
        raise ConfigError(str(path), f"expected mode 0600, so that nobody else can read it, got {mode:04o}")
    if secret is None:
        raise ConfigError(str(path), "expected the secret half of a key pair, got the public one")
    return public, secret


def client_keys(secret: Path, server: str) -> Keys:
    """For `RobotClient`: from the client's secret file and the server's public key. Raises ConfigError."""
    return Keys(*read_secret(secret), server.encode())


class Doorkeeper:
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

    def guard(self, socket: "zmq.Socket[bytes]") -> None:
        """From its bind on, nobody else comes in."""
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
