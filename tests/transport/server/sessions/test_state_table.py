"""What a session answers to each type of message in each of its phases."""

import numpy as np
import pytest
from rig import Rig
from standin import MS, hello, standing

from transport.protocol.messages import FromClient
from transport.protocol.messages.command import CommandMessage, PlanHello
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.hello import Hello
from transport.protocol.messages.requests import ConfigGet, ConfigSet, Estop, Heartbeat, Reset, StatsGet, Stop, StopAck, TickGet
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.server.sessions.session import Phase

KINDS = FromClient.__args__
CELLS = [(phase, kind) for phase in Phase for kind in KINDS]
each_cell = pytest.mark.parametrize(
    ("phase", "kind"), CELLS, ids=[f"{phase}-{kind.__struct_config__.tag}" for phase, kind in CELLS]
)

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
WITHIN = ALWAYS | {
    StateMessage: "torque",
    Reset: "reset_ack",
    Heartbeat: "heartbeat_ack",
    CommandMessage: "command_ack",
}
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
        assert isinstance(rig.tick(1), TorqueMessage)
    if phase is Phase.LATCHED:
        rig.controller.fail = True
        assert isinstance(rig.tick(2), ErrorMessage)
        rig.controller.fail = False
    if phase is Phase.ENDED:
        assert isinstance(rig.send(Stop(session=rig.session)), StopAck)


def answer(rig: Rig, kind: type) -> str:
    """Type of the reply to a valid message of this type, or the code of its refusal."""
    rig.now = 3 * MS
    messages = {
        Hello: lambda: hello(rig.robot),
        StateMessage: lambda: rig.state(3),
        Reset: lambda: Reset(session=rig.session, q=standing(rig.robot).tobytes(), vel=np.zeros(rig.robot.nv).tobytes()),
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


@each_cell
def test_each_message_gets_its_reply_in_each_phase(rig: Rig, phase: Phase, kind: type) -> None:
    bring(rig, phase)
    assert answer(rig, kind) == ANSWERS[phase][kind]


def test_a_server_message_from_a_client_is_refused(rig: Rig) -> None:
    reply = rig.send(StopAck(session=1))
    assert isinstance(reply, ErrorMessage)
    assert (reply.code, reply.field) == (Code.BAD_SCHEMA, "t")
