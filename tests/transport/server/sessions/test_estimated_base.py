"""Sessions of robots that measure joints and an IMU only: the server estimates the base."""

import msgspec
import numpy as np
import pytest
from fast import every
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from standin import MS, SpringDamper, hello, solo, standing

from controllers.estimation.estimator import Estimator
from controllers.estimation.memory import EstimatorSettings
from transport.protocol.messages.requests import Base, Reset, ResetAck
from transport.protocol.messages.state import Imu, StateMessage
from transport.robot.client import ConnectionFailed
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

LEVEL = (0.0, 0.0, 0.0, 1.0)


def read(attitude=LEVEL, gyro=(0.0, 0.0, 0.0), acc=(0.0, 0.0, 9.81)):
    return Imu(quat=list(attitude), gyro=list(gyro), acc=list(acc))


SENSED = Base(type="free_flyer", quat_order="xyzw", vel_frame="local", measured="imu")
READINGS = read()


class Sensing(SpringDamper):
    """A controller whose robot may leave out its base."""

    def estimator(self):
        return Estimator(EstimatorSettings(), self.robot)


class Trial:
    """A client without a base, and the service."""

    def __init__(self, controller=None, **changes):
        self.now = 0
        self.controller = Sensing(solo()) if controller is None else controller
        self.robot = self.controller.robot
        service = Service(self.controller, ServerSettings(controller="standin"), clock=lambda: self.now)
        said = hello(self.robot, **({"base": SENSED} | changes))
        self.client = Loopback(service, said, clock=lambda: self.now)
        self.client.hello()

    def send(self, **changes):
        """Send a state at rest, 1 ms after the last one; return the reply, None if it was refused."""
        self.now += MS
        fields = {
            "q": standing(self.robot)[7:].tobytes(),
            "vel": np.zeros(self.robot.na).tobytes(),
            "t_robot": self.now,
            "tau_meas": np.zeros(self.robot.na).tobytes(),
            "imu": READINGS,
        }
        return self.client.exchange(StateMessage(**(fields | changes)))


def test_a_robot_without_a_base_is_answered_with_an_estimate():
    """Feet that carry are its contacts, unless it reports its own; the attitude is that of the IMU."""
    trial = Trial()
    for _ in range(5):
        reply = trial.send()
    found, robot, seen = reply.estimate, trial.robot, trial.controller.seen
    assert reply.status == "ok"
    assert trial.controller.contacts(seen.q).gaps.min() == pytest.approx(0.0, abs=1e-6)  # its feet stand on the ground
    np.testing.assert_allclose(seen.q[:7], [*found.position, *found.quat])
    np.testing.assert_allclose(seen.v[:6], found.vel)
    np.testing.assert_allclose(found.quat, LEVEL, atol=1e-9)
    np.testing.assert_allclose(found.vel, 0.0, atol=1e-9)
    np.testing.assert_array_equal(seen.q[7:], standing(robot)[7:])
    assert [foot.frame for foot in found.feet] == list(robot.spheres.keys)
    assert list(trial.controller.felt.keys) == [foot.frame for foot in found.feet if foot.touches]
    trial.send(contacts=[])
    assert not len(trial.controller.felt)
    trial, tilted = Trial(), [float(np.sin(0.1)), 0.0, 0.0, float(np.cos(0.1))]
    down = 9.81 * np.array([0.0, np.sin(0.2), np.cos(0.2)])
    reply = trial.send(imu=read(tilted, acc=down.tolist()))
    np.testing.assert_allclose(reply.estimate.quat, tilted, atol=1e-9)


def test_the_order_of_the_joints_is_the_clients():
    robot = solo()
    order = np.random.default_rng(1).permutation(robot.na)
    names = [robot.joint_names[k] for k in order]
    shuffled = Trial(joint_names=names, actuated=names)
    usual = Trial()
    for k in range(5):
        q, v = standing(robot)[7:] + 1e-4 * k, 0.01 * np.arange(robot.na)
        tau = np.arange(robot.na) * 0.1
        one = usual.send(q=q.tolist(), vel=v.tobytes(), tau_meas=tau.tolist())
        other = shuffled.send(q=q[order].tolist(), vel=v[order].tolist(), tau_meas=tau[order].tobytes())
    assert one.estimate == other.estimate
    np.testing.assert_array_equal(np.frombuffer(one.tau)[order], np.frombuffer(other.tau))


@every(
    ("changes", "code", "field"),
    [
        ({"imu": None}, "bad_schema", "imu"),
        ({"tau_meas": None}, "bad_schema", "tau_meas"),
        ({"imu": read([0.0, 0.0, 0.0, 1.1])}, "quaternion_not_unit", "imu.quat"),
        ({"imu": read(gyro=[0.0] * 2)}, "wrong_length", "imu.gyro"),
        ({"imu": read(acc=[0.0, np.nan, 0.0])}, "non_finite", "imu.acc[1]"),
        ({"q": standing(solo()).tobytes()}, "wrong_length", "q"),
        ({"vel": np.zeros(18).tobytes()}, "wrong_length", "vel"),
        ({"q": [0.0] * 11 + [np.inf]}, "non_finite", "q[11]"),
        ({"tau_meas": np.full(12, 1e300).tobytes()}, "bad_schema", "tau_meas[0]"),
    ],
)
def test_a_state_that_cannot_be_right_is_refused_and_not_used(changes, code, field):
    spoiled, usual = Trial(), Trial()
    for trial in (spoiled, usual):
        trial.send()
    assert spoiled.send(**changes) is None
    assert (spoiled.client.error.code, spoiled.client.error.field) == (code, field)
    usual.now = spoiled.now
    moving = np.full(12, 0.3).tobytes()
    assert spoiled.send(vel=moving).estimate == usual.send(vel=moving).estimate


def test_an_implausible_joint_is_not_used():
    trial = Trial()
    before = trial.send().estimate
    jumped = standing(trial.robot)[7:]
    jumped[3] += 1.0
    reply = trial.send(q=jumped.tobytes())
    assert "implausible state ignored" in reply.message
    assert reply.estimate == before
    assert trial.send().estimate.position == pytest.approx(before.position, abs=1e-3)


OVER = read([1.0, 0.0, 0.0, 0.0], acc=(0.0, 0.0, -9.81))


@every(("mounted", "upright", "fallen"), [(LEVEL, READINGS, OVER), ((1.0, 0.0, 0.0, 0.0), OVER, READINGS)])
def test_a_reset_takes_the_attitude_of_the_imu(mounted, upright, fallen):
    """Also of one that is mounted upside down."""
    controller = Sensing(solo())
    controller.estimator = lambda: Estimator(EstimatorSettings(imu_quat=mounted), controller.robot)
    trial = Trial(controller)

    def reset(imu):
        q, vel = standing(trial.robot)[7:].tobytes(), np.zeros(12).tobytes()
        return trial.client.ask(Reset(session=trial.client.session, q=q, vel=vel, imu=imu))

    np.testing.assert_allclose(np.abs(trial.send(imu=upright).estimate.quat), LEVEL, atol=1e-9)
    assert isinstance(reset(upright), ResetAck)
    assert not isinstance(reset(fallen), ResetAck)
    assert reset(None).field == "imu"


@pytest.mark.full
@examples(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=10, max_size=10),
    st.lists(st.floats(-1e300, 1e300), min_size=12, max_size=12),
)
def test_any_readings_are_answered_or_refused(imu, numbers):
    trial = Trial()
    trial.send()
    spoilt, kept = read(imu[:4], imu[4:7], imu[7:]), read(LEVEL, imu[4:7], imu[7:])
    for changes in ({"imu": spoilt}, {"imu": kept}, {"vel": numbers}, {"tau_meas": numbers}):
        reply = trial.send(**changes)
        assert reply is not None or trial.client.error is not None
        if reply is not None:
            assert np.isfinite(np.frombuffer(reply.tau)).all()


def test_a_server_without_an_estimator_or_of_before_refuses_the_hello():
    """The older one by the field `measured`, which other messages do not have."""
    with pytest.raises(ConnectionFailed, match=r"base\.measured: expected 'state'.*\[estimator\]"):
        Trial(SpringDamper(solo()))
    assert "measured" not in msgspec.to_builtins(hello(solo()))["base"]
    assert msgspec.to_builtins(hello(solo(), base=SENSED))["base"]["measured"] == "imu"


WILD = [
    (read(gyro=(0.0, 7.0, 0.0)), "the rate of the base changed by 7 rad/s"),
    (read(gyro=(900.0, 0.0, 0.0)), "the rate of the base changed by"),
    (read(acc=(0.0, 500.0, 9.81)), "the specific force changed by 500 m/s²"),
    (read(attitude=(0.1, 0.0, 0.0, float(np.sqrt(0.99)))), "the base turned 0.2 rad further than its rate explains"),
]


@every(("imu", "reason"), WILD)
def test_one_implausible_reading_of_the_imu_is_replaced_and_two_are_a_fault(imu, reason):
    trial, usual = Trial(), Trial()
    before = trial.send().estimate
    assert usual.send().estimate == before
    reply = trial.send(imu=imu)
    assert reply.status == "ok"
    assert f"implausible state ignored: {reason}" in reply.message
    assert reply.estimate == before
    usual.now = trial.now
    assert trial.send().estimate == usual.send().estimate  # the reading had no effect
    wild = read(gyro=(900.0, 0.0, 0.0))
    assert trial.send(imu=wild) is not None
    assert trial.send(imu=wild) is None
    assert trial.client.error.code == "latched_fault"
    assert "two implausible states in a row" in trial.client.error.message
