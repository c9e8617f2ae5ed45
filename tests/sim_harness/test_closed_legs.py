"""A quadruped with closed chains as legs, in worlds that close them with their own code."""

import numpy as np
import pytest
from fast import fast, first_is_fast

from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller


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
