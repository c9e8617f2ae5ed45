"""Floods by other clients while a robot trots at 1 kHz: blocks with and without a flood alternate in one run.

A flooding process is as busy without a flood: it then sends the same messages, as often, to a server of its own. It has a low
priority: its own work is not what is measured. The test prints a row for each kind of flood, with one address for all clients
and with one of the robot's own.
"""

import multiprocessing
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from multiprocessing.synchronize import Event
from pathlib import Path
from time import perf_counter, sleep

import msgspec
import numpy as np
import pytest
import zmq
from wire import expect

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.robot.robot_side import Pacer
from sim_harness.run.plan import hello_of, load_plan, simulated_robot
from sim_harness.run.server_process import ServerProcess
from transport.keys import Keys, client_keys, make_keys
from transport.protocol.codec import decode, encode
from transport.protocol.messages.command import CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.requests import Stats, StatsGet
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.robot.client import RobotClient, hello_for
from transport.server.process import steady
from transport.server.settings import ServerSettings

BLOCK, PAIRS = 250, 24  # ticks of a block, and pairs of blocks
REST_S = 2e-4  # rest of a flooding process after a message on each of its connections
VISIT_S = 2e-3  # time that a key that is not listed knocks before it is tried again on a new connection
CALM_US, CALM_BLOCKS = 5.0, 20  # time on others per tick below which a flood is over [µs], and most blocks until then
LATE_S = 2e-3  # a longer round trip is a gap
MOST_OTHERS_US = 50.0  # processor time that the server may spend on others per tick, with an address of the robot's own
Prepared = Callable[[zmq.Socket[bytes]], list[bytes]]  # returns the messages to send over and over on a connected socket


def fixed(*messages: bytes) -> Prepared:
    return lambda socket: list(messages)


def commands(socket: "zmq.Socket[bytes]") -> list[bytes]:
    """Valid commands of a planner."""
    socket.send(encode(PlanHello(name="planner")))
    welcome = expect(PlanWelcome, decode(socket.recv()))
    return [encode(CommandMessage(session=welcome.session, valid_for=0.2, velocity=[0.1, 0.0, 0.0]))]


def hello(robot: Robot) -> bytes:
    return encode(hello_for(robot, 1e-3, kind="shadow"))


def long_hello(robot: Robot) -> bytes:
    return encode(msgspec.structs.replace(hello_for(robot, 1e-3, kind="shadow"), contact_frames=["LF_FOOT"] * 7000))


MESSAGES: dict[str, tuple[str, int, Callable[[Robot], Prepared]]] = {
    "small hellos": ("watch", 4, lambda robot: fixed(hello(robot))),
    "hellos with 7000 frames": ("watch", 4, lambda robot: fixed(long_hello(robot))),
    "statistics, 60 connections": ("watch", 60, lambda robot: fixed(encode(StatsGet()))),
    "malformed": ("watch", 4, lambda robot: fixed(*(b"\xc1" * n for n in (1, 100, 10_000)))),
    "commands": ("plan", 4, lambda robot: commands),
    "handshakes": ("unlisted", 4, lambda robot: fixed()),
}
"""Role, number of connections and messages of each kind of flood."""


def connect(context: "zmq.Context[zmq.Socket[bytes]]", address: str, keys: Keys) -> "zmq.Socket[bytes]":
    made = context.socket(zmq.DEALER)
    made.linger = 0
    made.curve_publickey, made.curve_secretkey, made.curve_serverkey = keys.public, keys.secret, keys.server
    made.connect(address)
    return made


def own_server(context: "zmq.Context[zmq.Socket[bytes]]") -> tuple["zmq.Socket[bytes]", str, bytes]:
    """Return a server of the flooding process, its address and its public key."""
    public, secret = zmq.curve_keypair()
    sink = context.socket(zmq.ROUTER)
    sink.curve_server, sink.curve_publickey, sink.curve_secretkey = True, public, secret
    sink.bind("tcp://127.0.0.1:*")
    return sink, sink.getsockopt_string(zmq.LAST_ENDPOINT), public


def empty(source: "zmq.Socket[bytes]") -> None:
    with suppress(zmq.Again):
        while True:
            source.recv_multipart(zmq.NOBLOCK)


def flood(address: str, keys: Keys, connections: int, prepare: Prepared, on: Event) -> None:
    """Send messages while `on` is set, to a server of this process at other times. Without messages: knock."""
    os.nice(10)
    with zmq.Context() as context, zmq.Context() as sink_context:
        sink, own_address, public = own_server(sink_context)
        own_keys = msgspec.structs.replace(keys, server=public)
        sides = {True: (address, keys), False: (own_address, own_keys)}
        sockets = {side: [connect(context, *to) for _ in range(connections)] for side, to in sides.items()}
        messages = [prepare(each) for each in sockets[True]]
        for k in count():
            side = on.is_set()
            for i, each in enumerate(messages):
                if each:
                    with suppress(zmq.Again):
                        sockets[side][i].send(each[k % len(each)], zmq.NOBLOCK)
                else:
                    sockets[side][i].close()
                    sockets[side][i] = connect(context, *sides[side])
                empty(sockets[True][i])
                empty(sink)
            sleep(REST_S if messages[0] else VISIT_S)


@contextmanager
def apart(work: Callable[..., None], *arguments: object) -> Iterator[None]:
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


class PacedClient(RobotClient):
    """Sends a state each millisecond and measures the round trips."""

    trips: list[float]
    pacer: Pacer

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        self.pacer.wait()
        begin = perf_counter()
        torque = super().exchange(state)
        assert torque is not None, self.error
        self.trips.append(perf_counter() - begin)
        return torque

    def others_us(self) -> float:
        """Return the processor time spent on others so far [µs]."""
        stats = expect(Stats, self.ask(StatsGet()))
        return stats.others_us_mean * stats.torques


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Place:
    """Settings of a server with keys, and the keys of its clients by role."""

    def __init__(self, folder: Path, addresses: int) -> None:
        public = {name: make_keys(folder, name)[2] for name in ("server", "control", "watch", "plan", "unlisted")}
        self.keys = {name: client_keys(folder / f"{name}.key_secret", public["server"]) for name in public if name != "server"}
        listed = {name: {"key": public[name], "role": name} for name in ("control", "watch", "plan")}
        self.others = free_address()
        self.robot = self.others if addresses == 1 else free_address()
        settings = {"controller": "quadruped-trot", "max_state_age_ms": 1000.0, "endpoint": self.others}
        settings |= {"curve": {"secret": str(folder / "server.key_secret"), "clients": listed}}
        settings |= {} if addresses == 1 else {"robot_endpoint": self.robot}
        self.settings = parse(settings, ServerSettings, "server")


def measured(place: Place, kind: str) -> tuple[dict[bool, Array], dict[bool, float]]:
    """Return the round trips [s], and the time on others per tick [µs], with (True) and without a flood."""
    role, connections, prepare = MESSAGES[kind]
    plan = load_plan("trot-quadruped")
    trips: dict[bool, list[Array]] = {False: [], True: []}
    spent: dict[bool, list[float]] = {False: [], True: []}
    on = multiprocessing.get_context("fork").Event()
    with ExitStack() as stack:
        stack.enter_context(ServerProcess(place.settings))
        robot, _ = load_robot(plan.controller.robot)
        flooding = place.others, place.keys[role], connections, prepare(robot), on
        stack.enter_context(apart(flood, *flooding))
        greeting = hello_of(plan, robot)
        client = stack.enter_context(PacedClient(place.robot, greeting, keys=place.keys["control"]))
        client.pacer, client.trips = Pacer(1e-3), []
        side = simulated_robot(plan, client)
        client.hello()
        client.deadline = 1.0
        stack.enter_context(steady())

        def spent_us() -> float:
            """Run a block; return the time on others per tick [µs]."""
            before = client.others_us()
            client.trips.clear()
            side.run(BLOCK * 1e-3)
            return (client.others_us() - before) / BLOCK

        for pair in range(PAIRS + 1):
            for flooded in (False, True):
                (on.set if flooded else on.clear)()
                blocks = count()
                while not flooded and spent_us() > CALM_US and next(blocks) < CALM_BLOCKS:
                    pass  # what is left of the flood
                spent_in_block = spent_us()
                if pair >= 1:  # after the warm-up
                    trips[flooded].append(np.array(client.trips))
                    spent[flooded].append(spent_in_block)
    return {side: np.concatenate(each) for side, each in trips.items()}, {side: np.mean(each) for side, each in spent.items()}


@pytest.mark.bench
@pytest.mark.parametrize("addresses", [1, 2])
@pytest.mark.parametrize("kind", MESSAGES)
def test_a_flood_does_not_delay_the_robot(tmp_path, kind, addresses):
    trips, spent = measured(Place(tmp_path, addresses), kind)
    p50, p99 = ({side: np.percentile(each, q) * 1e6 for side, each in trips.items()} for q in (50, 99))
    gaps = np.mean(trips[True] > LATE_S) - np.mean(trips[False] > LATE_S)
    print(
        f"\n| {kind} ({MESSAGES[kind][0]}) | {addresses} | {p50[False]:.0f} → {p50[True]:.0f} "
        f"| {p99[False]:.0f} → {p99[True]:.0f} | {p99[True] / p99[False]:.2f} | {gaps:.2%} | {spent[True]:.0f} |"
    )
    if addresses == 2:
        assert spent[True] <= MOST_OTHERS_US
