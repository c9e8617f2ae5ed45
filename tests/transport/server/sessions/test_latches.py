"""Latches belong to the robot: faults, emergency stop and silence outlast sessions; the first state is judged as by `reset`."""

import numpy as np
import pytest
from rig import Rig
from standin import MS, hello, standing

from idyn.model.robot import Robot
from transport.protocol.messages import Message
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.hello import ClientKind, Welcome
from transport.protocol.messages.requests import Reset, ResetAck, Stop
from transport.protocol.messages.torque import TorqueMessage


def tilted(robot: Robot, angle: float) -> bytes:
    q = standing(robot)
    q[3:7] = [np.sin(angle / 2), 0.0, 0.0, np.cos(angle / 2)]
    return q.tobytes()


def moving_at(robot: Robot, i: int, speed: float) -> bytes:
    v = np.zeros(robot.nv)
    v[i] = speed
    return v.tobytes()


def rest(rig: Rig) -> Reset:
    return Reset(session=rig.session, q=standing(rig.robot).tobytes(), vel=np.zeros(rig.robot.nv).tobytes())


def faulty(rig: Rig) -> None:
    """A robot whose controller failed, so that a fault is latched."""
    rig.greet()
    rig.controller.fail = True
    assert isinstance(rig.tick(1), ErrorMessage)
    rig.controller.fail = False


def refused(reply: Message, text: str) -> None:
    assert isinstance(reply, ErrorMessage), reply
    assert reply.code is Code.LATCHED_FAULT
    assert text in reply.message


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("identity", [b"a", b"b"])
def test_a_fault_outlasts_hello_reconnection_and_another_client(rig: Rig, identity: bytes, stopped: bool) -> None:
    faulty(rig)
    if stopped:
        rig.send(Stop(session=rig.session))
    rig.now += 2000 * MS
    welcome = rig.send(hello(rig.robot), identity=identity)
    assert isinstance(welcome, Welcome)
    assert (welcome.mode, welcome.latched) == ("latched", "the controller failed (a wire came loose)")
    rig.session = welcome.session
    refused(rig.send(rig.state(1), identity=identity), "a wire came loose")
    assert isinstance(rig.send(rest(rig), identity=identity), ResetAck)
    assert isinstance(rig.send(rig.state(2), identity=identity), TorqueMessage)
    assert rig.greet_as(identity).mode == "ok"


def test_a_fault_of_a_shadow_is_not_that_of_the_robot(rig: Rig) -> None:
    shadow = rig.send(hello(rig.robot, kind="shadow"), identity=b"s")
    assert isinstance(shadow, Welcome)
    rig.session = shadow.session
    rig.send(rig.state(1), identity=b"s")
    rig.now = 500 * MS
    refused(rig.send(rig.state(500), identity=b"s"), "no state")
    assert rig.greet().mode == "ok"
    assert isinstance(rig.send(rig.state(1)), TorqueMessage)


@pytest.mark.parametrize(("kind", "mode"), [("robot", "latched"), ("sim", "ok")])
def test_a_silence_before_a_hello_is_latched(rig: Rig, kind: ClientKind, mode: str) -> None:
    """Not that of a simulated robot: its world may stand still."""
    welcome = rig.send(hello(rig.robot, kind=kind))
    assert isinstance(welcome, Welcome)
    rig.session = welcome.session
    assert isinstance(rig.tick(1), TorqueMessage)
    rig.now = 150 * MS
    again = rig.send(hello(rig.robot, kind=kind))
    assert isinstance(again, Welcome)
    assert again.mode == mode
    if mode == "latched":
        assert again.latched == "no state for 149 ms before hello"
        assert [fault.reason for fault in rig.faults] == [again.latched]


def test_after_stop_there_is_no_silence(rig: Rig) -> None:
    rig.greet()
    rig.tick(1)
    rig.send(Stop(session=rig.session))
    rig.now = 5000 * MS
    assert rig.greet().mode == "ok"


def test_a_short_silence_before_a_hello_is_none(rig: Rig) -> None:
    rig.greet()
    rig.tick(1)
    rig.now = 50 * MS
    assert rig.greet().mode == "ok"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"q": 0.96, "vel": (4, 5.0)}, "base speeds"),
        ({"q": 1.1}, "tilt of at most 1 rad"),
        ({"vel": (0, 1.2)}, "base speeds"),
        ({"vel": (9, 1.2)}, "joint speeds"),
    ],
)
def test_the_first_state_is_judged_as_by_reset(rig: Rig, change: dict[str, object], text: str) -> None:
    fields: dict[str, bytes] = {}
    if "q" in change:
        fields["q"] = tilted(rig.robot, change["q"])  # type: ignore[arg-type]
    if "vel" in change:
        fields["vel"] = moving_at(rig.robot, *change["vel"])  # type: ignore[misc]
    rig.greet()
    refused(rig.tick(1, **fields), text)
    refused(rig.tick(2), text)  # it is latched
    assert isinstance(rig.send(rest(rig)), ResetAck)
    refused(rig.tick(3, **fields), text)  # so is the first one after a reset
    rig.send(rest(rig))
    assert isinstance(rig.tick(4), TorqueMessage)
    assert isinstance(rig.tick(5, vel=moving_at(rig.robot, 9, 5.0)), TorqueMessage)  # later ones may move


@pytest.mark.parametrize("kind", ["shadow", "replay"])
def test_shadows_and_replays_may_start_in_motion(rig: Rig, kind: ClientKind) -> None:
    welcome = rig.send(hello(rig.robot, kind=kind))
    assert isinstance(welcome, Welcome)
    rig.session = welcome.session
    assert isinstance(rig.tick(1, vel=moving_at(rig.robot, 9, 5.0)), TorqueMessage)


def test_a_server_may_allow_a_start_in_motion(moving: Rig) -> None:
    moving.greet()
    assert isinstance(moving.tick(1, vel=moving_at(moving.robot, 9, 5.0)), TorqueMessage)


def test_a_lying_robot_may_start_in_any_attitude_but_still(robot: Robot) -> None:
    rig = Rig(robot, start="lying")
    rig.greet()
    refused(rig.tick(1, q=tilted(robot, 3.0), vel=moving_at(robot, 9, 0.3)), "joint speeds of at most 0.2")
    refused(rig.send(Reset(session=rig.session, q=tilted(robot, 3.0), vel=moving_at(robot, 3, 0.3))), "base speeds of at most")
    on_its_back = Reset(session=rig.session, q=tilted(robot, 3.0), vel=moving_at(robot, 9, 0.1))
    assert isinstance(rig.send(on_its_back), ResetAck)
    assert isinstance(rig.tick(2, q=tilted(robot, 3.0)), TorqueMessage)
