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
import numpy as np
import pytest
from fast import every, full
from rig import client_of, served
from standin import MS, SpringDamper, from_snapshot, resting
from wire import PATIENCE_MS, dealer, expect

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from transport.log.replay import replay
from transport.protocol.codec import encode
from transport.protocol.messages.base import Code
from transport.protocol.messages.state import TorqueMessage
from transport.protocol.torque_gate import limits_of
from transport.robot.client import ConnectionFailed, Conversation, RobotClient, hello_for
from transport.robot.failsafe import Failsafe, FailsafeMode, drive_command
from transport.robot.planner import PlannerClient
from transport.server.service import Service
from transport.server.settings import CurveSettings, ServerSettings, endpoint
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


def independent_hello(robot: Robot) -> dict[str, object]:
    names = list(robot.joint_names)
    return {
        "t": "hello",
        "v": "1.0",
        "client": {"name": "by hand", "kind": "robot"},
        "model": {"nq": 19, "nv": 18, "na": 12, "total_mass": robot.total_mass},
        "joint_names": names,
        "actuated": names,
        "base": {"type": "free_flyer", "quat_order": "xyzw", "vel_frame": "local"},
        "dt_nominal": 0.001,
    }


@every("lists", [True, False])
def test_a_client_written_by_hand_gets_torques(robot, tmp_path, lists):
    with serving(robot, f"ipc://{tmp_path}/s") as address, dealer(address) as socket:
        socket.send(msgpack.packb(independent_hello(robot)))
        welcome = msgpack.unpackb(socket.recv())
        assert welcome["t"] == "welcome"
        q = [0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0] + [0.2] * 12
        vel = [0.0] * 18
        for seq in (1, 2):
            message = {
                "t": "state",
                "v": "1.0",
                "session": welcome["session"],
                "seq": seq,
                "t_robot": seq * 1_000_000,
                "q": q if lists else struct.pack("<19d", *q),
                "vel": vel if lists else struct.pack("<18d", *vel),
            }
            socket.send(msgpack.packb(message))
            torque = msgpack.unpackb(socket.recv())
            assert (torque["t"], torque["seq"]) == ("torque", seq)
        tau = struct.unpack("<12d", torque["tau"])
        assert tau == pytest.approx([0.01 - 3.0 * 0.2 - 0.001 * 0.2] * 12)
        assert torque["status"] == "ok"
        assert {force["frame"] for force in torque["contact_force"]} == set(robot.spheres.keys)


def test_torques_are_received_over_ipc_tcp_and_ipv6(robot, tmp_path):
    for place in (f"ipc://{tmp_path}/t", "tcp://127.0.0.1:*", *(["tcp://[::1]:*"] if socket.has_ipv6 else [])):
        with serving(robot, place) as bound, client_of(robot, bound) as client:
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


def test_a_restarted_client_regains_control(robot, address):
    for _ in range(2):
        with client_of(robot, address) as client:  # which gives control back when it closes
            client.hello()
            assert client.exchange(resting(robot, 0)) is not None


def test_after_a_flood_of_states_the_newest_is_answered(robot, address):
    conversation = Conversation()
    with dealer(address) as socket:
        socket.send(encode(hello_for(robot, 1e-3, kind="sim")))
        conversation.begin(socket.recv())
        for tick in range(200):
            message = resting(robot, 0)
            message.t_robot = tick * MS // 10  # all within the watchdog's patience
            socket.send(conversation.ask(message, 0))
        answers = 1
        while (answer := conversation.hear(socket.recv(), 0)) is None:
            answers += 1
        assert isinstance(answer, TorqueMessage)
        assert answer.seq == 200
        assert answers + answer.comm.late == 200


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


def test_local_addresses_are_accepted_and_others_refused(monkeypatch, tmp_path):
    for address in ("tcp://0.0.0.0:5555", "tcp://*:5555", "http://x", "tcp://example.org:1"):
        with pytest.raises(ConfigError, match=r"server\.endpoint"):
            endpoint(ServerSettings(controller="x", endpoint=address))
    for address in ("tcp://127.0.0.1:5555", "tcp://localhost:5555", "ipc://@idyn", "ipc:///x/y"):
        assert endpoint(ServerSettings(controller="x", endpoint=address)) == address
    assert endpoint(ServerSettings(controller="x", endpoint="tcp://0.0.0.0:1", insecure=True)) == "tcp://0.0.0.0:1"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert endpoint(ServerSettings(controller="x")) == f"ipc://{tmp_path}/idyn/idyn.sock"
    assert (tmp_path / "idyn").stat().st_mode & 0o777 == 0o700
    (tmp_path / "idyn").chmod(0o755)
    with pytest.raises(ConfigError, match="0700"):
        endpoint(ServerSettings(controller="x"))


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


def test_when_the_server_is_killed_the_robot_damps_within_20_ms(robot, tmp_path):
    """By the robot's clock, which ticks with the loop."""
    address = f"ipc://{tmp_path}/s"
    failsafe = Failsafe(damping=np.full(robot.na, 0.1), limits=limits_of(robot.limits))
    q, v = np.zeros(robot.na), np.ones(robot.na)
    hello = hello_for(robot, 1e-3, kind="sim")
    with process(address, tmp_path) as child, RobotClient(address, hello, deadline_ms=2000) as client:
        client.hello()
        modes: list[FailsafeMode] = []
        for tick in range(200):
            if tick == 50:
                child.kill()
                child.wait()
            reply = client.exchange(resting(robot, tick))
            command = None if reply is None else drive_command(reply, robot.na)
            tau, mode = failsafe.torque(tick * MS, q, v, command)
            modes.append(mode)
    assert modes[:50] == [FailsafeMode.OK] * 50
    assert modes[50:69] == [FailsafeMode.FOLLOW] * 19
    assert modes[69:149] == [FailsafeMode.DAMPING] * 80
    assert modes[149:] == [FailsafeMode.STOPPED] * 51
    np.testing.assert_allclose(tau, -0.1)


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
