"""Robots that stand, walk and trot in simulation: gaits of four and of two legs, humanoids, closed legs, slopes."""

import msgspec
import numpy as np
import pytest
from fast import fast, first_is_fast, full
from many_hinges import PLACES, angles_of, urdf_of

from controllers.config.loading import load, parse
from controllers.robot.kinematics import contact_places
from controllers.robot.load import load_robot
from sim_harness.measure.fall import base_tilt
from sim_harness.measure.verdict import Ending
from sim_harness.robot.lying import PerturbationSettings, perturbed
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, load_plan, with_controller

LOW, HIGH = 0.1, 100.0


def trot(experiment, law, seconds, mu=None, **reference):
    settings = load("experiments", experiment, ExperimentSettings)
    settings = msgspec.structs.replace(settings, duration=seconds, mu=settings.mu if mu is None else mu)
    plan = with_controller(build_plan(settings), {"law": law, "reference": reference})
    return run_in_process(plan, law, lambda label, ticks: None)


def is_a_good_trot_on_yielding_ground(run):
    """Feet sink in and joints give way; a foot that lands may ask for more torque than there is, for a tick or two. The springs
    were made for the paper's robot: a go2, three times as heavy, sinks in by 7 mm on two feet, and lands that much early."""
    s = run.summary
    assert s.upright
    assert s.tilt < 0.05
    assert set(s.modes) <= {"ok", "degraded"}
    assert s.modes["ok"] > 0.99
    assert s.tracking < 0.005
    assert s.force_error_relative < 0.08
    return True


@pytest.mark.parametrize(("law", "mu"), first_is_fast([("coulomb", LOW), ("coulomb", HIGH), ("no-slip", HIGH)]))
def test_the_quadruped_trots(law, mu):
    """Forwards at 20 cm/s and a little more, because its feet roll; forces predicted, hardly a joint error."""
    run = trot("trot", law, 2.0, mu)
    s = run.summary
    assert s.upright
    assert s.tilt < 0.05
    assert s.modes["ok"] > 0.999
    assert s.tracking < 0.004
    assert s.force_error_relative < 0.01
    x = run.trace.q[:, 0]
    assert 0.18 < (x[1300] - x[1000]) / 0.3 < 0.23
    lifted = np.isnan(run.trace.predicted[400:, :, 0]).mean(axis=0)
    np.testing.assert_allclose(lifted, 0.25, atol=0.06)


@full
@pytest.mark.parametrize("robot", ["quadruped", "solo12", "go2", "a1"])
def test_shipped_robots_trot_on_yielding_ground(robot):
    run = trot(f"trot-{robot}", "coulomb", 1.5)
    assert is_a_good_trot_on_yielding_ground(run)
    assert run.trace.q[-1, 0] > 0.1


STEEP = {"kind": "slope", "angle": 0.349}
SLOW = {"gait": {"period": 0.5, "duty": 0.7, "step_height": 0.06}, "path": {"speed": 0.3}}
STAIRS = {"kind": "stairs", "start": 0.35, "depth": 0.3, "rise": 0.1, "steps": 6}


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
    assert run.summary.upright
    assert run.summary.tracking < 0.005
    assert run.summary.drift > 0.4
    np.testing.assert_allclose(np.median(base_tilt(run.trace.q)[-1000:]), 0.349, atol=0.02)


@full
def test_a_trot_up_stairs_that_it_knows():
    """Feet stay away from edges: all standing feet are on treads, and the robot is two steps up after 5 s."""
    gait = {"period": 0.5, "duty": 0.7, "step_height": 0.06}
    reference = {"gait": gait, "path": {"speed": 0.3}}
    run = trot_on_a_slope("go2", 5.0, STAIRS, {"contact": {"terrain": STAIRS}, "reference": reference})
    assert run.summary.upright
    assert run.summary.tracking < 0.006
    assert run.trace.q[-1, 2] - run.trace.q[0, 2] > 0.2


@full
@pytest.mark.parametrize(
    ("robot", "rise", "gait"), [("go2", 0.05, SLOW), ("a1", 0.05, SLOW), ("go2", 0.03, {}), ("solo12", 0.03, {})]
)
def test_a_trot_up_stairs_that_it_does_not_know(robot, rise, gait):
    """Steps of 5 cm with high swings, and of 3 cm with the shipped gait: the feet find the steps."""
    run = trot_on_a_slope(robot, 6.0, {**STAIRS, "rise": rise}, {"reference": gait, "alarms": {"switch_air": 0.12}})
    assert run.summary.upright
    assert run.summary.tracking < 0.01
    assert run.trace.q[-1, 2] - run.trace.q[0, 2] > 3.5 * rise


WEIGHT = 33.34114202 * 9.81


def nothing(*_):
    return None


def loads(trace):
    """Normal forces on the left and the right sole, predicted and simulated [N] (ticks, 2) each."""
    return (np.nansum(force[:, :, 0].reshape(-1, 2, 4), axis=2) for force in (trace.predicted, trace.simulated))


@full
@pytest.mark.parametrize("law", ["no-slip", "coulomb", "cone"])
@pytest.mark.parametrize("engine", [None, "lcp", "mujoco"])
def test_the_humanoid_stands_on_its_soles(engine, law):
    """engine None: the experiment's own, ground that yields. A seed displaces the base and gives the joints small speeds."""
    plan = with_controller(load_plan("stand-g1", 1.5, engine), {"law": law})
    run = run_in_process(plan, law, nothing, seed=1)
    summary = run.summary
    assert summary.upright
    assert summary.tilt < 5e-3
    assert summary.tracking < 1e-3
    assert run.trace.share("ok") > 0.99
    assert len(run.trace.places) == 8
    predicted, simulated = loads(run.trace)
    np.testing.assert_allclose(predicted[-100:].sum(axis=1).mean(), WEIGHT, rtol=0.02)
    np.testing.assert_allclose(simulated[-100:].sum(axis=1).mean(), WEIGHT, rtol=0.02)


@full
@pytest.mark.parametrize(("kind", "amplitude", "axis"), [("sway", 0.02, 1), ("squat", 0.01, 2)])
def test_the_humanoid_sways_over_feet_that_stay(kind, amplitude, axis):
    reference = {"kind": kind, "amplitude": amplitude, "frequency": 0.5}
    run = run_in_process(with_controller(load_plan("stand-g1", 2.0, "mujoco"), {"reference": reference}), kind, nothing)
    assert run.summary.upright
    assert run.summary.tracking < 1e-3
    assert np.ptp(run.trace.q[:, axis]) > 1.5 * amplitude
    predicted, simulated = loads(run.trace)
    share = simulated @ ([0.5, -0.5] if kind == "sway" else [1.0, 1.0])
    assert np.ptp(share[200:]) > (0.2 if kind == "sway" else 0.01) * WEIGHT
    assert np.abs(predicted - simulated).mean() < 0.01 * WEIGHT


@full
@pytest.mark.parametrize("robot", ["g1", "talos"])
def test_a_humanoid_walks_and_stops(robot: str) -> None:
    plan = with_controller(load_plan(f"walk-{robot}", 8.0), {"reference": {"commands": [[4.0, 0.3, 0.0, 0.0]]}})
    run = run_in_process(plan, "walk", nothing)
    assert run.summary.verdict.ending == Ending.WALKED, run.summary.verdict.text
    assert abs(run.trace.q[-1, 0] - 1.2) < 0.2
    assert run.summary.torque_rate < 200.0
    end = run.trace.v[-200:, :3]
    assert np.abs(end).max() < 0.05


@full
def test_bolt_steps_in_place_and_walks_on_point_feet() -> None:
    plan = with_controller(
        load_plan("walk-bolt", 10.0), {"reference": {"commands": [[4.0, 0.0, 0.0, 0.0], [6.0, 0.2, 0.0, 0.0]]}}
    )
    run = run_in_process(plan, "walk", nothing)
    assert run.summary.verdict.ending == Ending.WALKED, run.summary.verdict.text
    assert run.summary.torque_rate < 15.0
    x = run.trace.q[:, 0]
    assert abs(x[1950] - x[0]) < 0.05  # after 3.9 s in place
    assert (x[-1] - x[-1001]) / 2.0 == pytest.approx(0.2, rel=0.15)


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
    s = run.summary
    assert s.upright
    assert s.forward == pytest.approx(speed, rel=0.05)
    assert s.tilt < 0.05
    assert s.tracking < 0.005
    assert s.torque_rate < 35.0
    assert s.force_error_relative < 0.04
    assert s.modes["ok"] > 0.99
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


@pytest.mark.parametrize("law", first_is_fast(["no-slip", "coulomb", "cone"]))
@pytest.mark.parametrize("engine", fast(["no-slip", "lcp", "penalty", "dissipation", "mujoco"], "lcp"))
def test_a_squat_with_closed_legs_has_the_predicted_forces(engine, law):
    """0.4 s of a squat: joints within 1.5 mrad, Σ f_N within 0.5 % of the weight once it stands, legs closed."""
    plan = with_controller(load_plan("squat-fivebar", 0.4, engine), {"law": law})
    run = run_in_process(plan, law, lambda *_: None)
    assert run.summary.upright
    assert run.summary.modes == {"ok": 1.0}
    assert run.summary.tracking < 1.5e-3
    predicted, simulated = (np.nan_to_num(each[100:, :, 0]).sum(axis=1) for each in (run.trace.predicted, run.trace.simulated))
    assert simulated.mean() == pytest.approx(50.23, rel=0.02)
    assert np.abs(predicted - simulated).mean() < 5e-3 * 50.23
