"""Latches belong to the robot: faults, emergency stop and silence outlast sessions; the first state is judged as by `reset`."""

import msgpack
import numpy as np
import pytest
from fast import every
from rig import Rig, greeted
from standin import MS, standing
from wire import expect

from idyn.model.robot import Robot
from transport.protocol.codec import MAX_BYTES, PARTS, encode
from transport.protocol.messages import Message
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import Estop, EstopAck, Reset, ResetAck, Stop
from transport.protocol.messages.state import Flags, TorqueMessage


def tilted(robot: Robot, angle: float) -> bytes:
    q = standing(robot)
    q[3:7] = [np.sin(angle / 2), 0.0, 0.0, np.cos(angle / 2)]
    return q.tobytes()


def moving_at(robot: Robot, i: int, speed: float) -> bytes:
    v = np.zeros(robot.nv)
    v[i] = speed
    return v.tobytes()


def faulty(rig: Rig) -> None:
    """A robot whose controller failed, so that a fault is latched."""
    rig.greet()
    rig.controller.fail = True
    rig.refused(1)
    rig.controller.fail = False


def refused(reply: Message, text: str) -> None:
    assert isinstance(reply, ErrorMessage), reply
    assert reply.code is Code.LATCHED_FAULT
    assert text in reply.message


@every("stopped", [False, True])
@every("identity", [b"a", b"b"])
def test_a_fault_outlasts_hello_reconnection_and_another_client(identity, stopped, robot):
    rig = Rig(robot)
    faulty(rig)
    if stopped:
        rig.send(Stop(session=rig.session))
    rig.now += 2000 * MS
    welcome = rig.greet_as(identity)
    assert (welcome.mode, welcome.latched) == ("latched", "the controller failed (a wire came loose)")
    refused(rig.send(rig.state(1), identity=identity), "a wire came loose")
    assert isinstance(rig.send(rig.at_rest, identity=identity), ResetAck)
    assert isinstance(rig.send(rig.state(2), identity=identity), TorqueMessage)
    assert rig.greet_as(identity).mode == "ok"


def test_a_fault_of_a_shadow_is_not_that_of_the_robot(fresh):
    fresh.greet_as(b"s", kind="shadow")
    fresh.send(fresh.state(1), identity=b"s")
    fresh.now = 500 * MS
    refused(fresh.send(fresh.state(500), identity=b"s"), "no state")
    assert fresh.greet().mode == "ok"
    assert isinstance(fresh.send(fresh.state(1)), TorqueMessage)


@every(("kind", "mode"), [("robot", "latched"), ("sim", "ok")])
def test_a_silence_before_a_hello_is_latched(kind, mode, robot):
    """Not that of a simulated robot: its world may stand still. Nor a shorter one, and one after `stop`."""
    rig = Rig(robot)
    rig.greet(kind=kind)
    rig.torque(1)
    rig.now = 50 * MS
    assert rig.greet(kind=kind).mode == "ok"
    rig.torque(51)
    rig.send(Stop(session=rig.session))
    rig.now = 5000 * MS
    assert rig.greet(kind=kind).mode == "ok"
    rig.torque(5001)
    rig.now = 5150 * MS
    again = rig.greet(kind=kind)
    assert again.mode == mode
    if mode == "latched":
        assert again.latched == "no state for 149 ms before hello"
        assert [fault.reason for fault in rig.faults] == [again.latched]


@every(
    ("change", "text"),
    [
        ({"q": 0.96, "vel": (4, 5.0)}, "base speeds"),
        ({"q": 1.1}, "tilt of at most 1 rad"),
        ({"vel": (0, 1.2)}, "base speeds"),
        ({"vel": (9, 1.2)}, "joint speeds"),
    ],
)
def test_the_first_state_is_judged_as_by_reset(change, text, robot):
    rig = Rig(robot)
    fields: dict[str, bytes] = {}
    if "q" in change:
        fields["q"] = tilted(rig.robot, change["q"])
    if "vel" in change:
        fields["vel"] = moving_at(rig.robot, *change["vel"])
    rig.greet()
    refused(rig.tick(1, **fields), text)
    refused(rig.tick(2), text)  # it is latched
    assert isinstance(rig.send(rig.at_rest), ResetAck)
    refused(rig.tick(3, **fields), text)  # so is the first one after a reset
    rig.send(rig.at_rest)
    rig.torque(4)
    assert isinstance(rig.tick(5, vel=moving_at(rig.robot, 9, 5.0)), TorqueMessage)  # later ones may move


@every(("kind", "start"), [("shadow", "rest"), ("replay", "rest"), ("robot", "motion")])
def test_shadows_replays_and_robots_of_such_a_server_may_start_in_motion(kind, start, robot):
    rig = Rig(robot, start=start)
    rig.greet(kind=kind)
    rig.torque(1, vel=moving_at(rig.robot, 9, 5.0))


def test_a_lying_robot_may_start_in_any_attitude_but_still(robot):
    rig = greeted(robot, start="lying")
    refused(rig.tick(1, q=tilted(robot, 3.0), vel=moving_at(robot, 9, 0.3)), "joint speeds of at most 0.2")
    refused(rig.send(Reset(session=rig.session, q=tilted(robot, 3.0), vel=moving_at(robot, 3, 0.3))), "base speeds of at most")
    on_its_back = Reset(session=rig.session, q=tilted(robot, 3.0), vel=moving_at(robot, 9, 0.1))
    assert isinstance(rig.send(on_its_back), ResetAck)
    rig.torque(2, q=tilted(robot, 3.0))


STOP = Flags(estop=True)


def with_button(robot: Robot) -> Rig:
    """A rig with a client that may stop the robot, after one tick."""
    rig = greeted(robot, estops=("button",))
    rig.torque(1)
    return rig


@pytest.fixture
def guarded(robot):
    return with_button(robot)


def status(rig: Rig, seq: int = 2) -> str:
    reply = rig.tick(seq)
    return reply.status if isinstance(reply, TorqueMessage) else reply.code


def test_a_named_client_stops_the_robot_from_any_connection_and_without_a_session(guarded, robot):
    ack = expect(EstopAck, guarded.send(Estop(name="button"), identity=b"elsewhere"))
    assert (ack.stopped, ack.reason) == (True, "emergency stop by 'button'")
    assert status(guarded) == "damping"
    guarded.send(Estop(name="button", stop=False), identity=b"elsewhere")
    assert status(guarded, 3) == "damping"
    assert isinstance(guarded.send(guarded.at_rest), ResetAck)
    assert status(guarded, 4) == "ok"
    rig = Rig(robot, estops=("button",))
    rig.send(Estop(name="button"), identity=b"elsewhere")
    assert rig.greet().latched == "emergency stop by 'button'"
    assert status(rig, 1) == "damping"


def test_others_cannot_stop_the_robot_and_no_stop_is_no_stop(guarded):
    joker = msgpack.packb({"t": "estop", "name": "joker", "stop": 1})
    for message in (encode(Estop(name="joker")), joker, PARTS + b"estop\xc3"):
        expect(ErrorMessage, guarded.raw(message, identity=b"elsewhere"))
    for value in (False, None, 0):
        none = msgpack.unpackb(encode(guarded.state(2))) | {"flags": {"estop": value}, "nonsense": 1}
        assert isinstance(guarded.raw(msgpack.packb(none)), ErrorMessage)
    assert status(guarded) == "ok"


@every("flags", [{"estop": 1}, {"estop": "yes"}, ["estop", True], {"estop": True, "estopp": 1}])
@every("identity", [b"a", b"new"])
def test_a_malformed_stop_of_the_controlling_client_stops(robot, flags, identity):
    guarded = with_button(robot)
    message = msgpack.unpackb(encode(guarded.state(2))) | {"flags": flags}
    reply = expect(ErrorMessage, guarded.raw(msgpack.packb(message), identity=identity))
    assert "emergency stop is engaged" in reply.message
    assert status(guarded) == "damping"


@every(
    "spoilt",
    [
        lambda data: msgpack.packb(msgpack.unpackb(data) | {"padding": bytes(MAX_BYTES)}),
        lambda data: data[: data.index(b"estop") + 6],
        lambda data: PARTS + data,
    ],
)
def test_a_stop_that_is_too_long_or_cut_or_in_parts_stops(robot, spoilt):
    """In a state, and of a client of the role."""
    guarded = with_button(robot)
    expect(ErrorMessage, guarded.raw(spoilt(encode(guarded.state(2, flags=STOP)))))
    assert status(guarded) == "damping"
    guarded = with_button(robot)
    guarded.send(Estop(name="button", stop=False), identity=b"elsewhere")
    assert status(guarded) == "ok"
    data = msgpack.packb({"t": "estop", "v": "1.2", "name": "button", "stop": True, "estop": True})
    expect(ErrorMessage, guarded.raw(spoilt(data), identity=b"elsewhere"))
    assert status(guarded, 3) == "damping"


def test_a_silent_client_stops_the_robot_where_a_timeout_is_set(robot):
    rig = Rig(robot, estops=("button",), estop_timeout_ms=50.0)
    rig.greet()
    assert status(rig, 1) == "damping"  # none was ever heard
    refused = expect(ErrorMessage, rig.send(rig.at_rest))
    assert refused.message == "no message of an emergency-stop client since the start"
    ack = expect(EstopAck, rig.send(Estop(name="button", stop=False), identity=b"elsewhere"))
    assert ack.timeout_ms == 50.0
    assert isinstance(rig.send(rig.at_rest), ResetAck)
    for seq in range(2, 52):
        assert status(rig, seq) == "ok"
    assert status(rig, 52) == "damping"
    assert isinstance(rig.send(Estop(name="button", stop=False), identity=b"elsewhere"), EstopAck)
    assert status(rig, 53) == "damping"  # until reset
