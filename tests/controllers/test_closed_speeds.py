"""Measured speeds that would open a closed chain."""

import msgspec
import numpy as np
import pytest

from controllers.build import load_controller
from controllers.command import Inputs
from controllers.robot.stance import closing
from idyn.types import State


@pytest.fixture(scope="module")
def controller():
    return load_controller("fivebar")


@pytest.fixture
def measured(controller):
    """State in which all joints but the passive ones have a random speed [rad/s]."""
    robot, v = controller.robot, np.zeros(controller.robot.nv)
    v[robot.tree.a] = np.random.default_rng(5).normal(0.0, 0.05, robot.na)
    v[:6] = 0.01, -0.02, 0.03, 0.04, 0.05, -0.06
    return State(q=controller.stance, v=v)


def test_only_passive_joints_change_and_chains_stay_closed(controller, measured):
    robot = controller.robot
    v = closing(robot, measured.q, measured.v)
    moving = np.zeros(robot.nv, dtype=np.bool_)
    moving[robot.tree.u[6:]] = True
    np.testing.assert_array_equal(v[~moving], measured.v[~moving])
    e = 1e-6
    ahead, _ = robot.closure_gaps(robot.integrate(measured.q, e * v))
    behind, _ = robot.closure_gaps(robot.integrate(measured.q, -e * v))
    assert np.abs(ahead - behind).max() / (2 * e) < 1e-7
    np.testing.assert_allclose(closing(robot, measured.q, v), v, atol=1e-12)


def test_speeds_that_open_a_chain_do_not_change_the_torque(controller, measured):
    """The torque is that of the closed state, though the passive joints were measured at rest."""
    robot = controller.robot
    contacts = controller.contacts(measured, robot.contact_names)

    def torque(state):
        controller.reset()
        return controller.step(state, contacts, Inputs(dt=1e-3)).tau

    consistent = msgspec.structs.replace(measured, v=closing(robot, measured.q, measured.v))
    np.testing.assert_allclose(torque(measured), torque(consistent), atol=1e-9)
