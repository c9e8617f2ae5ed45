"""Faults of a TCP connection: messages in parts, delays, ends that vanish, clocks, keys."""

import ctypes
import subprocess
import sys
from time import monotonic, sleep

import msgpack
import pytest
from fast import first_is_fast, full
from faults import told
from proxy import Proxy
from trial import AFTER, BEFORE, LONG, Trial, resident_mb, serving, standing
from wire import keyed

from idyn.errors import ConfigError
from sim_harness.commands.main import main
from transport.protocol.codec import encode
from transport.protocol.messages.base import Code
from transport.protocol.messages.command import CommandMessage
from transport.protocol.messages.requests import Estop, EstopAck, Stats, StatsGet
from transport.robot.client import ConnectionFailed, RobotClient, connected, hello_for
from transport.robot.planner import Observer
from transport.server.settings import Role

ROLES: dict[str, Role] = {"robot": "control", "watch": "watch", "plan": "plan", "configure": "configure", "button": "estop"}


STRANGER = """
import sys
import zmq
from zmq.utils.monitor import recv_monitor_message
socket = zmq.Context().socket(zmq.DEALER)
socket.linger = 0
news = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
socket.connect(sys.argv[1])
part, parts = bytes(int(sys.argv[2])), int(sys.argv[3])
socket.send_multipart([part] * parts)
print("cut" if news.poll(10_000) else "not cut")
"""
"""Sends a message of many parts; a process of its own, for the memory it takes."""

ENOUGH_MB = 100  # a server whose memory grows by less has not kept such a message: 400 MB, or 2 million times 64 bytes


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path, tcp=True) as server:
        yield server


@pytest.fixture
def trial(tmp_path):
    with standing(tmp_path, tcp=True) as trial:
        yield trial


@full
@told("another client sends 2 million parts of one byte, over TCP", "cuts the connection", "goes on")
@told("another client sends a message of 400 MB in parts, over TCP", "cuts the connection", "goes on")
@pytest.mark.parametrize(("length", "parts"), [(100_000, 4000), (1, 2_000_000)])
def test_a_message_of_endless_parts(trial, length, parts):
    before, arguments = resident_mb(), (sys.executable, "-c", STRANGER, trial.server.address, str(length), str(parts))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as stranger:
        while stranger.poll() is None:
            trial.stands(10)
        assert stranger.stdout.read() == "cut\n"
    assert resident_mb() - before < ENOUGH_MB


@pytest.fixture
def proxied(server):
    proxy = Proxy(server.address)
    trial = Trial(server, kind="robot", address=proxy.address)
    yield trial, proxy
    proxy.delay, proxy.jitter, proxy.dead = 0.0, 0.0, False
    trial.close()
    proxy.close()


def delayed(trial: Trial, proxy: Proxy, delay: float, jitter: float) -> None:
    """A second in real time over such a connection; afterwards the robot goes on, if necessary after a reset."""
    trial.stands()
    proxy.delay, proxy.jitter = delay, jitter
    trial.client.deadline = 5e-3
    trial.judged(trial.side.run_paced(1.0))
    proxy.delay = proxy.jitter = 0.0
    trial.client.heal()
    trial.run(AFTER)
    if trial.side.stopped:
        trial.put_back_on_its_feet()
        assert trial.side.reset()
    assert trial.run(BEFORE)["ok"] >= BEFORE - 1  # a last late answer


@full
@told("all data arrive 1 ± 1 ms late, for 1 s", "–", "goes on, in part by following `ref`")
def test_jitter(proxied):
    delayed(*proxied, delay=1e-3, jitter=1e-3)


@full
@told("all data arrive 10 ± 10 ms late, for 1 s", "–", "follows `ref`, or holds its posture until `reset`")
def test_long_delays(proxied):
    trial, _ = proxied
    delayed(*proxied, delay=10e-3, jitter=10e-3)
    assert trial.side.refused.keys() <= {Code.OUT_OF_ORDER, Code.LATCHED_FAULT, Code.STALE_STATE}


@full
@told("no data pass for 150 ms, while the connection stays open", "–, or `latched_fault`", "holds its posture until `reset`")
def test_a_dead_line(proxied):
    trial, proxy = proxied
    trial.stands()
    proxy.dead = True
    trial.client.deadline = 1e-3
    trial.run(LONG)
    assert set(trial.run(AFTER)) == {"failsafe:stopped"}
    proxy.dead = False
    trial.client.heal()
    trial.run(5)
    assert trial.side.refused.keys() <= {Code.LATCHED_FAULT}  # none, when the states that waited in the line arrive at last
    trial.recovers()


@full
@told("the robot's connection is lost without being closed", "`not_controlling`, for `release_ms`", "may then connect again")
def test_a_half_open_line(server):
    proxy = Proxy(server.address)
    trial = Trial(server, kind="robot", address=proxy.address)
    trial.stands()
    proxy.dead = True
    with RobotClient(server.address, hello_for(trial.robot, 1e-3), connect_ms=20_000) as other:
        with pytest.raises(ConnectionFailed, match="another client controls"):
            other.hello()
        sleep(server.settings.release_ms * 1e-3)
        other.hello()
    trial.client.close()
    proxy.close()


@told("the robot's clock is set by 5 s, forward or back", "`stale_state` for 25 ticks, if forward; then learned", "goes on")
@pytest.mark.parametrize("seconds", first_is_fast([5, -5], 0))
def test_the_clock_is_set(tmp_path, seconds):
    with standing(tmp_path, "robot", tcp=True) as trial:
        trial.client.wire.change = lambda data: shifted(data, seconds)
        trial.run(60)
        trial.stands(AFTER)
        assert trial.side.refused.keys() <= {Code.STALE_STATE}
        assert trial.side.refused[Code.STALE_STATE] <= 25


@full
@told("the robot's clock runs 1 % too fast or too slow", "–", "goes on")
@pytest.mark.parametrize("rate", first_is_fast([0.01, -0.01]))
def test_the_clock_drifts(tmp_path, rate):
    with standing(tmp_path, "robot", tcp=True) as trial:
        begin = monotonic()
        trial.client.wire.change = lambda data: shifted(data, rate * (monotonic() - begin))
        trial.stands(5 * AFTER)


def shifted(data: bytes, seconds: float) -> bytes:
    fields = msgpack.unpackb(data)
    return msgpack.packb(fields | {"t_send": fields["t_send"] + round(seconds * 1e9)})


@told("a second server takes the same port", "refuses to start", "goes on")
def test_a_taken_port(trial):
    with pytest.raises(ConfigError, match="cannot bind"):
        trial.server.begin()
    trial.stands()


def test_connection_identities_are_not_predictable(tmp_path):
    """libzmq takes the first one from `rand()`, which the server seeds at random."""
    libc = ctypes.CDLL(None)
    libc.srand(1)
    foreseen = {libc.rand() for _ in range(1000)}
    libc.srand(1)
    with serving(tmp_path):
        assert libc.rand() not in foreseen


@full
@told("a client has no key, or one that is not listed", "no answer: the connection is rejected", "goes on")
def test_wrong_keys(tmp_path):
    keys, curve = keyed(tmp_path, ROLES)
    with standing(tmp_path, tcp=True, curve=curve, keys=keys["robot"]) as trial:
        for wrong in (None, keys["stranger"]):
            hello = hello_for(trial.robot, 1e-3, kind="sim")
            with RobotClient(trial.server.address, hello, connect_ms=300, keys=wrong) as other, pytest.raises(ConnectionFailed):
                other.hello()
        trial.stands()


@told("an emergency stop by a client with a key of the role `estop`", "`estop_ack`", "damps until `reset`")
def test_an_emergency_stop_with_keys(tmp_path):
    keys, curve = keyed(tmp_path, ROLES)
    with standing(tmp_path, tcp=True, curve=curve, keys=keys["robot"]) as trial:
        with RobotClient(trial.server.address, hello_for(trial.robot, 1e-3), connect_ms=20_000, keys=keys["button"]) as button:
            assert isinstance(button.ask(Estop(name="button")), EstopAck)
        assert set(trial.run(AFTER)) <= {"damping", "failsafe:damping"}


@full
@told(
    "the name of an emergency stop has line breaks and escape sequences",
    "`estop_ack`; answers, `stats` and `idyn top` have them escaped",
    "damps until `reset`",
)
def test_text_of_a_stop_is_escaped_for_everybody(tmp_path, capsys):
    keys, curve = keyed(tmp_path, ROLES)
    with standing(tmp_path, tcp=True, curve=curve, keys=keys["robot"]) as trial:
        with Observer(trial.server.address, keys=keys["button"]) as button:
            ack = button.ask(Estop(name="\x1b[2J\nERROR a forged line\x9b31m\u202e"))
        assert set(trial.run(AFTER)) <= {"damping", "failsafe:damping"}
        with Observer(trial.server.address, keys=keys["watch"]) as watcher:
            stats = watcher.ask(StatsGet())
        secret, server_key = str(tmp_path / "watch.key_secret"), keys["watch"].server.decode()
        command = ["top", trial.server.address, "--once", "--secret", secret, "--server-key", server_key]
        assert main(command) == 0
    escaped = r"emergency stop by '\x1b[2J\nERROR a forged line\x9b31m\u202e'"
    assert isinstance(ack, EstopAck)
    assert ack.reason == escaped
    assert isinstance(stats, Stats)
    assert stats.fault == escaped
    assert f"  fault              {escaped}\n" in capsys.readouterr().out
    assert all(reply.message.isprintable() for reply in trial.client.received)


def framings(stop: Estop) -> dict[str, list[bytes]]:
    """An emergency stop, sent plainly and otherwise."""
    data, fields = encode(stop), msgpack.unpackb(encode(stop))
    return {
        "plain": [data],
        "padded": [msgpack.packb(fields | {"padding": bytes(70_000)})],
        "in two halves": [data[:7], data[7:]],
        "with an empty part": [b"", data],
        "with another message": [data, encode(StatsGet())],
        "with a field of broken text": [data[:1].replace(b"\x83", b"\x84") + data[1:] + b"\xa3seq\xa2\xff\xff"],
        "cut": [data[:-1]],
    }


@full
@told(
    "an emergency stop by a key that may not stop the robot, in several parts, padded or malformed",
    "`not_controlling`",
    "goes on",
)
def test_a_role_holds_for_every_framing(tmp_path):
    """The role is decided before length, parts and fields; one that may stop the robot stops it in all of them."""
    keys, curve = keyed(tmp_path, ROLES)
    stop = framings(Estop(name="button", stop=True))
    with standing(tmp_path, tcp=True, curve=curve, keys=keys["robot"]) as trial:
        for name in ("watch", "plan", "configure"):
            with connected(trial.server.address, keys[name]) as other:
                for framing, parts in stop.items():
                    other.send_multipart(parts)
                    assert set(trial.run(20)) == {"ok"}, (name, framing)
                    assert other.poll(5000), (name, framing)
                    assert b"not_controlling" in other.recv(), (name, framing)
        for framing, parts in stop.items():
            with connected(trial.server.address, keys["button"]) as button:  # each over a connection of its own
                button.send_multipart(parts)
                assert button.poll(5000), framing
                assert (b"estop_ack" if framing == "plain" else b"emergency stop is engaged") in button.recv(), framing
            assert set(trial.run(AFTER)) <= {"damping", "failsafe:damping"}, framing
            trial.put_back_on_its_feet()
            trial.side.reset()


@full
def test_a_message_that_does_not_wait(trial):
    """Its answer delays no state, and its refusal is told with the next state."""
    for _ in range(5):
        trial.client.tell(StatsGet())
    trial.stands(AFTER)
    trial.client.tell(CommandMessage(session=trial.client.session + 1, valid_for=0.5, velocity=[0.0, 0.0, 0.0]))
    assert trial.run(1) != {"ok": 1}
    assert trial.client.error.code is Code.NOT_CONTROLLING
    trial.stands(AFTER)
