"""The ROUTER socket with its options."""

import ctypes
import os
import sys
import threading

import zmq

from transport.protocol.sizes import HIGH_WATER, MAX_BYTES

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
