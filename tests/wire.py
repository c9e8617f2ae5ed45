"""A service behind a real socket, and replies of a known type."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import zmq

from idyn import Robot, RobotClient, hello_for
from transport.keys import Keys, client_keys, make_keys
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.server.process import NOBODY, Systemd
from transport.server.service import Service
from transport.server.settings import ClientKey, CurveSettings, Role
from transport.server.sockets.router import Router
from transport.server.sockets.scheduling import Anticipation

T = TypeVar("T")

PATIENCE_MS = 30_000  # A busy machine may take its time [ms]


def expect(kind: type[T], reply: object) -> T:
    assert isinstance(reply, kind), reply
    return reply


def until(condition: Callable[[], T]) -> T:
    """What a condition gives as soon as that counts as true; an error if it does not within 30 s."""
    for _ in range(3000):
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen within 30 s")


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
def running(work: Callable[[threading.Event], object]) -> Iterator[threading.Thread]:
    """`work(stop)` in a thread, which ends with the block."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()


@contextmanager
def routed(
    service: Service, address: str, *, lead_us: float = 250.0, systemd: Systemd = NOBODY, **options: Any
) -> Iterator[tuple[Router, threading.Thread]]:
    """A router in a thread, which ends cleanly. options: of `Router`"""
    with (
        Router(service, address, lambda fault: None, Anticipation(lead_us), **options) as router,
        running(lambda stop: router.run(stop, systemd)) as thread,
    ):
        yield router, thread


@contextmanager
def sending(
    endpoint: str, robot: Robot, state: Callable[[int], StateMessage], heard: Callable[[TorqueMessage | None], object] = id
) -> Iterator[None]:
    """A robot's client in a thread, which sends `state(tick)` at about 200 Hz."""

    def work(stop: threading.Event) -> None:
        with RobotClient(endpoint, hello_for(robot, 5e-3, kind="sim"), deadline_ms=5000) as client:
            client.hello()
            for tick in count(1):
                heard(client.exchange(state(tick)))
                if stop.wait(5e-3):
                    return

    with running(work):
        yield


def keyed(folder: Path, roles: dict[str, Role]) -> tuple[dict[str, Keys], CurveSettings]:
    """Keys of a client of each role, and of a stranger; settings of a server that lists them, but for the stranger."""
    public = {name: make_keys(folder, name)[2] for name in ("server", "stranger", *roles)}
    keys = {name: client_keys(folder / f"{name}.key_secret", public["server"]) for name in ("stranger", *roles)}
    clients = {name: ClientKey(key=public[name], role=role) for name, role in roles.items()}
    return keys, CurveSettings(secret=str(folder / "server.key_secret"), clients=clients)
