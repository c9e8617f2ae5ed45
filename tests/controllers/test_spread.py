"""Spread: displaced feet are pushed towards their reference positions."""

import msgspec
import numpy as np
import pytest
from fast import every
from rigs import at_rest, controller

from controllers.command import Inputs
from controllers.feedback.spread import Spread, SpreadSettings
from idyn.types import Selection

DT = 0.001


def astray(c, angle=0.1):
    """The stance with one leg's first joint turned, so that its foot stands too far out; and that foot's row."""
    state = at_rest(c)
    angles = c.robot.joint_angles(state.q)
    wrong = angles.copy()
    wrong[0] += angle
    return msgspec.structs.replace(state, q=c.robot.with_joint_angles(state.q, wrong)), angles


def contacts_of(c, q):
    return c.contacts(q, c.robot.spheres.keys)


def test_a_displaced_foot_is_pushed_back():
    """The ground pushes it outwards when it is too far out: the leg pulls it back."""
    c = controller("quadruped")
    state, angles = astray(c)
    contacts = contacts_of(c, state.q)
    force = Spread(SpreadSettings(most=np.inf), c.robot, Selection.FORCE).preferred(c.robot.kinematics(state), contacts, angles)
    straight = contacts_of(c, c.robot.with_joint_angles(state.q, angles))
    expected = 5.0 * c.robot.total_mass * 9.81 * (contacts.points[0] - straight.points[0])
    np.testing.assert_allclose(force[0, :2], expected[:2], rtol=0.05)
    assert force[0, 2] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(force[1:], 0.0, atol=1e-12)


def test_spread_stays_within_friction():
    c = controller("quadruped")
    state, angles = astray(c, 0.8)
    force = Spread(SpreadSettings(), c.robot, Selection.FORCE).preferred(
        c.robot.kinematics(state), contacts_of(c, state.q), angles
    )
    assert np.linalg.norm(force[0]) == pytest.approx(0.2 * c.robot.total_mass * 9.81 / 4)


def test_forces_below_the_limit_are_not_scaled():
    c, most = controller("quadruped"), 0.2 * 4.8 * 9.81 / 4
    sizes = []
    for angle in np.linspace(0.005, 0.1, 20):
        state, angles = astray(c, angle)
        free, limited = (
            Spread(settings, c.robot, Selection.FORCE).preferred(c.robot.kinematics(state), contacts_of(c, state.q), angles)
            for settings in (SpreadSettings(most=np.inf), SpreadSettings())
        )
        size = np.linalg.norm(free[0])
        np.testing.assert_allclose(limited[0], free[0] * min(1.0, most / size), rtol=1e-3)
        sizes.append(size)
    assert min(sizes) < 0.7 * most < 0.9 * most < max(sizes)


def test_spread_changes_internal_forces_and_not_the_motion():
    """Internal forces move nothing: v⁺ and the sum of the contact forces are the same with and without."""
    c = controller("quadruped", safety__first_command_guard=0.0)
    loose = controller("quadruped", safety__first_command_guard=0.0, spread__stiffness=0.0)
    state, _ = astray(c, 0.05)
    answers = [x.step(state, contacts_of(x, state.q), Inputs(dt=0.0)).prediction for x in (c, loose)]
    np.testing.assert_allclose(answers[0].v_plus, answers[1].v_plus, atol=1e-9)
    np.testing.assert_allclose(answers[0].force.sum(axis=0), answers[1].force.sum(axis=0), atol=1e-6)
    lean = Spread(c.settings.spread, c.robot, Selection.FORCE).preferred(
        c.robot.kinematics(state), contacts_of(c, state.q), c.robot.joint_angles(c.stance)
    )
    assert (answers[0].force - answers[1].force)[0] @ lean[0] > 0.25 * lean[0] @ lean[0]


@every("changes", [{"spread__stiffness": 0.0}, {"selection": "torque"}])
def test_spread_is_inactive_without_stiffness_or_with_another_selection(changes):
    c = controller("quadruped", **changes)
    assert not Spread(c.settings.spread, c.robot, c.settings.selection).active
