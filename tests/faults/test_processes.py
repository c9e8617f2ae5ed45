"""Processes that are killed or stopped at any point; they are forked from a warm one, so that a hundred of them are quick."""

import multiprocessing
import os
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from time import sleep

import pytest
from fast import fast, full
from faults import told
from trial import AFTER, BEFORE, LONG, Server, Trial, serving, standing

from transport.log.reader import LogReader
from transport.protocol.messages.requests import StatsGet
from transport.robot.client import ConnectionFailed

DEADLINE_S = 0.02  # a robot whose server may be dead waits no longer for an answer

KILLS = [5, pytest.param(100, marks=pytest.mark.long)]


@contextmanager
def forked(work: Callable[[], None]) -> Iterator[BaseProcess]:
    """Run `work` in a process of its own, which ends with the block."""
    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def hello_again(trial: Trial) -> None:
    """Say hello to a new server, as a robot does: one into the connection of the killed one is lost, and is sent again."""
    with suppress(ConnectionFailed):
        trial.client.hello()
        return
    trial.client.hello()


@contextmanager
def killed_within(process: BaseProcess, seconds: float, rng: random.Random) -> Iterator[None]:
    """Kill the process (−9) at a random point at the beginning of the block."""
    timer = threading.Timer(rng.uniform(0.0, seconds), process.kill)
    timer.start()
    yield
    timer.join()
    process.join()


@pytest.mark.parametrize("kills", KILLS)
@told(
    "the server is killed (−9), at 100 random points",
    "no answer; its log can be replayed up to the cut",
    "holds its posture; needs a new `hello` and `reset`",
)
def test_the_server_is_killed(kills, tmp_path):
    rng = random.Random(0)
    server = Server(tmp_path)
    trial = Trial(server, greet=False)
    for i in range(kills):
        log = tmp_path / f"{i}.mcap"
        with forked(lambda: server.serve(log)) as process:  # noqa: B023
            trial.client.heal()
            hello_again(trial)
            trial.recovers()
            trial.client.received.clear()
            trial.client.deadline = DEADLINE_S
            with killed_within(process, 0.05, rng):
                trial.run(BEFORE)
        trial.run(LONG)
        assert set(trial.run(AFTER)) <= {"failsafe:stopped", "failsafe:damping"}
        with LogReader(log) as reader:
            exchanges = sum(entry.answered for entry in reader.exchanges())
            assert not reader.complete
        log.unlink()
        assert exchanges >= BEFORE - 40  # the last chunk of 64 kB was not yet full
    trial.client.close()


def beats(manager: socket.socket) -> bool:
    """Whether the server notifies its manager in time."""
    try:
        return bool(manager.recv(4096))
    except TimeoutError:
        return False


@full
@told(
    "the server's loop hangs; it has a watchdog of 0.3 s",
    "no answer and no `WATCHDOG=1`; systemd ends it and starts it anew",
    "holds its posture; needs a new `hello` and `reset`",
)
def test_the_loop_of_the_server_hangs(tmp_path):
    """The test is the service manager."""
    server, address = Server(tmp_path), f"{tmp_path}/notify"
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"}
    trial = Trial(server, greet=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(30.0)
        with forked(lambda: server.serve_watched(environment)) as process:
            trial.client.hello()
            trial.stands()
            assert beats(manager)
            os.kill(process.pid or 0, signal.SIGUSR1)
            trial.client.received.clear()
            trial.client.deadline = DEADLINE_S
            trial.run(LONG)
            assert trial.side.stopped
            manager.settimeout(0.3)
            while beats(manager):
                pass
            assert process.is_alive()
        with forked(lambda: server.serve_watched(environment)):
            trial.client.heal()
            hello_again(trial)
            trial.recovers()
            manager.settimeout(30.0)
            assert beats(manager)
    trial.client.close()


@full
@pytest.mark.parametrize("kills", KILLS)
@told("the robot's process is killed (−9), at 100 random points", "`not_controlling`, for `release_ms`", "a new one connects")
def test_after_a_killed_robot_a_new_one_connects(kills, tmp_path):
    rng = random.Random(1)
    with serving(tmp_path) as server:
        for _ in range(kills):

            def walk() -> None:
                trial = Trial(server)
                while True:
                    trial.run(BEFORE)

            with forked(walk) as process, killed_within(process, 0.3, rng):
                pass
            sleep(server.settings.release_ms * 1e-3)
            trial = Trial(server)
            trial.stands()
            trial.close()
        assert server.faults == []


@pytest.mark.parametrize("milliseconds", fast([5, 20, 50, 200, 2000], 200))
@told("the server's process is paused for 200 ms, 2 s", "goes on with the newest state", "holds its posture until `reset`")
@told("the server's process is paused for 5, 20, 50 ms", "goes on with the newest state", "goes on")
def test_the_server_process_is_stopped(milliseconds, tmp_path):
    server = Server(tmp_path)
    trial = Trial(server, kind="robot", greet=False)
    with forked(server.serve) as process:
        trial.client.hello()
        trial.stands()
        trial.client.received.clear()
        os.kill(process.pid or 0, signal.SIGSTOP)
        trial.client.deadline = 0.0
        trial.run(milliseconds)
        os.kill(process.pid or 0, signal.SIGCONT)
        trial.client.heal()
        trial.client.ask(StatsGet())  # it is awake: robot time runs fast here
        after = trial.run(AFTER)
        assert trial.side.stopped == (milliseconds >= 100)
        if trial.side.stopped:
            trial.put_back_on_its_feet()
            assert trial.side.reset()
            after = trial.run(BEFORE)
        assert after["ok"] >= sum(after.values()) - 1  # a late answer to an older state
    trial.client.close()


@pytest.mark.parametrize("milliseconds", fast([5, 50, 2000], 50))
@told("the robot's process and its simulated world are paused", "`watchdog.pause_ms`", "goes on")
def test_the_robot_process_is_stopped(milliseconds, tmp_path):
    """The world waits between two ticks, which looks the same to server and robot side as a stopped process."""
    with standing(tmp_path) as trial:
        sleep(milliseconds * 1e-3)
        trial.stands(AFTER)
