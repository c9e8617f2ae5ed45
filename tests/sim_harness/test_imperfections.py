"""Each imperfection alone: its known effect, and repeatability by seed."""

import numpy as np
import pytest
from fast import every, first_is_fast, full

from controllers.robot.load import load_robot
from idyn.types import State
from sim_harness.robot.hardware import Actuators, FootSensors, Purpose, Sensors, stream
from sim_harness.robot.imperfections import (
    BodySettings,
    DriveSettings,
    ImperfectionSettings,
    LinkSettings,
    Loss,
    Offset,
    Sensing,
    Spread,
    world_robot,
)
from sim_harness.robot.robot_side import Link, Losses
from transport.protocol.messages.state import StateMessage

DT = 1e-3
ROBOTS = ("quadruped", "solo12", "a1", "go2")
WIDTHS = {
    "joint_position": 1e-3,
    "joint_speed": 0.05,
    "base_position": 2e-3,
    "base_orientation": 5e-3,
    "base_velocity": 0.02,
    "base_rate": 0.01,
}


@pytest.fixture(scope="module")
def robot():
    return load_robot("quadruped")[0]


@pytest.fixture(scope="module")
def state(robot):
    """Tilted and moving."""
    rng = np.random.default_rng(8)
    return State(q=robot.integrate(robot.neutral(), 0.5 * rng.normal(size=robot.nv)), v=rng.normal(size=robot.nv))


def rotation_vector(robot, q0, q1):
    """Of the base from q0 to q1, body axes; small ones only (3)."""
    x0, x1 = q0[3:7], q1[3:7]
    conjugate = np.array([-x0[0], -x0[1], -x0[2], x0[3]])
    vector = conjugate[3] * x1[:3] + x1[3] * conjugate[:3] + np.cross(conjugate[:3], x1[:3])
    return 2 * vector


def errors(robot, true, measured):
    """By quantity, as `Spread` has them."""
    return {
        "joint_position": robot.joint_angles(measured.q) - robot.joint_angles(true.q),
        "joint_speed": measured.v[robot.tree.a] - true.v[robot.tree.a],
        "base_position": measured.q[:3] - true.q[:3],
        "base_orientation": rotation_vector(robot, true.q, measured.q),
        "base_velocity": measured.v[:3] - true.v[:3],
        "base_rate": measured.v[3:6] - true.v[3:6],
    }


# -- sensors ----------------------------------------------------------------------------------------------------------


def test_an_ideal_robot_measures_the_true_state(robot, state):
    assert Sensors(Sensing(), robot, 5).measure(state) is state


@pytest.mark.parametrize("quantity", first_is_fast(WIDTHS, 2))
def test_noise_is_white_with_the_given_width_in_its_quantity_only(robot, state, quantity):
    sensors = Sensors(Sensing(noise=Spread(**{quantity: WIDTHS[quantity]})), robot, 1)
    drawn = [errors(robot, state, sensors.measure(state)) for _ in range(3000)]
    for other in WIDTHS:
        values = np.array([error[other] for error in drawn])
        if other != quantity:
            np.testing.assert_allclose(values, 0, atol=1e-12)
            continue
        n = len(values)
        np.testing.assert_allclose(values.std(axis=0), WIDTHS[quantity], rtol=5 / np.sqrt(2 * n))
        np.testing.assert_allclose(values.mean(axis=0), 0, atol=5 * WIDTHS[quantity] / np.sqrt(n))
        lagged = (values[1:] * values[:-1]).mean(axis=0) / WIDTHS[quantity] ** 2
        np.testing.assert_allclose(lagged, 0, atol=5 / np.sqrt(n))


@every("quantity", WIDTHS)
def test_a_bias_stays_for_a_run_and_differs_from_run_to_run(robot, state, quantity):
    settings = Sensing(bias=Spread(**{quantity: WIDTHS[quantity]}))
    values = []
    for seed in range(300):
        sensors = Sensors(settings, robot, seed)
        first, second = (errors(robot, state, sensors.measure(state))[quantity] for _ in range(2))
        np.testing.assert_array_equal(first, second)
        values.append(first)
    assert np.std(values) == pytest.approx(WIDTHS[quantity], rel=5 / np.sqrt(2 * np.size(values)))
    assert abs(np.mean(values)) < 5 * WIDTHS[quantity] / np.sqrt(np.size(values))


def test_an_offset_is_measured_minus_true(robot, state):
    offset = Offset(
        joint_position={"LF_Y_2": 0.02},
        base_position=(0.0, 0.0, 0.005),
        base_orientation=(0.0, 0.003, 0.0),
        base_velocity=(0.1, 0.0, 0.0),
        base_rate=(0.0, 0.0, -0.2),
    )
    found = errors(robot, state, Sensors(Sensing(offset=offset), robot, None).measure(state))
    expected = np.zeros(12)
    expected[robot.joint_names.index("LF_Y_2")] = 0.02
    np.testing.assert_allclose(found["joint_position"], expected, atol=1e-12)
    np.testing.assert_allclose(found["base_position"], [0, 0, 0.005], atol=1e-15)
    np.testing.assert_allclose(found["base_orientation"], [0, 0.003, 0], atol=1e-8)
    np.testing.assert_allclose(found["base_velocity"], [0.1, 0, 0], atol=1e-15)
    np.testing.assert_allclose(found["base_rate"], [0, 0, -0.2], atol=1e-15)


def test_measured_quaternions_are_normalised(robot, state):
    sensors = Sensors(Sensing(noise=Spread(base_orientation=0.1)), robot, 2)
    assert all(np.linalg.norm(sensors.measure(state).q[3:7]) == pytest.approx(1, abs=1e-12) for _ in range(100))


def test_equal_seeds_give_equal_noise_and_others_differ(robot, state):
    settings = Sensing(noise=Spread(**WIDTHS), bias=Spread(**WIDTHS))
    first, again, other, unseeded, zero = (Sensors(settings, robot, seed) for seed in (1, 1, 2, None, 0))
    one, same, different = (sensors.measure(state).q.tobytes() for sensors in (first, again, other))
    assert one == same != different
    assert unseeded.measure(state).q.tobytes() == zero.measure(state).q.tobytes()


# -- motors -----------------------------------------------------------------------------------------------------------


def test_quantised_torques_are_the_nearest_steps(robot):
    actuators = Actuators(DriveSettings(quantum=0.03), robot, DT)
    for command in np.random.default_rng(3).normal(size=(100, 12)):
        tau = actuators.apply(command)
        np.testing.assert_allclose(tau / 0.03, np.round(tau / 0.03), atol=1e-9)
        assert np.abs(tau - command).max() <= 0.015 + 1e-12


def test_bandwidth_is_a_first_order_lag(robot):
    """The answer to a step at t = 0 is 1 − exp(−2π f t)."""
    actuators = Actuators(DriveSettings(bandwidth=40.0), robot, DT)
    np.testing.assert_array_equal(actuators.apply(np.zeros(12)), 0)
    risen = np.array([actuators.apply(np.ones(12)) for _ in range(30)])
    t = DT * np.arange(1, 31)
    np.testing.assert_allclose(risen, np.tile(1 - np.exp(-2 * np.pi * 40.0 * t)[:, None], 12), rtol=1e-12)


def test_motors_give_no_more_than_their_strength(robot):
    actuators = Actuators(DriveSettings(strength=0.5), robot, DT)
    command = np.linspace(-20, 20, 12)
    half = 0.5 * robot.limits.tau_max
    np.testing.assert_array_equal(actuators.apply(command), np.clip(command, -half, half))


def test_ideal_motors_give_the_commanded_torque(robot):
    command = np.random.default_rng(4).normal(size=12)
    assert Actuators(DriveSettings(), robot, DT).apply(command).tobytes() == command.tobytes()


# -- link -------------------------------------------------------------------------------------------------------------


class Echo:
    """Answers every state with the state's own time."""

    def __init__(self):
        self.error, self.states = None, []

    def exchange(self, state):
        self.states.append(state.t_robot)
        return state.t_robot


def arrivals(settings, ticks, seed=None, skip=()):
    """For each tick, the tick whose state's torque arrives, or None; and the ticks whose states reached the server."""
    echo = Echo()
    link = Link(echo, settings, DT, seed)
    got = []
    for tick in range(ticks):
        if tick not in skip:
            reply = link.exchange(StateMessage(q=b"", vel=b"", t_robot=tick * 1_000_000))
            got.append(None if reply is None else reply // 1_000_000)
    return got, [t // 1_000_000 for t in echo.states]


@every(("states", "torques"), [(0, 0), (1, 0), (0, 1), (2, 3), (5, 0)])
def test_delays_are_exact(states, torques):
    """The first state arrives at once; then each torque is `states + torques` ticks old."""
    late = states + torques
    got, served = arrivals(LinkSettings(state_delay=states, torque_delay=torques), 50)
    assert got == [0] + [None] * late + list(range(1, 50 - late))
    assert served == list(range(50 - states))


def test_after_a_pause_the_newest_state_arrives():
    """Ticks 10 to 12 are lost to a pause of the loop: of the states due then the server gets the newest."""
    got, served = arrivals(LinkSettings(state_delay=2), 20, skip=(10, 11, 12))
    assert got[10] == 9  # tick 13: states 8 and 9 are due
    assert 8 not in served
    assert served == sorted(served)


def test_single_losses_come_from_the_seed():
    loss = Loss(probability=0.1)
    got, served = arrivals(LinkSettings(lost_torques=loss), 2000, seed=7)
    lost = stream(7, Purpose.LOST_TORQUES).random((2000, 2))[:, 0] < 0.1
    assert [tick is None for tick in got] == lost.tolist()
    assert served == list(range(2000))
    got, served = arrivals(LinkSettings(lost_states=loss), 2000, seed=7)
    lost = stream(7, Purpose.LOST_STATES).random((2000, 2))[:, 0] < 0.1
    assert served == np.flatnonzero(~lost).tolist()
    assert [tick is None for tick in got] == lost.tolist()
    assert 0.07 < lost.mean() < 0.13


@full
def test_bursts_have_their_length_and_rate():
    losses = Losses(Loss(rate=2.0, length=0.02), DT, np.random.default_rng(5))
    lost = np.array([losses.next() for _ in range(400_000)])
    edges = np.diff(np.concatenate([[0], lost, [0]]).astype(int))
    starts, lengths = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    assert set((lengths % 20).tolist()) == {0}  # one burst may begin in the tick after another
    free = (~lost).sum() * DT
    assert lengths.sum() / 20 / free == pytest.approx(2.0, abs=5 * np.sqrt(2.0 / free))
    assert len(starts) > 500


def test_regular_bursts_come_once_per_period():
    losses = Losses(Loss(every=0.1, length=0.02), DT, np.random.default_rng(5))
    lost = np.array([losses.next() for _ in range(10_000)]).reshape(100, 100)
    starts = np.argmax(lost, axis=1)
    assert (lost.sum(axis=1) == 20).all()
    assert (np.diff(lost.astype(int), axis=1) == 1).sum() == 100
    assert starts.min() >= 25
    assert starts.max() <= 75
    assert starts.std() > 10


# -- bodies -----------------------------------------------------------------------------------------------------------


@every("name", ROBOTS)
def test_a_heavier_trunk_has_its_mass_and_inertia(name):
    robot, _ = load_robot(name)
    trunk = {"quadruped": 3.6, "solo12": 1.16115091, "a1": 6.0, "go2": 6.921}[name]
    heavier = world_robot(robot, ImperfectionSettings(trunk=BodySettings(mass_factor=1.15)))
    assert heavier.total_mass - robot.total_mass == pytest.approx(0.15 * trunk, rel=1e-9)
    added = world_robot(robot, ImperfectionSettings(trunk=BodySettings(added_mass=-0.5)))
    assert added.total_mass - robot.total_mass == pytest.approx(-0.5, rel=1e-9)
    assert heavier.spheres.keys == robot.spheres.keys
    assert heavier.description.armature == robot.description.armature
    np.testing.assert_array_equal(heavier.limits.tau_max, robot.limits.tau_max)


@every("name", ROBOTS)
def test_a_shifted_trunk_moves_the_centre_of_mass(name):
    robot, q = load_robot(name)
    trunk = {"quadruped": 3.6, "solo12": 1.16115091, "a1": 6.0, "go2": 6.921}[name]
    shifted = world_robot(robot, ImperfectionSettings(trunk=BodySettings(com_shift=(0.02, -0.01, 0.005))))
    moved = shifted.center_of_mass(q) - robot.center_of_mass(q)
    np.testing.assert_allclose(moved, trunk / robot.total_mass * np.array([0.02, -0.01, 0.005]), atol=1e-12)


def test_a_leg_inertia_factor_changes_inertia_and_not_weight(robot):
    """For the last link alone: ½ Δω² I more kinetic energy when it turns, and the same weight."""
    legs = {"LF_LEG_3": BodySettings(inertia_factor=2.0)}
    other = world_robot(robot, ImperfectionSettings(links=legs))
    q, v = robot.neutral(), np.zeros(robot.nv)
    assert other.total_mass == robot.total_mass
    np.testing.assert_allclose(other.terms(q, v).h, robot.terms(q, v).h, atol=1e-12)
    column = robot.tree.a[robot.joint_names.index("LF_Y_3")]
    more = np.array(other.terms(q, v).M) - np.array(robot.terms(q, v).M)
    assert more[column, column] > 0
    rest = np.delete(np.arange(robot.nv), robot.tree.a)
    angular = more[np.ix_(rest[3:], rest[3:])]
    np.testing.assert_allclose(more[rest[:3]], 0, atol=1e-12)
    assert (np.linalg.eigvalsh(angular) > -1e-12).all()


def test_without_changes_the_urdf_is_unchanged(robot):
    assert world_robot(robot, ImperfectionSettings()).urdf_sha256 == robot.urdf_sha256


def test_the_world_may_have_another_armature(robot):
    world = world_robot(robot, ImperfectionSettings(drive=DriveSettings(armature={"LF_X_1": 0.01})))
    assert world.description.armature == {"LF_X_1": 0.01}
    assert robot.description.armature == {}


# -- feet -------------------------------------------------------------------------------------------------------------


def test_foot_switches_close_above_their_threshold(make_world, make_stand):
    world = make_world()
    stand = make_stand(world)
    feet = {threshold: FootSensors("binary", threshold) for threshold in (1.0, 11.0, 12.5)}
    for sensors in feet.values():  # nothing felt yet: what is at the ground touches
        assert [contact.frame for contact in sensors.contacts(world.contacts)] == list(world.robot.spheres.keys)
    for _ in range(20):
        result = world.step(stand.torque(), DT)
        for sensors in feet.values():
            sensors.record(result, DT)
    closed = {threshold: sensors.contacts(world.contacts) for threshold, sensors in feet.items()}
    np.testing.assert_allclose(result.normal_force, 47.088 / 4, rtol=1e-6)
    assert [len(contacts) for contacts in closed.values()] == [4, 4, 0]
    assert all(contact.p is None and contact.n is None and contact.dist == 0 for contact in closed[1.0])
