"""A real ROUTER and real clients over ipc and tcp: bad input, restarts, floods, a killed server."""

import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgpack
import msgspec
import pytest
from fast import every, full
from rig import client_of, served
from standin import SpringDamper, from_snapshot, resting
from wire import PATIENCE_MS, dealer, expect

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from transport.log.replay import replay
from transport.protocol.messages.base import Code
from transport.protocol.messages.state import TorqueMessage
from transport.robot.client import ConnectionFailed
from transport.robot.planner import PlannerClient
from transport.server.service import Service
from transport.server.settings import CurveSettings, ServerSettings
from transport.server.sockets.port import AddressFile
from transport.server.sockets.router import Router
from transport.server.sockets.scheduling import Anticipation, newest
from transport.startup.serve import serve


@contextmanager
def serving(robot: Robot, address: str) -> Iterator[str]:
    """A server in a thread; gives its endpoint and ends cleanly."""
    settings = ServerSettings(controller="standin", max_state_age_ms=1000.0, planners=("joystick",))
    with served(robot, address, settings) as (router, *_):
        yield router.endpoint


@pytest.fixture
def address(robot, tmp_path):
    with serving(robot, f"ipc://{tmp_path}/s") as bound:
        yield bound


def test_a_planner_that_ends_is_no_lost_client(address, caplog):
    with PlannerClient(address, "joystick") as planner:
        planner.command((0.2, 0.0, 0.0), valid_for=0.001)
    time.sleep(0.01)
    with PlannerClient(address, "joystick"):  # the server has handled the end of the first one
        assert caplog.text == ""


def test_the_file_of_the_address_ends_with_its_server_and_that_of_another_one_stays(robot, tmp_path):
    path = tmp_path / "s"
    with serving(robot, f"ipc://{path}"):
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
    with serving(robot, f"ipc://{tmp_path}/s") as address, dealer(address) as socket:
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
        with serving(robot, place) as bound:
            for _ in range(2):
                with client_of(robot, bound) as client:  # which gives control back when it closes
                    client.hello()
                    for tick in range(50):
                        torque = expect(TorqueMessage, client.exchange(resting(robot, tick)))
                        assert torque.seq == tick + 1


def test_without_a_server_hello_fails_and_no_message_is_queued(robot, tmp_path):
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


@every(
    ("changes", "says"),
    [
        ({"endpoint": "taken"}, "server.endpoint"),
        ({"curve": CurveSettings(secret="/nowhere/server.key_secret", clients={})}, "not a readable key"),
        ({"metrics_host": "192.0.2.1", "metrics_port": 0}, "server.metrics_port: cannot bind"),
    ],
)
def test_a_start_that_fails_leaves_no_log_in_the_way_of_the_next_one(robot, tmp_path, monkeypatch, changes, says):
    monkeypatch.setattr("transport.startup.serve.load_controller", lambda name, changes: SpringDamper(robot))
    monkeypatch.setattr("transport.startup.serve.floor_warning", lambda controller: "")
    log, stop = tmp_path / "run.mcap", threading.Event()
    settings = ServerSettings(controller="standin", endpoint=f"ipc://{tmp_path}/s")
    with serving(robot, f"ipc://{tmp_path}/taken") as taken:
        given = {name: taken if value == "taken" else value for name, value in changes.items()}
        with pytest.raises(ConfigError, match=says):
            serve(msgspec.structs.replace(settings, **given), log_path=log)
    assert not log.exists()
    serve(settings, log_path=log, ready=lambda endpoint: stop.set(), stop=stop)
    assert log.exists()


CHILD = """
import sys, threading
sys.path.insert(0, sys.argv[2])
from standin import SpringDamper, solo
import transport.startup.serve as server
server.load_controller = lambda name, changes: SpringDamper(solo())
server.floor_warning = lambda controller: ""
server.serve(server.ServerSettings(controller="standin", endpoint=sys.argv[1], log_directory=sys.argv[3]),
             ready=lambda endpoint: print(endpoint, flush=True))
print("ended", flush=True)
"""


@contextmanager
def process(address: str, logs: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", CHILD, address, str(Path(__file__).parents[2]), str(logs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline().strip() == address
        try:
            yield child
        finally:
            child.kill()


@full
def test_a_signal_ends_the_server_with_a_complete_log(robot, tmp_path):
    address = f"ipc://{tmp_path}/s"
    with process(address, tmp_path / "logs") as child, client_of(robot, address) as client:
        client.hello()
        for tick in range(20):
            assert client.exchange(resting(robot, tick)) is not None, client.error
        assert client.exchange(resting(robot, 500)) is None
        assert client.error.code is Code.LATCHED_FAULT
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline() == "ended\n"
        assert child.wait(10) == 0
    (path,) = (tmp_path / "logs").glob("solo*.mcap")
    assert len(list((tmp_path / "logs").glob("fault-*.mcap"))) == 1
    report = replay(path, build=from_snapshot)
    assert report.complete
    assert report.exact
    assert report.ticks == 20
