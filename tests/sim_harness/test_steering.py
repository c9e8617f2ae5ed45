"""Gaits in simulation: robots that stand, walk, trot and get up, by steering and with the model-predictive planner."""

import itertools
import json
import signal
import subprocess
import sys
import threading
from itertools import product

import msgspec
import numpy as np
import pytest
from fast import every, every_row, fast, first_is_fast, full, shortest
from many_hinges import PLACES, angles_of, urdf_of
from mujoco_robot import DrivenRobot, pose
from scipy.spatial.transform import Rotation
from stands import quiet

from controllers.build import build_controller
from controllers.config.loading import load, parse
from controllers.planners import rigid_body
from controllers.planners.mpc import MpcPlanner, MpcSettings
from controllers.robot.kinematics import contact_places
from controllers.robot.load import load_robot, shared_path
from idyn import ConfigError, Status
from idyn.model.so3 import tilt
from idyn.tasks import ForceTask, FrameTask
from sim_harness.commands.main import build_parser
from sim_harness.commands.plan import run_plan
from sim_harness.measure.fall import base_tilt
from sim_harness.measure.verdict import Ending
from sim_harness.robot.lying import PerturbationSettings, perturbed
from sim_harness.run.experiment import run_connected, run_in_process
from sim_harness.run.plan import (
    ExperimentSettings,
    Plan,
    build_plan,
    load_plan,
    simulated_robot,
    with_controller,
)
from sim_harness.run.server_process import ServerProcess
from sim_harness.shapes import collision_shapes
from sim_harness.studies.mpc import DEATHS, DIES, SPEEDS, Planned, gait_of, outcome_of, plan_of
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.log.replay import replay
from transport.protocol.messages.command import GaitPart

VALID = 0.1  # validity of a command [s]
COMMANDS = [(0.3, 0.1, 0.5), (0.4, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 0.0, 1.0)]
FASTER = [(1.0, 0.0, 0.0), (1.5, 0.0, 0.0), (0.0, 0.5, 0.0), (0.0, 0.0, 2.0)]  # of all robots but the paper's quadruped
LOWER, ROLL, PITCH = -0.04, 0.1, -0.06
LOW, HIGH = 0.1, 100.0
STEEP = {"kind": "slope", "angle": 0.349}
SLOW = {"gait": {"period": 0.5, "duty": 0.7, "step_height": 0.06}, "path": {"speed": 0.3}}
STAIRS = {"kind": "stairs", "start": 0.35, "depth": 0.3, "rise": 0.1, "steps": 6}
WEIGHT = 33.34114202 * 9.81
FAST = [*(f"go2-{each}" for each in SPEEDS), "a1-trot", "solo12-bound"]
RATES = {"go2": 420.0, "a1": 320.0, "solo12": 45.0}  # largest mean |dτ/dt| [N·m/s]; the bound has the largest
GO2 = shared_path("example-robot-data:go2_description/urdf/go2.urdf")
ROBOTS = ("go2", "a1", "solo12", "quadruped")
PATTERNS = pytest.mark.parametrize("pattern", [pytest.param("stand", marks=full), pytest.param("trot", marks=pytest.mark.long)])
"""The planner is in real time beside robot and server: where other programs need the cores, its plans come late, and a robot
that trots may fall. One that stands does not."""

SPEED = {"stand": "0", "trot": "0.4"}


@pytest.mark.parametrize("name", [pytest.param("go2", marks=full), pytest.param("a1", marks=pytest.mark.long)])
def test_patterns_change_while_the_robot_walks(name):
    drive = DrivenRobot(f"{name}-trot")
    drive.run(2.0, velocity=(0.3, 0.0, 0.0))
    for pattern in ("pace", "bound", "trot", "walk", "bound", "pace", "stand", "pace"):
        slow, speed = pattern == "walk", 0.0 if pattern == "stand" else 0.3
        gait = GaitPart(pattern=pattern, period=0.6 if slow else 0.3, duty=0.8 if slow else 0.6)
        drive.run(4.0, velocity=(speed, 0.0, 0.0), gait=gait)
        assert tilt(drive.state[0][3:7]) < 0.12
        error = np.abs(drive.mean_velocity(2.0) - (speed, 0.0, 0.0))
        assert error.max() < (0.12 if pattern == "bound" else 0.015)


@pytest.mark.long
@pytest.mark.parametrize(("name", "seed"), [*product(["go2", "a1"], range(10)), ("solo12", 0), ("solo12", 1)])
def test_a_minute_of_random_commands(name, seed):
    """A new command every two seconds: up to 1.5 m/s forward, 0.5 m/s backward and sideways, 2 rad/s."""
    rng, drive = np.random.default_rng(seed), DrivenRobot(f"{name}-trot")
    for _ in range(30):
        drive.run(2.0, velocity=rng.uniform((-0.5, -0.5, -2.0), (1.5, 0.5, 2.0)).tolist())
        q, _ = drive.state
        assert tilt(q[3:7]) < 0.5


@pytest.mark.parametrize(
    ("name", "velocity"),
    [
        *(pytest.param(*each, marks=full) for each in product(["go2", "a1", "solo12", "quadruped"], COMMANDS)),
        *(pytest.param(*each, marks=pytest.mark.long) for each in product(["go2", "a1", "solo12"], FASTER)),
    ],
)
def test_the_base_moves_as_commanded(name, velocity):
    drive = DrivenRobot(f"{name}-trot")
    drive.run(9.0, velocity=velocity)
    off = np.abs(drive.mean_velocity(4.5 if velocity in COMMANDS else 3.0) - velocity).max()
    assert off < (0.03 if velocity in COMMANDS else 0.05) * np.abs(velocity).max()


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2", "solo12"], 0))
def test_the_robot_stands_within_a_second_after_the_commands_end(name):
    drive = DrivenRobot(f"{name}-trot")
    drive.run(2.5, velocity=(0.3, 0.0, 0.0))
    assert drive.mean_velocity(0.6)[0] > 0.2
    assert drive.messages <= {""} or name != "quadruped"
    drive.run(1.0 + VALID)
    drive.run(0.5)
    assert np.abs(drive.mean_velocity(0.5)).max() < 0.02
    assert any("expired" in message for message in drive.messages)


@pytest.mark.parametrize("name", first_is_fast(["go2", "a1", "solo12", "quadruped"], 0))
def test_a_standing_robot_moves_to_the_commanded_pose_and_back(name):
    robot, wanted = DrivenRobot(name), np.array([LOWER, ROLL, PITCH])  # in the same order as in replies
    robot.run(0.8)
    level = robot.mean_pose(0.1)
    robot.run(1.5, height=LOWER, attitude=[ROLL, PITCH])
    error = np.abs(robot.mean_pose(0.1) - level - wanted)
    np.testing.assert_allclose(robot.reply.pose, wanted, atol=1e-6)
    assert error[0] < 2e-3
    assert error[1:].max() < 5e-3
    robot.run(VALID + 1.5)
    back = np.abs(robot.mean_pose(0.1) - level)
    assert back[0] < 1e-3
    assert back[1:].max() < 2e-3
    rates = np.diff(robot.poses, axis=0) / 1e-3
    assert (np.abs(rates).max(axis=0) < [0.15, 0.6, 0.6]).all()
    assert robot.reply.pose is None
    assert any("expired" in message for message in robot.messages)


@full
@pytest.mark.parametrize("name", ["go2-trot", "a1-trot", "solo12-trot", "quadruped-trot"])
def test_a_trotting_robot_follows_the_pose_while_it_moves(name):
    robot = DrivenRobot(name)
    robot.run(2.5, velocity=[0.2, 0.0, 0.0])
    level = robot.mean_pose(0.8)
    robot.run(2.5, velocity=[0.2, 0.0, 0.0], height=LOWER, attitude=[ROLL, 0.0])
    error = np.abs(robot.mean_pose(0.8) - level - [LOWER, ROLL, 0.0])
    assert error[0] < 2e-3
    assert error[1:].max() < 5e-3
    assert abs(robot.mean_velocity(0.8)[0] - 0.2) < 0.02


@full
@pytest.mark.parametrize("name", ["go2-trot", "a1-trot", "solo12-trot", "quadruped-trot", "solo8-trot", "fivebar-trot"])
def test_gaits_change_while_the_robot_walks(name):
    robot, forward = DrivenRobot(name), [0.15, 0.0, 0.0]
    walk = GaitPart(pattern="walk", period=0.8, duty=0.8)
    stand = GaitPart(pattern="stand")
    for gait in (None, walk, GaitPart(period=0.5, step_height=0.04), walk, stand, None):
        robot.run(2.5, velocity=None if gait == stand else forward, gait=gait)
        height, roll, pitch = pose(robot.state[0])
        assert abs(height - robot.poses[0][0]) < 0.03
        assert max(abs(roll), abs(pitch)) < 0.05
        assert gait != stand or robot.roughness(0.4) < 10.0
    assert robot.mean_velocity(0.8)[0] == pytest.approx(0.15, abs=0.02)


@every_row(
    ("quadruped-trot", {"velocity": [0.3, 0.0, 0.5]}, {}),
    ("quadruped", {"height": -0.02, "attitude": [0.05, 0.0]}, {}),
    ("quadruped-trot", {"velocity": [0.2, 0.0, 0.0], "gait": GaitPart(period=0.4)}, {"velocity": [0.2, 0.0, 0.0]}),
    ("go2", {}, {"tasks": [FrameTask(frame="root_joint", rotation=np.eye(3)), ForceTask(contacts="FL_foot", normal=25.0)]}),
)
@pytest.mark.parametrize("share", first_is_fast([0.25, 1.0]))
def test_a_steered_run_is_replayed_bit_for_bit(name, first, then, share, tmp_path):
    robot = DrivenRobot(name, tmp_path / "log.mcap")
    robot.run(share, **first)
    robot.run(0.6 * share, **then)
    robot.recorder.close()
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 1600 * share


def stood(run, **most):
    """The robot ends upright, and these figures of the run are below their limits."""
    assert run.summary.upright
    assert {name: found for name, limit in most.items() if not abs(found := getattr(run.summary, name)) < limit} == {}


def trot(experiment, law, seconds, mu=None, **reference):
    settings = load("experiments", experiment, ExperimentSettings)
    settings = msgspec.structs.replace(settings, duration=seconds, mu=settings.mu if mu is None else mu)
    plan = with_controller(build_plan(settings), {"law": law, "reference": reference})
    return run_in_process(plan, law, lambda label, ticks: None)


@pytest.mark.parametrize(("law", "mu"), first_is_fast([("coulomb", LOW), ("coulomb", HIGH), ("no-slip", HIGH)]))
def test_the_quadruped_trots(law, mu):
    """Forwards at 20 cm/s and a little more, because its feet roll; forces predicted, hardly a joint error."""
    run = trot("trot", law, 1.4, mu)
    stood(run, tilt=0.05, tracking=0.004, force_error_relative=0.01)
    assert run.summary.modes["ok"] > 0.999
    x = run.trace.q[:, 0]
    assert 0.18 < (x[1300] - x[1000]) / 0.3 < 0.23
    lifted = np.isnan(run.trace.predicted[400:, :, 0]).mean(axis=0)
    np.testing.assert_allclose(lifted, 0.25, atol=0.06)


@full
@pytest.mark.parametrize("robot", ["quadruped", "solo12", "go2", "a1"])
def test_shipped_robots_trot_on_yielding_ground(robot):
    """Feet sink in, joints give way; landing feet may ask too much for a tick. A go2 sinks in by 7 mm and lands that early."""
    run = trot(f"trot-{robot}", "coulomb", 1.5)
    stood(run, tilt=0.05, tracking=0.005, force_error_relative=0.08)
    assert set(run.summary.modes) <= {"ok", "degraded"}
    assert run.summary.modes["ok"] > 0.99
    assert run.trace.q[-1, 0] > 0.1


def trot_on_a_slope(robot, seconds, world, controller):
    """Run in MuJoCo with foot switches on a terrain, which the controller may not know."""
    settings = load("experiments", f"trot-{robot}", ExperimentSettings)
    table = msgspec.to_builtins(settings)
    table["robot"]["ground"]["terrain"] = world
    table |= {"engine": "mujoco", "contacts": "binary", "duration": seconds, "laws": ["coulomb"]}
    table["controller"] = {"reference": {"path": {"waypoints": [[20.0, 0.0]]}}}
    plan = with_controller(build_plan(parse(table, ExperimentSettings, "test")), {"law": "coulomb", **controller})
    return run_in_process(plan, "coulomb", lambda label, ticks: None)


@full
@pytest.mark.parametrize("direction", [0.0, np.pi, np.pi / 2], ids=["up", "down", "across"])
@pytest.mark.parametrize("robot", ["go2", "quadruped"])
def test_a_trot_on_a_steep_slope_as_shipped(robot, direction):
    """20 degrees, known from the standing feet only; the base leans with the ground."""
    run = trot_on_a_slope(robot, 4.0, {**STEEP, "direction": direction}, {})
    stood(run, tracking=0.005)
    assert run.summary.drift > 0.4
    np.testing.assert_allclose(np.median(base_tilt(run.trace.q)[-1000:]), 0.349, atol=0.02)


@full
def test_a_trot_up_stairs_that_it_knows():
    """Feet stay away from edges: all standing feet are on treads, and the robot is two steps up after 5 s."""
    run = trot_on_a_slope("go2", 5.0, STAIRS, {"contact": {"terrain": STAIRS}, "reference": SLOW})
    stood(run, tracking=0.006)
    assert run.trace.q[-1, 2] - run.trace.q[0, 2] > 0.2


@full
@pytest.mark.parametrize(
    ("robot", "rise", "gait"), [("go2", 0.05, SLOW), ("a1", 0.05, SLOW), ("go2", 0.03, {}), ("solo12", 0.03, {})]
)
def test_a_trot_up_stairs_that_it_does_not_know(robot, rise, gait):
    """Steps of 5 cm with high swings, and of 3 cm with the shipped gait: the feet find the steps."""
    run = trot_on_a_slope(robot, 6.0, {**STAIRS, "rise": rise}, {"reference": gait, "alarms": {"switch_air": 0.12}})
    stood(run, tracking=0.01)
    assert run.trace.q[-1, 2] - run.trace.q[0, 2] > 3.5 * rise


def loads(trace):
    """Normal forces on the left and the right sole, predicted and simulated [N] (ticks, 2) each."""
    return (np.nansum(force[:, :, 0].reshape(-1, 2, 4), axis=2) for force in (trace.predicted, trace.simulated))


@full
@pytest.mark.parametrize("law", ["no-slip", "coulomb", "cone"])
@pytest.mark.parametrize("engine", [None, "lcp", "mujoco"])
def test_the_humanoid_stands_on_its_soles(engine, law):
    """engine None: the experiment's own, ground that yields. A seed displaces the base and gives the joints small speeds."""
    plan = with_controller(load_plan("stand-g1", 1.5, engine), {"law": law})
    run = run_in_process(plan, law, quiet, seed=1)
    stood(run, tilt=5e-3, tracking=1e-3)
    assert run.trace.share("ok") > 0.99
    assert len(run.trace.places) == 8
    predicted, simulated = loads(run.trace)
    np.testing.assert_allclose(predicted[-100:].sum(axis=1).mean(), WEIGHT, rtol=0.02)
    np.testing.assert_allclose(simulated[-100:].sum(axis=1).mean(), WEIGHT, rtol=0.02)


@full
@pytest.mark.parametrize(("kind", "amplitude", "axis"), [("sway", 0.02, 1), ("squat", 0.01, 2)])
def test_the_humanoid_sways_over_feet_that_stay(kind, amplitude, axis):
    reference = {"kind": kind, "amplitude": amplitude, "frequency": 0.5}
    run = run_in_process(with_controller(load_plan("stand-g1", 2.0, "mujoco"), {"reference": reference}), kind, quiet)
    stood(run, tracking=1e-3)
    assert np.ptp(run.trace.q[:, axis]) > 1.5 * amplitude
    predicted, simulated = loads(run.trace)
    share = simulated @ ([0.5, -0.5] if kind == "sway" else [1.0, 1.0])
    assert np.ptp(share[200:]) > (0.2 if kind == "sway" else 0.01) * WEIGHT
    assert np.abs(predicted - simulated).mean() < 0.01 * WEIGHT


WALK = {"pattern": "walk", "period": 0.6, "duty": 0.8}
TROT = {"pattern": "trot"}

MANY = """
[robot]
urdf = "hinges.urdf"
armature = 0.002
contact = [{contact}]
standing = {{ {standing} }}

[controller]
contact.source = "planner"
torque_feedback = {{ kp = 10.0, kd = 0.3 }}
safety.torque_rate = inf
reference = {{ kind = "gait", start = 0.5, gait = {{ period = 0.4, duty = 0.7, step_height = 0.03 }} }}

[experiment]
laws = ["coulomb"]
engine = "mujoco"
contacts = "binary"
duration = 4.0
paced = false
"""


def walk(experiment, seconds, speed, gait, seed=0):
    """Run at a constant forward speed [m/s]."""
    reference = {"gait": gait, "path": {"waypoints": [], "velocity": [speed, 0.0, 0.0]}}
    plan = with_controller(load_plan(experiment, seconds, "mujoco"), {"law": "coulomb", "reference": reference})
    return run_in_process(plan, "coulomb", lambda label, ticks: None, seed=seed)


def is_a_good_walk(run, speed):
    """Upright, as fast as commanded, joints where they should be, smooth torques, forces as predicted."""
    stood(run, tilt=0.05, tracking=0.005, torque_rate=35.0, force_error_relative=0.04)
    assert run.summary.forward == pytest.approx(speed, rel=0.05)
    assert run.summary.modes["ok"] > 0.99
    return True


@full
@pytest.mark.parametrize(("gait", "speed"), [(TROT, 0.3), (WALK, 0.15)], ids=["trot", "walk"])
@pytest.mark.parametrize("robot", ["solo8", "fivebar"])
def test_robots_on_two_hinges_and_on_closed_legs_walk(robot, gait, speed):
    assert is_a_good_walk(walk(f"trot-{robot}", 5.0, speed, gait), speed)


@full
@pytest.mark.parametrize("hinges", [(4, 4), (4, 7)], ids=str)
def test_robots_on_legs_of_many_hinges_walk(tmp_path, hinges):
    (tmp_path / "hinges.urdf").write_text(urdf_of(*hinges))
    contact = ", ".join(f'{{ frame = "{leg}_foot", radius = 0.01, mu = 0.8 }}' for leg in PLACES)
    standing = ", ".join(f"{joint} = {angle}" for joint, angle in angles_of(*hinges).items())
    (tmp_path / "hinges.toml").write_text(MANY.format(contact=contact, standing=standing))
    assert is_a_good_walk(walk(str(tmp_path / "hinges.toml"), 4.0, 0.2, TROT), 0.2)


def start_of(name, seed=1):
    robot, stance = load_robot(name)
    return robot, stance, *perturbed(robot, stance, PerturbationSettings(shift=1e-3, speed=0.1), seed)


def test_a_displaced_start_carries_feet_of_two_hinges_sideways_and_leaves_chains_closed():
    """In position and velocity; the motors have random speeds."""
    robot, stance, q, _ = start_of("solo8")
    shift, moved = q[:3] - stance[:3], contact_places(robot, q) - contact_places(robot, stance)
    assert np.abs(shift).min() > 1e-5
    np.testing.assert_allclose(moved, [[0.0, shift[1], 0.0]] * 4, atol=1e-9)
    robot, stance, q, v = start_of("fivebar")
    gaps, G = robot.closure_gaps(q)
    assert np.abs(gaps).max() < 1e-8
    assert np.abs(G @ v).max() < 1e-9
    assert np.abs(v[robot.tree.a]).min() > 0.001
    assert not v[:6].any()
    np.testing.assert_allclose(contact_places(robot, q)[:, [0, 2]], contact_places(robot, stance)[:, [0, 2]], atol=1e-8)


@pytest.mark.parametrize("law", first_is_fast(["no-slip", "coulomb", "cone"], 0))
@pytest.mark.parametrize("engine", fast(["no-slip", "lcp", "penalty", "dissipation", "mujoco"], "lcp"))
def test_a_squat_with_closed_legs_has_the_predicted_forces(engine, law):
    """0.4 s of a squat: joints within 1.5 mrad, Σ f_N within 0.5 % of the weight once it stands, legs closed."""
    plan = with_controller(load_plan("squat-fivebar", 0.4, engine), {"law": law})
    run = run_in_process(plan, law, lambda *_: None)
    stood(run, tracking=1.5e-3)
    assert run.summary.modes == {"ok": 1.0}
    predicted, simulated = (np.nan_to_num(each[100:, :, 0]).sum(axis=1) for each in (run.trace.predicted, run.trace.simulated))
    assert simulated.mean() == pytest.approx(50.23, rel=0.02)
    assert np.abs(predicted - simulated).mean() < 5e-3 * 50.23


@full
@pytest.mark.parametrize("case", shortest(FAST, "go2-trot", "a1-trot"))
def test_robots_go_as_fast_as_commanded_in_every_pattern(case):
    robot, pattern = case.split("-")
    run = outcome_of(robot, pattern, True, 1, seconds=4.0)
    stood(run, left=0.02, turn=0.02, torque_rate=RATES[robot])
    assert run.summary.distance > 0.8 * SPEEDS[pattern] * run.summary.seconds  # from a standing start, with 1 m/s²
    assert run.summary.modes["ok"] > 0.97


@pytest.mark.parametrize(("k", "seconds"), first_is_fast([(5, 0.7), (5, DIES), (8, DIES)], 0))
def test_a_robot_stands_after_its_planner_died(k, seconds):
    dies = seconds + k * gait_of("go2", "trot").period / DEATHS
    stood(outcome_of("go2", "trot", True, 0, dies, dies + seconds), tilt=0.15)


@full
def test_commands_change_live_and_a_log_is_replayed_bit_for_bit(tmp_path):
    plan = plan_of("go2", "trot", True, 5.0)
    controller = build_controller(plan.controller)
    planner = MpcPlanner(controller.robot, controller.stance, MpcSettings(gait=gait_of("go2", "trot")))
    server = msgspec.structs.replace(plan.server, planners=("plan",))
    log = Recorder(tmp_path / "log.mcap", attachments(controller.snapshot(), server), metadata(controller.robot, 0))

    def steer(t):
        planner.path.steer(np.array([0.4, 0.0, 0.0] if t < 3.0 else [0.0, 0.0, 0.8]))
        if round(100 * t) in (100, 200):
            planner.adopt(gait_of("go2", "pace" if t < 1.5 else "bound"))

    client = Planned(plan, controller, planner, 100.0, steer=steer, recorder=log)
    trace = simulated_robot(plan, client, seed=0).run(5.0)
    log.close()
    assert client.refusals == []
    assert max(tilt(q[3:7]) for q in trace.q) < 0.25
    qx, qy, qz, qw = trace.q[-1500:, 3:7].T
    yaw = np.unwrap(np.arctan2(2 * (qw * qz + qx * qy), 1 - 2 * (qy**2 + qz**2)))
    assert (yaw[-1] - yaw[0]) / 1.5 == pytest.approx(0.8, abs=0.08)
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 5000


@pytest.fixture
def served(tmp_path):
    """Starts go2 with a server in its own process, patient with late answers. Gives the endpoint, and what awaits the end."""
    plan = plan_of("go2", "trot", True, 12.0)
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, paced=True, patience=1.0))
    server = msgspec.structs.replace(plan.server, endpoint=f"ipc://{tmp_path}/server", planners=("plan",), controller="go2")
    with ServerProcess(server, plan.controller) as process:
        runs = []
        robot = threading.Thread(target=lambda: runs.append(run_connected(plan, process.endpoint, "go2", lambda *_: None)))
        robot.start()

        def end():
            robot.join(200)
            return runs[0]

        yield process.endpoint, end
        robot.join(200)


def planned(*words):
    command = [sys.executable, "-m", "sim_harness", "plan", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


@PATTERNS
def test_the_command_plans_for_a_server_over_a_socket(pattern, served, tmp_path):
    endpoint, end = served
    refused = planned(endpoint, "--pattern", "walk")  # with the duty factor of a trot
    assert refused.returncode == 2
    assert "gait.duty" in refused.stderr
    words = "--pattern", pattern, "--velocity", SPEED[pattern], "0", "0", "--seconds", "5"
    done = planned(endpoint, *words, "--json", str(tmp_path / "found.json"))
    run = end()
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "found.json").read_text())["plans"] > 100
    assert run.summary.upright
    assert run.summary.distance > 1.0 if pattern == "trot" else run.summary.distance < 0.1
    assert any("expired" in line for line in run.said)  # the planner has ended, the robot stands
    assert any("task" in line for line in run.said)


@PATTERNS
def test_a_robot_stands_while_there_is_no_plan_and_then_goes_on(pattern, served, monkeypatch):
    """The solver of this process, which stands for the planner's, finds quiet for twenty plans."""
    endpoint, end = served
    count, solve = itertools.count(), rigid_body.solve_qp

    def solved(*program):
        found = solve(*program)
        return msgspec.structs.replace(found, status=Status.BACKEND_FAILED) if 100 <= next(count) < 120 else found

    monkeypatch.setattr(rigid_body, "solve_qp", solved)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    words = "--pattern", pattern, "--velocity", SPEED[pattern], "0", "0", "--seconds", "6"
    options = build_parser().parse_args(["plan", endpoint, *words])
    figures, good = run_plan(options)
    run = end()
    assert figures["problems"] == {"the quadratic program was not solved": 20}
    assert not good
    assert figures["plans"] > 120
    assert run.summary.upright
    assert run.summary.distance > 1.0 if pattern == "trot" else run.summary.distance < 0.1
    assert any("expired" in line for line in run.said)


def lying_plan(name: str, **changes: object) -> Plan:
    table = msgspec.to_builtins(load("experiments", f"get-up-{name}", ExperimentSettings)) | changes
    return build_plan(parse(table, ExperimentSettings, "test"))


def world_of(plan: Plan, seed: int | None = None):
    return simulated_robot(plan, client=None, seed=seed).world  # type: ignore[arg-type]


@full
@every(("pose", "tilt"), first_is_fast([("belly", 0.0), ("back", np.pi)]))
def test_a_dropped_robot_rests_as_told_and_differs_by_seed(pose, tilt):
    plan = lying_plan("quadruped", lying=pose)
    first, again, other = (world_of(plan, seed).q for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    assert base_tilt(first[None])[0] == pytest.approx(tilt, abs=0.3)


@full
@pytest.mark.parametrize("robot", fast(ROBOTS, "quadruped"))
@every("hulls", first_is_fast([True, False]))
def test_what_touches_the_ground_carries_the_weight(robot, hulls):
    """For half a second with limp legs: Σ f of all reported contacts is the weight, on meshes, boxes and spheres."""
    world = world_of(lying_plan(robot, lying="back", robot={"hulls": hulls}))
    force = [world.step(None, 1e-3).impulse[:, 2].sum() / 1e-3 for _ in range(1000)]
    assert np.mean(force[500:]) == pytest.approx(world.robot.total_mass * 9.81, rel=0.02)


@full
def test_the_lowest_point_of_a_collision_mesh_rests_on_the_ground():
    """Vertices of the meshes, placed by Pinocchio."""
    plan = lying_plan("go2", lying="back")
    world = world_of(plan)
    robot, lowest = world.robot, np.inf
    rotations, origins = robot.place(world.q)
    for shape in collision_shapes(robot, list(GO2.resolve().parents))[0]:
        assert shape.mesh is not None
        turn = Rotation.from_quat(shape.placement[3:]).as_matrix()
        points = shape.mesh.vertices @ turn.T + shape.placement[:3]
        lowest = min(lowest, float((points @ rotations[shape.joint].T + origins[shape.joint])[:, 2].min()))
    assert lowest == pytest.approx(0.0, abs=2e-3)


POSES = [pytest.param("back", marks=full), *(pytest.param(pose, marks=pytest.mark.long) for pose in ("belly", "left", "right"))]


@pytest.mark.parametrize("pose", POSES)
def test_go2_gets_up_on_its_collision_shapes(pose):
    run = run_in_process(lying_plan("go2", lying=pose), "coulomb", lambda *_: None, seed=1)
    summary = run.summary
    assert summary.verdict.ending is Ending.GOT_UP
    assert summary.risen < 6.5
    assert summary.torque_rate < 150.0
    assert summary.last_tracking < 1e-3
    assert base_tilt(run.trace.q[-1000:]).max() < 0.01
    _, stance = load_robot("go2-lying")
    assert run.trace.q[-1, 2] == pytest.approx(stance[2], abs=0.01)


@full
@pytest.mark.parametrize("robot", ["a1", "solo12", "quadruped"])
def test_other_robots_get_up_from_their_back(robot):
    summary = run_in_process(lying_plan(robot), "coulomb", lambda *_: None, seed=1).summary
    assert summary.verdict.ending is Ending.GOT_UP
    assert summary.last_tracking < 6e-3


@every_row(
    ({"engine": "lcp"}, "experiment.robot.hulls"),
    ({"controller": {"contact": {"terrain": "slope"}}}, "experiment.robot.hulls"),
    ({"server": "arm", "controller": {}, "robot": {}}, "experiment.lying"),
)
def test_what_cannot_be_is_refused(changes, where):
    with pytest.raises(ConfigError, match=where):
        lying_plan("go2", **changes)
