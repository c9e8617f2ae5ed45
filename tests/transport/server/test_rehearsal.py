"""Rehearsals before each state: nobody can tell from any answer whether there were some."""

import numpy as np
import pytest
from rig import Rig
from standin import MS, hello, standing

from idyn.model.robot import Robot
from transport.protocol.codec import decode, encode
from transport.protocol.messages import Message
from transport.protocol.messages.hello import Welcome
from transport.protocol.messages.requests import Reset, Stats, StatsGet
from transport.protocol.messages.state import Flags
from transport.protocol.messages.torque import TorqueMessage


def answers(robot: Robot, rehearsals: int) -> list[bytes]:
    """To a session with gaps, duplicates, refusals, a jump, an emergency stop, a silence that latches and a second hello."""
    rig = Rig(robot)
    seen: list[bytes] = []

    def send(message: Message, now: int) -> Message:
        for _ in range(rehearsals):
            rig.service.rehearse()
        rig.now = now
        seen.append(rig.service.handle(b"a", encode(message), now).reply)
        return decode(seen[-1])

    q, rest = standing(robot), np.zeros(robot.nv).tobytes()
    for begin in (0, 1000):
        welcome = send(hello(robot), begin * MS)
        assert isinstance(welcome, Welcome)
        rig.session = welcome.session

        def tick(seq: int, begin: int = begin, **changes: object) -> Message:
            return send(rig.state(seq, **({"t_robot": (begin + seq) * MS} | changes)), (begin + seq) * MS)  # type: ignore[arg-type]

        for seq in (1, 2, 3, 3, 7, 5, 8):
            tick(seq, t_send=None, t_applied=(begin + seq - 2) * MS)
        tick(9, q=b"", t_send=None)
        jumped = q.copy()
        jumped[7:] += 1.0
        tick(10, q=jumped.tobytes(), t_send=None)
        tick(11, t_send=None)
        tick(12, t_send=None, flags=Flags(estop=True))
        tick(400, t_send=None)
        send(Reset(session=rig.session, q=q.tobytes(), vel=rest), (begin + 401) * MS)
        for seq in range(402, 420):
            tick(seq, t_send=None)
    stats = send(StatsGet(), 2000 * MS)
    assert isinstance(stats, Stats)
    assert {"latched_fault", "out_of_order", "wrong_length"} <= stats.refused.keys()
    return seen


@pytest.mark.parametrize("rehearsals", [1, 3])
def test_rehearsals_change_no_answer(robot: Robot, rehearsals: int) -> None:
    assert answers(robot, rehearsals) == answers(robot, 0)


def test_each_state_but_the_first_is_accepted_once_more(robot: Robot) -> None:
    rig = Rig(robot)
    rig.greet()
    rehearsal = rig.service._rehearsal._reception
    for seq in range(1, 21):
        rig.tick(seq)
        rig.service.rehearse()
    assert rehearsal.received == 20
    assert rehearsal.refused.total() == 1


def test_a_rehearsal_that_fails_is_told_and_ends_nothing(
    robot: Robot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(robot)
    rig.greet()
    rig.tick(1)

    def fails() -> None:
        raise RuntimeError("a wire came loose")

    monkeypatch.setattr(rig.controller, "rehearse", fails)
    rig.service.rehearse()
    assert "a wire came loose" in caplog.text
    caplog.clear()
    rig.service.rehearse()
    assert not caplog.text
    assert isinstance(rig.tick(2), TorqueMessage)
