"""A humanoid on two legs in MuJoCo."""

import numpy as np
from fast import full

from sim_harness.measure.verdict import Ending
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller


def nothing(label: str, ticks: int) -> None:
    pass


@full
def test_g1_walks_and_stops() -> None:
    plan = with_controller(load_plan("walk-g1", 8.0), {"reference": {"commands": [[4.0, 0.3, 0.0, 0.0]]}})
    run = run_in_process(plan, "walk", nothing)
    assert run.summary.verdict.ending == Ending.WALKED, run.summary.verdict.text
    assert abs(run.trace.q[-1, 0] - 1.2) < 0.2
    assert run.summary.torque_rate < 200.0
    end = run.trace.v[-200:, :3]
    assert np.abs(end).max() < 0.05
