"""The law `sap` on a floor of springs and dampers in MuJoCo, beside the rigid law with T_r and T_p."""

import numpy as np
import pytest
from fast import full

from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller


@pytest.fixture(scope="module")
def runs():
    plan = load_plan("sway-springs", 1.5)
    return [
        run_in_process(with_controller(plan, {"law": law}), str(i), lambda *_: None) for i, law in enumerate(plan.settings.laws)
    ]


@full
def test_with_the_floors_parameters_sap_predicts_forces_within_one_per_cent(runs):
    """Every component of every foot's force in 99 of 100 ticks, relative to a fourth of the weight; the sum to 0.2 % in all but
    1 %. The rigid law with T_r, T_p predicts the sum as well and the single forces not."""
    weight = 4.8 * 9.81  # [N]
    for run, springs in zip(runs, (False, True), strict=True):
        predicted, simulated = np.nan_to_num(run.trace.predicted[50:]), np.nan_to_num(run.trace.simulated[50:])
        assert run.summary.upright
        assert run.summary.tilt < 5e-3
        total = np.abs((predicted - simulated)[:, :, 0].sum(axis=1)) / weight
        each = np.abs(predicted - simulated).max(axis=(1, 2)) / weight
        assert np.percentile(total, 99) < 2e-3
        if springs:
            assert np.percentile(each, 99) < 1e-2
            assert run.summary.modes == {"ok": 1.0}
