"""Robots moved by the engine `sap`: they trot, also with infinite friction, and swing alike under every scheme."""

import msgspec
import numpy as np
import pytest
from fast import first_is_fast, full

from controllers.config.loading import load
from idyn.contact.terrain import Flat
from sim_harness.engines.sap import SCHEMES, Sap
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, with_controller
from sim_harness.world.bodies import JointFriction
from sim_harness.world.worlds import build_world

DT = 1e-3


@full
@pytest.mark.parametrize(("candidates", "mu"), [("touching", 0.8), ("touching", np.inf), ("near", 0.8)])
def test_robots_trot_in_the_sap_world(candidates, mu):
    settings = load("experiments", "trot-quadruped", ExperimentSettings)
    engine = Sap(candidates=candidates)
    settings = msgspec.structs.replace(settings, duration=3.0, engine=engine, mu=mu)
    summary = run_in_process(with_controller(build_plan(settings), {"law": "coulomb"}), "coulomb", lambda *_: None).summary
    assert summary.upright
    assert summary.tilt < 0.05
    assert summary.modes["ok"] > 0.99


def swung(make_world, scheme, dt, viscous=0.0):
    """The quadruped in the air, its legs driven by steady torques: angles after 50 ms."""
    world = make_world("sap", scheme=scheme)
    names = world.robot.joint_names
    friction = JointFriction.of(world.robot, dict.fromkeys(names, viscous), dict.fromkeys(names, 0.0)) if viscous else None
    world = build_world(world.engine, world.robot, Flat(), world.q + np.r_[0, 0, 1.0, np.zeros(16)], friction=friction)
    torque = 0.1 * np.sin(np.arange(12.0))
    for _ in range(round(0.05 / dt)):
        assert world.step(torque, dt).status.ok
    return world.robot.joint_angles(world.q)


@full
@pytest.mark.parametrize("viscous", [0.0, 0.01])
def test_all_schemes_converge_to_the_same_leg_swing(make_world, viscous):
    exact = swung(make_world, "midpoint", 1.25e-4, viscous)
    for scheme in SCHEMES:
        coarse, fine = (np.abs(swung(make_world, scheme, dt, viscous) - exact).max() for dt in (2e-3, 1e-3))
        assert coarse < 0.05
        order = np.log2(coarse / fine)
        expected = 2 if scheme == "midpoint" and not viscous else 1
        assert order == pytest.approx(expected, abs=0.2)


@full
@pytest.mark.parametrize(("scheme", "order", "most"), first_is_fast([("symplectic", 1, 0.03), ("midpoint", 2, 1e-4)]))
def test_a_spinning_block_flies_straight_up_to_the_schemes_error(make_block, scheme, order, most):
    """1 m/s and 10 rad/s for a second; velocities are in body axes, which turn meanwhile."""
    errors = []
    for dt in (DT, DT / 2):
        world = make_block("sap", scheme=scheme)
        world.reset(world.q + np.r_[0, 0, 50.0, np.zeros(4)], np.array([1.0, 0, 0, 0, 0, 10.0]))
        for _ in range(round(1 / dt)):
            world.step(np.zeros(0), dt)
        errors.append(np.hypot(world.q[0] - 1.0, world.q[1]))
    assert errors[0] < most
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)
