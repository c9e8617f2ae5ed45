"""Each imperfection alone and in runs: its known effect, repeatability by seed, and invalid settings."""

import msgspec
import numpy as np
import pytest
from fast import every, every_row, first_is_fast, full
from scipy.spatial.transform import Rotation
from stands import Stand, robot_world

from controllers.config.loading import find, load, parse
from idyn import ConfigError, State, load_robot
from sim_harness.robot import imperfections
from sim_harness.robot.hardware import Actuators, FootSensors, Purpose, Sensors, stream
from sim_harness.robot.imperfections import BodySettings, DriveSettings, ImperfectionSettings, Sensing, Spread, world_robot
from sim_harness.robot.robot_side import Link, Losses
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, load_plan
from transport.log.reader import LogReader
from transport.log.replay import replay
from transport.protocol.codec import decode, vector
from transport.protocol.messages.state import StateMessage, TorqueMessage

DT = 1e-3
ROBOTS = ("quadruped", "solo12", "a1", "go2")
WIDTHS = {"joint_position": 1e-3, "joint_speed": 0.05}
WIDTHS |= {"base_position": 2e-3, "base_orientation": 5e-3, "base_velocity": 0.02, "base_rate": 0.01}


@pytest.fixture(scope="module")
def robot():
    return load_robot("quadruped")[0]


@pytest.fixture(scope="module")
def state(robot):
    rng = np.random.default_rng(8)
    return State(q=robot.integrate(robot.neutral(), 0.5 * rng.normal(size=robot.nv)), v=rng.normal(size=robot.nv))


def errors(robot, true, measured):
    """By quantity, as `Spread` has them."""
    return {
        "joint_position": robot.joint_angles(measured.q) - robot.joint_angles(true.q),
        "joint_speed": measured.v[robot.tree.a] - true.v[robot.tree.a],
        "base_position": measured.q[:3] - true.q[:3],
        "base_orientation": (Rotation.from_quat(true.q[3:7]).inv() * Rotation.from_quat(measured.q[3:7])).as_rotvec(),
        "base_velocity": measured.v[:3] - true.v[:3],
        "base_rate": measured.v[3:6] - true.v[3:6],
    }


def test_an_ideal_robot_measures_the_true_state_and_quaternions_are_normalised(robot, state):
    assert Sensors(Sensing(), robot, 5).measure(state) is state
    sensors = Sensors(Sensing(noise=Spread(base_orientation=0.1)), robot, 2)
    assert all(np.linalg.norm(sensors.measure(state).q[3:7]) == pytest.approx(1, abs=1e-12) for _ in range(100))


@pytest.mark.parametrize("count", first_is_fast([400, 3000]))
@every("quantity", WIDTHS)
def test_noise_is_white_with_the_given_width_in_its_quantity_only(robot, state, quantity, count):
    sensors = Sensors(Sensing(noise=Spread(**{quantity: WIDTHS[quantity]})), robot, 1)
    drawn = [errors(robot, state, sensors.measure(state)) for _ in range(count)]
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


@full
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
    base = {"base_position": (0.0, 0.0, 0.005), "base_orientation": (0.0, 0.003, 0.0)}
    base |= {"base_velocity": (0.1, 0.0, 0.0), "base_rate": (0.0, 0.0, -0.2)}
    offset = imperfections.Offset(joint_position={"LF_Y_2": 0.02}, **base)
    found = errors(robot, state, Sensors(Sensing(offset=offset), robot, None).measure(state))
    expected = np.zeros(12)
    expected[robot.joint_names.index("LF_Y_2")] = 0.02
    np.testing.assert_allclose(found["joint_position"], expected, atol=1e-12)
    for quantity, value in base.items():
        np.testing.assert_allclose(found[quantity], value, atol=1e-8 if quantity == "base_orientation" else 1e-15)


def test_equal_seeds_give_equal_noise_and_others_differ(robot, state):
    settings = Sensing(noise=Spread(**WIDTHS), bias=Spread(**WIDTHS))
    first, again, other, unseeded, zero = (Sensors(settings, robot, seed) for seed in (1, 1, 2, None, 0))
    one, same, different = (sensors.measure(state).q.tobytes() for sensors in (first, again, other))
    assert one == same != different
    assert unseeded.measure(state).q.tobytes() == zero.measure(state).q.tobytes()


def test_motors_are_ideal_or_quantised_or_limited_by_their_strength(robot):
    actuators = Actuators(DriveSettings(quantum=0.03), robot, DT)
    for command in np.random.default_rng(3).normal(size=(100, 12)):
        tau = actuators.apply(command)
        np.testing.assert_allclose(tau / 0.03, np.round(tau / 0.03), atol=1e-9)
        assert np.abs(tau - command).max() <= 0.015 + 1e-12
    actuators = Actuators(DriveSettings(strength=0.5), robot, DT)
    command = np.linspace(-20, 20, 12)
    half = 0.5 * robot.limits.tau_max
    np.testing.assert_array_equal(actuators.apply(command), np.clip(command, -half, half))
    command = np.random.default_rng(4).normal(size=12)
    assert Actuators(DriveSettings(), robot, DT).apply(command).tobytes() == command.tobytes()


def test_bandwidth_is_a_first_order_lag(robot):
    """The answer to a step at t = 0 is 1 − exp(−2π f t)."""
    actuators = Actuators(DriveSettings(bandwidth=40.0), robot, DT)
    np.testing.assert_array_equal(actuators.apply(np.zeros(12)), 0)
    risen = np.array([actuators.apply(np.ones(12)) for _ in range(30)])
    t = DT * np.arange(1, 31)
    np.testing.assert_allclose(risen, np.tile(1 - np.exp(-2 * np.pi * 40.0 * t)[:, None], 12), rtol=1e-12)


class Echo:
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
    got, served = arrivals(imperfections.LinkSettings(state_delay=states, torque_delay=torques), 50)
    assert got == [0] + [None] * late + list(range(1, 50 - late))
    assert served == list(range(50 - states))


def test_after_a_pause_the_newest_state_arrives():
    """Ticks 10 to 12 are lost to a pause of the loop: of the states due then the server gets the newest."""
    got, served = arrivals(imperfections.LinkSettings(state_delay=2), 20, skip=(10, 11, 12))
    assert got[10] == 9  # tick 13: states 8 and 9 are due
    assert 8 not in served
    assert served == sorted(served)


def test_single_losses_come_from_the_seed_and_regular_bursts_once_per_period():
    loss = imperfections.Loss(probability=0.1)
    got, served = arrivals(imperfections.LinkSettings(lost_torques=loss), 2000, seed=7)
    lost = stream(7, Purpose.LOST_TORQUES).random((2000, 2))[:, 0] < 0.1
    assert [tick is None for tick in got] == lost.tolist()
    assert served == list(range(2000))
    got, served = arrivals(imperfections.LinkSettings(lost_states=loss), 2000, seed=7)
    lost = stream(7, Purpose.LOST_STATES).random((2000, 2))[:, 0] < 0.1
    assert served == np.flatnonzero(~lost).tolist()
    assert [tick is None for tick in got] == lost.tolist()
    assert 0.07 < lost.mean() < 0.13
    losses = Losses(imperfections.Loss(every=0.1, length=0.02), DT, np.random.default_rng(5))
    lost = np.array([losses.next() for _ in range(10_000)]).reshape(100, 100)
    starts = np.argmax(lost, axis=1)
    assert (lost.sum(axis=1) == 20).all()
    assert (np.diff(lost.astype(int), axis=1) == 1).sum() == 100
    assert starts.min() >= 25
    assert starts.max() <= 75
    assert starts.std() > 10


@full
def test_bursts_have_their_length_and_rate():
    losses = Losses(imperfections.Loss(rate=2.0, length=0.02), DT, np.random.default_rng(5))
    lost = np.array([losses.next() for _ in range(400_000)])
    edges = np.diff(np.concatenate([[0], lost, [0]]).astype(int))
    starts, lengths = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    assert set((lengths % 20).tolist()) == {0}  # one burst may begin in the tick after another
    free = (~lost).sum() * DT
    assert lengths.sum() / 20 / free == pytest.approx(2.0, abs=5 * np.sqrt(2.0 / free))
    assert len(starts) > 500


@every("name", ROBOTS)
def test_a_heavier_trunk_has_its_mass_and_a_shifted_one_moves_the_centre_of_mass(name):
    robot, q = load_robot(name)
    trunk = {"quadruped": 3.6, "solo12": 1.16115091, "a1": 6.0, "go2": 6.921}[name]
    heavier = world_robot(robot, ImperfectionSettings(trunk=BodySettings(mass_factor=1.15)))
    assert heavier.total_mass - robot.total_mass == pytest.approx(0.15 * trunk, rel=1e-9)
    added = world_robot(robot, ImperfectionSettings(trunk=BodySettings(added_mass=-0.5)))
    assert added.total_mass - robot.total_mass == pytest.approx(-0.5, rel=1e-9)
    assert (heavier.spheres.keys, heavier.description.armature) == (robot.spheres.keys, robot.description.armature)
    np.testing.assert_array_equal(heavier.limits.tau_max, robot.limits.tau_max)
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


def test_the_urdf_is_unchanged_without_changes_and_the_world_may_have_another_armature(robot):
    assert world_robot(robot, ImperfectionSettings()).urdf_sha256 == robot.urdf_sha256
    world = world_robot(robot, ImperfectionSettings(drive=DriveSettings(armature={"LF_X_1": 0.01})))
    assert world.description.armature == {"LF_X_1": 0.01}
    assert robot.description.armature == {}


def test_foot_switches_close_above_their_threshold():
    world = robot_world()
    stand = Stand(world)
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


def plan_of(changes, base="stand", duration=0.1):
    values = msgspec.to_builtins(load("experiments", base, ExperimentSettings))
    values |= {"duration": duration, "laws": ["coulomb"]} | changes
    return build_plan(parse(values, ExperimentSettings, "experiment"))


def imperfect_run(changes, log=None, seed=None, **settings):
    return run_in_process(plan_of(changes, **settings), "coulomb", lambda *_: None, seed=seed, log=log)


def exchanged(log):
    """The states of a log and their torques."""
    with LogReader(log) as reader:
        pairs = [(decode(entry.request), decode(entry.reply)) for entry in reader.exchanges()]
    return [(s, t) for s, t in pairs if isinstance(s, StateMessage) and isinstance(t, TorqueMessage)]


def test_the_torque_applied_is_the_answer_to_a_state_of_five_ticks_ago(tmp_path):
    log = tmp_path / "log.mcap"
    run = imperfect_run({"robot": {"link": {"state_delay": 2, "torque_delay": 3}}}, log=log, duration=0.05)
    answers = {state.t_robot // 1_000_000: vector(torque.tau, 12, "tau") for state, torque in exchanged(log)}
    for tick in range(6, 50):
        np.testing.assert_array_equal(run.trace.tau[tick], answers[tick - 5])
    modes = [run.trace.modes[mode] for mode in run.trace.mode]
    assert modes[0] == modes[6] == "ok"
    assert all(mode.startswith("failsafe") for mode in modes[1:6])


def test_the_server_gets_measured_states_and_the_trace_true_ones(tmp_path):
    log = tmp_path / "log.mcap"
    offset = {"offset": {"base_position": [0.0, 0.0, 0.005]}}
    run = imperfect_run({"contacts": "binary", "robot": {"sensing": offset}}, log=log, duration=0.02)
    seen = np.array([vector(state.q, 19, "q") for state, _ in exchanged(log)])
    np.testing.assert_allclose(seen[:, 2] - run.trace.q[:, 2], 0.005, atol=1e-12)
    np.testing.assert_allclose(np.delete(seen - run.trace.q, 2, axis=1), 0, atol=1e-9)


@pytest.mark.parametrize("height", first_is_fast([-0.01, 0.0, 0.01], 0))
def test_with_foot_switches_an_error_of_the_base_height_does_not_matter(tmp_path, height):
    """Ten times the error that geometry tolerates; only names of contacts are on the wire; the log replays exactly."""
    log = tmp_path / "log.mcap"
    offset = {"sensing": {"offset": {"base_position": [0.0, 0.0, height]}}}
    run = imperfect_run({"contacts": "binary", "robot": offset}, log=log, duration=0.5)
    assert run.summary.upright
    assert run.summary.tracking < 1e-4
    assert run.summary.force == pytest.approx(47.088, rel=1e-3)
    assert run.summary.force_error_relative < 1e-3
    for state, torque in exchanged(log):
        assert {contact.frame for contact in state.contacts} == {"LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"}
        assert all(contact.p is None and contact.n is None for contact in state.contacts)
        assert torque.solver.n_contacts == 4
    assert replay(log).exact


def used_friction(trace):
    normal, tangential = trace.simulated[:, :, 0], np.linalg.norm(trace.simulated[:, :, 1:], axis=2)
    pressed = normal > 1e-3
    return (tangential[pressed] / normal[pressed]).max()


@full
def test_the_world_has_another_slope_friction_or_terrain_than_the_controller():
    """A slope that is as slippery as ice in the world only, and hills in the world only."""
    slope = {"controller": {"contact": {"terrain": {"kind": "slope", "angle": 0.1}}}}
    firm, icy = (imperfect_run(slope | changes, duration=0.05).trace for changes in ({}, {"robot": {"ground": {"mu": 0.02}}}))
    assert used_friction(firm) > 0.09  # tan 0.1 holds it
    assert 0.01 < used_friction(icy) <= 0.02 + 1e-9
    hills = {"robot": {"ground": {"terrain": {"kind": "heightmap", "bump": 0.01}}}}
    flat, one, other = (imperfect_run(changes, seed=seed, duration=0.01) for changes, seed in (({}, 0), (hills, 0), (hills, 1)))
    heights = [run.trace.q[0, 2] - flat.trace.q[0, 2] for run in (one, other)]
    assert all(0 < height < 0.01 for height in heights)
    assert heights[0] != heights[1]


def test_a_seed_repeats_a_run_exactly():
    noisy = {"robot": {"sensing": {"noise": {"joint_speed": 1e-3}}, "link": {"lost_torques": {"probability": 0.2}}}}
    first, again, other = (imperfect_run(noisy, seed=seed).trace for seed in (4, 4, 5))
    assert (first.tau.tobytes(), first.mode.tobytes()) == (again.tau.tobytes(), again.mode.tobytes())
    assert first.tau.tobytes() != other.tau.tobytes()


WRONG = [
    ({"sensing": {"noise": {"joint_pos": 1.0}}}, r"experiment\.robot\.sensing\.noise.*joint_position"),
    ({"sensing": {"noise": {"joint_speed": -1.0}}}, r"experiment\.robot\.sensing\.noise\.joint_speed"),
    ({"sensing": {"offset": {"joint_position": {"LF_X1": 0.1}}}}, r"robot\.sensing\.offset\.joint_position\.LF_X1.*LF_X_1"),
    ({"link": {"state_delay": -1}}, r"experiment\.robot\.link\.state_delay"),
    ({"link": {"state_delay": 0.5}}, r"experiment\.robot\.link\.state_delay"),
    ({"link": {"lost_torques": {"probability": 1.5}}}, r"experiment\.robot\.link\.lost_torques\.probability"),
    ({"link": {"lost_states": {"rate": 2.0}}}, r"experiment\.robot\.link\.lost_states\.length: expected at least one tick"),
    ({"drive": {"coulomb": {"LF_X": 1.0}}}, r"experiment\.robot\.drive\.coulomb\.LF_X: unknown actuated joint"),
    ({"drive": {"armature": {"LF_X": 1.0}}}, r"experiment\.robot\.drive\.armature\.LF_X"),
    ({"drive": {"bandwidth": 0.0}}, r"experiment\.robot\.drive\.bandwidth"),
    ({"links": {"LEG": {"mass_factor": 2.0}}}, r"experiment\.robot\.links\.LEG: unknown link, or a link without mass"),
    ({"trunk": {"added_mass": -4.0}}, r"experiment\.robot\.trunk\.added_mass: expected a resulting mass > 0"),
    ({"ground": {"mu": -0.1}}, r"experiment\.robot\.ground\.mu"),
    ({"ground": {"terrain": {"kind": "heightmap", "seed": -1}}}, r"experiment\.robot\.ground\.terrain\.seed"),
]


@every(("table", "message"), WRONG)
def test_invalid_imperfections_are_refused_by_name(table, message):
    with pytest.raises(ConfigError, match=message):
        plan_of({"robot": table})


def test_a_fixed_base_has_no_noise():
    robot = {"sensing": {"noise": {"base_rate": 0.1}}}
    with pytest.raises(ConfigError, match=r"experiment\.robot\.sensing\.noise\.base_rate: expected 0 .* fixed base"):
        plan_of({"robot": robot}, base="grasp")


def test_a_push_can_be_given_in_body_weights_and_one_may_be_a_table(tmp_path):
    push = {"start": 0.01, "duration": 0.02, "weights": [0.0, 0.2, 0.0]}
    given = {"start": 0.01, "duration": 0.02, "force": [0.0, 0.2 * 47.088, 0.0], "frame": "BODY0"}
    first, second = (imperfect_run({"push": [one]}, duration=0.05).trace for one in (push, given))
    np.testing.assert_allclose(first.v, second.v, atol=1e-9)
    assert np.abs(first.v[-1, 1]) > 0 or np.abs(first.q[-1, 1]) > 0
    head, push = 'server = "quadruped"\nlaws = ["coulomb"]\nduration = 1.0\n', "start = 0.5\nduration = 0.1\n"
    plans = []
    for table in ("[push]", "[[push]]"):
        (tmp_path / "one.toml").write_text(f"{head}{table}\n{push}weights = [0.0, 0.2, 0.0]\n")
        plans.append(load_plan(str(tmp_path / "one.toml")).settings)
    assert (plans[0], len(plans[0].push)) == (plans[1], 1)
    (tmp_path / "one.toml").write_text(f"{head}[push]\n{push}strength = 3.0\n")
    with pytest.raises(ConfigError, match=r"\.push\.strength: no such setting"):
        load_plan(str(tmp_path / "one.toml"))


@full
@every("engine", ["lcp", "mujoco"])
@every("gravity", first_is_fast([[0.5, 0.0, -9.8], [0.0, 0.0, -1.62]]))
def test_a_robot_stands_under_the_gravity_of_its_settings(tmp_path, engine, gravity):
    """On the moon and on a slope: the ground carries −m g, in the world and in the prediction."""
    text = find("robots", "quadruped").read_text()
    urdf = find("robots", "quadruped").with_suffix(".urdf")
    (tmp_path / "robot.toml").write_text(f"gravity = {list(gravity)}\n" + text.replace("quadruped.urdf", str(urdf)))
    (tmp_path / "controller.toml").write_text('robot = "robot.toml"\n')
    (tmp_path / "server.toml").write_text('controller = "controller.toml"\n')
    trace = imperfect_run({"server": str(tmp_path / "server.toml"), "engine": engine}, duration=0.3).trace
    load = -4.8 * np.array(gravity)
    assert trace.simulated[-1].sum(axis=0)[0] == pytest.approx(load[2], rel=1e-2)  # the part along the normals
    assert trace.predicted[-1].sum(axis=0)[0] == pytest.approx(load[2], rel=1e-2)
    assert np.linalg.norm(trace.simulated[-1].sum(axis=0)[1:]) == pytest.approx(abs(load[0]), rel=2e-2, abs=1e-6)
    assert abs(trace.q[-1] - trace.q[0]).max() < 0.02


@every_row(
    ({"weights": [0, 1, 0], "force": [0, 1, 0]}, r"experiment\.push\[0\]\.force: expected either force or weights"),
    ({}, r"experiment\.push\[0\]\.force: expected either force or weights"),
    ({"force": [0, 1, 0], "frame": "BODY"}, r"experiment\.push\[0\]\.frame.*BODY0"),
)
def test_invalid_pushes_are_refused_by_name(push, message):
    with pytest.raises(ConfigError, match=message):
        plan_of({"push": [{"start": 0.0, "duration": 0.1} | push]})
