"""What a session answers to each type of message in each of its phases, and the picture of its phases in the manual."""

import sys
from pathlib import Path

from fast import every
from rig import Rig
from standin import MS, hello
from wire import expect

from transport.protocol.messages import FromClient, Message
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.command import CommandMessage, PlanHello
from transport.protocol.messages.requests import (
    ConfigGet,
    ConfigSet,
    Estop,
    Heartbeat,
    Hello,
    Reset,
    StatsGet,
    Stop,
    StopAck,
    TickGet,
    Welcome,
)
from transport.protocol.messages.state import StateMessage
from transport.server.sessions.session import Phase

sys.path.insert(0, str(Path(__file__).parents[4] / "docs" / "tools"))

from session_states import PICTURE, STATES, TRANSITIONS, picture

ABSENT, LATCHED, FIXED = "not_controlling", "latched_fault", "bad_schema"  # the rig's settings are fixed
ALWAYS = {
    Hello: "welcome",
    Stop: "stop_ack",
    StatsGet: "stats",
    TickGet: "tick",
    ConfigGet: "config",
    ConfigSet: FIXED,
    PlanHello: ABSENT,  # the rig allows no planners
    Estop: ABSENT,  # nor emergency-stop clients
}
WITHOUT = ALWAYS | {StateMessage: ABSENT, Reset: ABSENT, Heartbeat: ABSENT, CommandMessage: ABSENT}
WITHIN = ALWAYS | {StateMessage: "torque", Reset: "reset_ack", Heartbeat: "heartbeat_ack", CommandMessage: "command_ack"}
ANSWERS = {
    Phase.ABSENT: WITHOUT,
    Phase.RUNNING: WITHIN,
    Phase.LATCHED: WITHIN | {StateMessage: LATCHED, CommandMessage: LATCHED},
    Phase.ENDED: WITHOUT,
}


def bring(rig: Rig, phase: Phase) -> None:
    """Bring the rig's client into a phase."""
    if phase is not Phase.ABSENT:
        rig.greet()
        rig.torque(1)
    if phase is Phase.LATCHED:
        rig.controller.fail = True
        rig.refused(2)
        rig.controller.fail = False
    if phase is Phase.ENDED:
        assert isinstance(rig.send(Stop(session=rig.session)), StopAck)


def answer(rig: Rig, kind: type) -> str:
    """Type of the reply to a valid message of this type, or the code of its refusal."""
    rig.now = 3 * MS
    messages = {
        Hello: lambda: hello(rig.robot),
        StateMessage: lambda: rig.state(3),
        Reset: lambda: rig.at_rest,
        Heartbeat: lambda: Heartbeat(session=rig.session),
        Stop: lambda: Stop(session=rig.session),
        StatsGet: StatsGet,
        TickGet: TickGet,
        ConfigGet: ConfigGet,
        ConfigSet: lambda: ConfigSet(settings={}),
        PlanHello: lambda: PlanHello(name="joystick"),
        Estop: lambda: Estop(name="button"),
        CommandMessage: lambda: CommandMessage(session=rig.session, valid_for=1.0, velocity=[0.1, 0.0, 0.0]),
    }
    reply = rig.send(messages[kind]())
    return reply.code.value if isinstance(reply, ErrorMessage) else str(reply.__struct_config__.tag)


@every("phase", Phase)
@every("kind", FromClient.__args__)
def test_each_message_gets_its_reply_in_each_phase(robot, phase, kind):
    rig = Rig(robot)
    bring(rig, phase)
    assert answer(rig, kind) == ANSWERS[phase][kind]


def test_a_server_message_from_a_client_is_refused(fresh):
    reply = expect(ErrorMessage, fresh.send(StopAck(session=1)))
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
        return Stop(session=rig.session)
    if cause.startswith("reset"):
        return rig.at_rest
    return rig.state(3, t_robot=rig.now, t_send=rig.now)


def text(answer: Message) -> str:
    """The answer as the picture names it."""
    kind = str(answer.__struct_config__.tag)
    if isinstance(answer, Welcome):
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
