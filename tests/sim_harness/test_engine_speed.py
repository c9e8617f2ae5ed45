"""Speed of each engine relative to real time for a quadruped on four feet at 1 kHz on one core: `pytest -m bench -s`."""

import time

import numpy as np
import pytest
from conftest import Stand

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from sim_harness.report.tables import text_table
from sim_harness.world.worlds import NAMES, AnyEngine, build_world

DT, STEPS, SWAY = 1e-3, 2000, 0.01


@pytest.mark.bench
def test_each_engine_against_real_time():
    """The stance swayed by its joints; whole steps, dynamics and contacts included, best of three rounds."""
    rows = [["engine", "× real time", "µs per step", "iterations per step", "solved %"]]
    for name in NAMES:
        robot, q = load_robot("quadruped")
        world = build_world(parse(name, AnyEngine, "engine"), robot, Flat(), q)
        stand = Stand(world)
        angles, spent, iterations, solved = stand.angles.copy(), [], [], []
        for _ in range(3):
            world.reset(q)
            total = 0.0
            for k in range(STEPS):
                stand.angles = angles + SWAY * np.sin(2e-3 * np.pi * k)
                tau = stand.torque()
                begin = time.perf_counter()
                result = world.step(tau, DT)
                total += time.perf_counter() - begin
                iterations.append(result.iterations)
                solved.append(result.status.ok)
            spent.append(total / STEPS)
        figures = DT / min(spent), 1e6 * min(spent), np.mean(iterations), 100 * np.mean(solved)
        rows.append([name, *(f"{x:.1f}" for x in figures)])
    print("\n" + text_table(rows))
