"""`config_set`: permitted changes, invalid settings, and the loop while a controller is built."""

import threading
import weakref
from typing import Any

import msgpack
import numpy as np
import pytest
from fast import every, every_row
from standin import SpringDamper, from_snapshot, hello
from wire import expect, until

from controllers.build import controller_from_snapshot, load_controller
from controllers.command import Inputs
from controllers.controller import Controller
from idyn import Robot, State
from transport.protocol.codec import decode, encode
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import SCHEMA, Code, ErrorMessage
from transport.protocol.messages.command import PlanHello, PlanWelcome
from transport.protocol.messages.requests import Config, ConfigGet, ConfigSet, StatsGet, Welcome
from transport.protocol.messages.state import TorqueMessage
from transport.server.process import steady
from transport.server.reconfigure import COLLECT_EVERY, ControllerBuilder, changed
from transport.server.service import Service
from transport.server.settings import ServerSettings

OWN = {"torque_rate": 1000.0, "first_command_guard": 0.25, "fallback": "damping", "damping": 0.1, "max_tilt": 1.0}
CHANGE = ConfigSet(settings={"feedback": {"kp": 5.0}})
WILD = [{"side": float("inf")}, {"side": 1e308}, {"hills": 10**9}, {"resolution": 1e-9}, {"hills": 50_000, "side": 40.0}]
WILD += [{"variance": 1e-300}, {"bump": 1e308}]
LOOSER = [{"max_tilt": 3.0}, {"torque_rate": np.inf}, {"damping": 0.0}, {"first_command_guard": 0.1}, {"fallback": "hold"}]


@every("safety", LOOSER)
def test_safety_settings_can_be_made_stricter_and_restored_over_the_wire_but_not_loosened(safety):
    strict = changed({"settings": {"safety": OWN}}, {"safety": {"max_tilt": 0.5, "damping": 1.0}}, {"safety": OWN})
    assert strict["settings"]["safety"] == OWN | {"max_tilt": 0.5, "damping": 1.0}
    again = changed(strict, {"safety": {"max_tilt": 1.0, "damping": 0.1}}, {"safety": OWN})
    assert again["settings"]["safety"] == OWN
    (key,) = safety
    with pytest.raises(ProtocolError, match="cannot be loosened") as caught:
        changed({"settings": {"safety": OWN}}, {"safety": safety}, {"safety": OWN})
    assert caught.value.field == f"settings.safety.{key}"


def test_a_rate_cannot_be_loosened_from_the_default_of_the_robot():
    """The default depends on the joint: a number must be at most the smallest of them."""
    own = {"torque_rate": None}
    for rate in (501.0, float("inf")):
        with pytest.raises(ProtocolError, match="expected at most 500"):
            changed({"settings": {"safety": own}}, {"safety": {"torque_rate": rate}}, {"safety": own}, 500.0)
    strict = changed({"settings": {"safety": own}}, {"safety": {"torque_rate": 499.0}}, {"safety": own}, 500.0)
    assert strict["settings"]["safety"] == {"torque_rate": 499.0}
    again = changed(strict, {"safety": {"torque_rate": None}}, {"safety": own}, 500.0)
    assert again["settings"]["safety"] == own
    with pytest.raises(ProtocolError, match=r"expected at most 1000, .* got the default of the robot"):
        changed({"settings": {"safety": OWN}}, {"safety": {"torque_rate": None}}, {"safety": OWN}, 500.0)


@pytest.fixture
def service():
    builder = ControllerBuilder(controller_from_snapshot, in_thread=False)
    return Service(load_controller("quadruped"), ServerSettings(controller="quadruped"), builder=builder)


@every_row(
    ({"contact": {7: False}}, "settings.contact: expected names of settings as keys, got 7"),
    ({7: {}}, "expected `str`, got `int` - at `key` in `$.settings`"),
    ({"feedback": {"kp": 1e300}}, "settings.feedback.kp: expected 0 to 1e+07 1/s²"),
    ({"safety": {"max_joint_speed": 0.0}}, "settings.safety.max_joint_speed: expected 0.01 to inf rad/s, got 0"),
    ({"safety": {"max_tilt": float("nan")}}, "settings.safety.max_tilt"),
    *(({"contact": {"terrain": {"kind": "heightmap"} | terrain}}, "contact.terrain") for terrain in WILD),
)
def test_invalid_settings_are_refused_and_change_nothing(settings, message, service):
    def set_to(changes: dict) -> object:
        request = msgpack.packb({"t": "config_set", "v": SCHEMA, "settings": changes})
        return decode(service.handle(b"a", request, 0).reply)

    before = expect(Config, set_to({}))
    reply = expect(ErrorMessage, set_to(settings))
    assert reply.code is Code.BAD_SCHEMA
    assert message in f"{reply.field}: {reply.message}"
    assert expect(Config, set_to({})) == before


def test_replaced_controllers_are_freed():
    alive: weakref.WeakSet[Controller] = weakref.WeakSet()

    def build(snapshot: dict[str, Any]) -> Controller:
        alive.add(controller := controller_from_snapshot(snapshot))
        controller.step(State(q=controller.stance, v=np.zeros(18)), controller.contacts(controller.stance), Inputs(dt=0.001))
        return controller

    settings, builder = ServerSettings(controller="quadruped"), ControllerBuilder(build, in_thread=False)
    service = Service(load_controller("quadruped"), settings, builder=builder)
    with steady():
        for i in range(COLLECT_EVERY + 2):
            change = ConfigSet(settings={"feedback": {"kp": 100.0 + i % 7}})
            assert isinstance(decode(service.handle(b"a", encode(change), i).reply), Config)
        assert 1 <= len(alive) <= 4  # the present one and those since the last collection


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
    settings = ServerSettings(controller="standin", planners=("mpc",))
    return Service(SpringDamper(robot), settings, builder=ControllerBuilder(build, in_thread=True))


def finished(service: Service) -> tuple[bytes, Any]:
    ((identity, reply),) = until(lambda: service.finished(0))
    return identity, decode(reply)


def test_the_loop_continues_while_a_controller_is_built(robot):
    service = service_of(robot, build := Slow())
    assert service.handle(b"a", encode(CHANGE), 0).reply == b""
    assert not service.finished(0)
    refused = expect(ErrorMessage, decode(service.handle(b"b", encode(CHANGE), 0).reply))
    assert "being built" in refused.message
    assert not isinstance(decode(service.handle(b"b", encode(StatsGet()), 0).reply), ErrorMessage)
    build.go.set()
    identity, config = finished(service)
    assert identity == b"a"
    assert config.settings["feedback"]["kp"] == 5.0
    assert service.controller.snapshot()["settings"] == config.settings  # as the head of a fault's log tells it
    planned = expect(PlanWelcome, decode(service.handle(b"p", encode(PlanHello(name="mpc")), 0).reply))
    assert planned.controller == config.settings


def test_a_client_that_took_control_meanwhile_keeps_the_old_controller(robot):
    service = service_of(robot, build := Slow())
    assert service.handle(b"a", encode(CHANGE), 0).reply == b""
    expect(Welcome, decode(service.handle(b"b", encode(hello(robot)), 0).reply))
    build.go.set()
    _, refusal = finished(service)
    assert refusal.code is Code.NOT_CONTROLLING
    kept = expect(Config, decode(service.handle(b"b", encode(ConfigGet()), 0).reply))
    assert kept.settings["feedback"]["kp"] == 3.0


@every("error", [OverflowError("huge"), MemoryError(), ValueError("odd"), ZeroDivisionError()])
def test_an_exception_while_building_is_reported(robot, error):
    service = service_of(robot, build := Slow(error))
    service.handle(b"a", encode(CHANGE), 0)
    build.go.set()
    _, refusal = finished(service)
    assert refusal.code is Code.BAD_SCHEMA
    assert type(error).__name__ in refusal.message


def test_an_exception_in_a_tick_latches_the_session_and_the_loop_continues(rig, monkeypatch):
    """Outside of the controller: its answer is not a command."""
    assert isinstance(rig.tick(1), TorqueMessage)
    with monkeypatch.context() as patch:
        patch.setattr(rig.controller, "answer", lambda *_: None)
        broken = rig.tick(2)
    assert isinstance(broken, ErrorMessage)
    assert broken.code is Code.INTERNAL
    assert "AttributeError" in broken.message
    latched = expect(ErrorMessage, rig.tick(3))
    assert latched.code is Code.LATCHED_FAULT
    (fault,) = rig.faults
    assert "AttributeError" in fault.reason
