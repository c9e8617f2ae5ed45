"""Realtime settings of the process are restored; the loop runs alone on its core."""

import gc
import os
import sys
import threading

import pytest

from idyn.errors import ConfigError
from transport.realtime import SWITCH_INTERVAL, off_core, on_core, spare_core, steady

two_cores = pytest.mark.skipif(spare_core() is None, reason="needs two cores")


@pytest.fixture
def bystander():
    """The native number of another thread of this process."""
    started, stop = threading.Event(), threading.Event()

    def wait():
        started.set()
        stop.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    yield thread.native_id
    stop.set()
    thread.join()


@two_cores
def test_the_loop_runs_alone_on_its_core(bystander):
    core, before = spare_core(), os.sched_getaffinity(0)
    with on_core(core):
        assert os.sched_getaffinity(0) == {core}
        assert os.sched_getaffinity(bystander) == before - {core}
    assert os.sched_getaffinity(0) == os.sched_getaffinity(bystander) == before


@two_cores
def test_the_robot_side_avoids_the_servers_core(bystander):
    core, before = spare_core(), os.sched_getaffinity(0)
    with off_core(core):
        assert os.sched_getaffinity(0) == os.sched_getaffinity(bystander) == before - {core}
    assert os.sched_getaffinity(0) == os.sched_getaffinity(bystander) == before


@two_cores
def test_without_a_core_setting_affinity_is_unchanged():
    before = os.sched_getaffinity(0)
    with on_core(None), off_core(None):
        assert os.sched_getaffinity(0) == before


@two_cores
def test_a_missing_core_is_refused():
    before = os.sched_getaffinity(0)
    with pytest.raises(ConfigError, match=r"server\.core"), on_core(max(before) + 1):
        pass
    assert os.sched_getaffinity(0) == before


def test_realtime_settings_are_restored() -> None:
    before = (sys.getswitchinterval(), gc.isenabled())
    with steady():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
        assert not gc.isenabled()
    assert (sys.getswitchinterval(), gc.isenabled()) == before
