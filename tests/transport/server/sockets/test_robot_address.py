"""An address of the robot's own: who may connect where, who is answered, and what is counted as spent on others."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import zmq
from standin import MS, SpringDamper, standing

from controllers.config.loading import parse
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from transport.keys import client_keys, make_keys
from transport.protocol.codec import decode, encode
from transport.protocol.messages.requests import Estop, EstopAck, Stats, StatsGet
from transport.protocol.messages.state import StateMessage
from transport.robot.client import RobotClient
from transport.robot.conversation import ConnectionFailed, hello_for
from transport.robot.observer import Observer
from transport.robot.planner import PlannerClient
from transport.server.service import Service
from transport.server.settings import ServerSettings, robot_endpoint
from transport.server.sockets.anticipation import Anticipation
from transport.server.sockets.router import Router
from transport.startup.warm_up import warm_up

PATIENCE_MS = 30_000
"""A busy machine may take its time [ms]."""

FLOOD = 20
"""Answers to a flooding client before which an emergency stop is answered."""

MESSAGES, PARTS = 4, 20_000
"""Number and parts of messages that take much time."""


@contextmanager
def serving(robot: Robot, folder: Path, *, own: bool = True, **settings: object) -> Iterator[tuple[str, str, threading.Thread]]:
    """A server in a thread. Gives the robot's address, that of all others, and the thread. own: the robot has its own"""
    table = {"controller": "standin", "max_state_age_ms": 1000.0, "planners": ["joystick"], "estops": ["button"], **settings}
    parsed = parse(table, ServerSettings, "server")
    controller = SpringDamper(robot)
    warm_up(controller, parsed)
    service, stop, anticipation = Service(controller, parsed, shadow=SpringDamper(robot)), threading.Event(), Anticipation(0.0)
    address, others = f"ipc://{folder}/robot", f"ipc://{folder}/others" if own else None
    with Router(service, address, lambda fault: None, anticipation, parsed.curve, others_address=others) as router:
        thread = threading.Thread(target=router.run, args=(stop,))
        thread.start()
        try:
            yield router.endpoint, router.others_endpoint or router.endpoint, thread
        finally:
            stop.set()
            thread.join()


def client_of(robot: Robot, address: str, **settings: object) -> RobotClient:
    settings = {"connect_ms": PATIENCE_MS} | settings
    hello = hello_for(robot, 1e-3, kind=settings.pop("kind", "sim"))  # type: ignore[arg-type]
    return RobotClient(address, hello, deadline_ms=PATIENCE_MS, **settings)  # type: ignore[arg-type]


def state(robot: Robot, tick: int) -> StateMessage:
    return StateMessage(q=standing(robot).tobytes(), vel=np.zeros(robot.nv).tobytes(), t_robot=tick * MS)


@contextmanager
def dealer(address: str) -> Iterator["zmq.Socket[bytes]"]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as made:
        made.linger, made.rcvtimeo = 0, PATIENCE_MS
        made.connect(address)
        yield made


def test_robot_and_others_are_answered_at_their_addresses(robot: Robot, tmp_path: Path) -> None:
    with ExitStack() as stack:
        own, others, _ = stack.enter_context(serving(robot, tmp_path))
        client = stack.enter_context(client_of(robot, own))
        observer = stack.enter_context(Observer(others))  # also before a robot has control
        assert isinstance(observer.ask(StatsGet()), Stats)
        client.hello()
        planner = stack.enter_context(PlannerClient(others, "joystick", timeout_ms=PATIENCE_MS))
        shadow = stack.enter_context(client_of(robot, others, kind="shadow"))
        shadow.hello()
        planner.command((0.2, 0.0, 0.0), valid_for=30.0)
        for tick in range(20):
            torque = client.exchange(state(robot, tick))
            assert torque is not None
            assert not torque.dry_run
        assert planner.command((0.2, 0.0, 0.0), valid_for=30.0).state is not None
        with client_of(robot, others) as lost, pytest.raises(ConnectionFailed, match=f"the robot connects to {own}"):
            lost.hello()


def test_only_keys_of_the_robot_and_of_the_emergency_stop_are_admitted_to_its_address(robot: Robot, tmp_path: Path) -> None:
    roles = ("control", "watch", "estop")
    public = {name: make_keys(tmp_path, name)[2] for name in ("server", *roles)}
    keys = {role: client_keys(tmp_path / f"{role}.key_secret", public["server"]) for role in roles}
    clients = {role: {"key": public[role], "role": role} for role in roles}
    curve = {"secret": str(tmp_path / "server.key_secret"), "clients": clients}
    with serving(robot, tmp_path, curve=curve) as (own, others, _), client_of(robot, own, keys=keys["control"]) as client:
        client.hello()
        assert client.exchange(state(robot, 1)) is not None
        with Observer(others, keys=keys["watch"]) as observer:
            assert isinstance(observer.ask(StatsGet()), Stats)
        with client_of(robot, own, keys=keys["watch"], connect_ms=300) as stranger, pytest.raises(ConnectionFailed):
            stranger.hello()
        with client_of(robot, own, keys=keys["estop"]) as button:
            stopped = button.ask(Estop(name="button"))
            assert isinstance(stopped, EstopAck)
            assert stopped.stopped


@pytest.mark.parametrize("own", [True, False], ids=["own address", "one address"])
def test_an_emergency_stop_comes_through_a_flood(robot: Robot, tmp_path: Path, own: bool) -> None:
    """Each connection has its turn: the stop waits for about one message of each other one, not for all of them."""
    with serving(robot, tmp_path, own=own) as (address, others, _), client_of(robot, address) as client:
        client.hello()
        with ExitStack() as stack:
            flooding = [stack.enter_context(dealer(others)) for _ in range(3)]
            button = stack.enter_context(dealer(others))
            button.send(encode(Estop(name="button", stop=False)))
            assert isinstance(decode(button.recv()), EstopAck)
            for each in flooding:
                for _ in range(60):
                    each.send(b"\xc1", zmq.NOBLOCK)
            button.send(encode(Estop(name="button")))
            time.sleep(0.05)  # the messages have arrived
            tick = 1
            while not button.poll(0):
                assert client.exchange(state(robot, tick)) is not None
                tick += 1
            stopped = decode(button.recv())
            answered = [sum(1 for _ in range(FLOOD) if each.poll(0) and each.recv()) for each in flooding]
    assert isinstance(stopped, EstopAck)
    assert stopped.stopped
    assert max(answered) < FLOOD


@pytest.mark.parametrize("own", [True, False], ids=["own address", "one address"])
def test_time_on_others_is_the_processor_time_that_they_take(robot: Robot, tmp_path: Path, own: bool) -> None:
    """The oracle is the processor time of the server's thread. Messages of many parts take nearly all of it."""
    with serving(robot, tmp_path, own=own) as (address, others, thread), client_of(robot, address) as client:
        assert thread.ident is not None
        clock = time.pthread_getcpuclockid(thread.ident)
        client.hello()
        ticks = count(1)

        def spent() -> tuple[float, float]:
            """Return the time on others and the processor time of the thread, both so far [µs]."""
            stats = client.ask(StatsGet())
            assert isinstance(stats, Stats)
            return stats.others_us_mean * stats.torques, time.clock_gettime(clock) * 1e6

        for _ in range(100):
            assert client.exchange(state(robot, next(ticks))) is not None
        before = spent()
        assert before[0] == 0.0
        with dealer(others) as stranger:
            for _ in range(MESSAGES):
                stranger.send_multipart([b"x"] * PARTS)
            answers = 0
            while answers < MESSAGES:
                assert client.exchange(state(robot, next(ticks))) is not None
                if stranger.poll(0):
                    stranger.recv()
                    answers += 1
        counted, used = np.subtract(spent(), before)
    assert 0.6 * used < counted < used


@pytest.mark.skipif(sys.platform != "linux", reason="niceness of threads")
def test_the_thread_that_decrypts_for_others_gives_way(robot: Robot, tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/task"))
    with serving(robot, tmp_path, own=False):
        usual = {os.getpriority(os.PRIO_PROCESS, int(thread)) for thread in set(os.listdir("/proc/self/task")) - before}
    with serving(robot, tmp_path):
        added = {int(thread) for thread in set(os.listdir("/proc/self/task")) - before}
        nices = {os.getpriority(os.PRIO_PROCESS, thread) for thread in added}
    assert max(nices) == max(10, *usual)
    assert min(nices) == min(usual)


@pytest.mark.parametrize("address", ["http://x", "tcp://0.0.0.0:1", "ipc:///x/y"])
def test_the_robot_s_address_is_checked(address: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.robot_endpoint"):
        robot_endpoint(ServerSettings(controller="x", endpoint="ipc:///x/y", robot_endpoint=address))
    assert robot_endpoint(ServerSettings(controller="x")) is None
