"""Random messages, floods by other clients, and hours of trotting: each message is answered, quickly, and nothing grows."""

import multiprocessing
import os
import random
import resource
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from multiprocessing.synchronize import Event
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
import zmq
from fast import full
from trial import forked, resident_mb, serving
from wire import dealer, expect, keyed

from controllers.build import controller_from_snapshot, load_controller
from controllers.controller import Controller
from idyn import Robot, RobotClient, hello_for, load_robot
from idyn.types import Array
from sim_harness.robot.robot_side import Pacer
from sim_harness.run.plan import hello_of, load_plan, simulated_robot
from sim_harness.run.server_process import ServerProcess
from sim_harness.studies.pauses import walking
from transport.keys import Keys
from transport.log.reader import LogReader
from transport.protocol.codec import decode, encode
from transport.protocol.messages import requests
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.command import CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.state import Contact, Flags, Reference, StateMessage, TorqueMessage
from transport.server.process import steady
from transport.server.reconfigure import ControllerBuilder
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.warm_up import warm_up

STALL_S = 0.05  # no message may keep the loop for longer, of those that a machine with other things to do did not interrupt
GROWTH_MB = 64  # memory may grow by this much at most; a leak of 100 bytes a message would be 100 MB in the long run
ROOM_BYTES = 8 << 30  # of addresses: who asks for more does not get it, and says so

WILD: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.0, -0.0, 1e-300, 1e300, float("nan"), float("inf"),
    "", "x", "LF_FOOT", "\x00", "é" * 100, b"", b"\x00" * 8, b"\xff" * 8, b"\x00" * 152, [], [0], [[[]]], {}, {"t": "state"},
    [float("nan")] * 19, [0.0] * 19, [0.0] * 12, "state", "hello", "1.0",
]  # fmt: skip
LONG = [pytest.mark.long, pytest.mark.timeout(7200)]
SLICE_S, WARM = 30.0, 0.2  # how often one looks [s], and the share of the time that the server has to reach its size
BLOCK, PAIRS = 250, 24  # ticks of a block, and pairs of blocks
REST_S = 2e-4  # rest of a flooding process after a message on each of its connections
VISIT_S = 2e-3  # time that a key that is not listed knocks before it is tried again on a new connection
CALM_US, CALM_BLOCKS = 5.0, 20  # time on others per tick below which a flood is over [µs], and most blocks until then
LATE_S = 2e-3  # a longer round trip is a gap
MOST_OTHERS_US = 50.0  # processor time that the server may spend on others per tick, with an address of the robot's own
Prepared = Callable[[zmq.Socket[bytes]], list[bytes]]  # returns the messages to send over and over on a connected socket


def messages(controller: Controller, session: int, seq: int) -> list[bytes]:
    """One of each kind, valid but for the session, perhaps."""
    robot, q = controller.robot, controller.stance
    vel, tau = np.zeros(robot.nv).tobytes(), np.zeros(robot.na).tobytes()
    state = StateMessage(
        session=session, seq=seq, t_robot=seq * 1_000_000, t_send=seq * 1_000_000, q=q.tobytes(), vel=vel, tau_applied=tau,
        contacts=[Contact(frame="LF_FOOT"), Contact(frame="RF_FOOT", p=[0.0] * 3, n=[0.0, 0.0, 1.0], mu=0.5)],
        ref=Reference(q=robot.joint_angles(q).tobytes(), v=tau, a=tau), flags=Flags(dry_run=True),
    )  # fmt: skip
    kinds = (
        state, state, state, state, hello_for(robot, 1e-3, kind="sim"), requests.Reset(session=session, q=q.tobytes(), vel=vel),
        requests.Heartbeat(session=session, t_send=1), requests.Stop(session=session),
        requests.StatsGet(), requests.ConfigGet(), requests.TickGet(),
    )  # fmt: skip
    return [encode(kind) for kind in kinds]


def replaced(value: Any, rng: random.Random) -> Any:
    """The same with one thing in it replaced, left out or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        fate = rng.random()
        if fate < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if fate < 0.15:
            return value | {rng.choice(["x", "t", "seq", ""]): rng.choice(WILD)}
        return value | {key: replaced(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        i = rng.randrange(len(value))
        return [*value[:i], replaced(value[i], rng), *value[i + 1 :]]
    if isinstance(value, bytes) and value and rng.random() < 0.7:
        i = rng.randrange(len(value) // 8 + 1)
        number = np.float64(rng.choice([0.0, 1e300, float("nan"), rng.gauss(0, 1)]))
        return value[: 8 * i] + number.tobytes() + value[8 * i + 8 :]
    return rng.choice(WILD)


def scrambled(data: bytes, rng: random.Random) -> bytes:
    spoilt = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        if not spoilt:
            break
        i = rng.randrange(len(spoilt))
        fate = rng.random()
        if fate < 0.5:
            spoilt[i] = rng.randrange(256)
        elif fate < 0.7:
            del spoilt[i : i + rng.randrange(1, 20)]
        elif fate < 0.9:
            spoilt[i:i] = rng.randbytes(rng.randrange(1, 20))
        else:
            del spoilt[i:]
    return bytes(spoilt)


def fuzzed(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return scrambled(data, rng)
    return msgpack.packb(replaced(msgpack.unpackb(data, strict_map_key=False), rng))


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fresh_session(handle: Callable[[bytes], bytes], robot: Robot, old: int) -> int:
    """Start a valid session now and then, so that later messages meet one."""
    handle(encode(requests.Stop(session=old)))
    welcome = decode(handle(encode(hello_for(robot, 1e-3, kind="sim"))))
    return welcome.session if isinstance(welcome, requests.Welcome) else old


def served(builder: ControllerBuilder | None = None) -> tuple[Service, Controller]:
    settings = ServerSettings(controller="quadruped")
    controller = load_controller("quadruped")
    warm_up(controller, settings)
    return Service(controller, settings, builder=builder), controller


@pytest.mark.parametrize("count", [300, pytest.param(1000, marks=full), pytest.param(1_000_000, marks=LONG)])
def test_random_messages_are_all_answered(count):
    rng = random.Random(0)
    service, controller = served()
    session, warm = 0, 0.0
    with steady():  # as in the server's loop
        for i in range(count):
            now = i * 1_000_000
            if i % 200 == 0:
                session = fresh_session(lambda data: service.handle(b"a", data, now).reply, controller.robot, session)  # noqa: B023
            data = fuzzed(rng.choice(messages(controller, session, i % 200 + 1)), rng)
            begin = time.thread_time()  # of this thread: what the machine does meanwhile is not the server's
            reply = decode(service.handle(rng.choice((b"a", b"a", b"b")), data, now).reply)
            assert time.thread_time() - begin < STALL_S, data
            assert not (isinstance(reply, ErrorMessage) and reply.code is Code.INTERNAL), (reply, data)
            if i == count // 10:
                warm = memory_mb()
    assert memory_mb() - warm < GROWTH_MB


@pytest.mark.parametrize("count", [pytest.param(1000, marks=full), pytest.param(100_000, marks=LONG)])
def test_random_messages_over_sockets_are_all_answered(count, tmp_path):
    rng = random.Random(1)
    with serving(tmp_path) as server, RobotClient(server.address, hello_for(server.controller.robot, 1e-3)) as good:
        with dealer(server.address) as bad:

            def handle(data: bytes) -> bytes:
                bad.send(data)
                return bad.recv()

            session = 0
            for i in range(count):
                if i % 200 == 0:
                    session = fresh_session(handle, server.controller.robot, session)
                reply = decode(handle(fuzzed(rng.choice(messages(server.controller, session, i % 200 + 1)), rng)))
                assert not (isinstance(reply, ErrorMessage) and reply.code is Code.INTERNAL), reply
            handle(encode(requests.Stop(session=session)))
        assert good.hello()


@pytest.mark.parametrize(
    ("count", "seed"),
    [(30, 2), pytest.param(300, 2, marks=full), *(pytest.param(25_000, seed, marks=LONG) for seed in range(4))],
)
def test_random_settings_are_all_answered(count, seed):
    """Built at once here, and never longer than a second; a server builds them beside its loop."""
    rng = random.Random(seed)
    service, controller = served(ControllerBuilder(controller_from_snapshot, in_thread=False))
    own = controller.snapshot()["settings"]
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (ROOM_BYTES, before[1]))
    try:
        taken = _set(service, own, rng, count)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert taken > count // 100


def _set(service: Service, own: dict[str, Any], rng: random.Random, count: int) -> int:
    """How many wild settings made a controller."""
    taken = 0
    for i in range(count):
        changes = own
        for _ in range(rng.randrange(1, 4)):
            changes = replaced(changes, rng)
        try:
            data = msgpack.packb({"t": "config_set", "v": "1.0", "settings": changes})
        except (TypeError, ValueError, OverflowError):
            continue
        begin = time.thread_time()
        reply = decode(service.handle(b"a", data, i).reply)
        assert time.thread_time() - begin < 20 * STALL_S, data
        assert not (isinstance(reply, ErrorMessage) and reply.code is Code.INTERNAL), (reply, data)
        assert not (isinstance(reply, ErrorMessage) and "MemoryError" in reply.message), (reply, data)
        taken += isinstance(reply, requests.Config)
        if isinstance(reply, requests.Config) and rng.random() < 0.5:
            service.handle(b"a", encode(requests.ConfigSet(settings=own)), i)
    return taken


def fixed(*messages: bytes) -> Prepared:
    return lambda socket: list(messages)


def commands(socket: "zmq.Socket[bytes]") -> list[bytes]:
    """Valid commands of a planner."""
    socket.send(encode(PlanHello(name="planner")))
    welcome = expect(PlanWelcome, decode(socket.recv()))
    return [encode(CommandMessage(session=welcome.session, valid_for=0.2, velocity=[0.1, 0.0, 0.0]))]


def hello(robot: Robot, **changes: object) -> bytes:
    return encode(msgspec.structs.replace(hello_for(robot, 1e-3, kind="shadow"), **changes))


MESSAGES: dict[str, tuple[str, int, Callable[[Robot], Prepared]]] = {
    "small hellos": ("watch", 4, lambda robot: fixed(hello(robot))),
    "hellos with 7000 frames": ("watch", 4, lambda robot: fixed(hello(robot, contact_frames=["LF_FOOT"] * 7000))),
    "statistics, 60 connections": ("watch", 60, lambda robot: fixed(encode(requests.StatsGet()))),
    "malformed": ("watch", 4, lambda robot: fixed(*(b"\xc1" * n for n in (1, 100, 10_000)))),
    "commands": ("plan", 4, lambda robot: commands),
    "handshakes": ("stranger", 4, lambda robot: fixed()),
}
"""Role, number of connections and messages of each kind of flood."""


def connect(context: "zmq.Context[zmq.Socket[bytes]]", address: str, keys: Keys) -> "zmq.Socket[bytes]":
    made = context.socket(zmq.DEALER)
    made.linger = 0
    made.curve_publickey, made.curve_secretkey, made.curve_serverkey = keys.public, keys.secret, keys.server
    made.connect(address)
    return made


def empty(source: "zmq.Socket[bytes]") -> None:
    with suppress(zmq.Again):
        while True:
            source.recv_multipart(zmq.NOBLOCK)


def flood(address: str, keys: Keys, connections: int, prepare: Prepared, on: Event) -> None:
    """Send messages while `on` is set, to a server of this process at other times. Without messages: knock."""
    os.nice(10)
    with zmq.Context() as context, zmq.Context() as sink_context:
        public, secret = zmq.curve_keypair()
        sink = sink_context.socket(zmq.ROUTER)
        sink.curve_server, sink.curve_publickey, sink.curve_secretkey = True, public, secret
        sink.bind("tcp://127.0.0.1:*")
        own = sink.getsockopt_string(zmq.LAST_ENDPOINT), msgspec.structs.replace(keys, server=public)
        sides = {True: (address, keys), False: own}
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
        stats = expect(requests.Stats, self.ask(requests.StatsGet()))
        return stats.others_us_mean * stats.torques


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Place:
    """Settings of a server with keys, and the keys of its clients by role."""

    def __init__(self, folder: Path, addresses: int) -> None:
        self.keys, curve = keyed(folder, {"control": "control", "watch": "watch", "plan": "plan"})
        self.others = free_address()
        self.robot = self.others if addresses == 1 else free_address()
        own = None if addresses == 1 else self.robot
        places = {"endpoint": self.others, "robot_endpoint": own}
        self.settings = ServerSettings(controller="quadruped-trot", max_state_age_ms=1000.0, curve=curve, **places)


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
        stack.enter_context(forked(flood, *flooding))
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


@pytest.mark.soak
@pytest.mark.timeout(24 * 3600)
def test_memory_files_and_tick_times_do_not_grow(tmp_path, pytestconfig):
    """Run with `-m soak -s --soak-minutes 240`: it prints a line for each slice."""
    minutes = pytestconfig.getoption("soak_minutes")
    plan = walking("demo")
    robot, _ = load_robot(plan.controller.robot)
    log = tmp_path / "log.mcap"
    rows, ticks = [], 0
    with tempfile.TemporaryDirectory(prefix="idyn-") as sockets:
        settings = msgspec.structs.replace(plan.server, law="coulomb", endpoint=f"ipc://{sockets}/s", log_part_mb=200.0)
        with (
            ServerProcess(settings, plan.controller, log) as server,
            RobotClient(server.endpoint, hello_for(robot, plan.controller.period, kind="sim"), deadline_ms=2000) as client,
        ):
            client.hello()
            side = simulated_robot(plan, client)
            for _ in range(round(minutes * 60 / SLICE_S)):
                trace = side.run_paced(SLICE_S, waits=True)
                ticks += len(trace)
                assert not side.stopped
                assert trace.share("ok") > 0.99
                own = Path(f"/proc/{server.process.pid}")
                memory, descriptors = resident_mb(own.name), len(list((own / "fd").iterdir()))
                rows.append((memory, descriptors, float(np.nanmedian(trace.round_trip)) * 1e6))
                print(f"{ticks / 6e4:6.1f} min  {memory:7.1f} MB  {descriptors} files  {rows[-1][2]:6.0f} µs", flush=True)
    table = np.array(rows)[round(WARM * len(rows)) :]
    assert table[:, 0].max() < 1.02 * table[0, 0]
    assert table[:, 1].max() <= table[0, 1]
    third = len(table) // 3
    assert np.median(table[-third:, 2]) < 1.25 * np.median(table[:third, 2])
    with LogReader(log) as reader:
        assert sum(entry.answered for entry in reader.exchanges()) == ticks
        assert reader.complete
