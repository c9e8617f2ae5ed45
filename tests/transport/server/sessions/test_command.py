"""Commands of the controlling client and of planners, through bytes: who may send them, what they do, when they expire."""

import msgpack
import numpy as np
import pytest
from fast import every
from rig import FORWARD, Planned, Rig
from standin import MS, standing
from wire import expect

from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage, GaitPart, PlanHello
from transport.protocol.messages.requests import Stop
from transport.server.sessions.latches import STANDS

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def planned(robot):
    return Planned(robot)


def code(reply):
    return expect(ErrorMessage, reply).code


def field(reply):
    return expect(ErrorMessage, reply).field


def test_a_command_applies_until_it_expires_and_the_robot_then_stands(planned):
    assert planned.velocity(1) == (None, "")
    ack = expect(CommandAck, planned.command(valid_for=0.003))
    assert (ack.session, ack.valid_until) == (planned.planner, 4 * MS)
    for seq in (2, 3):
        assert planned.velocity(seq) == (FORWARD, "")
    for seq in (4, 5):
        assert planned.velocity(seq) == ([0.0] * 3, STANDS)


def test_a_planner_gets_the_last_state_of_the_robot(planned):
    assert planned.greet_planner(b"p").state is None
    planned.tick(1)
    welcome = planned.greet_planner(b"p")
    planned.tick(2)
    ack = expect(CommandAck, planned.command(session=welcome.session))
    for seen, t in ((welcome.state, 1), (ack.state, 2)):
        assert seen.t_robot == t * MS
        np.testing.assert_array_equal(np.frombuffer(seen.q), standing(planned.robot))
        np.testing.assert_array_equal(np.frombuffer(seen.vel), 0.0)


def test_the_controlling_client_commands_within_its_session(planned):
    expect(CommandAck, planned.command(by=b"a", session=planned.session))
    assert planned.velocity(1) == (FORWARD, "")
    assert field(planned.command(by=b"a", session=planned.session + 1)) == "session"


def test_another_client_is_refused_until_the_command_in_force_has_expired(planned):
    other = planned.greet_planner(b"q", "joystick").session
    planned.command(valid_for=0.005)
    late = CommandMessage(session=other, valid_for=1.0, velocity=[0.0, 0.0, 1.0])
    assert code(planned.send(late, b"q")) == Code.NOT_CONTROLLING
    assert code(planned.command(by=b"a", session=planned.session)) == Code.NOT_CONTROLLING
    assert planned.velocity(1) == (FORWARD, "")
    planned.now = 5 * MS
    expect(CommandAck, planned.send(late, b"q"))
    assert planned.velocity(6) == ([0.0, 0.0, 1.0], "")


@every("identity", [b"p", b"a"])
@every("numbered", [True, False])
def test_an_old_command_that_comes_again_is_refused(robot, identity, numbered):
    """Of a planner and of the controlling client, whose commands have numbers or not; a new command is accepted."""
    planned, again = Planned(robot), Code.OUT_OF_ORDER if numbered else Code.DUPLICATE
    session = planned.planner if identity == b"p" else planned.session

    def sent(number, speed):
        velocity = [speed, 0.0, 0.0]
        return planned.command(by=identity, session=session, seq=number * numbered, valid_for=0.003, velocity=velocity)

    for number, speed in ((1, 0.4), (2, 0.1), (3, 0.4)):  # the first one is in force
        expect(CommandAck, sent(number, speed))
    assert planned.velocity(4) == ([0.0] * 3, STANDS)
    for number, speed in ((1, 0.4), (2, 0.1)):
        refused = expect(ErrorMessage, sent(number, speed))
        assert (refused.code, refused.field) == (again, "seq")
    assert planned.velocity(5) == ([0.0] * 3, STANDS)
    expect(CommandAck, sent(4, 0.2))
    assert planned.velocity(6) == ([0.2, 0.0, 0.0], "")
    for number, speed in ((1, 0.4), (3, 0.4)):  # nor while another one is in force
        assert code(sent(number, speed)) == again
    assert planned.velocity(7) == ([0.2, 0.0, 0.0], "")


def test_a_client_that_numbers_its_commands_numbers_all_and_a_refused_number_does_not_count_later(planned):
    for number, accepted in ((0, True), (5, True), (5, False), (0, False), (4, False), (6, True)):
        assert isinstance(planned.command(seq=number), CommandAck if accepted else ErrorMessage), number
    again = planned.greet_planner(b"p").session  # another session counts anew
    expect(CommandAck, planned.command(session=again, seq=1, valid_for=0.005))
    other = planned.greet_planner(b"q", "joystick").session
    assert code(planned.command(by=b"q", session=other, seq=1)) == Code.NOT_CONTROLLING
    planned.now = 5 * MS
    assert code(planned.command(by=b"q", session=other, seq=1)) == Code.OUT_OF_ORDER


def test_height_and_attitude_apply_until_the_command_expires(planned):
    def pose(seq):
        return planned.applied(seq)[0].steering.pose.tolist()

    planned.command(valid_for=0.003, height=-0.04, attitude=[0.1, -0.05])
    assert pose(1) == [-0.04, 0.1, -0.05]
    planned.command(valid_for=0.003, velocity=FORWARD, height=0.01)
    assert pose(2) == [0.01, 0.0, 0.0]  # it replaces the last command as a whole
    planned.command(valid_for=0.003, attitude=[0.1, 0.0])
    assert planned.velocity(3)[0] == [0.0] * 3  # without a velocity the robot stands
    assert pose(4) == [0.0, 0.1, 0.0]
    assert pose(7) == [0.0] * 3


@every(
    ("wrong", "changes"),
    [
        ("valid_for", {"valid_for": 0.0}),
        ("valid_for", {"valid_for": -1.0}),
        ("valid_for", {"valid_for": NAN}),
        ("valid_for", {"valid_for": 61.0}),
        ("velocity", {"velocity": [0.0, NAN, 0.0]}),
        ("velocity", {"velocity": [0.0, INF, 0.0]}),
        ("velocity", {"velocity": [0.0, 0.0]}),
        ("velocity", {"velocity": [11.0, 0.0, 0.0]}),
        ("velocity", {"velocity": [0.0, 0.0, -60.0]}),
        ("velocity", {"velocity": None}),
        ("height", {"height": NAN}),
        ("height", {"height": -0.06}),
        ("height", {"height": 0.03}),
        ("attitude", {"attitude": [0.1]}),
        ("attitude", {"attitude": [INF, 0.0]}),
        ("attitude[0]", {"attitude": [0.3, 0.0]}),
        ("attitude[1]", {"attitude": [0.0, -0.2]}),
    ],
)
def test_a_malformed_command_is_refused_and_the_previous_one_stands(robot, wrong, changes):
    planned = Planned(robot)
    planned.command()
    assert field(planned.command(**({"velocity": [0.1, 0.0, 0.0]} | changes))).startswith(wrong)
    assert planned.velocity(1) == (FORWARD, "")


def test_who_may_not_command(planned, robot):
    assert field(planned.send(PlanHello(name="stranger"), b"x")) == "name"
    assert code(planned.command(by=b"x", session=7)) == Code.NOT_CONTROLLING
    assert code(planned.command(by=b"x")) == Code.NOT_CONTROLLING
    assert field(Rig(robot).send(PlanHello(name="joystick"), b"p")) == "name"  # no planners allowed
    planned.controller.steers = False  # the controller has no gait
    assert field(planned.command()) == "velocity"


def test_a_reset_a_new_session_and_stop_of_the_planner(planned):
    planned.command(valid_for=10.0)
    planned.send(Stop(session=planned.planner), b"p")
    assert planned.velocity(1) == (FORWARD, "")  # the command stands until it expires
    planned.send(planned.at_rest)
    assert planned.velocity(2) == (None, "")
    planned.command(valid_for=10.0)
    planned.greet()
    assert planned.velocity(3) == (None, "")


def test_a_gait_applies_until_the_command_expires(planned):
    def gait(seq):
        gait = planned.applied(seq)[0].steering.gait
        return None if gait is None else (gait.pattern, gait.period, gait.duty, gait.step_height)

    expect(CommandAck, planned.command(valid_for=0.002, gait=GaitPart(pattern="walk", duty=0.8)))
    assert gait(1) == ("walk", None, 0.8, None)
    assert gait(2) is None
    unknown = {"t": "command", "v": "1.2", "session": planned.planner, "valid_for": 1.0, "gait": {"pattern": "gallop"}}
    assert field(planned.raw(msgpack.packb(unknown), b"p")) == "gait.pattern"
