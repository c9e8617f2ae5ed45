"""A humanoid on two flat feet: it stands and sways in our worlds and in MuJoCo, and its forces are those that were forecast."""

import numpy as np
import pytest

from sim_harness.experiment import run_in_process
from sim_harness.plan import load_plan, with_controller

WEIGHT = 33.34114202 * 9.81


def nothing(*_):
    return None


def loads(trace):
    """Normal forces on the left and the right sole, predicted and simulated [N] (ticks, 2) each."""
    return (np.nansum(force[:, :, 0].reshape(-1, 2, 4), axis=2) for force in (trace.predicted, trace.simulated))


@pytest.mark.parametrize("law", ["no-slip", "coulomb", "cone"])
@pytest.mark.parametrize("engine", [None, "lcp", "mujoco"])
def test_it_stands_on_its_soles(engine, law):
    """None: the experiment's own, ground that yields. A seed displaces the base and gives the joints small speeds."""
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


def test_it_sways_over_feet_that_stay():
    plan = with_controller(
        load_plan("stand-g1", 2.0, "mujoco"), {"reference": {"kind": "sway", "amplitude": 0.02, "frequency": 0.5}}
    )
    run = run_in_process(plan, "coulomb", nothing)
    assert run.summary.upright
    assert np.ptp(run.trace.q[:, 1]) > 0.03
    assert run.summary.tracking < 1e-3
    predicted, simulated = loads(run.trace)
    assert np.ptp(simulated[:, 0]) > 0.2 * WEIGHT
    assert np.abs(predicted - simulated).mean() < 0.01 * WEIGHT
