"""The file of an ipc address: its rights, servers that use it already, and its loss."""

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from idyn.errors import ConfigError

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
