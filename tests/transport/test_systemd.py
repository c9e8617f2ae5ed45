"""Notifications to systemd, received at real datagram sockets; the unit file."""

import configparser
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fast import every, full
from standin import SpringDamper
from wire import routed

from idyn.errors import ConfigError
from sim_harness.commands.main import build_parser
from transport.server.process import NEVER_NS, NOBODY, PRIORITY, Systemd
from transport.server.service import Service
from transport.server.settings import ServerSettings

UNIT = Path(__file__).parents[2] / "docs/how-to/idyn.service"

PATIENCE_S = 60.0


@contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(address)
        own.settimeout(PATIENCE_S)
        yield own


def heard(own: socket.socket) -> dict[str, str]:
    """The next notification."""
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


CHILD = """
import sys
sys.path.insert(0, sys.argv[2])
from standin import SpringDamper, solo
import transport.startup.serve as server
server._controller = lambda settings, own: SpringDamper(solo())
server.serve(server.ServerSettings(controller="standin", endpoint=sys.argv[1]))
"""


@full
def test_a_server_is_ready_runs_and_stops(tmp_path):
    address = f"{tmp_path}/notify"
    environment = os.environ | {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "500000"}
    command = [sys.executable, "-c", CHILD, f"ipc://{tmp_path}/s", str(Path(__file__).parent)]
    with manager(address) as own, subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as child:
        try:
            assert heard(own) == {"STATUS": "loading"}
            assert heard(own) == {"READY": "1", "STATUS": f"serving at ipc://{tmp_path}/s"}
            assert [heard(own)["WATCHDOG"] for _ in range(3)] == ["1"] * 3
            child.send_signal(signal.SIGTERM)
            while "STOPPING" not in heard(own):
                pass
            assert child.wait(10) == 0
        finally:
            child.kill()


def test_the_unit_file_starts_a_server_with_all_rights():
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read_string(UNIT.read_text(encoding="utf-8"))
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert int(service["LimitRTPRIO"]) == PRIORITY + 1
    assert service["LimitMEMLOCK"] == "infinity"
    assert service["KillSignal"] == "SIGTERM"
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
