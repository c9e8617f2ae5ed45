"""Key pairs of servers and clients (CurveZMQ): made, read from files, and handed to a socket.

Secret keys must be readable by their owner only, or they are refused.
"""

import os
import stat
from pathlib import Path

import msgspec
import zmq
from zmq.auth import load_certificate

from idyn.errors import ConfigError


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
