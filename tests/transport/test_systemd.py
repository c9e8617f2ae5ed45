"""A server in its system: notifications to systemd at real sockets, realtime settings, metrics fetched by HTTP."""

import configparser
import gc
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import zmq
from fast import every, full
from rig import client_of, served
from standin import SpringDamper, from_snapshot, resting, standing
from wire import PATIENCE_MS, routed, running, until

from controllers.config.loading import load
from idyn import ConfigError, Robot, StateMessage
from sim_harness.commands.main import build_parser
from transport.log.replay import replay
from transport.protocol.messages.base import Code
from transport.server import process
from transport.server.process import NEVER_NS, NOBODY, Systemd
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.serve import metrics, serve

UNIT = Path(__file__).parents[2] / "docs/how-to/idyn.service"

PATIENCE_S = 60.0
SAMPLE = re.compile(r"^(idyn_\w+)(?:\{\w+=\"([^\"]*)\"\})? (\S+)$", re.MULTILINE)
"""A line of the text format: name, value of the label, value."""
CHILD = """
import sys
sys.path.insert(0, sys.argv[2])
from standin import SpringDamper, solo
import transport.startup.serve as server
server._controller = lambda settings, own: SpringDamper(solo())
server.serve(server.ServerSettings(controller="standin", endpoint=sys.argv[1], log_directory=sys.argv[3]))
"""


@contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(address)
        own.settimeout(PATIENCE_S)
        yield own


def heard(own: socket.socket) -> dict[str, str]:
    return dict(line.split("=", 1) for line in own.recv(4096).decode().splitlines())


@every("abstract", [False, True])
def test_notifications_arrive(tmp_path, abstract):
    name = f"{tmp_path}/notify"
    environment = {"NOTIFY_SOCKET": f"@{name}" if abstract else name, "WATCHDOG_USEC": "400000"}
    with manager(f"\0{name}" if abstract else name) as own:
        systemd = Systemd(environment)
        systemd.status("loading")
        assert heard(own) == {"STATUS": "loading"}
        assert systemd.due_ns == NEVER_NS
        systemd.ready("serving")
        assert heard(own) == {"READY": "1", "STATUS": "serving"}
        systemd.beat(1_000_000_000, "3 torques")
        assert heard(own) == {"WATCHDOG": "1", "STATUS": "3 torques"}
        assert systemd.due_ns == 1_200_000_000  # half of WATCHDOG_USEC later
        systemd.stopping()
        assert heard(own)["STOPPING"] == "1"
        assert systemd.due_ns == NEVER_NS


def test_without_a_service_manager_or_its_watchdog_no_beat_is_due(tmp_path):
    """Also where the watchdog is that of another process. Malformed variables are errors."""
    for systemd in (NOBODY, Systemd({"WATCHDOG_USEC": "400000"})):
        systemd.status("loading")
        systemd.ready("serving")
        assert systemd.due_ns == NEVER_NS
    address = f"{tmp_path}/notify"
    for more in ({}, {"WATCHDOG_USEC": "400000", "WATCHDOG_PID": "1"}):
        with manager(address):
            systemd = Systemd({"NOTIFY_SOCKET": address} | more)
            systemd.ready("serving")
            assert systemd.due_ns == NEVER_NS
        Path(address).unlink()
    for variable, value in (("NOTIFY_SOCKET", "vsock:2:1"), ("WATCHDOG_USEC", "soon"), ("WATCHDOG_USEC", "-1")):
        with pytest.raises(ConfigError, match=f"{variable}: expected"):
            Systemd({variable: value})


def test_a_manager_that_is_gone_or_full_is_tried_again_and_logged_once(tmp_path, caplog):
    address = f"{tmp_path}/notify"
    systemd = Systemd({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "400000"})
    for now_ns in (0, 10_000_000):
        systemd.beat(now_ns, "")
        assert systemd.due_ns == now_ns + 10_000_000
    assert len(caplog.records) == 1
    with manager(address) as own:
        begin = time.monotonic()
        while systemd.due_ns != 10_000_000:  # until its queue is full: sending does not wait
            systemd.beat(0, "")
        assert time.monotonic() - begin < PATIENCE_S / 2
        while "WATCHDOG" in heard(own):
            systemd.beat(0, "")
            if systemd.due_ns == 200_000_000:
                break
    assert len(caplog.records) == 2


def test_the_idle_loop_tells_that_it_runs(robot, tmp_path):
    """By itself: no other thread could tell for it."""
    threads = set()

    class Watched(Systemd):
        def beat(self, now_ns: int, text: str) -> None:
            threads.add(threading.current_thread())
            super().beat(now_ns, text)

    service = Service(SpringDamper(robot), ServerSettings(controller="standin"))
    address = f"{tmp_path}/notify"
    with manager(address) as own:
        systemd = Watched({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "100000"})
        with routed(service, f"ipc://{tmp_path}/s", systemd=systemd) as (_, loop):
            systemd.ready("serving")
            assert heard(own)["READY"] == "1"
            for _ in range(5):
                assert heard(own) == {"WATCHDOG": "1", "STATUS": "0 torques, 0 of them late"}
    assert threads == {loop}


@full
def test_a_server_is_ready_runs_and_ends_with_a_complete_log(robot, tmp_path):
    notify, address, logs = f"{tmp_path}/notify", f"ipc://{tmp_path}/s", tmp_path / "logs"
    environment = os.environ | {"NOTIFY_SOCKET": notify, "WATCHDOG_USEC": "500000"}
    command = [sys.executable, "-c", CHILD, address, str(Path(__file__).parent), str(logs)]
    with manager(notify) as own, subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as child:
        try:
            assert heard(own) == {"STATUS": "loading"}
            assert heard(own) == {"READY": "1", "STATUS": f"serving at {address}"}
            assert [heard(own)["WATCHDOG"] for _ in range(3)] == ["1"] * 3
            with client_of(robot, address) as client:
                client.hello()
                for tick in range(20):
                    assert client.exchange(resting(robot, tick)) is not None, client.error
                assert client.exchange(resting(robot, 500)) is None
                assert client.error.code is Code.LATCHED_FAULT
                child.send_signal(signal.SIGTERM)
                until(lambda: "STOPPING" in heard(own))
                assert child.wait(10) == 0
        finally:
            child.kill()
    (path,) = logs.glob("solo*.mcap")
    assert len(list(logs.glob("fault-*.mcap"))) == 1
    report = replay(path, build=from_snapshot)
    assert (report.complete, report.exact, report.ticks) == (True, True, 20)


def test_the_unit_file_starts_a_server_with_all_rights():
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read_string(UNIT.read_text(encoding="utf-8"))
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert int(service["LimitRTPRIO"]) == process.PRIORITY + 1
    assert (service["LimitMEMLOCK"], service["KillSignal"]) == ("infinity", "SIGTERM")
    assert service["Restart"] == "on-failure"  # the watchdog counts as one
    assert float(service["WatchdogSec"]) >= 0.1
    program, *words = service["ExecStart"].split()
    assert Path(program).name == "idyn"
    assert build_parser().parse_args(words).config == "/etc/idyn/server.toml"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit_file(tmp_path):
    text = UNIT.read_text(encoding="utf-8").replace("/opt/idyn/bin/idyn", sys.executable).replace("User=robot", "User=root")
    path = tmp_path / "idyn.service"
    path.write_text(text, encoding="utf-8")
    ended = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert [line for line in ended.stderr.splitlines() if "idyn.service" in line] == []


@pytest.fixture
def bystander():
    with running(lambda stop: stop.wait()) as thread:
        yield thread.native_id


@pytest.mark.skipif(process.spare_core() is None, reason="needs two cores")
def test_the_loop_runs_alone_on_its_core_and_the_robot_side_avoids_it(bystander):
    core, before = process.spare_core(), os.sched_getaffinity(0)
    with process.on_core(core):
        assert os.sched_getaffinity(0) == {core}
        assert os.sched_getaffinity(bystander) == before - {core}
    assert os.sched_getaffinity(0) == os.sched_getaffinity(bystander) == before
    with process.off_core(core):
        assert os.sched_getaffinity(0) == os.sched_getaffinity(bystander) == before - {core}
    assert os.sched_getaffinity(0) == os.sched_getaffinity(bystander) == before
    with process.on_core(None), process.off_core(None):  # without the setting
        assert os.sched_getaffinity(0) == before


def test_a_missing_core_is_refused_and_settings_are_restored():
    before = os.sched_getaffinity(0)
    with pytest.raises(ConfigError, match=r"server\.core"), process.on_core(max(before) + 1):
        pass
    assert os.sched_getaffinity(0) == before
    before = (sys.getswitchinterval(), gc.isenabled())
    with process.steady():
        assert sys.getswitchinterval() == pytest.approx(process.SWITCH_INTERVAL)
        assert not gc.isenabled()
    assert (sys.getswitchinterval(), gc.isenabled()) == before


WITHOUT_RIGHTS = """
import logging, os, resource, sys
from transport.server.process import real_time
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (2**23, 2**23))
if os.geteuid() == 0:
    os.setuid(65534)
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
with real_time(sys.argv[1]):
    print(os.sched_getscheduler(0) == os.SCHED_OTHER)
"""


def without_rights(wanted):
    """Output and errors of a process that may neither ask for SCHED_FIFO nor lock its memory."""
    command = [sys.executable, "-c", WITHOUT_RIGHTS, wanted]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def permitted():
    """Whether this process may use SCHED_FIFO and lock its memory, by trying it."""
    command = ["import ctypes, os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(51))"]
    command += ["assert ctypes.CDLL(None).mlockall(7) == 0"]
    return subprocess.run([sys.executable, "-c", "; ".join(command)], capture_output=True, check=False).returncode == 0


def locked_kb():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmLck"))
    return int(line.split()[1])


def scheduling(thread=0):
    return os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK, os.sched_getparam(thread).sched_priority


def socket_threads():
    return [int(path.parent.name) for path in Path("/proc/self/task").glob("*/comm") if "IO/0" in path.read_text()]


@pytest.mark.skipif(not permitted(), reason="needs the right to SCHED_FIFO and to lock memory")
def test_the_loop_gets_its_rights_and_gives_them_back(bystander, caplog):
    """ZeroMQ's thread is above the loop; other threads, and threads and processes that the loop starts, are as usual."""
    caplog.set_level("INFO")
    usual = os.SCHED_OTHER, 0
    found, others = {}, set(socket_threads())  # other tests' contexts
    with zmq.Context() as context, context.socket(zmq.ROUTER):
        while not (numbers := set(socket_threads()) - others):
            pass  # it has not named itself yet
        (sockets,) = numbers
        with process.real_time("required"):
            assert scheduling() == (os.SCHED_FIFO, process.PRIORITY)
            assert scheduling(sockets) == (os.SCHED_FIFO, process.PRIORITY + 1)
            assert scheduling(bystander) == usual
            assert locked_kb() > 1000
            with running(lambda stop: found.update(started=scheduling())):
                pass
            script = "import os; print(os.sched_getscheduler(0) == os.SCHED_OTHER)"
            assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"True\n"
        assert found["started"] == scheduling() == scheduling(sockets) == usual
        assert locked_kb() == 0
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert f"SCHED_FIFO, priority 50; threads of ZeroMQ with 51: {len(others) + 1}" in caplog.text
    assert "memory is locked" in caplog.text


def test_rights_that_are_off_are_not_asked_for(caplog):
    caplog.set_level("INFO")
    with process.real_time("off"):
        assert scheduling() == (os.SCHED_OTHER, 0)
        assert locked_kb() == 0
    assert caplog.records == []


def test_without_rights_the_log_says_what_is_missing_and_required_ones_are_an_error():
    ended = without_rights("auto")
    assert ended.returncode == 0, ended.stderr
    fifo, memory, usual = ended.stdout.splitlines()
    missing = "no SCHED_FIFO (Operation not permitted, RLIMIT_RTPRIO is 0); needs LimitRTPRIO=51"
    assert fifo.startswith(f"WARNING real time: {missing}")
    assert memory.startswith("WARNING real time: memory is not locked (RLIMIT_MEMLOCK is 8 MB); needs LimitMEMLOCK=infinity")
    assert usual == "True"
    ended = without_rights("required")
    assert ended.returncode == 1
    error = ended.stderr.splitlines()[-1]
    assert "ConfigError: server.realtime: 'required', but no SCHED_FIFO (Operation not permitted" in error
    assert "needs LimitRTPRIO=51" in error


def fetched(address: str) -> dict[str, float]:
    """Name, with the label's value after a colon → value."""
    with urllib.request.urlopen(address, timeout=30) as reply:
        text = reply.read().decode()
    return {name + (f":{label}" if label else ""): float(value) for name, label, value in SAMPLE.findall(text)}


def state(robot: Robot, tick: int, height: float = 0.3) -> StateMessage:
    q = standing(robot)
    q[2] = height
    return resting(robot, tick, q=q.tobytes())


def test_metrics_are_those_of_the_served_robot(robot, tmp_path):
    settings = ServerSettings(controller="standin", max_state_age_ms=1e4)
    with served(robot, f"ipc://{tmp_path}/s", settings) as (router, _, service), metrics(service, 0, "127.0.0.1") as address:
        assert address.startswith("http://127.0.0.1:")
        before = fetched(address)
        assert before["idyn_torques_total"] == before["idyn_fault"] == 0
        assert "idyn_lost_states" not in before  # without a client
        with client_of(robot, router.endpoint) as client:
            client.hello()
            for tick in range(1, 301):
                assert client.exchange(state(robot, tick)) is not None, client.error
            assert client.exchange(state(robot, 300)) is None  # t_robot does not advance
            after = fetched(address)
            assert (after["idyn_torques_total"], after["idyn_states_total"]) == (300, 301)
            assert (after["idyn_messages_total"], after["idyn_refused_total:out_of_order"]) == (302, 1)
            assert after["idyn_fault"] == after["idyn_lost_states"] == after["idyn_dropped_total"] == 0
            assert 0 < after["idyn_round_trip_seconds:0.5"] <= after["idyn_round_trip_seconds:0.99"] < PATIENCE_MS / 1e3
            assert 0 < after["idyn_step_seconds_max"] <= after["idyn_step_seconds_total"] < PATIENCE_MS / 1e3
            client.exchange(state(robot, 302, height=1.2))
            client.exchange(state(robot, 303, height=1.2))
            client.exchange(state(robot, 900))  # after too long a silence
            assert fetched(address)["idyn_fault"] == 1
    with pytest.raises(OSError, match="refused"):
        fetched(address)


def test_a_missing_package_a_port_in_use_and_an_impossible_one_are_errors(robot, monkeypatch):
    service = Service(SpringDamper(robot), ServerSettings(controller="standin"))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        says = rf"server\.metrics_port: cannot bind 127\.0\.0\.1:{port} \(Address already in use"
        with pytest.raises(ConfigError, match=says):
            metrics(service, port, "127.0.0.1").__enter__()
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"controller": "x", "metrics_port": 99999}, ServerSettings)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigError, match=r"server\.metrics_port: .* needs .* pip install .*\[metrics\]'$"):
        metrics(service, 0, "127.0.0.1").__enter__()
    with metrics(service, None, "127.0.0.1") as address:
        assert address == ""
    with pytest.raises(ConfigError, match=r"^server\.metrics_port: "):  # before the controller, which does not exist
        serve(ServerSettings(controller="nowhere", metrics_port=0))


@full
def test_the_settings_of_a_server_switch_them_on(tmp_path, caplog):
    caplog.set_level("INFO")
    settings = load("server", "quadruped", ServerSettings)
    settings = msgspec.structs.replace(settings, endpoint=f"ipc://{tmp_path}/s", metrics_port=0)
    stop, found = threading.Event(), {}

    def look(endpoint: str) -> None:
        (address,) = re.findall(r"metrics at (\S+)", caplog.text)
        found.update(fetched(address))
        stop.set()

    serve(settings, ready=look, stop=stop)
    assert found["idyn_torques_total"] == 0
