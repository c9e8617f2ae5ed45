"""The plausibility check: one implausible state is ignored, two in a row are a fault."""

import numpy as np
import pytest
from rig import Rig
from standin import standing

from idyn.model.robot import Robot
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.torque import TorqueMessage


def wild(robot: Robot, what: str) -> dict[str, bytes]:
    q, v = standing(robot), np.zeros(robot.nv)
    if what == "a joint at 40 rad/s":
        v[8] = 40.0
    elif what == "a joint 0.5 rad off":
        q[9] += 0.5
    elif what == "a base 1 m off":
        q[0] += 1.0
    elif what == "a base upside down":
        q[3:7] = [1.0, 0.0, 0.0, 0.0]
    elif what == "a base 0.15 rad off":
        q[3:7] = [np.sin(0.075), 0.0, 0.0, np.cos(0.075)]
    elif what == "a base at 5 m/s":
        v[1] = 5.0
    else:
        v[4] = 9.0
    return {"q": q.tobytes(), "vel": v.tobytes()}


WHAT = [
    "a joint at 40 rad/s",
    "a joint 0.5 rad off",
    "a base 1 m off",
    "a base upside down",
    "a base 0.15 rad off",
    "a base at 5 m/s",
    "a base that spins",
]


@pytest.mark.parametrize("what", WHAT)
def test_one_implausible_state_is_ignored_and_reported(rig: Rig, robot: Robot, what: str) -> None:
    rig.greet()
    rig.tick(1)
    before = rig.tick(2)
    reply = rig.tick(3, **wild(robot, what))
    assert isinstance(before, TorqueMessage)
    assert isinstance(reply, TorqueMessage)
    assert reply.message.startswith("implausible state ignored: ")
    np.testing.assert_allclose(np.frombuffer(reply.tau), np.frombuffer(before.tau), atol=1e-9)  # type: ignore[arg-type]
    after = rig.tick(4)
    assert isinstance(after, TorqueMessage)
    assert after.message == ""


@pytest.mark.parametrize("what", WHAT)
def test_two_implausible_states_in_a_row_are_a_fault(rig: Rig, robot: Robot, what: str) -> None:
    rig.greet()
    rig.tick(1)
    rig.tick(2, **wild(robot, what))
    reply = rig.tick(3, **wild(robot, what))
    assert isinstance(reply, ErrorMessage)
    assert reply.code is Code.LATCHED_FAULT
    assert "two implausible states in a row" in reply.message


def test_a_moving_robot_is_accepted_after_a_dropout(moving: Rig, robot: Robot) -> None:
    """What its speed explains is no jump: 20 ms at 5 rad/s are 0.1 rad."""
    moving.greet()
    q, v = standing(robot), np.zeros(robot.nv)
    v[7] = 5.0
    moving.tick(1, q=q.tobytes(), vel=v.tobytes())
    q[8] += 0.15
    reply = moving.tick(21, q=q.tobytes(), vel=v.tobytes())
    assert isinstance(reply, TorqueMessage)
    assert reply.message == ""


def test_the_opposite_quaternion_is_the_same_attitude(rig: Rig, robot: Robot) -> None:
    rig.greet()
    rig.tick(1)
    q = standing(robot)
    q[3:7] *= -1.0
    reply = rig.tick(2, q=q.tobytes())
    assert isinstance(reply, TorqueMessage)
    assert reply.message == ""


def test_a_stumbling_leg_is_accepted_in_the_second_tick(rig: Rig, robot: Robot) -> None:
    """20 rad/s are too much for one tick, and possible in two."""
    rig.greet()
    stumbling = np.zeros(robot.nv)
    stumbling[8] = 20.0
    rig.tick(1)
    first, second = (rig.tick(seq, vel=stumbling.tobytes()) for seq in (2, 3))
    assert isinstance(first, TorqueMessage)
    assert first.message.startswith("implausible state ignored: ")
    assert isinstance(second, TorqueMessage)
    assert second.message == ""


def test_one_implausible_state_after_a_lost_one_is_ignored(rig: Rig, robot: Robot) -> None:
    rig.greet()
    rig.tick(1)
    v = np.zeros(robot.nv)
    v[8] = 29.0
    wild = rig.tick(12, vel=v.tobytes())
    assert isinstance(wild, TorqueMessage)
    assert wild.message.startswith("implausible state ignored: ")
    after = rig.tick(13)
    assert isinstance(after, TorqueMessage)
    assert after.message == ""
