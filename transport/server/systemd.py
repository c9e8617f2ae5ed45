"""Notifications to systemd: ready, stopping, alive (watchdog), and a line of status [sd_notify(3)]."""

import logging
import os
import socket
from collections.abc import Mapping
from time import monotonic_ns

from idyn.errors import ConfigError

log = logging.getLogger(__name__)

NEVER_NS = 2**63 - 1
"""A time that is never reached [ns]."""

AGAIN_NS = 10_000_000
"""Time after which a notification is repeated that systemd had no room for [ns]."""


class Systemd:
    """The service manager that started this process. Without one, nothing is sent.

    due_ns: when the next `beat` is due, on the server's clock [ns]; never without a watchdog
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """environment: NOTIFY_SOCKET: path or @abstract name of a datagram socket; WATCHDOG_USEC: time without `beat` after
            which the process is ended [µs]; WATCHDOG_PID: the process that this is meant for
        Raises ConfigError for malformed variables.
        """
        self.due_ns = NEVER_NS
        self._address, self._works = "", True
        self._interval_ns = _watchdog_ns(environment) // 2
        address = environment.get("NOTIFY_SOCKET", "")
        if not address:
            return
        if address[0] not in "/@":
            raise ConfigError("NOTIFY_SOCKET", f"expected a path, or an abstract name after '@', got '{address}'")
        self._address = "\0" + address[1:] if address[0] == "@" else address

    def status(self, text: str) -> None:
        """Show a line in `systemctl status`."""
        self._send(f"STATUS={text}")

    def ready(self, text: str) -> None:
        """Tell that clients can connect, with a line of status. From now on the watchdog expects `beat`."""
        self._send(f"READY=1\nSTATUS={text}")
        if self._address and self._interval_ns:
            self.due_ns = monotonic_ns()

    def beat(self, now_ns: int, text: str) -> None:
        """Tell the watchdog that the loop runs, with a line of status. now_ns: server's clock [ns]"""
        sent = self._send(f"WATCHDOG=1\nSTATUS={text}")
        self.due_ns = now_ns + (self._interval_ns if sent else min(AGAIN_NS, self._interval_ns))

    def stopping(self) -> None:
        """Tell that the process ends."""
        self.due_ns = NEVER_NS
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, text: str) -> bool:
        """Send a notification. Return whether it was sent; the first failure of several in a row is logged."""
        if not self._address:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
                own.setblocking(False)  # the loop must not wait
                own.sendto(text.encode(), self._address)
        except OSError as error:
            if self._works:
                log.warning("systemd cannot be notified (%s); the robot is served all the same", error.strerror or error)
            self._works = False
        else:
            self._works = True
        return self._works


def _watchdog_ns(environment: Mapping[str, str]) -> int:
    """Return the time without `beat` after which this process is ended [ns]; 0 without a watchdog."""
    text = environment.get("WATCHDOG_USEC", "0")
    if not (text.isascii() and text.isdigit()):
        raise ConfigError("WATCHDOG_USEC", f"expected a time in µs, got '{text}'")
    meant = environment.get("WATCHDOG_PID", str(os.getpid()))
    return int(text) * 1000 if meant == str(os.getpid()) else 0


NOBODY = Systemd({})
"""No service manager."""
