"""Key pairs of servers and clients (CurveZMQ): creation and reading.

A secret key file must be readable by its owner only.
"""

import os
import stat
from pathlib import Path

import msgspec
import zmq
from zmq.auth import load_certificate

from idyn.errors import ConfigError


class Keys(msgspec.Struct, frozen=True):
    """Keys of a client in Z85: its key pair, and the server's public key."""

    public: bytes
    secret: bytes
    server: bytes


def make_keys(folder: Path, name: str) -> tuple[Path, Path, str]:
    """Create a key pair. Return the file of the public key, the file of the secret key (mode 0600), and the public key.

    Raises ConfigError when one of the files exists.
    """
    public, secret = zmq.curve_keypair()
    paths = folder / f"{name}.key", folder / f"{name}.key_secret"
    folder.mkdir(parents=True, exist_ok=True)
    half = f'curve\n    public-key = "{public.decode()}"\n'
    for path, text, mode in ((paths[0], half, 0o644), (paths[1], f'{half}    secret-key = "{secret.decode()}"\n', 0o600)):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise ConfigError(str(path), "file exists; keys are never overwritten") from None
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    return *paths, public.decode()


def read_secret(path: Path) -> tuple[bytes, bytes]:
    """Return the public and the secret key of a file. Raises ConfigError if it is malformed or others can access it."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        public, secret = load_certificate(path)
    except (OSError, ValueError) as error:
        raise ConfigError(str(path), f"not a readable key ({error})") from error
    if mode & 0o077:
        raise ConfigError(str(path), f"expected mode 0600 (access by the owner only), got {mode:04o}")
    if secret is None:
        raise ConfigError(str(path), "expected a secret key, got a public key")
    return public, secret


def client_keys(secret: Path, server: str) -> Keys:
    """Return the keys of a client, from its secret key file and the server's public key. Raises ConfigError."""
    return Keys(*read_secret(secret), server.encode())
