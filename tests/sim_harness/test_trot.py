"""Robots that trot in the simulated world, served in process."""

import msgspec
import numpy as np
import pytest
from fast import first_is_fast, full

from controllers.build import build_controller
from controllers.command import Inputs
from controllers.config.loading import load
from controllers.robot.kinematics import contact_places
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from sim_harness.measure.fall import base_tilt
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, load_plan, with_controller
from sim_harness.world.worlds import ENGINES, build_world

DT = 1e-3
LOW, HIGH = 0.1, 100.0
TO_THE_LETTER = {
    "selection": "torque",
    "ground": {"kind": "rigid", "gap_noise": 0.0},
    "contact": {"source": "fused"},
    "torque_feedback": {"kp": 0.0, "kd": 0.0},
}
"""What makes of a shipped trot one by the laws to the letter, for the rigid world that they are exact in."""


def trot(experiment, law, seconds, mu=None, **reference):
    settings = load("experiments", experiment, ExperimentSettings)
    settings = msgspec.structs.replace(settings, duration=seconds, mu=settings.mu if mu is None else mu)
    plan = with_controller(build_plan(settings), {"law": law, "reference": reference})
    return run_in_process(plan, law, lambda label, ticks: None)


def trot_to_the_letter(robot, seconds):
    """Trot of any robot with its own gait and gains, in the rigid world."""
    settings = load("experiments", f"trot-{robot}", ExperimentSettings)
    settings = msgspec.structs.replace(settings, duration=seconds, engine=ENGINES["lcp"](), contacts="geometry")
    return run_in_process(with_controller(build_plan(settings), TO_THE_LETTER), "coulomb", lambda label, ticks: None)


def is_a_good_trot(run):
    """The world is the law's own: forces come as predicted."""
    s = run.summary
    assert s.upright
    assert s.tilt < 0.05
    assert s.modes["ok"] > 0.999
    assert s.tracking < 0.004
    assert s.force_error_relative < 0.01
    return True


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
    assert is_a_good_trot(run)
    x = run.trace.q[:, 0]
    assert 0.18 < (x[1300] - x[1000]) / 0.3 < 0.23
    lifted = np.isnan(run.trace.predicted[400:, :, 0]).mean(axis=0)
    np.testing.assert_allclose(lifted, 0.25, atol=0.06)


@full
def test_the_quadruped_walks_one_foot_at_a_time():
    gait = {"pattern": "walk", "period": 0.4, "duty": 0.8}
    run = trot("trot", "coulomb", 2.0, 0.8, gait=gait, path={"waypoints": [], "velocity": [0.08, 0.0, 0.0]})
    assert is_a_good_trot(run)
    assert 0.12 < run.trace.q[-1, 0] < 0.15
    robot, _ = load_robot("quadruped")
    lifted = np.array([contact_places(robot, q)[:, 2] > robot.spheres.radii + 0.002 for q in run.trace.q])
    assert lifted.sum(axis=1).max() == 1
    assert (lifted.mean(axis=0) > 0.1).all()


@full
@pytest.mark.parametrize("robot", ["solo12", "go2", "a1"])
def test_other_robots_trot_with_their_configuration(robot):
    run = trot_to_the_letter(robot, 1.5)
    assert is_a_good_trot(run)
    assert run.trace.q[-1, 0] > 0.1


@full
@pytest.mark.parametrize("robot", first_is_fast(["quadruped", "solo12", "go2", "a1"]))
def test_shipped_robots_trot_on_yielding_ground(robot):
    run = trot(f"trot-{robot}", "coulomb", 1.5)
    assert is_a_good_trot_on_yielding_ground(run)
    assert run.trace.q[-1, 0] > 0.1


@full
@pytest.mark.parametrize("law", first_is_fast(["coulomb", "cone"]))
def test_a_server_that_misses_ticks_does_not_let_the_robot_fall(law):
    """Ten times a second five answers are missing, and the last torque acts on."""
    tau = np.zeros(12)
    plan = with_controller(load_plan("trot"), {"law": law, "contact": {"mu": 0.8}})
    controller = build_controller(plan.controller)
    robot, stance = load_robot("quadruped")
    world = build_world(ENGINES["lcp"](), robot, Flat(), stance, mu=np.full(4, 0.8))
    rng, ticks, last = np.random.default_rng(0), 2000, -1
    missing = np.concatenate([start + np.arange(5) for start in rng.integers(500, ticks, 15)])
    for tick in sorted(set(range(ticks)) - set(missing.tolist())):
        for _ in range(tick - last - 1):
            world.step(tau, DT)
        dt, last = DT * (tick - last) if tick else 0.0, tick
        tau = controller.step(world.state, controller.contacts(world.q), Inputs(dt=dt)).tau
        world.step(tau, DT)
    assert base_tilt(world.q[None])[0] < 0.1
    assert world.q[2] > 0.14


@pytest.mark.long
@pytest.mark.parametrize(
    ("law", "mu"), [("coulomb", LOW), *((law, np.inf) for law in ("no-slip", "coulomb", "cone", "cone-infinite"))]
)
def test_the_quadruped_trots_between_waypoints(law, mu):
    """The paper's task: 30 s [ZD §7.6]. Waypoints are reached in their order."""
    run = trot("trot", law, 30.0, mu)
    assert is_a_good_trot(run)
    plane = run.trace.q[:, :2]
    since = 0
    for point in ((0.25, 0.0), (0.0, 0.25), (0.0, -0.25), (-0.25, 0.0)):
        near = np.flatnonzero(np.hypot(*(plane[since:] - np.array(point)).T) < 0.03)
        assert len(near), point
        since += near[0]


@pytest.mark.long
@pytest.mark.parametrize("robot", ["solo12", "go2", "a1"])
def test_other_robots_trot_two_metres_and_stop(robot):
    run = trot_to_the_letter(robot, 12.0)
    assert is_a_good_trot(run)
    stands_after_two_metres(run)


@pytest.mark.long
@pytest.mark.parametrize("law", ["coulomb", "cone"])
@pytest.mark.parametrize("robot", ["solo12", "go2", "a1"])
def test_shipped_robots_trot_two_metres_on_yielding_ground_and_stop(robot, law):
    run = trot(f"trot-{robot}", law, 12.0)
    assert is_a_good_trot_on_yielding_ground(run)
    stands_after_two_metres(run)


def stands_after_two_metres(run):
    assert abs(run.trace.q[-1, 0] - 2.0) < 0.05
    assert abs(run.trace.q[-1, 1]) < 0.05
    assert np.abs(run.trace.v[-1]).max() < 1e-3
