"""Metrics are fetched by HTTP while a robot is served, and say what the robot's client sees."""

import re
import socket
import sys
import threading
import urllib.request

import msgspec
import pytest
from fast import full
from rig import client_of, served
from standin import SpringDamper, resting, standing
from wire import PATIENCE_MS

from controllers.config.loading import load
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from transport.protocol.messages.state import StateMessage
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.serve import metrics, serve

SAMPLE = re.compile(r"^(idyn_\w+)(?:\{\w+=\"([^\"]*)\"\})? (\S+)$", re.MULTILINE)
"""A line of the text format: name, value of the label, value."""


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
            assert after["idyn_torques_total"] == 300
            assert after["idyn_states_total"] == 301
            assert after["idyn_messages_total"] == 302
            assert after["idyn_refused_total:out_of_order"] == 1
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
