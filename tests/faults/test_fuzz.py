"""Random messages, by the thousand, and by the million with `-m long`: each is answered, and quickly. Half of them are valid
messages with something replaced at any depth; the others are bytes of valid messages with some changed."""

import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from fast import first_is_fast, full
from trial import serving
from wire import dealer

from controllers.build import controller_from_snapshot, load_controller
from controllers.controller import Controller
from idyn.model.robot import Robot
from transport.protocol.codec import decode, encode
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import (
    Config,
    ConfigGet,
    ConfigSet,
    Heartbeat,
    Reset,
    StatsGet,
    Stop,
    TickGet,
    Welcome,
)
from transport.protocol.messages.state import Contact, Flags, Reference, StateMessage
from transport.robot.client import RobotClient, hello_for
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
        state, state, state, state, hello_for(robot, 1e-3, kind="sim"), Reset(session=session, q=q.tobytes(), vel=vel),
        Heartbeat(session=session, t_send=1), StatsGet(), ConfigGet(), TickGet(), Stop(session=session),
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
        return (
            value[: 8 * i] + np.float64(rng.choice([0.0, 1e300, float("nan"), rng.gauss(0, 1)])).tobytes() + value[8 * i + 8 :]
        )
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
    handle(encode(Stop(session=old)))
    welcome = decode(handle(encode(hello_for(robot, 1e-3, kind="sim"))))
    return welcome.session if isinstance(welcome, Welcome) else old


def served(builder: ControllerBuilder | None = None) -> tuple[Service, Controller]:
    settings = ServerSettings(controller="quadruped")
    controller = load_controller("quadruped")
    warm_up(controller, settings)
    return Service(controller, settings, builder=builder), controller


def fuzz_in_process(count: int) -> None:
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


def fuzz_over_sockets(count: int, folder: Path) -> None:
    rng = random.Random(1)
    with serving(folder) as server, RobotClient(server.address, hello_for(server.controller.robot, 1e-3)) as good:
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
            handle(encode(Stop(session=session)))
        assert good.hello()


def fuzz_settings(count: int, seed: int) -> None:
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
        taken += isinstance(reply, Config)
        if isinstance(reply, Config) and rng.random() < 0.5:
            service.handle(b"a", encode(ConfigSet(settings=own)), i)
    return taken


def test_random_messages_are_all_answered():
    fuzz_in_process(1000)


@full
def test_random_messages_over_sockets_are_all_answered(tmp_path):
    fuzz_over_sockets(1000, tmp_path)


@pytest.mark.parametrize("count", first_is_fast([100, 300]))
def test_random_settings_are_all_answered(count):
    fuzz_settings(count, seed=2)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_million_random_messages():
    fuzz_in_process(1_000_000)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_random_messages_over_sockets(tmp_path):
    fuzz_over_sockets(100_000, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(4))
def test_a_hundred_thousand_random_settings_in_quarters(seed):
    fuzz_settings(25_000, seed)
