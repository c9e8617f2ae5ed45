"""A humanoid on two flat feet stands and sways in our worlds and in MuJoCo with the predicted forces."""

import numpy as np
import pytest
from fast import first_is_fast, full

from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller

WEIGHT = 33.34114202 * 9.81


def nothing(*_):
    return None


def loads(trace):
    """Normal forces on the left and the right sole, predicted and simulated [N] (ticks, 2) each."""
    return (np.nansum(force[:, :, 0].reshape(-1, 2, 4), axis=2) for force in (trace.predicted, trace.simulated))


@full
@pytest.mark.parametrize("law", first_is_fast(["no-slip", "coulomb", "cone"]))
@pytest.mark.parametrize("engine", first_is_fast([None, "lcp", "mujoco"]))
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
