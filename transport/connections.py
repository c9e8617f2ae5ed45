"""Who is connected over TCP, and how much each of them has sent that is no message yet. ZeroMQ bounds one part of a message,
but not how many parts it has, and hands none of them over before the last has come: what waits for that is seen by the kernel
only, and cutting the connection is what frees it.
"""

import logging
import os
import socket
import struct

import zmq
from zmq.utils.monitor import recv_monitor_message

log = logging.getLogger(__name__)

LOOK_NS = 10_000_000
"""How often one looks at all connections [ns]."""

RECEIVED = struct.Struct("<Q")
RECEIVED_AT = 128
"""Place of the bytes received so far in the kernel's record of a connection, `tcp_info` (Linux)."""


class Peer:
    """A connection. complete_at: bytes it had sent when its last message was complete; spoke: one was since the last look"""

    def __init__(self) -> None:
        self.complete_at = 0
        self.spoke = False


class Connections:
    """Cuts those that send more than `most` bytes without completing a message."""

    def __init__(self, server: "zmq.Socket[bytes]", most: int) -> None:
        """server: not yet bound"""
        self._server, self._most = server, most
        self._events = server.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._peers: dict[int, Peer] = {}
        self._looked_ns = 0

    def complete(self, fd: int) -> None:
        """A whole message has come over the connection of this descriptor."""
        if (peer := self._peers.get(fd)) is not None:
            peer.spoke = True

    def look(self, now_ns: int) -> None:
        """Now and then: cut who sends too much."""
        if now_ns - self._looked_ns < LOOK_NS:
            return
        self._looked_ns = now_ns
        while self._events.poll(0):
            event = recv_monitor_message(self._events)
            if event["event"] == zmq.EVENT_ACCEPTED:
                self._peers[int(event["value"])] = Peer()
            else:
                self._peers.pop(int(event["value"]), None)
        for fd, peer in self._peers.items():
            received = _received(fd)
            if peer.spoke:
                peer.complete_at, peer.spoke = received, False
            elif received - peer.complete_at > self._most:
                cut(fd, f"{received - peer.complete_at} bytes without a whole message")

    def close(self) -> None:
        """Before the server's socket."""
        self._server.disable_monitor()
        self._events.close()


def cut(fd: int, why: str) -> None:
    """End a connection: its client sees that, and what it has sent so far is forgotten."""
    try:
        with socket.socket(fileno=os.dup(fd)) as connection:
            connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended by itself
        return
    log.warning("a connection was cut: %s", why)


def _received(fd: int) -> int:
    """Bytes that have come over a connection; 0 when it has just ended."""
    try:
        with socket.socket(fileno=os.dup(fd)) as connection:
            record = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED_AT + RECEIVED.size)
    except OSError:
        return 0
    return int(RECEIVED.unpack_from(record, RECEIVED_AT)[0])
