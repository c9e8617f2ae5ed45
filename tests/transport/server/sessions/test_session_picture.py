"""The picture of a session's states in the manual: each of its arrows is what the server does."""

import sys
from pathlib import Path

import numpy as np
import pytest
from rig import Rig
from standin import MS, hello, standing
from test_state_table import bring

from transport.protocol.messages import Message
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.hello import Welcome
from transport.protocol.messages.requests import Reset, Stop
from transport.server.sessions.session import Phase

sys.path.insert(0, str(Path(__file__).parents[4] / "docs" / "tools"))

from session_states import PICTURE, STATES, TRANSITIONS, Transition, picture


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
        still = np.zeros(rig.robot.nv).tobytes()
        return Reset(session=rig.session, q=standing(rig.robot).tobytes(), vel=still)
    return rig.state(3, t_robot=rig.now, t_send=rig.now)


def text(answer: Message) -> str:
    """The answer as the picture names it."""
    kind = str(answer.__struct_config__.tag)
    if isinstance(answer, Welcome):
        return f"{kind}, mode {answer.mode}"
    return f"{kind} {answer.code}" if isinstance(answer, ErrorMessage) else kind


@pytest.mark.parametrize("arrow", TRANSITIONS, ids=lambda arrow: f"{arrow.origin}-{arrow.target}-{arrow.cause}")
def test_an_arrow_is_what_the_server_does(arrow: Transition, rig: Rig) -> None:
    if arrow.cause == "hello, robot latched":
        bring(rig, Phase.LATCHED)
        rig.service.dispatcher.sessions.clear()
    else:
        bring(rig, Phase(arrow.origin))
    assert phase(rig) == arrow.origin
    answer = rig.send(message(rig, arrow.cause))
    assert text(answer) == arrow.answer
    assert phase(rig) == arrow.target


def test_the_picture_is_the_one_that_the_command_writes() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `python docs/tools/session_states.py`"
    assert set(STATES) == {str(each) for each in Phase}
