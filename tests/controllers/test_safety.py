"""Safety: limits and their bits, rate from what was applied, the first-command guard, faults and damping."""

import re

import msgspec
import numpy as np
import pytest
from fast import every
from rigs import at_rest, controller

from controllers.command import Inputs, LimitedBy, Mode
from controllers.monitor.safety import Safety, SafetySettings, torque_rates
from controllers.robot.load import load_robot
from idyn import Description, InputError, Robot, State

ROBOT, STANCE = load_robot("solo12")
LIMIT = 2.7
DT = 0.001


def safety(**settings):
    return Safety(SafetySettings(**settings), ROBOT, ROBOT.limits, STANCE, DT)


def state(**changes):
    q, v = STANCE.copy(), np.zeros(18)
    for place, value in changes.items():
        (q if place[0] == "q" else v)[int(place[1:])] = value
    return State(q=q, v=v)


def test_torques_are_clipped_and_flagged():
    tau = np.linspace(-5, 5, 12)
    limited, bits = safety().limit(tau, 0.0, None)
    np.testing.assert_array_equal(limited, np.clip(tau, -LIMIT, LIMIT))
    np.testing.assert_array_equal(bits, np.where(np.abs(tau) > LIMIT, LimitedBy.TORQUE, 0))


@every("applied", [3.5, -3.5, 50.0])
def test_the_torque_limit_acts_after_the_rate_limit(applied):
    """Whatever torque is reported as applied, no more than the limit is sent."""
    s = safety(torque_rate=100.0, first_command_guard=0.0)
    tau, _ = s.limit(np.full(12, np.sign(applied) * 9.0), DT, np.full(12, applied))
    assert np.abs(tau).max() <= LIMIT


def test_the_default_rate_scales_with_the_limit_of_each_joint_and_is_1000_for_the_quadruped():
    """The same share of tau_max per millisecond for 2.7 N·m and for 150 N·m; without tau_max no limit."""
    strong = msgspec.structs.replace(ROBOT.limits, tau_max=np.r_[np.full(6, 2.7), np.full(5, 150.0), np.inf])
    s = Safety(SafetySettings(first_command_guard=0.0), ROBOT, strong, STANCE, DT)
    s.limit(np.zeros(12), 0.0, None)
    tau, bits = s.limit(np.full(12, 2000.0), DT, np.zeros(12))
    np.testing.assert_allclose(tau[:11], strong.tau_max[:11] / 7.3)
    assert tau[11] == 2000.0
    assert [bool(bit & LimitedBy.RATE) for bit in bits] == [True] * 11 + [False]

    robot, _ = load_robot("quadruped")
    np.testing.assert_allclose(torque_rates(SafetySettings(), robot.limits), 1000.0)
    np.testing.assert_array_equal(torque_rates(SafetySettings(torque_rate=50.0), robot.limits), 50.0)


def test_the_rate_limit_starts_from_the_applied_torque_or_the_last_one_sent():
    """dt = 0: there is no earlier torque. After a lost message or a saturated motor the next torque starts from the applied
    one."""
    tau, bits = safety(torque_rate=1.0).limit(np.full(12, 2.0), 0.0, None)
    np.testing.assert_array_equal(tau, 2.0)
    assert not bits.any()

    s = safety(torque_rate=100.0)
    first, _ = s.limit(np.zeros(12), 0.0, None)
    wanted = np.full(12, 0.25)
    steps = []
    for dt in (0.001, 0.001, 0.002):
        tau, bits = s.limit(wanted, dt, None)
        steps.append(tau[0])
        assert (bits == (LimitedBy.RATE if tau[0] < 0.25 else 0)).all()
    np.testing.assert_allclose(steps, [0.1, 0.2, 0.25])
    assert not first.any()

    s = safety(torque_rate=100.0, first_command_guard=0.0)
    s.limit(np.zeros(12), 0.0, None)
    tau, bits = s.limit(np.full(12, 1.0), DT, np.full(12, 0.5))
    np.testing.assert_allclose(tau, 0.6)
    assert (bits == LimitedBy.RATE).all()
    tau, _ = s.limit(np.full(12, -1.0), DT, np.full(12, 0.5))
    np.testing.assert_allclose(tau, 0.4)

    s = safety(torque_rate=100.0, first_command_guard=0.0)
    tau, bits = s.limit(np.full(12, 9.0), DT, np.zeros(12))
    np.testing.assert_allclose(tau, 0.1)
    assert (bits == (LimitedBy.TORQUE | LimitedBy.RATE)).all()


def test_the_first_torques_also_after_a_reset_are_blended_in_from_the_applied_torque():
    """Linear in time over the guard, from the first applied torque, whatever is applied later."""
    s = safety(first_command_guard=0.1, torque_rate=np.inf)
    had = np.full(12, -1.0)
    assert s.limit(np.full(12, 2.0), 0.0, had)[0][0] == -1.0
    for k in range(1, 100):
        tau, _ = s.limit(np.full(12, 2.0), DT, np.full(12, 0.3))
        assert tau[0] == pytest.approx(-1 + 3 * k * DT / 0.1)
    for _ in range(3):
        assert s.limit(np.full(12, 2.0), DT, np.full(12, 0.3))[0][0] == pytest.approx(2.0)

    s = safety(first_command_guard=0.1, torque_rate=np.inf)
    for _ in range(200):
        s.limit(np.full(12, 2.0), DT, np.zeros(12))
    assert s.last is not None
    s.reset()
    assert s.last is None
    assert s.limit(np.full(12, 2.0), 0.0, np.full(12, 0.5))[0][0] == 0.5


@every(
    ("changes", "says"),
    [
        ({"v10": 31.0}, r"joint FR_HFE at 31\.0 rad/s, limit 30"),
        ({"v10": -31.0}, r"at 31\.0 rad/s"),
        ({"v3": 6.1}, r"base turns at 6\.1 rad/s, limit 6"),
        ({"q3": np.sin(0.55), "q6": np.cos(0.55)}, r"base tilted by 1\.10 rad, limit 1"),
        ({"q4": np.sin(-0.55), "q6": np.cos(-0.55)}, r"base tilted by 1\.10 rad"),
    ],
)
def test_states_beyond_the_limits_are_faults(changes, says):
    assert re.search(says, safety().fault(state(**changes)))


@every(
    "changes",
    [
        {},
        {"v10": 29.9},
        {"v0": 100.0},
        {"v5": -5.9},
        {"q3": np.sin(0.49), "q6": np.cos(0.49)},
        {"q5": np.sin(1.5), "q6": np.cos(1.5)},
    ],
)
def test_states_within_the_limits_are_not_faults(changes):
    """Yaw is not tilt, and the base may move fast."""
    assert safety().fault(state(**changes)) == ""


def test_the_fault_names_the_fastest_joint_and_a_fixed_base_does_not_tilt():
    fault = safety().fault(state(v8=40.0, v12=-50.0))
    assert fault.startswith(f"joint {ROBOT.joint_names[6]} at 50.0 rad/s")

    arm = Robot(Description(urdf=ROBOT.description.urdf, base="fixed"))
    s = Safety(SafetySettings(), arm, arm.limits, STANCE[7:], DT)
    assert s.fault(State(q=np.full(12, 2.0), v=np.full(12, 10.0))) == ""


def test_damping_opposes_motion_within_the_limits_and_is_zero_for_a_nan_speed():
    v = np.zeros(18)
    v[6:] = np.linspace(-29, 29, 12)
    tau = safety(damping=0.2).damping(State(q=STANCE, v=v))
    np.testing.assert_allclose(tau, np.clip(-0.2 * v[6:], -LIMIT, LIMIT))

    v = np.zeros(18)
    v[6:9] = [np.nan, np.inf, -np.inf]
    np.testing.assert_array_equal(safety(damping=0.2).damping(State(q=STANCE, v=v))[:3], [0, -LIMIT, LIMIT])


def test_applied_torques_of_other_joints_are_refused():
    c = controller("solo12")
    state = at_rest(c)
    with pytest.raises(InputError, match=r"^tau_applied: expected the torques of 12 joints, got 3"):
        c.step(state, c.contacts(state.q), Inputs(dt=1e-3, tau_applied=np.zeros(3)))
    assert c.step(state, c.contacts(state.q), Inputs(dt=1e-3, tau_applied=np.zeros(12))).mode is Mode.OK
