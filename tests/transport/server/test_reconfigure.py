"""`config_set`: permitted changes, invalid settings, and the loop while a controller is built."""

import threading
import time
from typing import Any

import pytest
from rig import Rig
from standin import SpringDamper, from_snapshot, hello

from controllers.build import controller_from_snapshot, load_controller
from idyn.model.robot import Robot
from transport.protocol.codec import decode, encode
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.hello import Welcome
from transport.protocol.messages.requests import Config, ConfigGet, ConfigSet, StatsGet
from transport.protocol.messages.torque import TorqueMessage
from transport.server.reconfigure import ControllerBuilder, changed
from transport.server.service import Service
from transport.server.settings import ServerSettings

OWN = {"torque_rate": 1000.0, "first_command_guard": 0.25, "fallback": "damping", "damping": 0.1, "max_tilt": 1.0}
CHANGE = ConfigSet(settings={"feedback": {"kp": 5.0}})


@pytest.mark.parametrize(
    "safety",
    [{"max_tilt": 3.0}, {"torque_rate": float("inf")}, {"damping": 0.0}, {"first_command_guard": 0.1}, {"fallback": "hold"}],
)
def test_safety_settings_cannot_be_loosened_over_the_wire(safety: dict[str, Any]) -> None:
    (key,) = safety
    with pytest.raises(ProtocolError, match="cannot be loosened") as caught:
        changed({"settings": {"safety": OWN}}, {"safety": safety}, {"safety": OWN})
    assert caught.value.field == f"settings.safety.{key}"


def test_safety_settings_can_be_made_stricter_and_restored() -> None:
    strict = changed({"settings": {"safety": OWN}}, {"safety": {"max_tilt": 0.5, "damping": 1.0}}, {"safety": OWN})
    assert strict["settings"]["safety"] == OWN | {"max_tilt": 0.5, "damping": 1.0}
    again = changed(strict, {"safety": {"max_tilt": 1.0, "damping": 0.1}}, {"safety": OWN})
    assert again["settings"]["safety"] == OWN


@pytest.mark.parametrize(
    "terrain",
    [
        {"side": float("inf")},
        {"side": 1e308},
        {"hills": 10**9},
        {"resolution": 1e-9},
        {"hills": 50_000, "side": 40.0},
        {"variance": 1e-300},
        {"bump": 1e308},
    ],
)
def test_invalid_settings_change_nothing(terrain: dict[str, Any]) -> None:
    controller = load_controller("quadruped")
    service = Service(
        controller, ServerSettings(controller="quadruped"), builder=ControllerBuilder(controller_from_snapshot, in_thread=False)
    )
    change = ConfigSet(settings={"contact": {"terrain": {"kind": "heightmap"} | terrain}})
    reply = decode(service.handle(b"a", encode(change), 0).reply)
    assert isinstance(reply, ErrorMessage)
    assert reply.code is Code.BAD_SCHEMA
    assert "contact.terrain" in reply.message
    before = decode(service.handle(b"a", encode(ConfigSet(settings={})), 0).reply)
    assert isinstance(before, Config)
    assert before.settings["contact"]["terrain"]["kind"] == "flat"


class Slow:
    """Builds a controller when `go` is set, or raises `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go, self.error = threading.Event(), error

    def __call__(self, snapshot: dict[str, Any]) -> SpringDamper:
        assert self.go.wait(10)
        if self.error is not None:
            raise self.error
        return from_snapshot(snapshot)


def service_of(robot: Robot, build: Slow) -> Service:
    return Service(SpringDamper(robot), ServerSettings(controller="standin"), builder=ControllerBuilder(build, in_thread=True))


def finished(service: Service) -> tuple[bytes, Any]:
    for _ in range(1000):
        if replies := service.finished(0):
            ((identity, reply),) = replies
            return identity, decode(reply)
        time.sleep(0.01)
    raise AssertionError("nothing was finished")


def test_the_loop_continues_while_a_controller_is_built(robot: Robot) -> None:
    service = service_of(robot, build := Slow())
    assert service.handle(b"a", encode(CHANGE), 0).reply == b""
    assert not service.finished(0)
    refused = decode(service.handle(b"b", encode(CHANGE), 0).reply)
    assert isinstance(refused, ErrorMessage)
    assert "being built" in refused.message
    assert not isinstance(decode(service.handle(b"b", encode(StatsGet()), 0).reply), ErrorMessage)
    build.go.set()
    identity, config = finished(service)
    assert identity == b"a"
    assert config.settings["feedback"]["kp"] == 5.0
    assert service.controller.snapshot()["settings"] == config.settings  # as the head of a fault's log tells it


def test_a_client_that_took_control_meanwhile_keeps_the_old_controller(robot: Robot) -> None:
    service = service_of(robot, build := Slow())
    assert service.handle(b"a", encode(CHANGE), 0).reply == b""
    welcome = decode(service.handle(b"b", encode(hello(robot)), 0).reply)
    assert isinstance(welcome, Welcome)
    build.go.set()
    _, refusal = finished(service)
    assert refusal.code is Code.NOT_CONTROLLING
    kept = decode(service.handle(b"b", encode(ConfigGet()), 0).reply)
    assert isinstance(kept, Config)
    assert kept.settings["feedback"]["kp"] == 3.0


@pytest.mark.parametrize("error", [OverflowError("huge"), MemoryError(), ValueError("odd"), ZeroDivisionError()])
def test_an_exception_while_building_is_reported(robot: Robot, error: Exception) -> None:
    service = service_of(robot, build := Slow(error))
    service.handle(b"a", encode(CHANGE), 0)
    build.go.set()
    _, refusal = finished(service)
    assert refusal.code is Code.BAD_SCHEMA
    assert type(error).__name__ in refusal.message


def test_an_exception_in_a_tick_latches_the_session_and_the_loop_continues(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of the controller: its answer is not a command."""
    rig.greet()
    assert isinstance(rig.tick(1), TorqueMessage)
    with monkeypatch.context() as patch:
        patch.setattr(rig.controller, "answer", lambda *_: None)
        broken = rig.tick(2)
    assert isinstance(broken, ErrorMessage)
    assert broken.code is Code.INTERNAL
    assert "AttributeError" in broken.message
    latched = rig.tick(3)
    assert isinstance(latched, ErrorMessage)
    assert latched.code is Code.LATCHED_FAULT
    (fault,) = rig.faults
    assert "AttributeError" in fault.reason
