"""The ROUTER socket with its options."""

import ctypes
import os
import socket
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import zmq

from idyn.errors import ConfigError
from transport.protocol.codec import HIGH_WATER, MAX_BYTES

CHECK_NS = 1_000_000_000
"""Interval at which the file is looked for [ns]."""


def file_of(address: str) -> Path | None:
    """Return the file of an ipc address; None for other and for abstract addresses."""
    path = address.removeprefix("ipc://")
    return None if urlsplit(address).scheme != "ipc" or path.startswith("@") else Path(path)


def refuse_second_server(address: str) -> None:
    """Raise ConfigError if a server runs at an ipc address: binding would silently take the address from it."""
    path = file_of(address)
    if path is None or not path.exists():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise ConfigError("server.endpoint", f"another server is serving at {address}")


class AddressFile:
    """Restricts the file of a bound address to this user, notices when it is lost, and removes it at the end."""

    def __init__(self, address: str) -> None:
        """Raises OSError if the rights cannot be set."""
        self._path = file_of(address)
        self._checked_ns = 0
        self._own: tuple[int, int] | None = None
        self.restrict()

    def restrict(self) -> None:
        """Restrict access to the file, and remember which one it is."""
        if self._path is not None:
            os.chmod(self._path, 0o600)
            self._own = self._found()

    def lost(self, now_ns: int) -> str:
        """Return how the file was lost, '' if it is in place. It is looked for once per `CHECK_NS`."""
        if self._path is None or now_ns - self._checked_ns < CHECK_NS:
            return ""
        self._checked_ns = now_ns
        found = self._found()
        if found == self._own:
            return ""
        return "was removed" if found is None else "was replaced"

    def remove(self) -> None:
        """Remove the file, unless it is another server's by now."""
        if self._path is not None and self._found() == self._own:
            self._path.unlink(missing_ok=True)

    def _found(self) -> tuple[int, int] | None:
        """Return device and inode of the file, None without one."""
        assert self._path is not None  # by the callers
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


IDLE_MS = 10
"""Interval at which the loop checks for `stop` without messages [ms]."""

KEEPALIVE_S = 1
"""Interval of TCP keep-alives; three without an answer close the connection. A stopped process still answers them [s]."""

SOCKET_MAX_BYTES = 2 * MAX_BYTES
"""Limit of a message's bytes: above MAX_BYTES it is refused with a reply, above this the connection is closed."""


BACKGROUND_NICE = 10
"""Niceness of ZeroMQ's thread for clients besides the robot: a tenth of the processor, if others need all of it (Linux)."""


def background_context() -> "zmq.Context[zmq.Socket[bytes]]":
    """Return a context whose thread, which decrypts messages and shakes hands, gives way to the robot's and to the loop."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.THREAD_NAME_PREFIX, 1)  # `real_time` gives threads of this name no priority

    def start() -> None:
        if sys.platform == "linux":
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, 0, max(own, BACKGROUND_NICE))  # of this thread, which those of the context inherit
        context.socket(zmq.PAIR).close()

    starter = threading.Thread(target=start)
    starter.start()
    starter.join()
    return context


def listening_socket(context: "zmq.Context[zmq.Socket[bytes]]", *, ipv6: bool) -> "zmq.Socket[bytes]":
    """Return a ROUTER socket that is not bound yet."""
    _seed_identities()
    server: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.SNDHWM, HIGH_WATER),
        (zmq.RCVHWM, HIGH_WATER),
        (zmq.MAXMSGSIZE, SOCKET_MAX_BYTES),
        (zmq.HANDSHAKE_IVL, 1000),
        (zmq.ROUTER_MANDATORY, 1),
        (zmq.TCP_KEEPALIVE, 1),
        (zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_S),
        (zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_S),
        (zmq.TCP_KEEPALIVE_CNT, 3),
        (zmq.IPV6, int(ipv6)),
        (zmq.RCVTIMEO, IDLE_MS),
    ):
        server.setsockopt(option, value)
    return server


def _seed_identities() -> None:
    """Seed `rand()`, from which libzmq derives the identities of a socket.

    Without a seed the identities are the same in every process. A client that guesses them could claim the identity of a closed
    connection, or the identity that libzmq will generate next; then an assertion of libzmq ends the process.
    """
    ctypes.CDLL(None).srand(int.from_bytes(os.urandom(4), "little"))
