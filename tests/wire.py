"""A service behind a real socket, and replies of a known type."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import zmq

from transport.server.process import NOBODY, Systemd
from transport.server.service import Service
from transport.server.settings import CurveSettings
from transport.server.sockets.router import Router
from transport.server.sockets.scheduling import Anticipation

T = TypeVar("T")

PATIENCE_MS = 30_000
"""A busy machine may take its time [ms]."""


def expect(kind: type[T], reply: object) -> T:
    """The reply, which is of this type."""
    assert isinstance(reply, kind), reply
    return reply


@contextmanager
def dealer(address: str, **options: object) -> "Iterator[zmq.Socket[bytes]]":
    """A socket of a client that is not the package's own, connected. options: of the socket"""
    with zmq.Context() as context, context.socket(zmq.DEALER) as made:
        made.linger, made.rcvtimeo = 0, PATIENCE_MS
        for name, value in options.items():
            setattr(made, name, value)
        made.connect(address)
        yield made


@contextmanager
def routed(
    service: Service,
    address: str,
    *,
    lead_us: float = 250.0,
    curve: CurveSettings | None = None,
    others_address: str | None = None,
    systemd: Systemd = NOBODY,
) -> Iterator[tuple[Router, threading.Thread]]:
    """A router in a thread, which ends cleanly. others_address: where it is not the robot's"""
    stop = threading.Event()
    with Router(service, address, lambda fault: None, Anticipation(lead_us), curve, others_address=others_address) as router:
        thread = threading.Thread(target=router.run, args=(stop, systemd))
        thread.start()
        try:
            yield router, thread
        finally:
            stop.set()
            thread.join()
