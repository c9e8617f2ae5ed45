"""Flat feet: four named contact points each, and the forces of a body on them."""

import numpy as np
import pytest
from fast import every
from scenes import DT, LITERAL

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import FrameNotFound, InputError
from idyn.laws import make_law
from idyn.model.description import ContactPoint, Description, Sole
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import State

INERTIAL = '<inertial><mass value="{}"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>'
HOPPER = f"""
<robot name="hopper"><link name="body">{INERTIAL.format(5)}</link><link name="foot">{INERTIAL.format(1)}</link>
<joint name="ankle" type="revolute"><parent link="body"/><child link="foot"/><origin xyz="0 0 -0.5"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="100" velocity="10"/></joint></robot>
"""
SOLE = Sole(frame="foot", length=0.3, width=0.1, offset=(0.05, 0.01, -0.02), mu=0.7)
CORNERS = {
    "foot.front_left": (0.2, 0.06, -0.02),
    "foot.front_right": (0.2, -0.04, -0.02),
    "foot.hind_left": (-0.1, 0.06, -0.02),
    "foot.hind_right": (-0.1, -0.04, -0.02),
}


def hopper(*contact):
    return Robot(Description(urdf=HOPPER, contact=contact))


def test_sole_corners_have_names_by_place():
    robot = hopper(*SOLE.corners())
    assert robot.spheres.keys == tuple(CORNERS)
    np.testing.assert_allclose(robot.spheres.offsets, list(CORNERS.values()), atol=1e-15)
    np.testing.assert_array_equal(robot.spheres.mu, 0.7)
    np.testing.assert_array_equal(robot.spheres.radii, 0.0)
    assert set(robot.spheres.joints.tolist()) == {robot.joint_of_frame("ankle")}


def test_soles_and_spheres_may_share_a_frame():
    robot = hopper(ContactPoint(frame="foot"), *SOLE.corners(), ContactPoint(frame="foot"), ContactPoint(frame="body"))
    assert robot.spheres.keys == ("foot", *CORNERS, "foot.1", "body")


def test_duplicate_names_and_unknown_frames_are_refused():
    with pytest.raises(InputError, match=r"contact.foot.name: .*'foot.front_left' twice"):
        hopper(*SOLE.corners(), *SOLE.corners())
    with pytest.raises(InputError, match=r"'foot.1' twice"):
        hopper(ContactPoint(frame="foot"), ContactPoint(frame="foot", name="1"), ContactPoint(frame="foot"))
    with pytest.raises(FrameNotFound, match="fot"):
        hopper(*Sole(frame="fot", length=0.1, width=0.1).corners())


@every("law", ["no-slip", "coulomb", "cone", "convex"])
@every("forward", [-0.05, 0.0, 0.15])
def test_the_centre_of_pressure_is_below_the_centre_of_mass(law, forward):
    """At rest, leaning by the ankle: Σ f_N x / Σ f_N is where the mass is."""
    robot = hopper(*SOLE.corners())
    q = robot.neutral()
    q[2] = 0.52
    lean = np.arcsin(forward * 6.0 / 5.0 / 0.5)
    q[3:7] = [0.0, np.sin(lean / 2), 0.0, np.cos(lean / 2)]
    q[7] = -lean
    q[:3] -= robot.place(q)[1][-1] - [0.0, 0.0, 0.02]
    contacts = contacts_from_geometry(robot, q, Flat(), margin=1e-6)
    assert contacts.keys == tuple(CORNERS)
    state = State(q=q, v=np.zeros(robot.nv))
    answer = predict(robot, state, contacts, np.zeros(1), law=make_law(law), dt=DT, options=Options.paper(ground=LITERAL))
    assert answer.status.ok
    load = answer.normal_force
    assert load.sum() == pytest.approx(6 * 9.81, rel=1e-9)
    centre = load @ contacts.points / load.sum()
    np.testing.assert_allclose(centre[:2], [forward, 0.0], atol=1e-7)
    np.testing.assert_allclose(robot.center_of_mass(q)[:2], [forward, 0.0], atol=1e-12)
    assert (load >= -1e-9).all()
