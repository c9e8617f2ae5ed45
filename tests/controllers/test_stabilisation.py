"""VIIP: virtual forces that only push, compared with forces and lever arms computed by hand."""

import numpy as np
import pytest
from fast import every
from rigs import controller

from controllers.command import Inputs, Reference
from controllers.feedback.stabilisation import Stabilisation, StabilisationSettings
from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.types import State

STILL = np.zeros(3)


@pytest.fixture(scope="module")
def robot_and_stance():
    return load_robot("quadruped")


def torque(robot, q, v=None, velocity=STILL, height=0.161853, **settings):
    state = State(q=q, v=np.zeros(robot.nv) if v is None else v)
    contacts = contacts_from_geometry(robot, q, Flat(), margin=1.0)
    return Stabilisation(StabilisationSettings(**settings), robot, height).torque(
        robot.kinematics(state), contacts, velocity
    ), contacts


def joint_torque_of_pushes(robot, q, contacts, forces):
    """−Jᵀ f by differences of the contact points' heights: what joints exert that push the ground with `forces` [N] (n)."""
    e = 1e-7
    tau = np.zeros(robot.na)
    rotations, origins = (part.copy() for part in robot.place(q))
    local = [rotations[b].T @ (p - origins[b]) for b, p in zip(contacts.bodies, contacts.points, strict=True)]
    for k in range(robot.na):
        heights = []
        for sign in (-1, 1):
            step = np.zeros(robot.nv)
            step[robot.tree.a[k]] = sign * e
            rotations, origins = robot.place(robot.integrate(q, step))
            heights.append([(origins[b] + rotations[b] @ x)[2] for b, x in zip(contacts.bodies, local, strict=True)])
        tau[k] = -np.dot((np.array(heights[1]) - heights[0]) / (2 * e), forces)
    return tau


def tilted(q, roll):
    q = q.copy()
    q[3:7] = np.sin(roll / 2), 0.0, 0.0, np.cos(roll / 2)
    return q


def test_a_base_too_low_is_pushed_up_by_all_feet_alike(robot_and_stance):
    robot, q = robot_and_stance
    tau, contacts = torque(robot, q, kp=(0, 0, 100.0, 0, 0, 0), height=q[2] + 0.01)
    np.testing.assert_allclose(tau, joint_torque_of_pushes(robot, q, contacts, np.ones(4)), atol=1e-6)
    assert np.abs(tau).max() > 0.01


def test_a_base_too_high_is_not_pulled_down(robot_and_stance):
    robot, q = robot_and_stance
    tau, _ = torque(robot, q, kp=(0, 0, 100.0, 0, 0, 0), height=q[2] - 0.01)
    assert not tau.any()


def test_only_the_lower_side_pushes(robot_and_stance):
    """Rolled to the right (roll > 0 lifts the left): the right feet push with k · roll · lever each, the left ones not."""
    robot, q = robot_and_stance
    roll = 0.05
    q = tilted(q, roll)
    tau, contacts = torque(robot, q, kp=(0, 0, 0, 20.0, 0, 0))
    c, s = np.cos(roll), np.sin(roll)
    levers = (contacts.points - q[:3]) @ np.array([0.0, c, s])  # along the base's y axis
    pushes = np.maximum(0.0, 20.0 * roll * -1.0 * (levers * c - ((contacts.points - q[:3]) @ np.array([0.0, -s, c])) * s))
    assert (pushes > 0).sum() == 2
    np.testing.assert_allclose(tau, joint_torque_of_pushes(robot, q, contacts, pushes), atol=1e-6)


def test_velocity_gains_brake_a_fall(robot_and_stance):
    robot, q = robot_and_stance
    v = np.zeros(robot.nv)
    v[2] = -0.1
    tau, contacts = torque(robot, q, v, kv=(0, 0, 30.0, 0, 0, 0))
    np.testing.assert_allclose(tau, joint_torque_of_pushes(robot, q, contacts, np.full(4, 3.0)), atol=1e-6)
    v[2] = 0.1
    assert not torque(robot, q, v, kv=(0, 0, 30.0, 0, 0, 0))[0].any()


def test_the_literal_variant_keeps_positive_tangential_forces(robot_and_stance):
    """For a forward velocity error feet on level ground have no normal part: the force is zero, or, literally, forward
    friction."""
    robot, q = robot_and_stance
    gains = {"kv": (10.0, 0.0, 0.0, 0.0, 0.0, 0.0)}
    forwards, backwards = np.array([0.2, 0.0, 0.0]), np.array([-0.2, 0.0, 0.0])
    np.testing.assert_allclose(torque(robot, q, velocity=forwards, **gains)[0], 0, atol=1e-9)
    assert np.abs(torque(robot, q, velocity=forwards, literal=True, **gains)[0]).max() > 0.1
    np.testing.assert_allclose(torque(robot, q, velocity=backwards, literal=True, **gains)[0], 0, atol=1e-9)


def test_without_contacts_stabilisation_is_zero(robot_and_stance):
    robot, q = robot_and_stance
    nothing = contacts_from_geometry(robot, q, Flat(-1.0), margin=0.01)
    stabilisation = Stabilisation(StabilisationSettings(kp=(0, 0, 100.0, 0, 0, 0)), robot, 1.0)
    assert not stabilisation.torque(robot.terms(q, np.zeros(robot.nv)), nothing, STILL).any()


def test_stabilisation_is_part_of_the_feedback_torque():
    c = controller("quadruped", stabilisation__kp=(0.0, 0.0, 0.0, 200.0, 200.0, 0.0))
    q = tilted(c.stance, 0.001)
    command = c.step(State(q=q, v=np.zeros(c.robot.nv)), c.contacts(q), Inputs(dt=0.0))
    assert np.abs(command.tau_fb).max() > 1e-4
    np.testing.assert_allclose(command.tau, command.tau_ff + command.tau_fb)


def test_stabilisation_does_not_show_as_a_model_mismatch():
    gains = {"stabilisation__kp": (0.0, 0.0, 1e-9, 0.0, 0.0, 0.0), "torque_feedback__kp": 0.0, "torque_feedback__kd": 0.0}
    c = controller("quadruped", **gains, reality__memory=1e-6)
    state, dt = State(q=c.stance, v=np.zeros(c.robot.nv)), 0.001
    angles = c.robot.joint_angles(c.stance)
    rising = Reference(q=angles + 0.02, v=np.zeros(c.robot.na), a=np.zeros(c.robot.na))
    command = c.step(state, c.contacts(state.q), Inputs(dt=0.0, reference=rising))
    v = command.prediction.v_plus
    assert np.abs(v).max() > 1e-3
    state = State(q=c.robot.integrate(state.q, dt * v), v=v)
    assert c.step(state, c.contacts(state.q), Inputs(dt=dt, reference=rising)).reality.motion < 1e-6


@every(
    ("gains", "named"),
    [
        ({"kp": (1.0, 0, 0, 0, 0, 0)}, r"stabilisation\.kp: expected 0 for forward, left and yaw"),
        ({"kv": (0, 0, -1.0, 0, 0, 0)}, r"stabilisation\.kv: expected finite gains ≥ 0"),
    ],
)
def test_bad_gains_are_refused(robot_and_stance, gains, named):
    with pytest.raises(ConfigError, match=named):
        Stabilisation(StabilisationSettings(**gains), robot_and_stance[0], 0.16)
