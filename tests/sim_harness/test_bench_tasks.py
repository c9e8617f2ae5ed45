"""Benchmarks of ticks of tasks: which ticks they measure. Times are not judged."""

import numpy as np
import pytest
from fast import full

from controllers.robot.load import load_robot
from sim_harness.studies import bench_tasks as tasks


@full
@pytest.mark.parametrize(("name", "count", "runs"), [("quadruped", 4, 3), ("g1", 6, 2)])
def test_shares_of_each_run_are_those_of_all_its_ticks(monkeypatch, name, count, runs):
    monkeypatch.setattr(tasks, "TURNS", 1)
    monkeypatch.setattr(tasks, "TROT", slice(600, 700))
    robot, stance = load_robot(name)
    assert len(tasks.standing_tasks(robot, stance, tasks.HANDS.get(name, ()), 0.0).tasks) == count
    found = tasks.bench_tasks(name)
    assert sum(each["share"] for each in found.values()) == pytest.approx(runs)
    assert all(np.isfinite(list(each.values())).all() for each in found.values())
    assert any(kind.endswith("several predictions") for kind in found)  # pushed on slippery ground
