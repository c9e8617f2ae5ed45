"""Limit of the bytes of incomplete messages on each TCP connection.

ZeroMQ limits the length of a message part but not the number of parts, and delivers a message only when it is complete. Only
the operating system can therefore count the bytes of incomplete messages, and only closing the connection frees them.
"""

import logging
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

import zmq
from zmq.utils.monitor import recv_monitor_message

from transport.server.rate_limit import RateLimit, similar

log = logging.getLogger(__name__)

CHECK_NS = 10_000_000
"""Interval of checks [ns]."""

PER_CHECK = 64
"""Number of connections that one check covers; checks go through all connections in turn."""

SPARE_BYTES = 20
"""Bytes between two checks that are not counted: ZMQ's own heartbeats, which are not messages."""

UNREAD_FACTOR = 64
"""Factor on the limit while complete messages wait to be read: until then it is unknown on which connection they arrived."""

RECEIVED = struct.Struct("<Q")
RECEIVED_AT = 128
"""Offset of the number of received bytes in `tcp_info`, the kernel's record of a connection (Linux)."""


class Peer:
    """A connection.

    complete_at: bytes received when its last message was complete
    completed: a message has been completed since the last check
    """

    def __init__(self) -> None:
        self.complete_at = 0
        self.completed = False


class Connections:
    """Closes connections that send more than `most` bytes without completing a message."""

    def __init__(self, server: "zmq.Socket[bytes]", most: int) -> None:
        """server: ROUTER socket, not yet bound; most: limit of bytes of an incomplete message"""
        self._server, self._most = server, most
        self._events = server.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._peers: dict[int, Peer] = {}
        self._checked_ns = 0
        self._next = 0
        self._was_idle = False
        self._lines = RateLimit()

    def complete(self, fd: int) -> None:
        """Note a complete message on the connection of this file descriptor."""
        if (peer := self._peers.get(fd)) is not None:
            peer.completed = True

    def check(self, now_ns: int, waiting: Callable[[], bool]) -> None:
        """Close connections above the limit, once per `CHECK_NS`. waiting: whether messages wait to be read"""
        if now_ns - self._checked_ns < CHECK_NS:
            return
        self._checked_ns = now_ns
        self._note_events()
        idle = not waiting()
        most = self._most if idle and self._was_idle else UNREAD_FACTOR * self._most
        self._was_idle = idle
        descriptors = list(self._peers)
        self._next = self._next % max(1, len(descriptors))
        for fd in descriptors[self._next : self._next + PER_CHECK]:
            self._check_peer(fd, self._peers[fd], most, now_ns)
        self._next += PER_CHECK

    def close(self) -> None:
        """Stop monitoring. Call before closing the server's socket."""
        self._server.disable_monitor()
        self._events.close()

    def _note_events(self) -> None:
        while self._events.poll(0):
            event = recv_monitor_message(self._events)
            if event["event"] == zmq.EVENT_ACCEPTED:
                self._peers[int(event["value"])] = Peer()
            else:
                self._peers.pop(int(event["value"]), None)

    def _check_peer(self, fd: int, peer: Peer, most: int, now_ns: int) -> None:
        received = _received(fd)
        if received is None:
            return
        if peer.completed:
            peer.complete_at, peer.completed = received, False
        open_bytes = received - peer.complete_at
        peer.complete_at += min(SPARE_BYTES, open_bytes)
        if open_bytes > most:
            _cut(fd)
            if (silent := self._lines.admit("cut", now_ns)) is not None:
                log.warning("connection closed: %d bytes without a complete message%s", open_bytes, similar(silent))


def _cut(fd: int) -> None:
    """Close a connection and free its received bytes. The client is disconnected."""
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as connection:  # it may have been closed meanwhile
        connection.shutdown(socket.SHUT_RDWR)


def _received(fd: int) -> int | None:
    """Return the bytes received on a connection; None when it has been closed, or no file descriptors are left."""
    try:
        with socket.socket(fileno=os.dup(fd)) as connection:
            record = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED_AT + RECEIVED.size)
    except OSError:
        return None
    return int(RECEIVED.unpack_from(record, RECEIVED_AT)[0])
