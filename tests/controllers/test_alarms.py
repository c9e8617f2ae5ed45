"""Alarms of a controller: what each names, when it stops the robot, and that healthy states raise none."""

import msgspec
import numpy as np
import pytest
from fast import every, every_row, first_is_fast

from controllers.build import controller_from_snapshot, load_controller
from controllers.command import Inputs
from controllers.monitor.alarms import Alarms, AlarmSettings
from controllers.monitor.reality import MismatchMonitor, RealitySettings
from controllers.monitor.safety import Safety, SafetySettings
from idyn import Flat, Ground, contacts_from_geometry
from idyn.terms.dynamics import evaluate
from idyn.types import Kinematics, State

DT = 1e-3
NA = 12
LIMITS = {"motor_warm": 70.0, "motor_hot": 90.0, "volt_low": 22.0, "volt_empty": 20.0}


@pytest.fixture(scope="module")
def robot():
    return load_controller("quadruped").robot


class Motion:
    """A robot whose joints swing by 0.3 rad at 1 Hz while its base moves at 0.5 m/s and turns at 0.2 rad/s, told to alarms."""

    def __init__(self, robot, **settings):
        standing = load_controller("quadruped")
        self.stance, state = standing.stance, State(q=standing.stance, v=np.zeros(robot.nv))
        self.prediction = standing.step(state, standing.contacts(state), Inputs(dt=0.0)).prediction
        self.safety = Safety(SafetySettings(), robot, robot.limits, self.stance, DT)
        self.monitor = MismatchMonitor(RealitySettings(memory=0.1 * DT, patience=0.0), robot, DT)
        self.alarms = Alarms(AlarmSettings(**settings), robot, DT, self.stance, self.safety, self.monitor)
        self.robot, self.t, self.tick = robot, 0.0, 0
        self.change = lambda q, v: None
        self.torque = lambda: np.sin(2 * np.pi * self.t) * np.ones(NA)
        self.applied = lambda asked: asked
        self.moves, self.pushed, self.asked, self.follows = True, False, np.zeros(NA), True

    def run(self, seconds):
        found = []
        for _ in range(round(seconds / DT)):
            q, v = self.stance.copy(), np.zeros(self.robot.nv)
            phase = 2 * np.pi * self.t
            reference = q[7:] + (0.3 * np.sin(phase) if self.moves else 0.0)
            if self.moves:
                q[7:], v[6:] = reference, 0.6 * np.pi * np.cos(phase)
                yaw = 0.2 * self.t
                q[0], v[0], v[1], v[5] = 0.5 * self.t, 0.5 * np.cos(yaw), -0.5 * np.sin(yaw), 0.2
                q[3:7] = 0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)
            self.change(q, v)
            at = msgspec.structs.replace(self.robot.terms(self.stance, v), q=q, v=v)
            assert isinstance(at, Kinematics)
            inputs = Inputs(dt=DT, tau_applied=self.applied(self.asked), follows=self.follows)
            self.safety.send(self.asked)
            verdict = self.alarms.judge(at, inputs, reference)
            if verdict is not None:
                found.append((self.t, verdict.message, verdict.stops))
            if self.pushed:
                self.expect_to_fall(State(q=self.stance, v=v))
            self.asked = self.torque()
            self.t += DT
        return found

    def expect_to_fall(self, state):
        """Predict that the base falls with half of gravity, which it does not."""
        predicted = msgspec.structs.replace(self.prediction, v_plus=state.v - 4.9 * DT * np.eye(self.robot.nv)[2])
        contacts = contacts_from_geometry(self.robot, state.q, Flat(), margin=np.inf)
        dynamics = evaluate(self.robot, state, contacts, dt=DT, ground=Ground.rigid()).dynamics
        self.monitor.expect(predicted, (predicted.tau, predicted.tau), dynamics)


def test_healthy_motion_rest_noise_and_a_slow_sway_raise_no_alarm(robot):
    assert Motion(robot).run(5.0) == []
    motion = Motion(robot)
    motion.moves = False
    assert motion.run(2.0) == []
    rng = np.random.default_rng(0)
    motion = Motion(robot)
    motion.moves = False
    motion.torque = lambda: np.sin(2 * np.pi * motion.t) + rng.normal(0.0, 0.02, NA)
    assert motion.run(3.0) == []


@every("rate", first_is_fast([0.2, 5.0, 0.05, 1.0], 2))
def test_drift_of_a_joint_is_named_before_a_tenth_of_a_radian_or_in_50_ms(robot, rate):
    motion = Motion(robot)
    assert motion.run(0.5) == []

    def drift(q, v):
        q[9] += rate * (motion.t - 0.5)

    motion.change = drift
    found = motion.run(2.5)
    t, message, stops = found[0]
    assert (t - 0.5) * rate <= 0.1 or t - 0.5 <= 0.05
    assert message.startswith(f"joint drift: {robot.joint_names[2]}")
    assert not stops
    first_stop = next(time for time, _, stops in found if stops)
    assert first_stop == pytest.approx(t + AlarmSettings().sensor_stop, abs=1.5 * DT)


@every("share", [0.0, 0.5, 1.0])
@every("ticks", first_is_fast([4, 0, 15]))
def test_motors_are_judged_without_a_known_delay(robot, ticks, share):
    """The first motor gives a share of what was asked some ticks ago, the others all of it."""
    motion, asked = Motion(robot), [np.zeros(NA)] * (ticks + 1)
    motion.torque = lambda: 5.0 * np.sin(2 * np.pi * (5.0 * motion.t + np.arange(NA) / NA))
    motion.follows = None

    def late(torque):
        asked.append(torque)
        return asked[-1 - ticks] * np.where(np.arange(NA) == 0, share, 1.0)

    motion.applied = late
    found = motion.run(1.0)
    assert all(message.startswith(f"motor: the torque of {robot.joint_names[0]}") for _, message, _ in found)
    assert any(stops for *_, stops in found) == (share < 1.0)


def wrong_speed_sign(q, v):
    v[8] *= -1.0


@every_row(
    (wrong_speed_sign, "joint drift"),
    (lambda q, v: v.put([0, 1, 2], 0.0), "base drift"),
    (lambda q, v: v.put([0, 1], [0.5, 0.0]), "base drift"),  # axes of the world
    (lambda q, v: v.put(5, 0.0), "attitude drift"),
)
def test_speeds_that_contradict_positions_are_named(change, name, robot):
    motion = Motion(robot)
    motion.change = change
    assert motion.run(3.0)[0][1].startswith(name)


def test_a_frozen_angle_is_named_with_or_without_its_speed(robot):
    for both in (False, True):
        motion, kept = Motion(robot), {}
        motion.run(0.3)

        def freeze(q, v, kept=kept, both=both):
            q[9] = kept.setdefault("q", q[9])
            v[8] = kept.setdefault("v", v[8]) if not both else 0.0

        motion.change = freeze
        t, message, _ = motion.run(0.5)[0]
        assert t - 0.3 < 0.05 + 0.02
        assert robot.joint_names[2] in message


@every(("share", "named"), [(0.0, True), (0.5, True), (0.8, False), (1.6, True)])
def test_motors_that_do_not_follow_are_named(robot, share, named):
    motion = Motion(robot)
    motion.torque = lambda: np.full(NA, 0.73)
    motion.run(0.3)

    def applied(asked):
        return np.where(np.arange(NA) == 4, share, 1.0) * asked

    motion.applied = applied
    found = motion.run(0.4)
    assert bool(found) == named
    if named:
        assert found[0][0] - 0.3 < 0.07
        assert found[0][1].startswith(f"motor: the torque of {robot.joint_names[4]} is off")
        assert found[-1][2]


@every("stands", [False, True])
def test_a_limit_cycle_is_named_and_stops_a_robot_that_does_not_stand(robot, stands):
    """Damping would drop one that stands, also if it does not move as predicted while its torques oscillate."""
    motion = Motion(robot, roughness_moving=4.0)
    motion.moves = not stands
    motion.pushed = stands
    motion.torque = lambda: 0.8 * np.sign(np.sin(2 * np.pi * 30 * motion.t)) * np.ones(NA)
    found = motion.run(3.0)
    t, message, stops = next(each for each in found if "oscillate" in each[1])
    assert 0.2 < t < 0.8
    assert "N·m/s" in message
    assert not stops
    assert any(stops for _, _, stops in found) != stands


def test_saturation_and_a_lasting_mismatch_stop_the_robot(robot):
    motion = Motion(robot)
    motion.torque = robot.limits.tau_max.copy
    found = motion.run(3.0)
    assert found[0][1].startswith("saturation")
    assert found[-1][2]
    motion = Motion(robot)
    motion.moves, motion.pushed = False, True
    found = motion.run(3.0)
    assert found[0][1].startswith("the acceleration differs by 4.9 m/s²")
    assert not found[0][2]
    stop = next(each for each in found if each[2])
    assert stop[0] == pytest.approx(AlarmSettings().reality_stop, abs=0.01)
    assert stop[1].startswith("reality: the acceleration differs")


@every("setting", ["joint_drift", "sensor_stop"])
def test_an_alarm_can_be_switched_off(robot, setting):
    motion = Motion(robot, **{setting: np.inf})
    motion.change = wrong_speed_sign
    found = motion.run(2.0)
    assert (found == []) if setting == "joint_drift" else (found and not any(stops for _, _, stops in found))


def test_states_that_are_far_apart_are_not_compared(robot):
    """After an outage positions have moved, whatever the last speeds were."""
    motion = Motion(robot)
    motion.run(0.3)
    motion.t += 0.2
    judge = motion.alarms.judge
    motion.alarms.judge = lambda at, inputs, *rest: judge(at, msgspec.structs.replace(inputs, dt=5 * DT), *rest)
    assert motion.run(DT) == []
    motion.alarms.judge = judge
    assert motion.run(0.5) == []


def test_the_controller_degrades_and_then_faults():
    controller = load_controller("quadruped")
    snapshot = controller.snapshot()
    snapshot["settings"]["alarms"]["joint_drift"] = 0.02
    controller, commands = controller_from_snapshot(snapshot), []
    for tick in range(60):
        q = controller.stance.copy()
        q[9] += 1e-3 * tick
        state = State(q=q, v=np.zeros(controller.robot.nv))
        commands.append(controller.step(state, controller.contacts(state), Inputs(dt=DT)))
    named = [tick for tick, command in enumerate(commands) if command.message.startswith("joint drift")]
    faults = [tick for tick, command in enumerate(commands) if command.mode == "fault"]
    assert named[0] in range(20, 24)
    assert commands[named[0]].mode == "degraded"
    assert faults[0] - named[0] in range(29, 32)


def with_lost_states(robot, rate):
    """The first alarm where joints reverse 5 rad/s every 7 ms, one state in three arrives and one angle drifts at `rate`."""
    motion, rng, k = Motion(robot), np.random.default_rng(0), 0
    speeds = 5.0 * np.where(np.arange(4000) // 7 % 2, -1.0, 1.0)
    angles = np.cumsum(speeds) * DT
    while k < 3990:
        lost = int(rng.integers(1, 5))
        k += lost
        q, v = motion.stance.copy(), np.zeros(robot.nv)
        q[7:] += angles[k]
        q[9] += rate * k * DT
        q[0], v[0] = 0.5 * k * DT, 0.5
        v[6:] = speeds[k]
        at = msgspec.structs.replace(robot.terms(motion.stance, v), q=q, v=v)
        inputs = Inputs(dt=lost * DT, tau_applied=np.zeros(NA))
        motion.safety.send(np.zeros(NA))
        verdict = motion.alarms.judge(at, inputs, q[7:].copy())
        if verdict is not None:
            return verdict.message
    return ""


@every(("rate", "named"), [(0.0, ""), (3.0, "joint drift")])
def test_lost_states_are_no_drift_and_do_not_hide_one(robot, rate, named):
    assert with_lost_states(robot, rate).startswith(named)
    assert bool(with_lost_states(robot, rate)) == bool(named)


def lower(robot, height):
    """A motion in which the base is at `height` over the feet, as a share of that of the stance."""
    motion = Motion(robot, base_drift=np.inf)
    motion.moves = False

    def sink(q, v):
        q[2] *= height

    motion.change = sink
    return motion


@every(("height", "named"), [(0.6, False), (0.4, True), (0.1, True)])
def test_a_robot_that_lies_while_its_reference_stands_is_named_and_stopped(robot, height, named):
    found = lower(robot, height).run(2.0)
    assert bool(found) == named
    if named:
        assert found[0][1].startswith(f"sunk: the base has sunk by {1.0 - height:.0%}")
        stop = next(time for time, _, stops in found if stops)
        assert stop - found[0][0] == pytest.approx(AlarmSettings().roughness_stop, abs=1.5 * DT)


def test_a_robot_may_lie_while_its_reference_lies_and_until_it_has_risen(robot):
    motion = lower(robot, 0.2)
    judge = motion.alarms.judge
    motion.alarms.judge = lambda *given: judge(*given, lies=motion.t < 1.0)
    assert motion.run(2.0) == []
    motion.change = lambda q, v: None
    assert motion.run(0.1) == []
    motion.change = lower(robot, 0.2).change
    assert motion.run(0.1)[0][1].startswith("sunk")


# -- limits of temperature and voltage ---------------------------------------------------------------------------------


def commands(measured, ticks, **settings):
    """Return the commands of a standing quadruped. measured: tick → fields of the inputs"""
    snapshot = load_controller("quadruped").snapshot()
    snapshot["settings"]["alarms"].update(settings)
    controller = controller_from_snapshot(snapshot)
    state = State(q=controller.stance, v=np.zeros(controller.robot.nv))
    contacts = controller.contacts(state)
    return controller.robot, [controller.step(state, contacts, Inputs(dt=DT, **measured(tick))) for tick in range(ticks)]


def temperature(hottest):
    return np.where(np.arange(12) == 7, hottest, 40.0)


def test_without_limits_within_them_and_after_a_short_excess_nothing_stops():
    _, found = commands(lambda _: {"temperature": temperature(300.0), "voltage": 0.1}, 150)
    assert {command.mode for command in found} == {"ok"}
    sags = {"voltage": 19.0}
    _, found = commands(lambda tick: sags if tick % 50 < 40 else {"voltage": 25.0}, 300, **LIMITS)
    assert {command.mode for command in found} == {"ok", "degraded"}
    _, found = commands(lambda _: {"temperature": temperature(70.0), "voltage": 22.0}, 150, **LIMITS)
    assert {command.mode for command in found} == {"ok"}


HOT, LOW = {"temperature": temperature(70.5)}, {"voltage": 21.5}


@every(("measured", "says"), [(HOT, "hot motor: {joint} at 70.5 °C"), (LOW, "low voltage: 21.50 V")])
def test_a_warning_names_the_value_and_never_stops(measured, says):
    robot, found = commands(lambda _: measured, 300, **LIMITS)
    assert {command.message for command in found} == {says.format(joint=robot.joint_names[7])}
    assert {command.mode for command in found} == {"degraded"}


@every("measured", [{"temperature": temperature(91.0)}, {"voltage": 19.0}])
def test_a_lasting_excess_stops_the_robot(measured):
    _, found = commands(lambda tick: measured if tick >= 20 else {}, 130, **LIMITS)
    modes = [command.mode for command in found]
    assert set(modes[:20]) == {"ok"}
    assert set(modes[20:118]) == {"degraded"}
    assert set(modes[121:]) == {"fault"}
