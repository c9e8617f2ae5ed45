"""The emergency stop by clients of its own role, and in malformed messages."""

import msgpack
import numpy as np
import pytest
from rig import Rig
from standin import MS, standing

from idyn.model.robot import Robot
from transport.protocol.codec import MAX_BYTES, PARTS, encode
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.requests import Estop, EstopAck, Reset, ResetAck
from transport.protocol.messages.state import Flags
from transport.protocol.messages.torque import TorqueMessage

STOP = Flags(estop=True)


@pytest.fixture
def guarded(robot: Robot) -> Rig:
    """A rig with a client that may stop the robot, after one tick."""
    rig = Rig(robot, estops=("button",))
    rig.greet()
    assert isinstance(rig.tick(1), TorqueMessage)
    return rig


def status(rig: Rig, seq: int = 2) -> str:
    reply = rig.tick(seq)
    return reply.status if isinstance(reply, TorqueMessage) else reply.code  # type: ignore[union-attr]


def reset(rig: Rig) -> object:
    message = Reset(session=rig.session, q=standing(rig.robot).tobytes(), vel=np.zeros(rig.robot.nv).tobytes())
    return rig.send(message)


def test_a_named_client_stops_the_robot_from_any_connection(guarded: Rig) -> None:
    ack = guarded.send(Estop(name="button"), identity=b"elsewhere")
    assert isinstance(ack, EstopAck)
    assert (ack.stopped, ack.reason) == (True, "emergency stop by 'button'")
    assert status(guarded) == "damping"
    guarded.send(Estop(name="button", stop=False), identity=b"elsewhere")
    assert status(guarded, 3) == "damping"
    assert isinstance(reset(guarded), ResetAck)
    assert status(guarded, 4) == "ok"


def test_others_cannot_stop_the_robot(guarded: Rig) -> None:
    for message in (
        encode(Estop(name="joker")),
        msgpack.packb({"t": "estop", "name": "joker", "stop": 1}),
        PARTS + b"estop\xc3",
    ):
        reply = guarded.raw(message, identity=b"elsewhere")
        assert isinstance(reply, ErrorMessage)
    assert status(guarded) == "ok"


def test_a_stop_without_a_session_waits_for_the_robot(robot: Robot) -> None:
    rig = Rig(robot, estops=("button",))
    rig.send(Estop(name="button"), identity=b"elsewhere")
    assert rig.greet().latched == "emergency stop by 'button'"
    assert status(rig, 1) == "damping"


MALFORMED = {
    "a number": lambda flags: {"estop": 1},
    "text": lambda flags: {"estop": "yes"},
    "a list": lambda flags: ["estop", True],
    "an unknown key": lambda flags: {"estop": True, "estopp": 1},
}


@pytest.mark.parametrize("flags", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("identity", [b"a", b"new"])
def test_a_malformed_stop_of_the_controlling_client_stops(guarded: Rig, flags, identity: bytes) -> None:  # type: ignore[no-untyped-def]
    message = msgpack.unpackb(encode(guarded.state(2))) | {"flags": flags(None)}
    reply = guarded.raw(msgpack.packb(message), identity=identity)
    assert isinstance(reply, ErrorMessage)
    assert "emergency stop is engaged" in reply.message
    assert status(guarded) == "damping"


@pytest.mark.parametrize("value", [False, None, 0])
def test_no_stop_is_no_stop(guarded: Rig, value: object) -> None:
    message = msgpack.unpackb(encode(guarded.state(2))) | {"flags": {"estop": value}, "nonsense": 1}
    assert isinstance(guarded.raw(msgpack.packb(message)), ErrorMessage)
    assert status(guarded) == "ok"


def too_long(data: bytes) -> bytes:
    return msgpack.packb(msgpack.unpackb(data) | {"padding": bytes(MAX_BYTES)})


def cut(data: bytes) -> bytes:
    return data[: data.index(b"estop") + 6]


def in_parts(data: bytes) -> bytes:
    return PARTS + data


@pytest.mark.parametrize("spoilt", [too_long, cut, in_parts])
def test_a_stop_that_is_too_long_or_cut_or_in_parts_stops(guarded: Rig, spoilt) -> None:  # type: ignore[no-untyped-def]
    assert isinstance(guarded.raw(spoilt(encode(guarded.state(2, flags=STOP)))), ErrorMessage)
    assert status(guarded) == "damping"


@pytest.mark.parametrize("spoilt", [too_long, cut, in_parts])
def test_so_does_one_of_a_client_of_the_role(guarded: Rig, spoilt) -> None:  # type: ignore[no-untyped-def]
    guarded.send(Estop(name="button", stop=False), identity=b"elsewhere")
    assert status(guarded) == "ok"
    data = msgpack.packb({"t": "estop", "v": "1.2", "name": "button", "stop": True, "estop": True})
    assert isinstance(guarded.raw(spoilt(data), identity=b"elsewhere"), ErrorMessage)
    assert status(guarded, 3) == "damping"


def test_a_stop_of_a_new_connection_counts_when_its_next_state_overtakes_it(guarded: Rig) -> None:
    guarded.service.overtaken(b"new", encode(guarded.state(2, flags=STOP)), 2 * MS)
    assert status(guarded) == "damping"


def test_a_silent_client_stops_the_robot_where_a_timeout_is_set(robot: Robot) -> None:
    rig = Rig(robot, estops=("button",), estop_timeout_ms=50.0)
    rig.greet()
    assert status(rig, 1) == "damping"  # none was ever heard
    refused = reset(rig)
    assert isinstance(refused, ErrorMessage)
    assert refused.message == "no message of an emergency-stop client since the start"
    ack = rig.send(Estop(name="button", stop=False), identity=b"elsewhere")
    assert isinstance(ack, EstopAck)
    assert ack.timeout_ms == 50.0
    assert isinstance(reset(rig), ResetAck)
    for seq in range(2, 52):
        assert status(rig, seq) == "ok"
    assert status(rig, 52) == "damping"
    assert isinstance(rig.send(Estop(name="button", stop=False), identity=b"elsewhere"), EstopAck)
    assert status(rig, 53) == "damping"  # until reset
