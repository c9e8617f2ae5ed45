"""What a session answers to each type of message in each of its phases, and the picture of its phases in the manual."""

import sys
from pathlib import Path

from fast import every
from rig import Rig
from standin import MS, hello
from wire import expect

from transport.protocol.messages import FromClient, Message, requests
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.command import CommandMessage, PlanHello
from transport.server.sessions.session import Phase

sys.path.insert(0, str(Path(__file__).parents[4] / "docs" / "tools"))

from session_states import PICTURE, STATES, TRANSITIONS, picture

ABSENT, LATCHED, FIXED = "not_controlling", "latched_fault", "bad_schema"  # the rig's settings are fixed
ALWAYS = {"hello": "welcome", "stop": "stop_ack", "stats_get": "stats", "tick_get": "tick", "config_get": "config"}
ALWAYS |= {"config_set": FIXED, "plan_hello": ABSENT, "estop": ABSENT}  # no planners, no emergency-stop clients
WITHOUT = ALWAYS | dict.fromkeys(("state", "reset", "heartbeat", "command"), ABSENT)
WITHIN = ALWAYS | {"state": "torque", "reset": "reset_ack", "heartbeat": "heartbeat_ack", "command": "command_ack"}
LATE = WITHIN | {"state": LATCHED, "command": LATCHED}
ANSWERS = {Phase.ABSENT: WITHOUT, Phase.RUNNING: WITHIN, Phase.LATCHED: LATE, Phase.ENDED: WITHOUT}


def bring(rig: Rig, phase: Phase) -> None:
    if phase is not Phase.ABSENT:
        rig.greet()
        rig.torque(1)
    if phase is Phase.LATCHED:
        rig.controller.fail = True
        rig.refused(2)
        rig.controller.fail = False
    if phase is Phase.ENDED:
        assert isinstance(rig.send(requests.Stop(session=rig.session)), requests.StopAck)


def sent(rig: Rig) -> dict[str, Message]:
    messages = [
        hello(rig.robot),
        rig.state(3),
        rig.at_rest,
        requests.Heartbeat(session=rig.session),
        requests.Stop(session=rig.session),
        requests.StatsGet(),
        requests.TickGet(),
        requests.ConfigGet(),
        requests.ConfigSet(settings={}),
        PlanHello(name="joystick"),
        requests.Estop(name="button"),
        CommandMessage(session=rig.session, valid_for=1.0, velocity=[0.1, 0.0, 0.0]),
    ]
    return {str(message.__struct_config__.tag): message for message in messages}


@every("phase", Phase)
@every("kind", [kind.__struct_config__.tag for kind in FromClient.__args__])
def test_each_message_gets_its_reply_in_each_phase(robot, phase, kind):
    rig = Rig(robot)
    bring(rig, phase)
    rig.now = 3 * MS
    reply = rig.send(sent(rig)[kind])
    tag = reply.code.value if isinstance(reply, ErrorMessage) else reply.__struct_config__.tag
    assert tag == ANSWERS[phase][kind]


def test_a_server_message_from_a_client_is_refused(fresh):
    reply = expect(ErrorMessage, fresh.send(requests.StopAck(session=1)))
    assert (reply.code, reply.field) == (Code.BAD_SCHEMA, "t")


def phase(rig: Rig) -> str:
    session = rig.service.dispatcher.sessions.get(b"a")
    return str(Phase.ABSENT if session is None else session.phase)


def message(rig: Rig, cause: str) -> Message:
    """What the client sends. An outage is a late state."""
    rig.now += 200 * MS if cause.startswith("outage") else MS
    if cause.startswith("hello"):
        return hello(rig.robot)
    if cause == "stop":
        return requests.Stop(session=rig.session)
    if cause.startswith("reset"):
        return rig.at_rest
    return rig.state(3, t_robot=rig.now, t_send=rig.now)


def text(answer: Message) -> str:
    """The answer as the picture names it."""
    kind = str(answer.__struct_config__.tag)
    if isinstance(answer, requests.Welcome):
        return f"{kind}, mode {answer.mode}"
    return f"{kind} {answer.code}" if isinstance(answer, ErrorMessage) else kind


@every("arrow", TRANSITIONS)
def test_an_arrow_is_what_the_server_does(arrow, robot):
    rig = Rig(robot)
    if arrow.cause == "hello, robot latched":
        bring(rig, Phase.LATCHED)
        rig.service.dispatcher.sessions.clear()
    else:
        bring(rig, Phase(arrow.origin))
    assert phase(rig) == arrow.origin
    answer = rig.send(message(rig, arrow.cause))
    assert text(answer) == arrow.answer
    assert phase(rig) == arrow.target


def test_the_picture_is_the_one_that_the_command_writes():
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `python docs/tools/session_states.py`"
    assert set(STATES) == {str(each) for each in Phase}
