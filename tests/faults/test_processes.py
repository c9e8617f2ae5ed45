"""Processes killed or stopped at any point; faults that outlast a session, stops that could be lost, wrong clocks."""

import os
import random
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import sleep

import msgpack
import msgspec
import numpy as np
import pytest
import zmq
from fast import fast, first_is_fast, full
from faults import told
from trial import AFTER, BEFORE, LONG, PATIENCE_MS, Server, Trial, forked, greeted, serving, standing
from wire import dealer, until

from transport.log.reader import LogReader
from transport.protocol.codec import encode
from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.requests import Estop, StatsGet
from transport.protocol.messages.state import Flags, StateMessage
from transport.robot.client import ConnectionFailed, RobotClient, hello_for

DEADLINE_S = 0.02  # a robot whose server may be dead waits no longer for an answer

KILLS = [2, pytest.param(5, marks=pytest.mark.full), pytest.param(100, marks=pytest.mark.long)]
TILT = 0.96  # of the first state of a falling robot [rad], which turns at 5 rad/s


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
            until(lambda: not beats(manager))
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


@full
@pytest.mark.parametrize("milliseconds", [5, 20, 50, 200, 2000])
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


@pytest.fixture
def other(trial):
    with dealer(trial.server.address) as socket:
        yield socket


def damps(trial: Trial) -> None:
    assert set(trial.run(AFTER)) <= {"damping", "failsafe:damping"}
    trial.recovers()


@told("a robot says `hello` again after a fault", "`latched` in the welcome, `latched_fault`", "damps until `reset`")
def test_a_hello_after_a_fault(trial, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(trial.server.controller, "answer", lambda *_: 1 / 0)
        trial.run(1)
    welcome = trial.client.hello()
    assert (welcome.mode, welcome.latched) == ("latched", "the controller failed (division by zero)")
    damps(trial)


@told("the first state of a session is that of a falling robot", "`latched_fault`", "damps until `reset`")
def test_a_falling_robot_says_hello(tmp_path):
    with greeted(tmp_path) as trial:
        trial.world.q[3:7] = [np.sin(TILT / 2), 0.0, 0.0, np.cos(TILT / 2)]
        trial.world.v[3] = 5.0
        trial.run(1)
        assert isinstance(trial.client.error, ErrorMessage)
        assert "first state" in trial.client.error.message
        damps(trial)


@told("an emergency stop by another client, over a connection of its own", "`estop_ack`", "damps until `reset`")
def test_a_stop_by_another_client(trial, other):
    other.send(encode(Estop(name="button")))
    assert b"estop_ack" in other.recv()
    damps(trial)


@told(
    "an emergency-stop client is not heard for `estop_timeout_ms`",
    "`emergency stop: no message of an emergency-stop client …`",
    "damps until `reset`",
)
def test_a_lost_heartbeat(tmp_path):
    with greeted(tmp_path, estop_timeout_ms=600_000.0) as trial:
        assert set(trial.run(BEFORE)) <= {"damping", "failsafe:damping"}
        assert trial.client.received[-1].message == "emergency stop: no message of an emergency-stop client since the start"
        with dealer(trial.server.address) as other:
            other.send(encode(Estop(name="button", stop=False)))
            assert b"estop_ack" in other.recv()
        damps(trial)


def stop_of(trial: Trial) -> StateMessage:
    """A state that is far ahead, with an emergency stop."""
    q, vel = trial.server.controller.stance.tobytes(), np.zeros(trial.robot.nv).tobytes()
    return StateMessage(session=trial.client.session, seq=10_000, t_robot=10**12, q=q, vel=vel, flags=Flags(estop=True))


@pytest.mark.parametrize("attempt", first_is_fast(range(5)))
@told("an emergency stop over a new connection, whose next state is already queued", "`not_controlling`", "damps until `reset`")
def test_a_stop_over_a_new_connection(trial, other, attempt):
    stop = stop_of(trial)
    following = msgspec.structs.replace(stop, seq=10_001, t_robot=10**12 + 10**6, flags=None)
    for message in (stop, *[following] * 5):
        other.send(encode(message))
    until(lambda: b"not_controlling" in other.recv())
    damps(trial)


def spoilt(kind: str, data: bytes) -> list[bytes]:
    if kind == "several parts":
        return [data, b"and more"]
    fields = msgpack.unpackb(data)
    return [msgpack.packb(fields | ({"flags": {"estop": 1}} if kind == "estop: 1" else {"padding": bytes(70_000)}))]


@pytest.mark.parametrize("kind", first_is_fast(["estop: 1", "several parts", "70 kB"]))
@told("an emergency stop with `estop: 1`, in several frames, or of 70 kB", "`bad_schema`", "damps until `reset`")
def test_a_malformed_stop(trial, kind):
    trial.client._socket.send_multipart(spoilt(kind, encode(stop_of(trial))))
    assert b"bad_schema" in trial.client._socket.recv()
    damps(trial)


@pytest.mark.parametrize("unit", first_is_fast([10**3, 10**6]))
@told("`t_robot` in µs or in ms", "`latched_fault`, with the unit, within 100 states", "damps until `reset`")
def test_a_clock_in_other_units(tmp_path, unit):
    with greeted(tmp_path) as trial:
        trial.client.change_state = lambda state: msgspec.structs.replace(state, t_robot=state.t_robot // unit)
        trial.run(100)
        assert "it appears to be in" in "".join(trial.server.faults)
        trial.client.heal()
        damps(trial)


@pytest.mark.parametrize("name", first_is_fast([signal.SIGTERM, signal.SIGHUP]))
@told("the server gets SIGTERM or SIGHUP", "`stop_ack` with a reason", "holds its posture until `reset`")
def test_a_signal_ends_the_server_with_a_goodbye(name, tmp_path):
    server = Server(tmp_path)
    trial = Trial(server, greet=False)
    with forked(server.serve_with_signals) as process:
        trial.client.hello()
        trial.stands()
        trial.client.deadline = 1.0
        os.kill(process.pid or 0, name)
        while not trial.client.goodbye and process.is_alive():
            trial.run(1)
        assert trial.client.goodbye == "the server ends"
        process.join()
        assert process.exitcode == 0
        trial.stops_without_answers()
    trial.client.close()


@full
@told("the file of the server's address is removed", "binds it anew, and logs it", "goes on")
def test_a_removed_address(trial, monkeypatch):
    monkeypatch.setattr("transport.server.sockets.port.CHECK_NS", 0)
    trial.stands()
    path = Path(trial.server.address.removeprefix("ipc://"))
    path.unlink()
    until(lambda: trial.stands(10) or path.exists())
    assert path.stat().st_mode & 0o777 == 0o600
    with RobotClient(trial.server.address, hello_for(trial.robot, 1e-3), connect_ms=PATIENCE_MS) as second:
        second.ask(StatsGet())
    trial.stands()


@full
@told(
    "the file of the server's address is replaced by another server's",
    "ends, with a goodbye",
    "holds its posture until `reset`",
)
def test_a_replaced_address(tmp_path, monkeypatch):
    monkeypatch.setattr("transport.server.sockets.port.CHECK_NS", 0)
    caught: list[BaseException] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: caught.append(arguments.exc_value))
    with standing(tmp_path) as trial, zmq.Context() as context, context.socket(zmq.ROUTER) as usurper:
        usurper.bind(trial.server.address)
        until(lambda: not trial.server.alive)
        assert "another server" in str(caught[0])
        trial.stops_without_answers()


@told("a client's text has line breaks and escape sequences", "`bad_schema`; the log shows them escaped", "goes on")
def test_text_of_clients_is_escaped_in_the_log(trial, other, caplog):
    other.send(msgpack.packb({"t": "x\nERROR a forged line\x1b[31m"}))
    trial.during(other.recv)
    (line,) = [record.getMessage() for record in caplog.records if "forged" in record.getMessage()]
    assert "\n" not in line
    assert "\x1b" not in line
    assert "x\\nERROR a forged line\\x1b[31m" in line
