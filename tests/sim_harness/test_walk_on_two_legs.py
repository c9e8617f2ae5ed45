"""Robots on two legs in MuJoCo."""

import numpy as np
import pytest
from fast import full

from sim_harness.measure.verdict import Ending
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller


def nothing(label: str, ticks: int) -> None:
    pass


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
