"""The release of a robot's own controller, with a service by Unitree's SDK in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sdk import FOLDER, needs_unitree

from idyn.errors import ConfigError

DOMAIN = 60 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])

SERVICE = """
import json, sys, time
from unitree_sdk2py.core.channel import ChannelFactoryInitialize
from unitree_sdk2py.rpc.server import Server

active = [sys.argv[2]]

class Switcher(Server):
    def Init(self):
        self._RegistHandler(1001, lambda text: (0, json.dumps({"form": "0", "name": active[0]})), 0)
        self._RegistHandler(1003, self.release, 0)

    def release(self, text):
        if sys.argv[3] == "refuses":
            return 7004, ""
        active[0] = ""
        return 0, ""

ChannelFactoryInitialize(int(sys.argv[1]), "lo")
switcher = Switcher("motion_switcher")
switcher.Init()
switcher.Start()
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def service(active: str, how: str = "") -> Iterator[None]:
    environment = os.environ | {"PYTHONPATH": str(FOLDER), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SERVICE, str(DOMAIN), active, how]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line == "ready\n" for line in process.stdout)
        try:
            yield
        finally:
            process.kill()


@pytest.mark.unitree
@needs_unitree
def test_the_active_controller_is_released() -> None:
    from transport.bridges.unitree.dds import Bus, MotionSwitcher  # noqa: PLC0415 - an optional package

    with service("ai"):
        switcher = MotionSwitcher(Bus(DOMAIN))
        assert switcher.active == "ai"
        assert switcher.release() == "ai"
        assert switcher.active == ""
        assert switcher.release() == ""


@pytest.mark.unitree
@needs_unitree
def test_a_refused_release_is_an_error() -> None:
    from transport.bridges.unitree.dds import Bus, MotionSwitcher  # noqa: PLC0415 - an optional package

    with service("ai", "refuses"), pytest.raises(ConfigError, match="refused request 1003 with code 7004"):
        MotionSwitcher(Bus(DOMAIN)).release()


@pytest.mark.unitree
@needs_unitree
def test_a_robot_without_the_service_is_an_error() -> None:
    command = [sys.executable, "-m", "sim_harness", "bridge", "unitree", "--robot", "go2", "--domain", str(DOMAIN)]
    done = subprocess.run([*command, "--yes", "--release"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "motion_switcher was not found" in done.stderr
