"""What states say: plausibility, clocks and ages, and bases that the server estimates."""

import msgspec
import numpy as np
import pytest
from fast import every, every_row
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from rig import Rig, greeted
from standin import MS, SpringDamper, hello, solo, standing
from wire import expect

from controllers.estimation.estimator import Estimator
from controllers.estimation.memory import EstimatorSettings
from idyn import ConnectionFailed, Flat, Robot, contacts_of_places, load_robot
from transport.protocol.contact_input import FootSwitches
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import Base, ClientKind, Reset, ResetAck
from transport.protocol.messages.state import Imu, StateMessage, TorqueMessage
from transport.server.service import Service
from transport.server.sessions import clocks
from transport.server.sessions.clocks import ActuationDelay, ClockOffset, CommStats
from transport.server.sessions.plausibility import SwitchDebounce
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

WILD = {
    "a joint at 40 rad/s": ("v", 8, 40.0),
    "a joint 0.5 rad off": ("q", 9, 0.5),
    "a base 1 m off": ("q", 0, 1.0),
    "a base upside down": ("q", slice(3, 7), [1.0, 0.0, 0.0, 0.0]),
    "a base 0.15 rad off": ("q", slice(3, 7), [np.sin(0.075), 0.0, 0.0, np.cos(0.075)]),
    "a base at 5 m/s": ("v", 1, 5.0),
    "a base that spins": ("v", 4, 9.0),
}
DT = 1e-3
BELIEVABLE = 10 * MS
UNITS = {"µs": 1_000, "ms": 1_000_000}
LEVEL = (0.0, 0.0, 0.0, 1.0)


def wild(robot: Robot, what: str) -> dict[str, bytes]:
    """A robot that stands but for one vector and place in it."""
    q, v = standing(robot), np.zeros(robot.nv)
    vector, place, value = WILD[what]
    (q if vector == "q" else v)[place] = value
    return {"q": q.tobytes(), "vel": v.tobytes()}


@every("what", WILD)
def test_one_implausible_state_is_ignored_and_two_in_a_row_are_a_fault(robot, what):
    rig = greeted(robot)
    rig.tick(1)
    before = rig.torque(2)
    reply = rig.torque(3, **wild(robot, what))
    assert reply.message.startswith("implausible state ignored: ")
    np.testing.assert_allclose(np.frombuffer(reply.tau), np.frombuffer(before.tau), atol=1e-9)
    assert rig.torque(4).message == ""
    rig.tick(5, **wild(robot, what))
    refused = rig.refused(6, **wild(robot, what))
    assert refused.code is Code.LATCHED_FAULT
    assert "two implausible states in a row" in refused.message


def test_a_moving_robot_is_accepted_after_a_dropout(moving, robot):
    """What its speed explains is no jump: 20 ms at 5 rad/s are 0.1 rad."""
    q, v = standing(robot), np.zeros(robot.nv)
    v[7] = 5.0
    moving.tick(1, q=q.tobytes(), vel=v.tobytes())
    q[8] += 0.15
    assert moving.torque(21, q=q.tobytes(), vel=v.tobytes()).message == ""
    v[8] = 29.0  # too much, also after lost states
    assert moving.torque(32, q=q.tobytes(), vel=v.tobytes()).message.startswith("implausible state ignored: ")


def test_a_stumbling_leg_is_accepted_in_the_second_tick(rig, robot):
    """20 rad/s are too much for one tick, and possible in two, up and down. The opposite quaternion is the same attitude."""
    stumbling = np.zeros(robot.nv)
    stumbling[8] = 20.0
    rig.tick(1)
    first, second = (rig.torque(seq, vel=stumbling.tobytes()) for seq in (2, 3))
    assert first.message.startswith("implausible state ignored: ")
    assert second.message == ""
    q = standing(robot)
    q[3:7] *= -1.0
    assert rig.torque(4, q=q.tobytes(), vel=stumbling.tobytes()).message == ""
    assert rig.torque(5).message.startswith("implausible state ignored: ")
    assert rig.torque(6).message == ""


def trembling(robot: Robot, seq: int, *, base: bool = True, joints: bool = True) -> dict[str, bytes]:
    """A robot that stands, with noise of its speeds where it is given."""
    v, noise = np.zeros(robot.nv), np.random.default_rng(seq).normal(0.0, 1e-3, robot.nv)
    v[3:6] = noise[3:6] if base else 1e-3
    v[6:] = noise[6:] if joints else 1e-3
    return {"vel": v.tobytes()}


@every(("frozen", "named"), [("base", "rate of the base"), ("joints", "speeds of the joints")])
def test_a_frozen_sensor_is_named_while_the_robot_stands_and_its_states_are_refused(robot, frozen, named):
    rig = greeted(robot)
    for seq in range(1, 200):
        assert rig.tick(seq, **trembling(robot, seq)).message == ""
    replies = [rig.tick(seq, **trembling(robot, seq, **{frozen: False})) for seq in range(200, 240)]
    refused = [isinstance(reply, ErrorMessage) for reply in replies]
    assert refused == [False] * 5 + [True] * 35  # the first of them is another number than before
    last = expect(ErrorMessage, replies[-1])
    assert last.code is Code.STALE_STATE
    assert last.recoverable
    assert f"the {named} has been frozen for 39 ms" in last.message
    assert rig.torque(240, **trembling(robot, 240)).status == "ok"


def test_the_first_state_after_a_frozen_sensor_may_be_anywhere(rig, robot):
    for seq in range(1, 230):
        rig.tick(seq, **trembling(robot, seq, joints=seq < 200))
    moved = standing(robot)
    moved[9] += 0.5
    reply = rig.torque(230, q=moved.tobytes(), **trembling(robot, 230))
    assert reply.message == ""
    assert rig.tick(231, **trembling(robot, 231)).message.startswith("implausible state ignored: ")


@every("period", [1, 20])
def test_a_sensor_without_noise_or_with_a_slow_one_is_not_frozen(robot, period):
    """A simulated robot comes to rest in all its sensors together; a slow sensor repeats itself between two samples."""
    rig = greeted(robot)
    for seq in range(1, 300):
        v, alive = np.zeros(robot.nv), seq < 150 or period > 1
        v[3:6] = 1e-3 * np.sin(seq // period) if alive else 0.0
        v[6:] = 1e-3 * np.cos(seq) if alive else 0.0
        assert rig.tick(seq, vel=v.tobytes()).message == ""


def run(closed, ticks, soles=None):
    """Return the last (switches, text) and the first tick with a text. closed: tick → names"""
    debounce, first = SwitchDebounce(soles or {}), None
    for tick in range(ticks):
        switches, text = debounce.debounced(FootSwitches(keys=closed(tick), mu=None), DT)
        if text and first is None:
            first = tick
    return switches, text, first


@every(("half", "most"), [(1, 50), (2, 130)])
def test_a_flickering_switch_is_named_and_counts_as_closed(half, most):
    switches, text, first = run(lambda tick: ("A", "B") if tick // half % 2 else ("A",), 200 * half)
    assert first is not None
    assert first < most
    assert text == "foot switches flicker: B"
    assert switches.keys == ("A", "B")
    assert run(lambda tick: ("A", "B") if tick // half % 2 else ("A",), 200 * half, {"A": "foot", "B": "foot"})[2] is None
    switches, text, _ = run(lambda tick: ("A",) if tick // half % 2 else (), 200 * half, {"A": "foot", "B": "foot"})
    assert (text, set(switches.keys)) == ("foot switches flicker: foot", {"A", "B"})


def test_a_gait_with_bouncing_landings_and_measured_contacts_are_left_alone():
    assert SwitchDebounce({}).debounced(None, DT) == (None, "")

    def gait(tick):
        phase = tick % 300
        stands = phase > 100 and not (phase < 116 and phase % 2)
        return ("A", "B") if stands else ("A",)

    assert run(gait, 1500)[2] is None


def test_a_switch_that_is_quiet_again_counts_as_it_is_and_friction_is_kept():
    switches, text, first = run(lambda tick: ("A", "B") if tick < 300 and tick % 2 else ("A",), 1000)
    assert first is not None
    assert text == ""
    assert switches.keys == ("A",)
    debounce = SwitchDebounce({})
    for tick in range(100):
        keys, mu = (("A", "B"), (0.5, 0.6)) if tick % 2 else (("B",), (0.6,))
        switches, _ = debounce.debounced(FootSwitches(keys=keys, mu=mu), DT)
    closed = dict(zip(switches.keys, switches.mu, strict=True))
    assert closed["B"] == 0.6
    assert set(closed) == {"A", "B"}


def test_friction_of_a_switch_counts_for_its_corner_where_the_whole_sole_touches():
    robot, stance = load_robot("g1")
    contacts = contacts_of_places(robot, stance, Flat(), robot.spheres.keys[:4], mu=np.full(8, 0.7))
    found = FootSwitches(keys=contacts.keys[1:3], mu=(0.2, None)).on(contacts)
    np.testing.assert_array_equal(found.mu, [0.7, 0.2, 0.7, 0.7])


def ages(clock: ClockOffset, delays: list[int], start: int = 0) -> list[int]:
    """Of states a millisecond apart that arrive so much [ns] after their stamps."""
    return [clock.age_ns(MS * (start + i), MS * (start + i) + delay) for i, delay in enumerate(delays)]


def test_age_is_measured_from_the_fastest_recent_state():
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [500_007] * 10)
    assert ages(clock, [500_007, 503_007, 500_007], 10) == [0, 3000, 0]
    assert clock.age_ns(None, 0) == 0


def test_clock_drift_does_not_age_states():
    clock = ClockOffset(BELIEVABLE)
    drift = ages(clock, [MS * i // 20_000 for i in range(20 * clocks.WINDOW)])  # 50 ppm
    assert max(drift) < 2 * clocks.WINDOW * 50 + 1
    assert clock.steps == 0


@every("step", [-1000 * MS, -11 * MS, 11 * MS, 1000 * MS])
def test_a_single_wrong_stamp_does_not_age_other_states_and_a_lasting_step_is_learned_and_counted(step):
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [0] * 100)
    assert ages(clock, [step], 100) == [max(0, step)]
    assert ages(clock, [0] * 100, 101) == [0] * 100
    assert clock.steps == 0
    after = ages(clock, [step] * 200, 201)
    assert after[: clocks.STEP_STATES - 1] == [max(0, step)] * (clocks.STEP_STATES - 1)
    assert after[clocks.STEP_STATES - 1 :] == [0] * (201 - clocks.STEP_STATES)
    assert (clock.steps, clock.step_ns) == (1, step)


def test_late_states_and_varying_delays_are_not_a_clock_step():
    clock, late = ClockOffset(BELIEVABLE), 15 * MS
    assert ages(clock, [0, late] * (2 * clocks.STEP_STATES)) == [0, late] * (2 * clocks.STEP_STATES)
    assert clock.steps == 0
    clock = ClockOffset(BELIEVABLE)
    ages(clock, [0] * 100)
    ages(clock, [20 * MS * (i + 1) for i in range(200)], 100)
    assert clock.steps == 0


def timed(rig: Rig, kind: ClientKind, *, robot_ns: float, server_ns: float, dt: float = 1e-3) -> tuple[int, str]:
    """Send 200 states with so much time between them on each clock. Return the seq of the first refusal and its text."""
    rig.greet(kind=kind, dt_nominal=dt)
    for seq in range(1, 201):
        rig.now = round(seq * server_ns)
        reply = rig.send(rig.state(seq, t_robot=10**9 + round(seq * robot_ns), t_send=None))
        if isinstance(reply, ErrorMessage):
            assert reply.code is Code.LATCHED_FAULT
            return seq, reply.message
        assert isinstance(reply, TorqueMessage)
    return 0, ""


@every("kind", ["robot", "sim"])
@every("unit", UNITS)
def test_wrong_units_are_found_and_named(kind, unit, robot):
    seq, text = timed(Rig(robot), kind, robot_ns=MS / UNITS[unit], server_ns=MS)
    assert 0 < seq <= 100
    assert "t_robot: expected ns" in text
    assert text.count(f"it appears to be in {unit}") == 1


@every_row(
    ("robot", 1.0, 1.0),
    ("robot", 1.0, 1e-3),  # the server has a backlog
    ("robot", 1.0, 90.0),  # a busy machine
    ("robot", 1.3, 1.3),
    ("sim", 1.0, 1e-3),
    ("sim", 0.1, 1.0),
    ("sim", 20.0, 1.0),
)
def test_other_rates_are_no_errors_of_units(kind, robot_ms, server_ms, robot):
    assert timed(Rig(robot), kind, robot_ns=robot_ms * MS, server_ns=server_ms * MS) == (0, "")


@every("dt", [1e-4, 5e-3])
def test_a_period_that_differs_from_dt_nominal_is_named(dt, robot):
    seq, text = timed(Rig(robot), "robot", robot_ns=MS, server_ns=MS, dt=dt)
    assert seq == 100
    assert f"dt_nominal: expected about the measured period of 0.001 s, got {dt:g} s" in text


def test_the_actuation_delay_is_the_time_beyond_one_period():
    assert ActuationDelay(MS).accepted(0, 50 * MS) == 0.0  # a stamp in the future
    delay = ActuationDelay(MS)
    assert delay.accepted(0, None) == 0.0
    assert [delay.accepted(k * MS, (k - 1) * MS) for k in range(1, 10)] == [0.0] * 9
    for ticks in (1, 2, 5):
        delay = ActuationDelay(MS)
        told = [delay.accepted(k * MS, (k - 1 - ticks) * MS) for k in range(20)]
        assert told == pytest.approx([ticks * 1e-3] * 20)


def test_lost_replies_do_not_count_as_delay():
    """Three ticks in a hundred in which the motors still had the torque before."""
    delay, rng = ActuationDelay(MS), np.random.default_rng(0)
    told = [delay.accepted(k * MS, (k - 1 - (rng.random() < 0.03)) * MS) for k in range(1000)]
    assert set(told[clocks.MEMORY :]) == {0.0}


def test_the_success_rate_covers_the_last_hundred_states_and_round_trips_have_percentiles():
    comm = CommStats()
    assert comm.report.success_100 == 1.0
    for _ in range(10):
        comm.accepted(2, 0, 0, None)  # every other one lost
    assert (comm.report.success_100, comm.report.lost) == (0.5, 10)
    for _ in range(clocks.SUCCESS_WINDOW):
        comm.accepted(1, 0, 0, None)
    assert comm.report.success_100 == 1.0
    comm.accepted(10**18, 0, 0, None)
    assert comm.report.success_100 == 1 / clocks.SUCCESS_WINDOW
    comm = CommStats()
    for i in range(clocks.RTT_WINDOW):
        comm.accepted(1, 0, 0, float(i))
    report = comm.report
    assert (report.rtt_p50_us, report.rtt_p99_us) == (64.0, 126.0)


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
        q, zeros = standing(self.robot)[7:].tobytes(), np.zeros(self.robot.na).tobytes()
        fields = {"q": q, "vel": zeros, "t_robot": self.now, "tau_meas": zeros, "imu": READINGS}
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


@every_row(
    ({"imu": None}, "bad_schema", "imu"),
    ({"tau_meas": None}, "bad_schema", "tau_meas"),
    ({"imu": read([0.0, 0.0, 0.0, 1.1])}, "quaternion_not_unit", "imu.quat"),
    ({"imu": read(gyro=[0.0] * 2)}, "wrong_length", "imu.gyro"),
    ({"imu": read(acc=[0.0, np.nan, 0.0])}, "non_finite", "imu.acc[1]"),
    ({"q": standing(solo()).tobytes()}, "wrong_length", "q"),
    ({"vel": np.zeros(18).tobytes()}, "wrong_length", "vel"),
    ({"q": [0.0] * 11 + [np.inf]}, "non_finite", "q[11]"),
    ({"tau_meas": np.full(12, 1e300).tobytes()}, "bad_schema", "tau_meas[0]"),
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


WILD_READINGS = [
    (read(gyro=(0.0, 7.0, 0.0)), "the rate of the base changed by 7 rad/s"),
    (read(gyro=(900.0, 0.0, 0.0)), "the rate of the base changed by"),
    (read(acc=(0.0, 500.0, 9.81)), "the specific force changed by 500 m/s²"),
    (read(attitude=(0.1, 0.0, 0.0, float(np.sqrt(0.99)))), "the base turned 0.2 rad further than its rate explains"),
]


@every(("imu", "reason"), WILD_READINGS)
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
