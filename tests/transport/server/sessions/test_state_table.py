"""The state table: what it says is what happens, in every cell."""

import numpy as np
import pytest
from rig import Rig
from standin import MS, hello, standing

from transport.protocol.messages import FromClient
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.hello import Hello
from transport.protocol.messages.requests import ConfigGet, ConfigSet, Heartbeat, Reset, StatsGet, Stop, StopAck
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.server.sessions.session import Phase

KINDS = FromClient.__args__
CELLS = [(phase, kind) for phase in Phase for kind in KINDS]
each_cell = pytest.mark.parametrize(
    ("phase", "kind"), CELLS, ids=[f"{phase}-{kind.__struct_config__.tag}" for phase, kind in CELLS]
)

ABSENT, LATCHED, FIXED = "not_controlling", "latched_fault", "bad_schema"  # the rig's settings are fixed
ALWAYS = {Hello: "welcome", Stop: "stop_ack", StatsGet: "stats", ConfigGet: "config", ConfigSet: FIXED}
WITHOUT = ALWAYS | {StateMessage: ABSENT, Reset: ABSENT, Heartbeat: ABSENT}
WITHIN = ALWAYS | {StateMessage: "torque", Reset: "reset_ack", Heartbeat: "heartbeat_ack"}
ANSWERS = {
    Phase.ABSENT: WITHOUT,
    Phase.RUNNING: WITHIN,
    Phase.LATCHED: WITHIN | {StateMessage: LATCHED},
    Phase.ENDED: WITHOUT,
}


def bring(rig: Rig, phase: Phase) -> None:
    """The rig's client into a phase."""
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
    """The type of what a message in order is answered with, or the code of its refusal."""
    rig.now = 3 * MS
    messages = {
        Hello: lambda: hello(rig.robot),
        StateMessage: lambda: rig.state(3),
        Reset: lambda: Reset(session=rig.session, q=standing(rig.robot).tobytes(), vel=np.zeros(rig.robot.nv).tobytes()),
        Heartbeat: lambda: Heartbeat(session=rig.session),
        Stop: lambda: Stop(session=rig.session),
        StatsGet: StatsGet,
        ConfigGet: ConfigGet,
        ConfigSet: lambda: ConfigSet(settings={}),
    }
    reply = rig.send(messages[kind]())
    return reply.code.value if isinstance(reply, ErrorMessage) else str(reply.__struct_config__.tag)


def test_the_table_is_total(rig: Rig) -> None:
    table = rig.service._dispatcher.table
    assert set(table) == set(Phase)
    for phase in Phase:
        assert set(table[phase]) == set(KINDS)


@each_cell
def test_each_message_gets_its_reply_in_each_phase(rig: Rig, phase: Phase, kind: type) -> None:
    bring(rig, phase)
    assert answer(rig, kind) == ANSWERS[phase][kind]


@each_cell
def test_the_handler_of_a_cell_is_what_is_called(rig: Rig, phase: Phase, kind: type) -> None:
    """Once, and nothing besides."""
    bring(rig, phase)
    called: list[tuple[Phase, type]] = []
    for row, cells in rig.service._dispatcher.table.items():
        for column, handler in cells.items():
            cell = (row, column)
            cells[column] = lambda *given, cell=cell, do=handler: (called.append(cell), do(*given))[1]
    answer(rig, kind)
    assert called == [(phase, kind)]


@each_cell
def test_with_another_handler_in_its_cell_a_message_leads_elsewhere(rig: Rig, phase: Phase, kind: type) -> None:
    bring(rig, phase)
    table = rig.service._dispatcher.table
    other = ConfigGet if ANSWERS[phase][kind] == ABSENT else StateMessage
    table[phase][kind] = table[Phase.ABSENT][other]
    assert answer(rig, kind) == ("config" if other is ConfigGet else ABSENT)


def test_a_latched_session_is_served_when_the_table_says_so(rig: Rig) -> None:
    bring(rig, Phase.LATCHED)
    table = rig.service._dispatcher.table
    table[Phase.LATCHED][StateMessage] = table[Phase.RUNNING][StateMessage]
    assert answer(rig, StateMessage) == "torque"


def test_a_server_message_from_a_client_is_refused(rig: Rig) -> None:
    reply = rig.send(StopAck(session=1))
    assert isinstance(reply, ErrorMessage)
    assert (reply.code, reply.field) == (Code.BAD_SCHEMA, "t")
