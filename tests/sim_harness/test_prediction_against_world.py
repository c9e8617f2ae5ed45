"""The predicted torque, applied in the world, gives the predicted motion. The world assembles and solves its own problem in all
degrees of freedom: `lcp` shares only the Lemke kernel with the Coulomb law, `newton` shares nothing with the exact cone.

The world's step is the period and its law is at J v⁺, so the prediction leaves out the drift here. `test_moving.py` judges it.
"""

import numpy as np
import pytest
from fast import first_is_fast

from controllers.robot.load import load_robot
from idyn.contact.ground import Ground
from idyn.laws import make_law
from idyn.options import Options
from idyn.prediction.predict import predict
from sim_harness.engines.lcp import PolygonLcp

DT = 1e-3
RECOVERY = PolygonLcp().recovery
OPTIONS = Options.paper(ground=Ground.rigid(noise=0.0, recovery_speed=RECOVERY, drift=False))


def knock(world, rng, k):
    robot = world.robot
    world.reset(world.q, np.zeros(robot.nv))
    q = robot.integrate(world.q, 0.1 * (k % 3 > 0) * rng.normal(size=robot.nv))
    world.reset(q)
    q[2] -= min(world.contacts.gaps, default=0.0) + 0.001 * (k % 2)
    world.reset(q, 0.3 * (k % 4) * rng.normal(size=robot.nv))


@pytest.mark.parametrize(("law", "engine"), first_is_fast([("coulomb", "lcp"), ("exact-cone", "newton")]))
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_predicted_motion_and_forces_match_the_world(make_world, name, law, engine):
    """Where the law itself answered, joint velocities and the sum of the normal forces agree."""
    law = make_law(law)
    robot, _ = load_robot(name)
    rng = np.random.default_rng(8)
    worst_velocity = worst_force = 0.0
    tested = 0
    for k in range(120):
        world = make_world(engine, name=name)
        knock(world, rng, k)
        demand = 20 * rng.normal(size=robot.na)
        prediction = predict(robot, world.state, world.contacts, demand, law=law, dt=DT, options=OPTIONS)
        if prediction.law != law.name or prediction.demand_change > 0:
            continue
        tested += 1
        result = world.step(prediction.tau, DT)
        assert result.status.ok
        worst_velocity = max(worst_velocity, np.abs(world.v - prediction.v_plus).max())
        total = max(prediction.normal_force.sum(), 1.0)
        worst_force = max(worst_force, abs(result.normal_force.sum() - prediction.normal_force.sum()) / total)
    assert tested > 100
    assert worst_velocity < 1e-10
    assert worst_force < 1e-10
