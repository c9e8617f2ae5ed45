"""Realtime settings of the process are restored; the loop runs alone on its core."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zmq
from wire import running

from idyn.errors import ConfigError
from transport.server.process import PRIORITY, SWITCH_INTERVAL, off_core, on_core, real_time, spare_core, steady

two_cores = pytest.mark.skipif(spare_core() is None, reason="needs two cores")


@pytest.fixture
def bystander():
    """The native number of another thread of this process."""
    with running(lambda stop: stop.wait()) as thread:
        yield thread.native_id


@two_cores
def test_the_loop_runs_alone_on_its_core_and_the_robot_side_avoids_it(bystander):
    core, before = spare_core(), os.sched_getaffinity(0)
    with on_core(core):
        assert os.sched_getaffinity(0) == {core}
        assert os.sched_getaffinity(bystander) == before - {core}
    assert os.sched_getaffinity(0) == os.sched_getaffinity(bystander) == before
    with off_core(core):
        assert os.sched_getaffinity(0) == os.sched_getaffinity(bystander) == before - {core}
    assert os.sched_getaffinity(0) == os.sched_getaffinity(bystander) == before
    with on_core(None), off_core(None):  # without the setting
        assert os.sched_getaffinity(0) == before


def test_a_missing_core_is_refused_and_settings_are_restored():
    before = os.sched_getaffinity(0)
    with pytest.raises(ConfigError, match=r"server\.core"), on_core(max(before) + 1):
        pass
    assert os.sched_getaffinity(0) == before
    before = (sys.getswitchinterval(), gc.isenabled())
    with steady():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
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


with_rights = pytest.mark.skipif(not permitted(), reason="needs the right to SCHED_FIFO and to lock memory")


def locked_kb():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmLck"))
    return int(line.split()[1])


def scheduling(thread=0):
    return os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK, os.sched_getparam(thread).sched_priority


def socket_threads():
    return [int(path.parent.name) for path in Path("/proc/self/task").glob("*/comm") if "IO/0" in path.read_text()]


@with_rights
def test_the_loop_gets_its_rights_and_gives_them_back(bystander, caplog):
    """ZeroMQ's thread is above the loop; other threads, and threads and processes that the loop starts, are as usual."""
    caplog.set_level("INFO")
    usual = os.SCHED_OTHER, 0
    found, others = {}, set(socket_threads())  # other tests' contexts
    with zmq.Context() as context, context.socket(zmq.ROUTER):
        while not (numbers := set(socket_threads()) - others):
            pass  # it has not named itself yet
        (sockets,) = numbers
        with real_time("required"):
            assert scheduling() == (os.SCHED_FIFO, PRIORITY)
            assert scheduling(sockets) == (os.SCHED_FIFO, PRIORITY + 1)
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
    with real_time("off"):
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
