"""The damping that stops a robot does not drive light joints. Pinocchio's forward dynamics is the oracle."""

import numpy as np
import pinocchio as pin
from fast import every

from controllers.config.loading import load
from controllers.robot.damping import carried, carried_late, damping_gains
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from idyn.model.description import Description
from idyn.model.robot import Robot

DT = 1e-3


def speeds_after(model, damping, steps, *, late=0):
    """Return the largest speed after each step from 1 rad/s in all joints; gravity off, positions held at the neutral pose.
    late: the torque is that of the speeds so many steps before"""
    data, q, v = model.createData(), pin.neutral(model), np.ones(model.nv)
    model.gravity.linear = np.zeros(3)
    largest, before = [], [v] * (late + 1)
    for _ in range(steps):
        v = v + DT * pin.aba(model, data, q, v, -damping * before[-1 - late])
        before.append(v)
        largest.append(np.abs(v).max())
    return largest


def light_finger(inertia):
    """Robot, and Pinocchio's model, of two links with joints to each other and to the base; the second is a finger of this
    inertia [kg·m²]."""
    links, joints = ['<link name="base"/>'], []
    for name, parent, mass, moment in (("arm", "base", 1.0, 0.01), ("finger", "arm", 1e-4, inertia)):
        moments = " ".join(f'{axis}="{moment}"' for axis in ("ixx", "iyy", "izz"))
        inertial = f'<inertial><mass value="{mass}"/><inertia {moments} ixy="0" ixz="0" iyz="0"/></inertial>'
        links.append(f'<link name="{name}">{inertial}</link>')
        joints.append(
            f'<joint name="to_{name}" type="revolute"><parent link="{parent}"/><child link="{name}"/><origin xyz="0.1 0 0"/>'
            '<axis xyz="0 0 1"/><limit effort="10" velocity="10" lower="-3" upper="3"/></joint>'
        )
    urdf = f'<robot name="r">{"".join(links + joints)}</robot>'
    return Robot(Description(urdf=urdf, base="fixed")), pin.buildModelFromXML(urdf)


@every("inertia", [1e-5, 1e-6, 1e-7])
def test_a_light_finger_is_damped_too(inertia):
    robot, model = light_finger(inertia)
    gains = damping_gains(0.1, robot, robot.neutral(), DT)
    assert gains[0] == 0.1
    assert 0.0 < gains[1] < 0.1
    speeds = speeds_after(model, gains, 100)
    assert speeds[-1] < 0.5
    assert max(speeds) < 3.0
    assert speeds_after(model, np.full(2, 0.1), 20)[-1] > 1e3


@every("inertia", [1e-3, 1e-5, 1e-6])
def test_feedback_that_is_a_period_late_does_not_drive_a_light_finger(inertia):
    robot, model = light_finger(inertia)
    share = carried(0.1, robot, robot.neutral(), DT)
    assert share[0] == 1.0
    assert (share[1] == 1.0) == (inertia > 5e-4)
    assert speeds_after(model, 0.1 * share, 300, late=1)[-1] < 0.1
    if share[1] < 1.0:
        assert speeds_after(model, np.full(2, 0.1), 20, late=1)[-1] > 1e3


@every("ticks", [1, 2, 3, 5])
@every("rotor", [0.0, 1e-4, 5e-4])
def test_late_feedback_does_not_drive_a_finger_whose_rotor_is_absent(rotor, ticks):
    """The demand damps the finger as if it had the rotor of the model; the torque's feedback adds to that."""
    bare, model = light_finger(3e-4)
    robot, demand = bare.variant(armature={"to_finger": rotor}), 20.0
    late = carried_late((0.15, demand), robot, robot.neutral(), DT, 5)
    np.testing.assert_array_equal(late[0], carried(0.15, robot, robot.neutral(), DT))
    assert (np.diff(late, axis=0) <= 0.0).all()
    asked = np.diag(robot.terms(robot.neutral(), np.zeros(2)).M) * demand
    assert speeds_after(model, 0.15 * late[ticks] + asked, 500, late=ticks)[-1] < 0.1


@every("name", ["quadruped-trot", "solo12-trot", "go2-trot", "a1", "g1", "talos", "bolt", "arm"])
def test_shipped_damping_is_stable_as_it_is(name):
    settings = load("controllers", name, ControllerSettings)
    robot, stance = load_robot(settings.robot)
    np.testing.assert_array_equal(
        damping_gains(settings.safety.damping, robot, stance, settings.period), settings.safety.damping
    )
