"""Experiments with imperfect robots, through real bytes; and errors in a `[robot]` table."""

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast, full

from controllers.config.loading import find, load, parse
from idyn.errors import ConfigError
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, load_plan
from transport.log.reader import LogReader
from transport.log.replay import replay
from transport.protocol.codec import decode, vector
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage


def plan_of(changes, base="stand", duration=0.1):
    values = msgspec.to_builtins(load("experiments", base, ExperimentSettings))
    values |= {"duration": duration, "laws": ["coulomb"]} | changes
    return build_plan(parse(values, ExperimentSettings, "experiment"))


def run_of(changes, log=None, seed=None, **settings):
    return run_in_process(plan_of(changes, **settings), "coulomb", lambda *_: None, seed=seed, log=log)


def exchanged(log):
    """The states of a log and their torques."""
    with LogReader(log) as reader:
        pairs = [(decode(entry.request), decode(entry.reply)) for entry in reader.exchanges()]
    return [(s, t) for s, t in pairs if isinstance(s, StateMessage) and isinstance(t, TorqueMessage)]


def test_the_torque_applied_is_the_answer_to_a_state_of_five_ticks_ago(tmp_path):
    log = tmp_path / "log.mcap"
    run = run_of({"robot": {"link": {"state_delay": 2, "torque_delay": 3}}}, log=log, duration=0.05)
    answers = {state.t_robot // 1_000_000: vector(torque.tau, 12, "tau") for state, torque in exchanged(log)}
    for tick in range(6, 50):
        np.testing.assert_array_equal(run.trace.tau[tick], answers[tick - 5])
    modes = [run.trace.modes[mode] for mode in run.trace.mode]
    assert modes[0] == modes[6] == "ok"
    assert all(mode.startswith("failsafe") for mode in modes[1:6])


def test_the_server_gets_measured_states_and_the_trace_true_ones(tmp_path):
    log = tmp_path / "log.mcap"
    offset = {"offset": {"base_position": [0.0, 0.0, 0.005]}}
    run = run_of({"contacts": "binary", "robot": {"sensing": offset}}, log=log, duration=0.02)
    seen = np.array([vector(state.q, 19, "q") for state, _ in exchanged(log)])
    np.testing.assert_allclose(seen[:, 2] - run.trace.q[:, 2], 0.005, atol=1e-12)
    np.testing.assert_allclose(np.delete(seen - run.trace.q, 2, axis=1), 0, atol=1e-9)


def test_the_simulated_robot_is_heavier_than_the_servers_model():
    run = run_of({"robot": {"trunk": {"added_mass": 0.4}}}, duration=0.3)
    assert run.summary.upright
    assert run.summary.weight == pytest.approx(47.088)
    assert run.trace.simulated[-100:, :, 0].sum(axis=1).mean() == pytest.approx(47.088 + 0.4 * 9.81, rel=0.03)


@pytest.mark.parametrize("height", first_is_fast([-0.01, 0.0, 0.01]))
def test_with_foot_switches_an_error_of_the_base_height_does_not_matter(tmp_path, height):
    """Ten times the error that geometry tolerates; only names of contacts are on the wire; the log replays exactly."""
    log = tmp_path / "log.mcap"
    offset = {"sensing": {"offset": {"base_position": [0.0, 0.0, height]}}}
    run = run_of({"contacts": "binary", "robot": offset}, log=log, duration=0.5)
    assert run.summary.upright
    assert run.summary.tracking < 1e-4
    assert run.summary.force == pytest.approx(47.088, rel=1e-3)
    assert run.summary.force_error_relative < 1e-3
    for state, torque in exchanged(log):
        assert {contact.frame for contact in state.contacts} == {"LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"}
        assert all(contact.p is None and contact.n is None for contact in state.contacts)
        assert torque.solver.n_contacts == 4
    assert replay(log).exact


@full
def test_the_robot_trots_with_foot_switches():
    run = run_of({"contacts": "binary"}, base="trot", duration=1.0)
    assert run.summary.upright
    assert run.summary.tracking < 5e-3


def used_friction(trace):
    """The largest share of tangential in normal force that the world ever gave."""
    normal, tangential = trace.simulated[:, :, 0], np.linalg.norm(trace.simulated[:, :, 1:], axis=2)
    pressed = normal > 1e-3
    return (tangential[pressed] / normal[pressed]).max()


def test_the_world_has_another_slope_friction_or_terrain_than_the_controller():
    """A slope that is as slippery as ice in the world only, and hills in the world only."""
    slope = {"controller": {"contact": {"terrain": {"kind": "slope", "angle": 0.1}}}}
    firm, icy = (run_of(slope | changes, duration=0.05).trace for changes in ({}, {"robot": {"ground": {"mu": 0.02}}}))
    assert used_friction(firm) > 0.09  # tan 0.1 holds it
    assert 0.01 < used_friction(icy) <= 0.02 + 1e-9
    hills = {"robot": {"ground": {"terrain": {"kind": "heightmap", "bump": 0.01}}}}
    flat, one, other = (run_of(changes, seed=seed, duration=0.01) for changes, seed in (({}, 0), (hills, 0), (hills, 1)))
    heights = [run.trace.q[0, 2] - flat.trace.q[0, 2] for run in (one, other)]
    assert all(0 < height < 0.01 for height in heights)
    assert heights[0] != heights[1]


def test_a_seed_repeats_a_run_exactly():
    noisy = {"robot": {"sensing": {"noise": {"joint_speed": 1e-3}}, "link": {"lost_torques": {"probability": 0.2}}}}
    first, again, other = (run_of(noisy, seed=seed).trace for seed in (4, 4, 5))
    assert first.tau.tobytes() == again.tau.tobytes()
    assert first.mode.tobytes() == again.mode.tobytes()
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


def test_a_push_can_be_given_in_body_weights():
    push = {"start": 0.01, "duration": 0.02, "weights": [0.0, 0.2, 0.0]}
    given = {"start": 0.01, "duration": 0.02, "force": [0.0, 0.2 * 47.088, 0.0], "frame": "BODY0"}
    first, second = (run_of({"push": [one]}, duration=0.05).trace for one in (push, given))
    np.testing.assert_allclose(first.v, second.v, atol=1e-9)
    assert np.abs(first.v[-1, 1]) > 0 or np.abs(first.q[-1, 1]) > 0


def test_one_push_may_be_a_table(tmp_path):
    head, push = 'server = "quadruped"\nlaws = ["coulomb"]\nduration = 1.0\n', "start = 0.5\nduration = 0.1\n"
    plans = []
    for table in ("[push]", "[[push]]"):
        (tmp_path / "one.toml").write_text(f"{head}{table}\n{push}weights = [0.0, 0.2, 0.0]\n")
        plans.append(load_plan(str(tmp_path / "one.toml")).settings)
    assert plans[0] == plans[1]
    assert len(plans[0].push) == 1
    (tmp_path / "one.toml").write_text(f"{head}[push]\n{push}strength = 3.0\n")
    with pytest.raises(ConfigError, match=r"\.push\.strength: no such setting"):
        load_plan(str(tmp_path / "one.toml"))


@every("engine", ["lcp", "mujoco"])
@every("gravity", [(0.0, 0.0, -1.62), (0.5, 0.0, -9.8)])
def test_a_robot_stands_under_the_gravity_of_its_settings(tmp_path, engine, gravity):
    """On the moon and on a slope: the ground carries −m g, in the world and in the prediction."""
    text = find("robots", "quadruped").read_text()
    urdf = find("robots", "quadruped").with_suffix(".urdf")
    (tmp_path / "robot.toml").write_text(f"gravity = {list(gravity)}\n" + text.replace("quadruped.urdf", str(urdf)))
    (tmp_path / "controller.toml").write_text('robot = "robot.toml"\n')
    (tmp_path / "server.toml").write_text('controller = "controller.toml"\n')
    trace = run_of({"server": str(tmp_path / "server.toml"), "engine": engine}, duration=0.3).trace
    load = -4.8 * np.array(gravity)
    assert trace.simulated[-1].sum(axis=0)[0] == pytest.approx(load[2], rel=1e-2)  # the part along the normals
    assert trace.predicted[-1].sum(axis=0)[0] == pytest.approx(load[2], rel=1e-2)
    assert np.linalg.norm(trace.simulated[-1].sum(axis=0)[1:]) == pytest.approx(abs(load[0]), rel=2e-2, abs=1e-6)
    assert abs(trace.q[-1] - trace.q[0]).max() < 0.02


@every(
    ("push", "message"),
    [
        ({"weights": [0, 1, 0], "force": [0, 1, 0]}, r"experiment\.push\[0\]\.force: expected either force or weights"),
        ({}, r"experiment\.push\[0\]\.force: expected either force or weights"),
        ({"force": [0, 1, 0], "frame": "BODY"}, r"experiment\.push\[0\]\.frame.*BODY0"),
    ],
)
def test_invalid_pushes_are_refused_by_name(push, message):
    with pytest.raises(ConfigError, match=message):
        plan_of({"push": [{"start": 0.0, "duration": 0.1} | push]})
