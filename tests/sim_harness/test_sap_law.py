"""The law `sap` in the world `sap`, whose step is the period: over the unactuated and over all degrees of freedom, by separate
code, one answer."""

import numpy as np
from fast import every

from controllers.robot.load import load_robot
from idyn.contact.ground import Ground
from idyn.contact.terrain import Flat
from idyn.laws.settings import SapSettings
from idyn.options import Options
from idyn.prediction.predict import predict
from sim_harness.engines.sap import Sap
from sim_harness.world.worlds import build_world

DT = 1e-3
GROUNDS = {
    "shipped": {},
    "soft": {"stiffness": 2e3, "dissipation": 0.05},
    "rigid": {"stiffness": np.inf, "dissipation": DT},
    "creeping": {"sigma": 0.1, "beta": 3.0},
    "near": {"candidates": "near", "dissipation": 0.02},
}


@every("ground", GROUNDS)
@every("name", ["solo12", "quadruped", "go2"])
def test_random_motion_has_the_predicted_forces(name, ground):
    """50 steps of random demands from a drop on, each torque applied in the world: forces to 1e-9 of the largest, velocities
    to 1e-9."""
    robot, stance = load_robot(name)
    rng = np.random.default_rng(0)
    world = build_world(Sap(tolerance=1e-12, **GROUNDS[ground]), robot, Flat(), stance)
    world.reset(stance, 0.1 * rng.normal(size=robot.nv))
    law = SapSettings(**GROUNDS[ground], drift=False).build()
    options, pressed = Options.paper(ground=Ground.rigid(noise=0.0)), 0
    for _ in range(50):
        demand = rng.normal(scale=20.0, size=robot.na)
        answer = predict(robot, world.state, world.contacts, demand, law=law, dt=DT, options=options)
        assert answer.law == "sap"
        assert answer.status.ok
        result = world.step(answer.tau, DT)
        assert result.status.ok
        largest = np.abs(result.force).max(initial=1.0)
        np.testing.assert_allclose(answer.normal_force, result.normal_force, atol=1e-9 * largest)
        np.testing.assert_allclose(answer.impulse, result.impulse, atol=1e-9 * DT * largest)
        np.testing.assert_allclose(answer.v_plus, world.v, atol=1e-9)
        pressed += (result.normal_force > 0.1).sum()
    assert pressed > 20
