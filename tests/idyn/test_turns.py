"""Continuous joints are one angle that counts its turns; the dynamics are those of Pinocchio's cos and sin."""

import numpy as np
import pinocchio as pin
import pytest
from fast import every

from idyn.errors import ModelError
from idyn.model.description import Description
from idyn.model.robot import Robot
from idyn.model.urdf import with_counted_turns

INERTIAL = (
    '<inertial><origin xyz="0.1 0.02 0.03"/><mass value="1.5"/>'
    '<inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0.002" izz="0.04"/></inertial>'
)
CART = f"""
<robot name="cart">
<link name="body">{INERTIAL}</link><link name="wheel">{INERTIAL}</link><link name="fork">{INERTIAL}</link>
<link name="caster">{INERTIAL}</link>
<joint name="axle" type="continuous"><parent link="body"/><child link="wheel"/><axis xyz="0 1 0"/>
<limit effort="5" velocity="40"/></joint>
<joint name="steer" type="revolute"><parent link="body"/><child link="fork"/><origin xyz="0.3 0 0"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="2" velocity="3"/></joint>
<joint name="roll" type="continuous"><parent link="fork"/><child link="caster"/><axis xyz="0.6 0.8 0"/></joint>
</robot>
"""


@pytest.fixture(scope="module")
def cart():
    return Robot(Description(urdf=CART))


def with_cos_and_sin(robot, model, q):
    """q as Pinocchio has it for the text as it is written."""
    theirs = pin.neutral(model)
    theirs[:7] = q[:7]
    for name, angle in zip(robot.joint_names, robot.joint_angles(q), strict=True):
        joint = model.joints[model.getJointId(name)]
        theirs[joint.idx_q : joint.idx_q + joint.nq] = [angle] if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
    return theirs


@every("turns", [0, 1, -7, 1000])
def test_the_dynamics_match_pinocchios_cos_and_sin(cart, turns):
    model = pin.buildModelFromXML(CART, pin.JointModelFreeFlyer())
    assert (model.nq, cart.nq) == (12, 10)
    data, rng = model.createData(), np.random.default_rng(abs(turns))
    q = cart.integrate(cart.neutral(), rng.normal(size=cart.nv))
    q[[7, 9]] += 2 * np.pi * turns
    v = rng.normal(size=cart.nv)
    terms, theirs = cart.terms(q, v), with_cos_and_sin(cart, model, q)
    np.testing.assert_allclose(terms.M, pin.crba(model, data, theirs, pin.Convention.WORLD), atol=1e-11)
    np.testing.assert_allclose(terms.h, pin.nonLinearEffects(model, data, theirs, v), atol=1e-10)


def test_continuous_angles_count_turns(cart):
    q, step = cart.neutral(), np.zeros(cart.nv)
    step[6] = 0.5
    for k in range(1, 41):
        q = cart.integrate(q, step)
        assert cart.joint_angles(q)[0] == pytest.approx(0.5 * k, rel=1e-14)
    assert cart.difference(cart.neutral(), q)[6] == pytest.approx(20.0)
    angles = np.array([-50.0, 0.3, 7.0])
    np.testing.assert_array_equal(cart.joint_angles(cart.with_joint_angles(q, angles)), angles)


def test_continuous_joints_have_torque_and_speed_limits_only(cart):
    np.testing.assert_array_equal(cart.limits.q_max, [np.inf, 1.0, np.inf])
    np.testing.assert_array_equal(cart.limits.q_min, [-np.inf, -1.0, -np.inf])
    np.testing.assert_array_equal(cart.limits.tau_max, [5.0, 2.0, np.inf])
    np.testing.assert_array_equal(cart.limits.v_max, [40.0, 3.0, np.inf])


def test_urdfs_without_continuous_joints_are_unchanged(cart):
    plain = CART.replace("continuous", "floating")
    assert with_counted_turns(plain, "URDF") is plain
    assert cart.description.urdf is CART
    with pytest.raises(ModelError, match="not XML"):
        Robot(Description(urdf="<robot"))
