"""`sap` beside the engines that it should agree with: `penalty` as the step gets small, `lcp` where both are near rigid."""

import numpy as np
import pytest
from fast import first_is_fast, full

from sim_harness.world.world import Push

WEIGHT = 2.0 * 9.81
SMALL = 1e-4
"""[s]"""


def compliant(make_block, engine, stiffness, dissipation, mu=0.5):
    """The block on the same springs and dampers under either engine."""
    if engine == "penalty":
        return make_block("penalty", mu=mu, kp=stiffness, kv=stiffness * dissipation, slip_speed=1e-4)
    return make_block("sap", mu=mu, stiffness=stiffness, dissipation=dissipation)


@full
@pytest.mark.parametrize("dissipation", first_is_fast([1e-3, 1e-2]))
def test_sap_and_penalty_agree_on_a_landing(make_block, dissipation):
    """A drop from 10 mm: the forces of the first 0.2 s, bounces and all, to 2 % of the largest."""
    forces = {}
    for engine in ("sap", "penalty"):
        world = compliant(make_block, engine, 5e3, dissipation)
        world.reset(world.q + np.array([0, 0, 0.01, 0, 0, 0, 0]))
        forces[engine] = np.array([world.step(np.zeros(0), SMALL).normal_force.sum() for _ in range(2000)])
    peak = forces["penalty"].max()
    assert peak > 3 * WEIGHT
    touching = (forces["sap"] > 0) & (forces["penalty"] > 0)
    assert np.count_nonzero((forces["sap"] > 0) != (forces["penalty"] > 0)) < 10
    assert np.abs(forces["sap"] - forces["penalty"])[touching].max() < 0.02 * peak


@full
def test_sap_and_penalty_agree_on_a_slide(make_block):
    """1 m/s to rest: way, and the load of the feet while it slides, to 2 %."""
    way, load = {}, {}
    for engine in ("sap", "penalty"):
        world = compliant(make_block, engine, 2e4, 2e-4)
        q = world.q.copy()
        q[2] -= WEIGHT / 4 / 2e4
        world.reset(q, np.array([1.0, 0, 0, 0, 0, 0]))
        forces = np.array([world.step(np.zeros(0), SMALL).normal_force for _ in range(3000)])
        assert abs(world.v[0]) < 1e-3
        way[engine], load[engine] = world.q[0], forces[500:1500].mean(axis=0)
    assert way["sap"] == pytest.approx(way["penalty"], rel=0.02)
    assert way["sap"] == pytest.approx(1.0 / (2 * 0.5 * 9.81), rel=0.02)
    np.testing.assert_allclose(load["sap"], load["penalty"], rtol=0.02)


def slip_onset(world):
    """The force along x, raised slowly at the height of the ground, at which the block leaves [N]."""
    for force in np.linspace(0.8, 1.2, 401) * 0.5 * WEIGHT:
        push = Push(frame="block", force=(force, 0.0, 0.0), point=(0.0, 0.0, -0.05))
        for _ in range(5):
            assert world.step(np.zeros(0), 1e-3, [push]).status.ok
        if world.v[0] > 1e-3:
            return force
    raise AssertionError("it never slips")


def test_sap_near_rigid_and_lcp_slip_at_the_same_force(make_block):
    rigid = slip_onset(make_block("lcp", edges=16))
    near_rigid = slip_onset(make_block("sap", stiffness=np.inf, dissipation=1e-3))
    assert near_rigid == pytest.approx(rigid, rel=0.01)
    assert near_rigid == pytest.approx(0.5 * WEIGHT, rel=0.01)
