"""The low-level interface: over DDS between two processes' worth of participants, and the bound of its commands."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from idyn.errors import ConfigError
from transport.bridges.unitree.dds import Bus
from transport.bridges.unitree.low_level import BETWEEN_S, LowLevel, MotorCommand, bounded
from transport.bridges.unitree.low_state import LowState, StateDecoder
from transport.bridges.unitree.messages import Message
from transport.bridges.unitree.raw_log import COMMAND, STATE
from transport.bridges.unitree.robots import G1, GO2

MOST = np.array([23.7, 23.7, 45.43])
number = st.floats(-50.0, 50.0)
gain = st.floats(0.0, 500.0)


def state_at(q, v):
    nothing = np.zeros(3)
    return LowState(
        at=0.0,
        clock_ns=0,
        q=q,
        v=v,
        tau=nothing,
        attitude=np.array([0.0, 0.0, 0.0, 1.0]),
        rate=nothing,
        acceleration=nothing,
        temperature=nothing,
        voltage=0.0,
        stop=False,
        sticks=nothing,
        problem="",
        message=Message(GO2.family.state),
    )


@settings(max_examples=200, deadline=None)
@given(*[arrays(float, 3, elements=number)] * 5, *[arrays(float, 3, elements=gain)] * 2)
def test_torque_and_feedback_stay_within_the_limits_until_the_next_command(q, v, target, speed, tau, kp, kd):
    command = bounded(MotorCommand(q=target, v=speed, tau=tau, kp=kp, kd=kd), state_at(q, v), MOST)
    for passed in np.linspace(0.0, BETWEEN_S, 5):
        motor = command.tau + command.kp * (command.q - q - passed * v) + command.kd * (command.v - v)
        assert (np.abs(motor) <= MOST * (1 + 1e-9) + 1e-9).all()


def test_a_command_within_the_limits_is_sent_as_it_is():
    command = MotorCommand(q=np.ones(3), v=np.zeros(3), tau=np.full(3, 2.0), kp=np.full(3, 10.0), kd=np.ones(3))
    sent = bounded(command, state_at(np.zeros(3), np.zeros(3)), MOST)
    for name in ("q", "v", "tau", "kp", "kd"):
        np.testing.assert_allclose(getattr(sent, name), getattr(command, name), atol=1e-12)


@pytest.mark.parametrize("robot", [GO2, G1], ids=["go2", "g1"])
def test_states_and_commands_go_by_motor(robot):
    """A robot made of two topics: its joints arrive in the model's order, and commands reach its motors."""
    joints, family = tuple(sorted(robot.joints)), robot.family
    bus = Bus(91 if robot is GO2 else 95)
    states, link = bus.writer(STATE, family.state), LowLevel(StateDecoder(robot, joints), np.full(len(joints), 40.0), bus)
    commands = bus.reader(COMMAND, family.command)
    message = Message(family.state)
    message["motor_state.q"] = 0.01 * np.arange(family.motors)
    message["imu_state.quaternion"] = np.array([0.5, 0.1, 0.2, 0.3])
    while not states.readers or not commands.writers:
        pass
    states.write(message.sealed())
    state = link.state(5.0)
    motors = [robot.joints.index(name) for name in joints]
    np.testing.assert_allclose(state.q, 0.01 * np.array(motors), atol=1e-7)
    np.testing.assert_allclose(state.attitude, [0.1, 0.2, 0.3, 0.5], atol=1e-7)
    ones = np.ones(len(joints))
    link.send(MotorCommand(q=state.q + 0.1, v=0 * ones, tau=0.5 * ones, kp=20 * ones, kd=ones), state)
    (received,) = commands.take(5.0)
    assert received.is_sound
    np.testing.assert_allclose(received["motor_cmd.q"][motors], state.q + 0.1, atol=1e-6)
    assert (received["motor_cmd.mode"][motors] == 1).all()
    rest = sorted(set(range(family.motors)) - set(motors))
    assert not received["motor_cmd.kp"][rest].any()
    assert not received["motor_cmd.mode"][rest].any()


def test_a_state_with_a_wrong_checksum_is_counted_and_not_used():
    bus = Bus(92)
    states, link = bus.writer(STATE, GO2.family.state), LowLevel(StateDecoder(GO2, GO2.joints), np.full(12, 40.0), bus)
    while not states.readers:
        pass
    message = Message(GO2.family.state)
    message["crc"] = 7
    states.write(bytes(message.data))
    assert link.state(5.0) is None
    assert link.decoder.wrong == 1


def test_a_robot_that_another_process_commands_is_refused():
    bus = Bus(93)
    other = bus.writer(COMMAND, GO2.family.command)
    with pytest.raises(ConfigError, match="another process sends commands"):
        LowLevel(StateDecoder(GO2, GO2.joints), np.full(12, 40.0), bus)
    del other


def test_joints_without_a_motor_are_named():
    with pytest.raises(ConfigError, match="tail_joint"):
        StateDecoder(GO2, ("tail_joint",))


def test_a_network_interface_that_does_not_exist_is_named():
    with pytest.raises(ConfigError, match="DDS domain 96 on the network interface 'nowhere0'"):
        Bus(96, "nowhere0")


@pytest.mark.parametrize(
    ("speed", "tick", "later", "moved", "count"),
    [(3.0, 0, 2, 0, 1), (3.0, 0, 2, 6, 1), (3.0, 0, 2, 12, 2), (3.0, 7, 2, 6, 2), (0.0, 0, 2, 0, 2), (3.0, 0, 30, 0, 2)],
    ids=["no joint has moved", "half of them", "all", "a robot with a tick", "joints at rest", "joints that stay for 30 ms"],
)
def test_a_simulators_state_in_mid_step_is_left_out(speed, tick, later, moved, count):
    """Unitree's bridge sends what is there each 2 ms, also while a step writes the sensors one after the other."""
    decoder, messages = StateDecoder(GO2, GO2.joints), []
    for k in range(2):
        message = Message(GO2.family.state)
        message["imu_state.quaternion"] = (1.0, 0.0, 0.0, 0.0)
        message["imu_state.gyroscope"] = np.full(3, 0.1 * k)
        message["motor_state.q"] = 0.5 + 2e-3 * speed * k * (np.arange(20) < moved)
        message["motor_state.dq"] = np.full(20, speed)
        message["tick"] = tick * (k + 1)
        message.sent_ns = 10**18 + later * 1_000_000 * k
        messages.append(message)
    assert len(decoder.states(messages)) == count
    assert decoder.repeated == 2 - count
