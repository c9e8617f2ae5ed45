"""`sap` against Drake's SAP: the same kinematics, two solvers, velocities to 1e-6 all the way.

Drake's contacts are those that touch, its relaxation time is τ_d. Its w is ‖W_ii‖_F / 3 as the paper has it, but of
J diag(M)⁻¹ Jᵀ: the same for cubes, for the quadruped's feet 1.29 times ours. It stands in R_t = σ w alone here, R_n being that
of the springs, so σ makes up for it and the engine needs no second w. What is left is Drake's tolerance, an e_m of 1e-6.
"""

import statistics
import time

import msgspec
import numpy as np
import pytest
from fast import full

from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from sim_harness.engines.sap import Sap
from sim_harness.world.worlds import build_world

pytest.importorskip("pydrake", reason="the package drake is not installed")
from drake_worlds import cubes, standing

pytestmark = [pytest.mark.drake, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

CLOSE = 1e-6
"""Largest difference of a velocity [m/s, rad/s]."""


def with_drakes_w(engine, problem):
    """The engine with σ w as Drake has it, the same for all contacts of the problem to 2 %."""
    shares = []
    for J in problem.J.reshape(-1, 3, len(problem.v)):
        theirs, ours = J @ (J / np.diag(problem.M)).T, J @ np.linalg.solve(problem.M, J.T)
        shares.append(np.linalg.norm(theirs) / np.linalg.norm(ours))
    if not shares:
        return engine
    assert np.ptp(shares) < 0.02
    return msgspec.structs.replace(engine, sigma=engine.sigma * float(np.mean(shares)))


def differences(theirs, ours, engine, steps, force=lambda world: None):
    """Of all velocities after each step, and the engine's iterations."""
    theirs.begin()
    worst, iterations = [], []
    for _ in range(steps):
        theirs.step(force(theirs))
        iterations.append(ours.step_with(with_drakes_w(engine, ours.problem()), force(ours)).iterations)
        worst.append(np.abs(theirs.v - ours.v).max())
    return np.array(worst), iterations


@full
@pytest.mark.parametrize("speed", [0.1, 1.0])
def test_a_sliding_cube_matches_drake(speed):
    """A cube of 1 kg on four balls comes to rest from a speed, and rocks meanwhile."""
    engine = Sap(stiffness=1e3, dissipation=1e-3, tolerance=1e-10)
    worlds = [cubes(1, 1e3, 1e-3, 0.5) for _ in range(2)]
    for world in worlds:
        world.plant.SetVelocities(world.context, np.array([0.0, 0.0, 0.0, speed, 0.0, 0.0]))
    worst, iterations = differences(*worlds, engine, 1000)
    assert worst.max() < CLOSE
    assert max(iterations) > 1
    assert abs(worlds[0].v[3]) < 0.1 * speed


@full
def test_a_pushed_stack_matches_drake():
    """Three cubes, each 10 mm beside the one below, that are pushed from below."""
    worlds = [cubes(3, 1e4, 5e-3, 0.5) for _ in range(2)]
    for world in worlds:
        v = np.zeros(18)
        v[3] = 0.1
        world.plant.SetVelocities(world.context, v)
    worst, _ = differences(*worlds, Sap(stiffness=1e4, dissipation=5e-3, tolerance=1e-10), 1000)
    assert worst.max() < CLOSE


@full
def test_a_standing_quadruped_matches_drake():
    """The quadruped let go 1 mm above the ground, with springs and dampers in its joints."""
    robot, q = load_robot("quadruped")
    q = q + np.r_[0, 0, 1e-3, np.zeros(len(q) - 3)]
    worlds = [standing(robot, q, 1e4, 5e-3, 0.8) for _ in range(2)]
    rest = worlds[0].plant.GetPositions(worlds[0].context)[7:].copy()

    def hold(world):
        angles, speeds = world.plant.GetPositions(world.context)[7:], world.v[6:]
        return np.r_[np.zeros(6), -20.0 * (angles - rest) - 0.1 * speeds]

    worst, _ = differences(*worlds, Sap(stiffness=1e4, dissipation=5e-3, tolerance=1e-10), 1000, hold)
    assert worst.max() < CLOSE
    assert len(worlds[0].problem().mu) == 4


@pytest.mark.bench
def test_step_time_beside_drake():
    """Medians of 2000 steps of the quadruped's stance, whole steps of both worlds in one process."""
    robot, q = load_robot("quadruped")
    drake = standing(robot, q, 1e4, 5e-3, 0.8)
    ours = build_world(Sap(stiffness=1e4, dissipation=5e-3), robot, Flat(), q)
    rest = drake.plant.GetPositions(drake.context)[7:].copy()
    drake.begin()
    times = {"drake": [], "ours": []}
    for _ in range(2000):
        angles, speeds = drake.plant.GetPositions(drake.context)[7:], drake.v[6:]
        force = np.r_[np.zeros(6), -20.0 * (angles - rest) - 0.1 * speeds]
        begin = time.perf_counter()
        drake.step(force)
        times["drake"].append(time.perf_counter() - begin)
        tau = -20.0 * (robot.joint_angles(ours.q) - robot.joint_angles(q)) - 0.1 * ours.v[robot.tree.a]
        begin = time.perf_counter()
        ours.step(tau, 1e-3)
        times["ours"].append(time.perf_counter() - begin)
    median = {name: 1e6 * statistics.median(each) for name, each in times.items()}
    print("\nstep of the quadruped's stance, median [µs]:", *(f"{name} {value:.0f}" for name, value in median.items()))
    assert len(ours.contacts) == 4
