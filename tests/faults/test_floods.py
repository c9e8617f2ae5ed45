"""Floods by other clients while a robot exchanges messages at 1 kHz: blocks with and without a flood alternate in one run."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing.synchronize import Event
from pathlib import Path
from time import perf_counter, sleep

import msgspec
import numpy as np
import pytest
import zmq
from trial import Server

from idyn.types import Array
from sim_harness.robot.pacing import Pacer
from transport.protocol.codec import encode
from transport.protocol.messages.requests import Stats, StatsGet
from transport.protocol.messages.state import StateMessage
from transport.realtime import steady
from transport.robot.client import RobotClient
from transport.robot.conversation import hello_for

BLOCK, BLOCKS = 200, 3
"""Ticks of a block, and pairs of blocks."""

REST_S = 2e-4
"""Rest of a flooding process after a message on each of its connections."""

LATE_S = 2e-3
"""A longer round trip is a gap."""


def flood(address: str, messages: list[bytes], connections: int, on: Event) -> None:
    """Send messages while `on` is set. At other times send them to a socket of this process: its load stays the same."""
    with zmq.Context() as context:
        sockets, own = [context.socket(zmq.DEALER) for _ in range(connections)], context.socket(zmq.DEALER)
        sink = context.socket(zmq.DEALER)
        sink.bind("inproc://sink")
        own.connect("inproc://sink")
        for socket in sockets:
            socket.connect(address)
        for k in count():
            for socket in sockets:
                with suppress(zmq.Again):
                    (socket if on.is_set() else own).send(messages[k % len(messages)], zmq.NOBLOCK)
                for each in (socket, sink):
                    while each.poll(0):
                        each.recv()
            sleep(REST_S)


@contextmanager
def apart(work: Callable[..., None], *arguments: object) -> Iterator[None]:
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def hello(server: Server) -> bytes:
    return encode(hello_for(server.controller.robot, 1e-3))


def long_hello(server: Server) -> bytes:
    return encode(msgspec.structs.replace(hello_for(server.controller.robot, 1e-3), contact_frames=["LF_FOOT"] * 7000))


FLOODS = {
    "small hellos": (lambda server: [hello(server)], 4),
    "hellos with 7000 frames": (lambda server: [long_hello(server)], 4),
    "statistics, from 60 connections": (lambda server: [encode(StatsGet())], 60),
    "malformed": (lambda server: [b"\xc1" * n for n in (1, 100, 10_000)], 4),
}


@pytest.mark.bench
@pytest.mark.parametrize(("messages", "connections"), FLOODS.values(), ids=FLOODS)
def test_a_flood_does_not_delay_the_robot(tmp_path: Path, messages, connections: int) -> None:  # type: ignore[no-untyped-def]
    server = Server(tmp_path)
    on = multiprocessing.get_context("fork").Event()
    robot = server.controller.robot
    state = StateMessage(q=server.controller.stance.tobytes(), vel=np.zeros(robot.nv).tobytes(), t_robot=0)
    trips: dict[bool, list[Array]] = {False: [], True: []}
    spent: dict[bool, list[float]] = {False: [], True: []}
    flooding = flood, server.address, messages(server), connections, on
    with apart(server.serve), apart(*flooding), RobotClient(server.address, hello_for(robot, 1e-3, kind="sim")) as client:
        client.hello()
        client.deadline = 1.0
        tick, pacer = 0, Pacer(1e-3)

        def others() -> float:
            stats = client.ask(StatsGet())
            assert isinstance(stats, Stats)
            return stats.others_us_mean * stats.torques

        with steady():
            for block in range(2 * BLOCKS + 2):
                (on.set if block % 2 else on.clear)()
                before, trip = others(), np.empty(BLOCK)
                for i in range(BLOCK):
                    tick += 1
                    pacer.wait()
                    begin = perf_counter()
                    assert client.exchange(msgspec.structs.replace(state, t_robot=tick * 1_000_000)) is not None, client.error
                    trip[i] = perf_counter() - begin
                if block >= 2:  # after the warm-up
                    trips[bool(block % 2)].append(trip)
                    spent[bool(block % 2)].append((others() - before) / BLOCK)
    calm, flooded = np.concatenate(trips[False]), np.concatenate(trips[True])
    p99 = {name: np.percentile(each, 99) * 1e6 for name, each in (("calm", calm), ("flooded", flooded))}
    gaps = np.mean(flooded > LATE_S) - np.mean(calm > LATE_S)
    p50 = np.median(flooded) / np.median(calm)
    print(
        f"\np50 ratio {p50:.2f}, p99 {p99['calm']:.0f} → {p99['flooded']:.0f} µs, ratio {p99['flooded'] / p99['calm']:.2f}, "
        f"excess gaps {gaps:.3%}, on others {np.mean(spent[True]):.0f} µs/tick (calm {np.mean(spent[False]):.0f})"
    )
