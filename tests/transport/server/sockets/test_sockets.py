"""A real ROUTER and real clients over ipc and tcp: bad input, restarts, floods, keys and roles, when to poll."""

import os
import pty
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

import msgpack
import msgspec
import numpy as np
import pytest
import zmq
from cli import fails
from fast import every, every_row, first_is_fast, full
from rig import client_of, served
from standin import SpringDamper, from_snapshot, resting
from wire import PATIENCE_MS, dealer, expect, keyed, routed

from controllers.config.loading import parse
from idyn import ConfigError, ConnectionFailed, Robot, RobotClient
from sim_harness.commands.main import main
from transport.keys import client_keys, make_keys, read_secret
from transport.protocol.codec import decode, encode
from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.requests import ClientKind, Config, ConfigGet, ConfigSet, Estop, EstopAck, Stats, StatsGet
from transport.protocol.messages.state import TorqueMessage
from transport.robot.planner import Observer, PlannerClient
from transport.server.reconfigure import ControllerBuilder
from transport.server.service import Service
from transport.server.settings import CurveSettings, Role, ServerSettings
from transport.server.sockets.port import AddressFile
from transport.server.sockets.router import Router
from transport.server.sockets.scheduling import Anticipation, newest
from transport.startup.serve import serve

ROLES: dict[str, Role] = {"control": "control", "watch": "watch", "configure": "configure", "estop": "estop"}
CHANGE = ConfigSet(settings={"feedback": {"kp": 5.0}})
FLOOD = 20  # answers to a flooding client before which an emergency stop is answered
MESSAGES, PARTS = 4, 20_000  # number and parts of messages that take much time
PERIOD_NS = 1_000_000


@contextmanager
def plainly_served(robot: Robot, address: str) -> Iterator[str]:
    """A server in a thread; gives its endpoint and ends cleanly."""
    settings = ServerSettings(controller="standin", max_state_age_ms=1000.0, planners=("joystick",))
    with served(robot, address, settings) as (router, *_):
        yield router.endpoint


@pytest.fixture
def address(robot, tmp_path):
    with plainly_served(robot, f"ipc://{tmp_path}/s") as bound:
        yield bound


def test_a_planner_that_ends_is_no_lost_client(address, caplog):
    with PlannerClient(address, "joystick") as planner:
        planner.command((0.2, 0.0, 0.0), valid_for=0.001)
    time.sleep(0.01)
    with PlannerClient(address, "joystick"):  # the server has handled the end of the first one
        assert caplog.text == ""


def test_the_file_of_the_address_ends_with_its_server_and_that_of_another_one_stays(robot, tmp_path):
    path = tmp_path / "s"
    with plainly_served(robot, f"ipc://{path}"):
        assert path.is_socket()
    assert not path.exists()
    path.touch()
    file = AddressFile(f"ipc://{path}")
    path.rename(tmp_path / "t")
    path.touch()
    file.remove()
    assert path.exists()


@full
def test_the_keyboard_steers_in_a_terminal(robot, address):
    terminal, own = pty.openpty()
    arguments = [sys.executable, "-m", "sim_harness", "drive", address, "--name", "joystick"]
    with client_of(robot, address) as client:
        client.hello()
        drive = subprocess.Popen(arguments, stdin=own, stdout=own, env=os.environ | {"TERM": "xterm"})
        os.write(terminal, b"wad")
        shown = b""
        while b"accepted" not in shown:
            assert select.select([terminal], [], [], 20.0)[0], shown
            shown += os.read(terminal, 4096)
        os.write(terminal, b"x")
        assert drive.wait(10) == 0
        reply = client.exchange(resting(robot, 1))
        assert reply is not None
        time.sleep(0.4)
        reply = client.exchange(resting(robot, 2))
        assert "expired" in reply.message
    os.close(terminal)
    os.close(own)


@every("lists", [True, False])
def test_a_client_written_by_hand_gets_torques(robot, tmp_path, lists):
    with plainly_served(robot, f"ipc://{tmp_path}/s") as address, dealer(address) as socket:
        names, model = list(robot.joint_names), {"nq": 19, "nv": 18, "na": 12, "total_mass": robot.total_mass}
        base = {"type": "free_flyer", "quat_order": "xyzw", "vel_frame": "local"}
        hello = {"t": "hello", "v": "1.0", "client": {"name": "by hand", "kind": "robot"}, "model": model}
        socket.send(msgpack.packb(hello | {"joint_names": names, "actuated": names, "base": base, "dt_nominal": 0.001}))
        welcome = msgpack.unpackb(socket.recv())
        assert welcome["t"] == "welcome"
        q = [0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0] + [0.2] * 12
        vel = [0.0] * 18
        for seq in (1, 2):
            message = {"t": "state", "v": "1.0", "session": welcome["session"], "seq": seq, "t_robot": seq * 1_000_000}
            vectors = {"q": q, "vel": vel} if lists else {"q": struct.pack("<19d", *q), "vel": struct.pack("<18d", *vel)}
            socket.send(msgpack.packb(message | vectors))
            torque = msgpack.unpackb(socket.recv())
            assert (torque["t"], torque["seq"]) == ("torque", seq)
        tau = struct.unpack("<12d", torque["tau"])
        assert tau == pytest.approx([0.01 - 3.0 * 0.2 - 0.001 * 0.2] * 12)
        assert torque["status"] == "ok"
        assert {force["frame"] for force in torque["contact_force"]} == set(robot.spheres.keys)


def test_torques_are_received_over_ipc_tcp_and_ipv6_also_by_a_restarted_client(robot, tmp_path):
    for place in (f"ipc://{tmp_path}/t", "tcp://127.0.0.1:*", *(["tcp://[::1]:*"] if socket.has_ipv6 else [])):
        with plainly_served(robot, place) as bound:
            for _ in range(2):
                with client_of(robot, bound) as client:  # which gives control back when it closes
                    client.hello()
                    for tick in range(50):
                        torque = expect(TorqueMessage, client.exchange(resting(robot, tick)))
                        assert torque.seq == tick + 1


def test_without_a_server_hello_fails_and_no_message_is_queued(robot, tmp_path, monkeypatch):
    monkeypatch.setattr("transport.robot.client.PROBE_MS", 5)
    with client_of(robot, f"ipc://{tmp_path}/none", connect_ms=50) as client:
        begin = time.monotonic()
        assert client.exchange(resting(robot, 0)) is None
        assert time.monotonic() - begin < 1e-3 * PATIENCE_MS  # it did not wait for an answer
        with pytest.raises(ConnectionFailed, match="no server at"):
            client.hello()


def test_the_newest_state_of_each_client_survives_a_batch():
    one, two, reset = (msgpack.packb({"t": kind, "n": n}) for kind, n in (("state", 1), ("state", 2), ("reset", 0)))
    batch = [(b"a", one, 1), (b"a", reset, 2), (b"b", one, 3), (b"a", b"\xc1", 4), (b"a", two, 5), (b"a", reset, 6)]
    kept, overtaken = newest(batch)
    assert kept == batch[1:]
    assert overtaken == batch[:1]


def test_a_second_server_and_an_address_that_cannot_be_bound_are_refused(robot, tmp_path, address):
    service = Service(SpringDamper(robot), ServerSettings(controller="standin"))
    for place, says in ((address, "another server"), (f"ipc://{tmp_path}/no/such/folder", "cannot bind")):
        with pytest.raises(ConfigError, match=says):
            Router(service, place, lambda faults: None, Anticipation(lead_us=250.0))


@every_row(
    ({"endpoint": "taken"}, "server.endpoint"),
    ({"curve": CurveSettings(secret="/nowhere/server.key_secret", clients={})}, "not a readable key"),
    ({"metrics_host": "192.0.2.1", "metrics_port": 0}, "server.metrics_port: cannot bind"),
)
def test_a_start_that_fails_leaves_no_log_in_the_way_of_the_next_one(changes, says, robot, tmp_path, monkeypatch):
    monkeypatch.setattr("transport.startup.serve.load_controller", lambda name, changes: SpringDamper(robot))
    monkeypatch.setattr("transport.startup.serve.floor_warning", lambda controller: "")
    log, stop = tmp_path / "run.mcap", threading.Event()
    settings = ServerSettings(controller="standin", endpoint=f"ipc://{tmp_path}/s")
    with plainly_served(robot, f"ipc://{tmp_path}/taken") as taken:
        given = {name: taken if value == "taken" else value for name, value in changes.items()}
        with pytest.raises(ConfigError, match=says):
            serve(msgspec.structs.replace(settings, **given), log_path=log)
    assert not log.exists()
    serve(settings, log_path=log, ready=lambda endpoint: stop.set(), stop=stop)
    assert log.exists()


class Place:
    """A server's address and the keys of its clients, by role; 'stranger' is one that it does not know."""

    def __init__(self, folder: Path) -> None:
        self.keys, curve = keyed(folder, ROLES)
        self.settings = ServerSettings(controller="standin", curve=curve, max_state_age_ms=1000.0)
        self.address = ""

    def client(self, robot: Robot, name: str | None, kind: ClientKind = "sim", connect_ms: int = 20_000) -> RobotClient:
        return client_of(robot, self.address, kind, connect_ms=connect_ms, keys=None if name is None else self.keys[name])


@pytest.fixture
def place(robot, tmp_path):
    place = Place(tmp_path)
    builder = ControllerBuilder(from_snapshot, in_thread=False)
    service = Service(SpringDamper(robot), place.settings, shadow=SpringDamper(robot), builder=builder)
    with routed(service, "tcp://127.0.0.1:*", curve=place.settings.curve) as (router, _):
        place.address = router.endpoint
        yield place


def test_a_robot_with_a_known_key_is_controlled(robot, place):
    with place.client(robot, "control") as client:
        client.hello()
        assert client.exchange(resting(robot, 1)) is not None
        refused = expect(ErrorMessage, client.ask(CHANGE))
        assert "'control' may not send 'config_set'" in refused.message


WITHOUT, UNLISTED = "it admits keys only, and this client has none", "it does not list this client's key"


@pytest.mark.parametrize(("name", "says"), first_is_fast([(None, WITHOUT), ("stranger", UNLISTED)]))
def test_who_watches_is_told_why_no_answer_comes(place, capsys, monkeypatch, tmp_path, name, says):
    monkeypatch.setitem(Observer.__init__.__kwdefaults__, "timeout_ms", 300)
    keys = None if name is None else place.keys[name]
    options = [] if keys is None else ["--secret", f"{tmp_path}/{name}.key_secret", f"--server-key={keys.server.decode()}"]
    assert says in fails(capsys, "top", place.address, "--once", *options)
    with pytest.raises(ConnectionFailed, match=says):
        PlannerClient(place.address, "planner", timeout_ms=300, keys=keys)


@pytest.mark.parametrize("curve", [True, False])
def test_a_client_with_the_key_of_another_server_is_told(robot, place, tmp_path, curve):
    other = make_keys(tmp_path, "other")[2]
    keys = client_keys(tmp_path / "watch.key_secret", other)
    says = "its key is another than" if curve else "it has no keys, and this client expects one"
    service = Service(SpringDamper(robot), ServerSettings(controller="standin"))
    with Router(service, f"ipc://{tmp_path}/open", lambda faults: None, Anticipation(0.0)) as unprotected:
        address = place.address if curve else unprotected.endpoint
        with Observer(address, timeout_ms=300, keys=keys) as observer, pytest.raises(ConnectionFailed, match=says):
            observer.ask(ConfigGet())


@pytest.mark.parametrize("role", ["watch", "configure"])
def test_a_client_without_the_control_role_may_be_a_shadow_and_perhaps_change_settings(robot, place, role):
    with place.client(robot, role) as client:
        assert isinstance(client.ask(CHANGE), Config if role == "configure" else ErrorMessage)
        assert isinstance(client.ask(ConfigGet()), Config)
        with pytest.raises(ConnectionFailed, match="only be a shadow"):
            client.hello()
    with place.client(robot, role, kind="shadow") as client:
        assert client.hello().dry_run
        answer = client.exchange(resting(robot, 1))
        assert answer.dry_run


def test_secret_keys_are_readable_by_their_owner_only(tmp_path, capsys):
    assert main(["keys", "robot", "--out", str(tmp_path / "keys")]) == 0
    public, _ = read_secret(tmp_path / "keys" / "robot.key_secret")
    assert f"public key: {public.decode()}" in capsys.readouterr().out
    assert main(["keys", "robot", "--out", str(tmp_path / "keys")]) == 2
    public_file, secret_file, _ = make_keys(tmp_path, "robot")
    assert secret_file.stat().st_mode & 0o777 == 0o600
    assert read_secret(secret_file)[1] not in public_file.read_bytes()
    with pytest.raises(ConfigError, match="never overwritten"):
        make_keys(tmp_path, "robot")
    with pytest.raises(ConfigError, match="0600"):
        read_secret(public_file)
    for mode in (0o640, 0o604, 0o660):
        secret_file.chmod(mode)
        with pytest.raises(ConfigError, match=f"0600.*{mode:04o}"):
            read_secret(secret_file)
    with pytest.raises(ConfigError, match="not a readable key"):
        read_secret(tmp_path / "none")


@contextmanager
def serving(robot: Robot, folder: Path, *, own: bool = True, **settings: object) -> Iterator[tuple[str, str, threading.Thread]]:
    """A server in a thread. Gives the robot's address, that of all others, and the thread. own: the robot has its own"""
    table = {"controller": "standin", "max_state_age_ms": 1000.0, "planners": ["joystick"], "estops": ["button"], **settings}
    parsed = parse(table, ServerSettings, "server")
    others, options = f"ipc://{folder}/others" if own else None, {"lead_us": 0.0, "curve": parsed.curve}
    with served(robot, f"ipc://{folder}/robot", parsed, others_address=others, **options) as (router, thread, _):
        yield router.endpoint, router.others_endpoint or router.endpoint, thread


def test_robot_and_others_are_answered_at_their_addresses(robot, tmp_path):
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
            torque = client.exchange(resting(robot, tick))
            assert not torque.dry_run
        assert planner.command((0.2, 0.0, 0.0), valid_for=30.0).state is not None
        with client_of(robot, others) as lost, pytest.raises(ConnectionFailed, match=f"the robot connects to {own}"):
            lost.hello()


def test_only_keys_of_the_robot_and_of_the_emergency_stop_are_admitted_to_its_address(robot, tmp_path):
    place = Place(tmp_path)
    keys, curve = place.keys, msgspec.to_builtins(place.settings.curve)
    with serving(robot, tmp_path, curve=curve) as (own, others, _), client_of(robot, own, keys=keys["control"]) as client:
        client.hello()
        assert client.exchange(resting(robot, 1)) is not None
        with Observer(others, keys=keys["watch"]) as observer:
            assert isinstance(observer.ask(StatsGet()), Stats)
        with client_of(robot, own, keys=keys["watch"], connect_ms=300) as stranger, pytest.raises(ConnectionFailed):
            stranger.hello()
        with client_of(robot, own, keys=keys["estop"]) as button:
            stopped = expect(EstopAck, button.ask(Estop(name="button")))
            assert stopped.stopped


@pytest.mark.parametrize("own", [True, False], ids=["own address", "one address"])
def test_an_emergency_stop_comes_through_a_flood(robot, tmp_path, own, monkeypatch):
    """Each connection has its turn: the stop waits for one message of each. The server is held until all have arrived."""
    handle, sent = Service.handle, threading.Event()
    monkeypatch.setattr(Service, "handle", lambda *arguments: sent.wait(10.0) and handle(*arguments))
    sent.set()
    with serving(robot, tmp_path, own=own) as (address, others, _), client_of(robot, address) as client:
        client.hello()
        with ExitStack() as stack:
            flooding = [stack.enter_context(dealer(others)) for _ in range(3)]
            button = stack.enter_context(dealer(others))
            button.send(encode(Estop(name="button", stop=False)))
            assert isinstance(decode(button.recv()), EstopAck)
            sent.clear()
            for each in flooding:
                for _ in range(60):
                    each.send(b"\xc1", zmq.NOBLOCK)
            button.send(encode(Estop(name="button")))
            time.sleep(0.05)
            sent.set()
            tick = 1
            while not button.poll(0):
                assert client.exchange(resting(robot, tick)) is not None
                tick += 1
            stopped = decode(button.recv())
            answered = [sum(1 for _ in range(FLOOD) if each.poll(0) and each.recv()) for each in flooding]
    assert isinstance(stopped, EstopAck)
    assert stopped.stopped
    assert max(answered) < FLOOD


@pytest.mark.parametrize("own", [True, False], ids=["own address", "one address"])
def test_time_on_others_is_the_processor_time_that_they_take(robot, tmp_path, own):
    """The oracle is the processor time of the server's thread. Messages of many parts take nearly all of it."""
    with serving(robot, tmp_path, own=own) as (address, others, thread), client_of(robot, address) as client:
        assert thread.ident is not None
        clock = time.pthread_getcpuclockid(thread.ident)
        client.hello()
        ticks = count(1)

        def spent() -> tuple[float, float]:
            """Return the time on others and the processor time of the thread, both so far [µs]."""
            stats = expect(Stats, client.ask(StatsGet()))
            return stats.others_us_mean * stats.torques, time.clock_gettime(clock) * 1e6

        for _ in range(100):
            assert client.exchange(resting(robot, next(ticks))) is not None
        before = spent()
        assert before[0] == 0.0
        with dealer(others) as stranger:
            for _ in range(MESSAGES):
                stranger.send_multipart([b"x"] * PARTS)
            answers = 0
            while answers < MESSAGES:
                assert client.exchange(resting(robot, next(ticks))) is not None
                if stranger.poll(0):
                    stranger.recv()
                    answers += 1
        counted, used = np.subtract(spent(), before)
    assert 0.6 * used < counted < used


def niceness(before: set[str]) -> set[int]:
    """Niceness of the threads of this process that are not among those before. A thread of an earlier test may end just now."""
    found = set()
    for thread in set(os.listdir("/proc/self/task")) - before:
        with suppress(ProcessLookupError):
            found.add(os.getpriority(os.PRIO_PROCESS, int(thread)))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="niceness of threads")
def test_the_thread_that_decrypts_for_others_gives_way(robot, tmp_path):
    before = set(os.listdir("/proc/self/task"))
    with serving(robot, tmp_path, own=False):
        usual = niceness(before)
    with serving(robot, tmp_path):
        nices = niceness(before)
    assert max(nices) == max(10, *usual)
    assert min(nices) == min(usual)


def after(*arrivals_ms: float) -> Anticipation:
    """Return an anticipation that polls 0.25 ms ahead, after these arrivals."""
    anticipation = Anticipation(lead_us=250.0)
    for arrival in arrivals_ms:
        anticipation.arrived(round(arrival * 1e6), PERIOD_NS)
    return anticipation


@every_row(
    ((10.0, 11.0, 12.0), 0.75e-3),
    ((10.0, 11.0, 14.0), 0.0),
    ((10.0, 60.0, 110.0), 0.0),
    ((10.0, 11.5, 13.0), 0.0),
    ((10.0, 60.0, 110.0, 111.0, 112.0), 0.75e-3),
)
def test_the_server_sleeps_until_a_regular_state_is_due_and_not_after_irregular_or_late_ones(arrivals, rest_s):
    """Late ones may have waited because the server slept."""
    assert after(*arrivals).rest_s(round(arrivals[-1] * 1e6)) == pytest.approx(rest_s)
