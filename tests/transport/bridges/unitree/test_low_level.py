"""The low-level interface: over DDS between two processes' worth of participants, and the bound of its commands."""

import dataclasses
import importlib
from itertools import pairwise

import numpy as np
import pytest
from fast import every, every_row, first_is_fast
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sdk import needs_unitree
from wire import until

from idyn.errors import ConfigError
from transport.bridges.dds import matched
from transport.bridges.unitree.dds import Bus
from transport.bridges.unitree.low_level import BETWEEN_S, LowLevel, MotorCommand, bounded
from transport.bridges.unitree.low_state import PERIOD_NS, LowState, RobotClock, StateDecoder
from transport.bridges.unitree.messages import COMMAND, FAMILIES, REMOTE, STATE, Message
from transport.bridges.unitree.robot import unitree_robot

GO2, G1 = unitree_robot("go2-unitree"), unitree_robot("g1-unitree")

MOST = np.array([23.7, 23.7, 45.43])
number = st.floats(-50.0, 50.0)
KINDS = [(family, kind) for family in ("go", "hg") for kind in ("LowState", "LowCmd")]
STILL = np.zeros(12), np.zeros(12)


def state_at(q, v):
    zeros = dict.fromkeys(("tau", "rate", "acceleration", "temperature", "sticks"), np.zeros(3))
    others = {"at": 0.0, "clock_ns": 0, "voltage": 0.0, "stop": False, "problem": "", "message": Message(GO2.family.state)}
    return LowState(q=q, v=v, attitude=np.array([0.0, 0.0, 0.0, 1.0]), **zeros, **others)


@settings(max_examples=200, deadline=None)
@given(*[arrays(float, 3, elements=number)] * 5, *[arrays(float, 3, elements=st.floats(0.0, 500.0))] * 2)
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


@every("robot", first_is_fast([GO2, G1]))
def test_states_and_commands_go_by_motor(robot):
    """A robot made of two topics: its joints arrive in the model's order, and commands reach its motors."""
    joints, family, bus = robot.model.joint_names, robot.family, Bus(91 if robot is GO2 else 95)
    states, link = bus.writer(STATE, family.state), LowLevel(StateDecoder(robot), bus)
    commands = bus.reader(COMMAND, family.command)
    message = Message(family.state)
    message["motor_state.q"] = 0.01 * np.arange(family.motors)
    message["imu_state.quaternion"] = np.array([0.5, 0.1, 0.2, 0.3])
    until(lambda: states.readers and commands.writers)
    states.write(message.sealed())
    state = link.state(5.0)
    motors = [robot.motors.index(name) for name in joints]
    np.testing.assert_allclose(state.q, 0.01 * np.array(motors), atol=1e-7)
    np.testing.assert_allclose(state.attitude, [0.1, 0.2, 0.3, 0.5], atol=1e-7)
    ones = np.ones(len(joints))
    link.send(MotorCommand(q=state.q + 0.1, v=0 * ones, tau=0.5 * ones, kp=20 * ones, kd=ones), state)
    (received,) = commands.take(5.0)
    assert received.is_sound
    np.testing.assert_allclose(received["motor_cmd.q"][motors], state.q + 0.1, atol=1e-6)
    assert (received["motor_cmd.mode"][motors] == 1).all()
    assert not any(np.delete(received[f"motor_cmd.{name}"], motors).any() for name in ("kp", "mode"))


def test_a_state_with_a_wrong_checksum_is_counted_and_not_used():
    bus = Bus(92)
    states, link = bus.writer(STATE, GO2.family.state), LowLevel(StateDecoder(GO2), bus)
    until(lambda: states.readers)
    message = Message(GO2.family.state)
    message["crc"] = 7
    states.write(bytes(message.data))
    assert link.state(5.0) is None
    assert link.decoder.wrong == 1


def test_what_cannot_be_commanded_is_named():
    bus = Bus(93)
    other = bus.writer(COMMAND, GO2.family.command)
    with pytest.raises(ConfigError, match="another process sends commands"):
        LowLevel(StateDecoder(GO2), bus)
    del other
    with pytest.raises(ConfigError, match=r"in the order of the motors .* missing: FL_calf_joint, "):
        unitree_robot("go2")
    with pytest.raises(ConfigError, match="DDS domain 96 on the network interface 'nowhere0'"):
        Bus(96, "nowhere0")


@every_row((3.0, 0, 2, 0, 1), (3.0, 0, 2, 6, 1), (3.0, 0, 2, 12, 2), (3.0, 7, 2, 6, 2), (0.0, 0, 2, 0, 2), (3.0, 0, 30, 0, 2))
def test_a_simulators_state_in_mid_step_is_left_out(speed, tick, later, moved, count):
    """Unitree's bridge sends what is there each 2 ms, also while a step writes the sensors one after the other."""
    decoder, messages = StateDecoder(GO2), []
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


def layout_of(family, kind):
    return getattr(FAMILIES[family], "state" if kind == "LowState" else "command")


@every_row(
    ("go", "LowState", 1180, {"motor_state.mode": 81, "motor_state.q": 84, "imu_state.quaternion": 28, "tick": 1100}),
    ("go", "LowCmd", 812, {"motor_cmd.mode": 26, "motor_cmd.q": 28, "level_flag": 6, "crc": 808}),
    ("hg", "LowState", 2092, {"motor_state.mode": 74, "motor_state.q": 76, "mode_machine": 13, "wireless_remote": 2032}),
    ("hg", "LowCmd", 1004, {"motor_cmd.mode": 6, "motor_cmd.q": 8, "mode_machine": 5, "crc": 1000}),
)
def test_fields_lie_where_a_recorded_message_has_them(family, kind, size, places):
    layout = layout_of(family, kind)
    assert layout.size + 4 == size
    for path, at in places.items():
        message = Message(layout)
        message[path] = 1
        changed = np.flatnonzero(np.frombuffer(bytes(message.data), np.uint8)[4:])
        width = np.dtype(layout.places[path].format).itemsize
        assert (changed[0] + 4) // width == at // width, path


@needs_unitree
@every(("family", "kind"), first_is_fast(KINDS, 2))
def test_bytes_and_checksums_are_those_of_the_sdk(family, kind):
    crc, layout = importlib.import_module("unitree_sdk2py.utils.crc").CRC(), layout_of(family, kind)
    rng = np.random.default_rng(0)
    make = getattr(importlib.import_module("unitree_sdk2py.idl.default"), f"unitree_{family}_msg_dds__{kind}_")
    for _ in range(20):
        theirs, ours = make(), Message(layout)
        for path, values in filled(theirs, rng).items():
            ours[path] = np.array(values)
        assert bytes(ours.data) == theirs.serialize()
        theirs.crc = crc.Crc(theirs)
        assert ours.sealed() == theirs.serialize()
        assert ours.is_sound
        received = Message(layout, theirs.serialize())
        assert received["crc"][0] == theirs.crc
        assert received.is_sound


@needs_unitree
def test_a_remote_controls_message_has_the_bytes_of_the_sdk():
    theirs = importlib.import_module("unitree_sdk2py.idl.default").unitree_go_msg_dds__WirelessController_()
    theirs.lx, theirs.ly, theirs.rx, theirs.ry, theirs.keys = 0.25, -0.5, 1.0, 0.125, 0x0220
    received = Message(REMOTE, theirs.serialize())
    assert [float(received[name][0]) for name in ("lx", "ly", "rx", "ry")] == [0.25, -0.5, 1.0, 0.125]
    assert received["keys"][0] == 0x0220
    ours = Message(REMOTE)
    for name in REMOTE.places:
        ours[name] = getattr(theirs, name)
    assert theirs.serialize()[2:] == bytes(ours.data)[2:]


def filled(message, rng, prefix=""):
    """Fill a message of the SDK with random numbers; return them by path. Their checksum takes no large unsigned bytes."""
    found = {}
    for field in dataclasses.fields(message):
        old, path = getattr(message, field.name), prefix + field.name
        several = isinstance(old, (list, tuple))
        parts = list(old) if several else [old]
        if dataclasses.is_dataclass(parts[0]):
            for part in parts:
                for name, values in filled(part, rng, f"{path}.").items():
                    found.setdefault(name, []).extend(values)
            continue
        values = [random_number(str(field.type), rng) for _ in parts]
        setattr(message, field.name, values if several else values[0])
        found[path] = values
    return found


def random_number(kind, rng):
    if "float" in kind:
        return float(np.float32(rng.normal()))
    bits = next(bits for bits in (32, 16, 8) if f"int{bits}" in kind)
    return int(rng.integers(0, 2**32 if bits == 32 and "uint" in kind else 2 ** (bits - 1)))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 2**31), st.integers(0, 7))
def test_a_changed_bit_breaks_the_checksum(which, place, bit):
    layout = layout_of(*which)
    message = Message(layout, Message(layout).sealed())
    assert message.is_sound
    path = sorted(set(layout.places) - {"crc"})[place % (len(layout.places) - 1)]
    start = int(layout.places[path].where[0]) * np.dtype(layout.places[path].format).itemsize
    message.data[4 + start] ^= 1 << bit
    assert not message.is_sound


def test_messages_of_another_length_or_byte_order_are_refused():
    layout = FAMILIES["go"].command
    whole = bytes(Message(layout).data)
    for wrong in (b"", whole[:-1], b"\x00\x00" + whole[2:]):
        with pytest.raises(ValueError, match="LowCmd_: expected 812 bytes"):
            Message(layout, wrong)


def test_the_tick_counts_milliseconds_and_wraps_and_without_it_lost_states_count():
    clock = RobotClock()
    first = clock.time_ns(2**32 - 3, 5, *STILL)
    assert clock.time_ns(2**32 - 1, 6, *STILL) - first == 2_000_000
    assert clock.time_ns(1, 6, *STILL) - first == 4_000_000
    assert clock.time_ns(101, 7, *STILL) - first == 104_000_000
    clock = RobotClock()
    first = clock.time_ns(0, 10**18, *STILL)
    assert clock.time_ns(0, 10**18 + 250 * PERIOD_NS, *STILL) - first == 250 * PERIOD_NS


@given(st.lists(st.integers(-900_000, 900_000), min_size=1, max_size=200))
def test_without_a_tick_jitter_of_sending_does_not_count(jitter):
    clock, begin = RobotClock(), 10**18
    times = [clock.time_ns(0, begin + PERIOD_NS * k + late, *STILL) for k, late in enumerate([0, *jitter])]
    assert all(b - a == PERIOD_NS for a, b in pairwise(times))


@given(st.lists(st.integers(-(10**9), 10**9), max_size=50), st.integers(0, 2**31))
def test_time_always_increases(sent, seed):
    clock, rng = RobotClock(), np.random.default_rng(seed)
    times = [clock.time_ns(0, each, rng.normal(size=12), rng.normal(size=12)) for each in sent]
    assert all(b - a >= PERIOD_NS for a, b in pairwise(times))


def swing(n, rng):
    """Angles and speeds after each step of a simulator, q += T v, of joints that swing with 0.3 rad at 2 Hz (n, 12)."""
    t = 1e-9 * PERIOD_NS * np.arange(n)[:, None]
    v = 0.3 * 12.6 * np.cos(12.6 * t + rng.uniform(0.0, 6.28, 12))
    return np.cumsum(1e-9 * PERIOD_NS * v, axis=0), v


@every("seed", first_is_fast(range(5)))
def test_the_time_of_a_simulator_that_makes_steps_up_is_that_of_its_motion(seed):
    """It pauses for up to 40 ms, then steps without waiting; states are sent every 2 ms as they are, sometimes twice."""
    rng, clock = np.random.default_rng(seed), RobotClock()
    q, v = swing(6000, rng)
    done, step, worst, first = -1, 0, 0, 0
    for k in range(5000):
        if rng.random() > 0.03 or k < 10:  # otherwise the simulator pauses
            step = max(step, k - int(rng.integers(0, 20)) * (rng.random() < 0.1))
        if step == done:
            continue
        now = clock.time_ns(0, 10**18 + k * PERIOD_NS + int(rng.integers(-500_000, 500_000)), q[step], v[step])
        first = first or now
        worst, done = max(worst, abs((now - first) // PERIOD_NS - step)), step
    assert worst <= 2


def test_without_motion_the_times_of_sending_count_again():
    rng, clock = np.random.default_rng(0), RobotClock()
    q, v = swing(500, rng)
    for k in range(500):
        clock.time_ns(0, 10**18 + (k + 30) * PERIOD_NS, q[k], v[k])
    last = clock.time_ns(0, 10**18 + 530 * PERIOD_NS, q[-1], np.zeros(12))
    assert abs(clock.time_ns(0, 10**18 + 600 * PERIOD_NS, q[-1], np.zeros(12)) - (10**18 + 600 * PERIOD_NS)) <= PERIOD_NS
    assert last < 10**18 + 600 * PERIOD_NS


def test_readers_that_come_while_they_are_counted_count():
    """Cyclone DDS reads more handles than it has counted, and raises IndexError."""
    counted = iter([1, 2])

    def handles():
        number = next(counted)
        return [[7][k] for k in range(2)] if number == 1 else [7, 8]

    assert matched(handles) == 2
