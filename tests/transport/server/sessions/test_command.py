"""Commands of the controlling client and of planners, through bytes: who may send them, what they do, when they expire."""

import msgpack
import numpy as np
import pytest
from fast import every
from rig import Rig
from standin import MS, SpringDamper, standing
from wire import expect

from idyn.model.robot import Robot
from transport.protocol.messages.command import CommandAck, CommandMessage, GaitPart, PlanHello, PlanWelcome
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.requests import Reset, Stop
from transport.protocol.messages.torque import TorqueMessage
from transport.server.service import Service
from transport.server.sessions.command_latch import STANDS
from transport.server.settings import ServerSettings

NAN, INF = float("nan"), float("inf")

FORWARD = [0.4, 0.0, 0.0]


def greet_planner(rig: Rig, identity: bytes = b"p", name: str = "joystick") -> PlanWelcome:
    reply = expect(PlanWelcome, rig.send(PlanHello(name=name), identity))
    return reply


def refusal(reply: object) -> ErrorMessage:
    assert isinstance(reply, ErrorMessage), reply
    return reply


def applied(rig: Rig, seq: int) -> tuple[list[float] | None, str]:
    """Velocity that the controller got with state `seq`, and the message of the reply."""
    reply = expect(TorqueMessage, rig.tick(seq))
    steering = rig.controller.last.steering
    velocity = None if steering is None else steering.velocity
    return (None if velocity is None else velocity.tolist()), reply.message


def with_planners(robot: Robot) -> Rig:
    rig = Rig(robot, planners=("joystick", "mpc"))
    rig.greet()
    return rig


@pytest.fixture
def planned(robot):
    return with_planners(robot)


def test_a_command_applies_until_it_expires_and_the_robot_then_stands(planned):
    session = greet_planner(planned).session
    assert applied(planned, 1) == (None, "")
    ack = expect(CommandAck, planned.send(CommandMessage(session=session, valid_for=0.003, velocity=FORWARD), b"p"))
    assert (ack.session, ack.valid_until) == (session, 4 * MS)
    assert applied(planned, 2) == (FORWARD, "")
    assert applied(planned, 3) == (FORWARD, "")
    assert applied(planned, 4) == ([0.0] * 3, STANDS)
    assert applied(planned, 5) == ([0.0] * 3, STANDS)


def test_a_planner_gets_the_last_state_of_the_robot(planned):
    assert greet_planner(planned).state is None
    applied(planned, 1)
    welcome = greet_planner(planned)
    applied(planned, 2)
    ack = expect(CommandAck, planned.send(CommandMessage(session=welcome.session, valid_for=1.0, velocity=FORWARD), b"p"))
    for seen, t in ((welcome.state, 1), (ack.state, 2)):
        assert seen.t_robot == t * MS
        np.testing.assert_array_equal(np.frombuffer(seen.q), standing(planned.robot))
        np.testing.assert_array_equal(np.frombuffer(seen.vel), 0.0)


def test_the_controlling_client_commands_within_its_session(planned):
    assert isinstance(planned.send(CommandMessage(session=planned.session, valid_for=1.0, velocity=FORWARD)), CommandAck)
    assert applied(planned, 1) == (FORWARD, "")
    assert (
        refusal(planned.send(CommandMessage(session=planned.session + 1, valid_for=1.0, velocity=FORWARD))).field == "session"
    )


def test_another_client_is_refused_until_the_command_in_force_has_expired(planned):
    one, other = greet_planner(planned).session, greet_planner(planned, b"q", "mpc").session
    planned.send(CommandMessage(session=one, valid_for=0.005, velocity=FORWARD), b"p")
    late = CommandMessage(session=other, valid_for=1.0, velocity=[0.0, 0.0, 1.0])
    assert refusal(planned.send(late, b"q")).code == Code.NOT_CONTROLLING
    assert refusal(planned.send(CommandMessage(session=planned.session, valid_for=1.0, velocity=FORWARD))).code == (
        Code.NOT_CONTROLLING
    )
    assert applied(planned, 1) == (FORWARD, "")
    planned.now = 5 * MS
    assert isinstance(planned.send(late, b"q"), CommandAck)
    assert applied(planned, 6) == ([0.0, 0.0, 1.0], "")


@every("identity", [b"p", b"a"])
@every("numbered", [True, False])
def test_an_old_command_that_comes_again_is_refused(robot, identity, numbered):
    """Of a planner and of the controlling client, whose commands have numbers or not; a new command is accepted."""
    planned = with_planners(robot)
    session = greet_planner(planned).session if identity == b"p" else planned.session
    code = Code.OUT_OF_ORDER if numbered else Code.DUPLICATE

    def sent(number: int, speed: float) -> object:
        asked = CommandMessage(session=session, seq=number * numbered, valid_for=0.003, velocity=[speed, 0.0, 0.0])
        return planned.send(asked, identity)

    assert isinstance(sent(1, 0.4), CommandAck)
    assert isinstance(sent(2, 0.1), CommandAck)
    assert isinstance(sent(3, 0.4), CommandAck)  # the first one is in force
    assert applied(planned, 4) == ([0.0] * 3, STANDS)
    for number, speed in ((1, 0.4), (2, 0.1)):
        refused = refusal(sent(number, speed))
        assert (refused.code, refused.field) == (code, "seq")
    assert applied(planned, 5) == ([0.0] * 3, STANDS)
    assert isinstance(sent(4, 0.2), CommandAck)
    assert applied(planned, 6) == ([0.2, 0.0, 0.0], "")
    for number, speed in ((1, 0.4), (3, 0.4)):  # nor while another one is in force
        assert refusal(sent(number, speed)).code == code
    assert applied(planned, 6 + 1) == ([0.2, 0.0, 0.0], "")


def test_a_client_that_numbers_its_commands_numbers_all(planned):
    session = greet_planner(planned).session
    for number, accepted in ((0, True), (5, True), (5, False), (0, False), (4, False), (6, True)):
        reply = planned.send(CommandMessage(session=session, seq=number, valid_for=1.0, velocity=FORWARD), b"p")
        assert isinstance(reply, CommandAck if accepted else ErrorMessage), number
    again = greet_planner(planned).session  # another session counts anew
    assert isinstance(planned.send(CommandMessage(session=again, seq=1, valid_for=1.0, velocity=FORWARD), b"p"), CommandAck)


def test_a_numbered_command_that_was_refused_does_not_count_later(planned):
    one, other = greet_planner(planned).session, greet_planner(planned, b"q", "mpc").session
    planned.send(CommandMessage(session=one, seq=1, valid_for=0.005, velocity=FORWARD), b"p")
    late = CommandMessage(session=other, seq=1, valid_for=1.0, velocity=FORWARD)
    assert refusal(planned.send(late, b"q")).code == Code.NOT_CONTROLLING
    planned.now = 5 * MS
    assert refusal(planned.send(late, b"q")).code == Code.OUT_OF_ORDER


def test_height_and_attitude_apply_until_the_command_expires(planned):
    def pose(seq: int) -> list[float]:
        applied(planned, seq)
        return planned.controller.last.steering.pose.tolist()

    session = greet_planner(planned).session
    planned.send(CommandMessage(session=session, valid_for=0.003, height=-0.04, attitude=[0.1, -0.05]), b"p")
    assert pose(1) == [-0.04, 0.1, -0.05]
    planned.send(CommandMessage(session=session, valid_for=0.003, velocity=FORWARD, height=0.01), b"p")
    assert pose(2) == [0.01, 0.0, 0.0]  # it replaces the last command as a whole
    planned.send(CommandMessage(session=session, valid_for=0.003, attitude=[0.1, 0.0]), b"p")
    assert applied(planned, 3)[0] == [0.0] * 3  # without a velocity the robot stands
    assert pose(4) == [0.0, 0.1, 0.0]
    assert pose(7) == [0.0] * 3


@every(
    ("field", "changes"),
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
def test_a_malformed_command_is_refused_and_the_previous_one_stands(robot, field, changes):
    planned = with_planners(robot)
    session = greet_planner(planned).session
    planned.send(CommandMessage(session=session, valid_for=1.0, velocity=FORWARD), b"p")
    wrong = CommandMessage(**({"session": session, "valid_for": 1.0, "velocity": [0.1, 0.0, 0.0]} | changes))
    assert refusal(planned.send(wrong, b"p")).field.startswith(field)
    assert applied(planned, 1) == (FORWARD, "")


def test_who_may_not_command(planned, robot):
    assert refusal(planned.send(PlanHello(name="stranger"), b"x")).field == "name"
    message = CommandMessage(session=7, valid_for=1.0, velocity=FORWARD)
    assert refusal(planned.send(message, b"x")).code == Code.NOT_CONTROLLING
    session = greet_planner(planned).session
    stolen = CommandMessage(session=session, valid_for=1.0, velocity=FORWARD)
    assert refusal(planned.send(stolen, b"x")).code == Code.NOT_CONTROLLING
    assert refusal(Rig(robot).send(PlanHello(name="joystick"), b"p")).field == "name"  # no planners allowed


def test_a_controller_without_gait_refuses_a_velocity(robot):
    rig, controller = Rig(robot), SpringDamper(robot)
    controller.steers = False
    rig.service = Service(controller, ServerSettings(controller="standin", planners=("joystick",)))
    session = greet_planner(rig).session
    error = refusal(rig.send(CommandMessage(session=session, valid_for=1.0, velocity=FORWARD), b"p"))
    assert (error.field, "gait" in error.message) == ("velocity", True)


def test_a_reset_a_new_session_and_stop_of_the_planner(planned):
    session = greet_planner(planned).session
    command = CommandMessage(session=session, valid_for=10.0, velocity=FORWARD)
    planned.send(command, b"p")
    planned.send(Stop(session=session), b"p")
    assert applied(planned, 1) == (FORWARD, "")  # the command stands until it expires
    rest = Reset(session=planned.session, q=standing(planned.robot).tobytes(), vel=np.zeros(planned.robot.nv).tobytes())
    planned.send(rest)
    assert applied(planned, 2) == (None, "")
    planned.send(command, b"p")
    planned.greet()
    assert applied(planned, 3) == (None, "")


def test_a_gait_applies_until_the_command_expires(planned):
    def gait(seq: int) -> tuple[object, ...] | None:
        applied(planned, seq)
        gait = planned.controller.last.steering.gait
        return None if gait is None else (gait.pattern, gait.period, gait.duty, gait.step_height)

    session = greet_planner(planned).session
    part = GaitPart(pattern="walk", duty=0.8)
    assert isinstance(planned.send(CommandMessage(session=session, valid_for=0.002, gait=part), b"p"), CommandAck)
    assert gait(1) == ("walk", None, 0.8, None)
    assert gait(2) is None
    unknown = {"t": "command", "v": "1.2", "session": session, "valid_for": 1.0, "gait": {"pattern": "gallop"}}
    refused = planned.raw(msgpack.packb(unknown), b"p")
    assert refusal(refused).field == "gait.pattern"
