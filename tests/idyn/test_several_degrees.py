"""Joints with several degrees of freedom and a motor for each: names, limits, differences on the manifold, certified
predictions."""

import numpy as np
import pinocchio as pin
import pytest
from conditions import allowance, coulomb_error, dynamics
from fast import every
from oracles import full, outcome
from scenes import DT, LITERAL

from idyn.certificate.certify import CERTIFIED
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import InputError, ModelError
from idyn.laws import LAWS, make_law
from idyn.model.description import ContactPoint, Description
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import State

INERTIAL = (
    '<inertial><origin xyz="0.01 0.02 -0.03"/><mass value="{mass}"/>'
    '<inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0.002" izz="0.04"/></inertial>'
)
TABLE = f"""
<robot name="table">
<link name="top">{INERTIAL.format(mass=4)}</link>
<link name="platform">{INERTIAL.format(mass=1)}</link>
<link name="skid">{INERTIAL.format(mass=1)}</link>
<link name="stick">{INERTIAL.format(mass=0.5)}</link>
<joint name="hexapod" type="floating"><parent link="top"/><child link="platform"/><origin xyz="0.3 0 -0.2"/></joint>
<joint name="slide" type="planar"><parent link="top"/><child link="skid"/><origin xyz="-0.3 0.2 -0.2"/><axis xyz="0 0 1"/>
</joint>
<joint name="hinge" type="revolute"><parent link="top"/><child link="stick"/><origin xyz="-0.3 -0.2 -0.2"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="20" velocity="3"/></joint>
</robot>
"""
"""A table on three legs, of which one has six motors, one three, and one a single one."""

HEXAPOD, SLIDE = [f"hexapod.{k}" for k in range(6)], [f"slide.{k}" for k in range(3)]


def table(**changes):
    contact = tuple(ContactPoint(frame=frame, offset=(0.0, 0.0, -0.3)) for frame in ("platform", "skid", "stick"))
    return Robot(Description(**{"urdf": TABLE, "contact": contact, "actuated": ("hexapod", "slide")} | changes))


def somewhere(robot, seed, size=0.2):
    rng = np.random.default_rng(seed)
    q = robot.integrate(robot.neutral(), size * rng.normal(size=robot.nv))
    return State(q=q, v=size * rng.normal(size=robot.nv))


def test_degrees_of_freedom_have_names():
    robot = table(tau_max={"hexapod.2": 70.0, "slide.0": 8.0}, armature={"slide.2": 0.01})
    assert set(robot.joint_names) == {*HEXAPOD, *SLIDE, "hinge"}
    assert (robot.nq, robot.nv, robot.na, robot.nu) == (7 + 7 + 4 + 1, 16, 10, 6)
    model = pin.buildModelFromXML(TABLE, pin.JointModelFreeFlyer())
    columns = {name: model.joints[model.getJointId(name)].idx_v for name in ("hexapod", "slide", "hinge")}
    for name, column in zip(robot.joint_names, robot.tree.a, strict=True):
        joint, _, degree = name.partition(".")
        assert column == columns[joint] + int(degree or 0)
    limits = dict(zip(robot.joint_names, robot.limits.tau_max, strict=True))
    assert (limits["hexapod.2"], limits["slide.0"], limits["hinge"], limits["slide.1"]) == (70.0, 8.0, 20.0, np.inf)
    M = table().terms(robot.neutral(), np.zeros(16)).M
    more = robot.terms(robot.neutral(), np.zeros(16)).M - M
    assert more[columns["slide"] + 2, columns["slide"] + 2] == pytest.approx(0.01)
    assert np.count_nonzero(np.abs(more) > 1e-12) == 1


def test_joints_of_several_degrees_are_unactuated_unless_named():
    assert table(actuated=()).joint_names == ("hinge",)
    assert set(table(unactuated=("slide.2", "hinge")).joint_names) == {*HEXAPOD, *SLIDE[:2]}
    assert table(unactuated=("hexapod",)).na == 4


@every(
    ("changes", "message"),
    [
        ({"actuated": ("slid",)}, "actuated: .*'slid'.*slide"),
        ({"actuated": ("hinge",)}, "actuated: no joint of several degrees of freedom named 'hinge'"),
        ({"unactuated": ("slide.3",)}, "unactuated: .*'slide.3'.*slide"),
        ({"tau_max": {"slide": 3.0}}, "tau_max: .*'slide'.*slide.0"),
        ({"armature": {"hexapod": 0.1}}, "armature: .*'hexapod'.*hexapod"),
    ],
)
def test_unknown_names_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        table(**changes)


@every("seed", range(10))
def test_joint_errors_are_the_shortest_on_the_manifold(seed):
    robot = table()
    model = pin.buildModelFromXML(TABLE, pin.JointModelFreeFlyer())
    q, wanted = somewhere(robot, seed, 1.0).q, somewhere(robot, seed + 100, 1.0).q
    angles = robot.joint_angles(wanted)
    there = robot.with_joint_angles(q, angles)
    np.testing.assert_allclose(there[:7], q[:7], rtol=0, atol=0)  # what is not actuated stays
    np.testing.assert_allclose(pin.difference(model, wanted, there)[6:], 0, atol=1e-9)
    error = robot.joint_error(robot.joint_angles(q), angles)
    np.testing.assert_allclose(error, pin.difference(model, q, there)[robot.tree.a], atol=1e-9)
    step = np.zeros(robot.nv)
    step[robot.tree.a] = error
    np.testing.assert_allclose(pin.difference(model, robot.integrate(q, step), there), 0, atol=1e-9)
    for axes in (HEXAPOD[3:], SLIDE[2:]):
        assert np.linalg.norm(error[[robot.joint_names.index(name) for name in axes]]) <= np.pi + 1e-9


@every("law", [law for law in LAWS if law != "mujoco"])  # it supports joints with one axis only
@every("seed", range(5))
def test_predictions_are_certified_and_match_the_full_system(law, seed):
    robot = table(unactuated=("slide.1",) if seed % 2 else ())
    state = somewhere(robot, seed, 0.05)
    contacts = contacts_from_geometry(robot, state.q, Flat(float(robot.place(state.q)[1][:, 2].min()) - 0.3), margin=np.inf)
    contacts = contacts.take(np.arange(2 if law == "enumeration" else 3))
    demand = np.random.default_rng(seed).normal(size=robot.na)
    answer = predict(robot, state, contacts, demand, law=make_law(law), dt=DT, options=Options.paper(ground=LITERAL))
    assert answer.status.certified, answer.status
    assert answer.residuals.worst < CERTIFIED
    f = full(robot, state, contacts)
    scale = 1 + np.abs(answer.p).max(initial=0.0) + np.abs(answer.tau).max()
    assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-10 * scale
    if answer.demand_change == 0.0:
        v_plus, tau = outcome(f, demand, DT, answer.p)
        np.testing.assert_allclose(answer.v_plus, v_plus, atol=1e-9 * scale)
        np.testing.assert_allclose(answer.tau, tau, atol=1e-7 * scale)
    if law == "coulomb":
        assert coulomb_error(f, answer.p, answer.v_plus, contacts.mu, allowance(contacts.gaps, DT)) < 1e-8


def test_a_planar_direction_that_is_not_normalised_is_refused():
    robot = table()
    q = robot.neutral()
    start = int(robot.tree.unit_spans[-1, 0])
    q[start] = 1.1
    with pytest.raises(InputError, match=r"\(cos, sin\)"):
        predict(robot, State(q=q, v=np.zeros(16)), contacts_from_geometry(robot, q, Flat(-9.0), margin=0.0),
                np.zeros(10), law=make_law("coulomb"), dt=DT)  # fmt: skip


@every("axis", ['<axis xyz="1 0 0"/>', ""])
def test_a_planar_joint_about_another_axis_is_refused_by_name(axis):
    """Pinocchio takes every planar joint's axis for z."""
    with pytest.raises(ModelError, match=r"slide: axis: .* xy plane"):
        Robot(Description(urdf=TABLE.replace('<axis xyz="0 0 1"/>', axis)))
    straight = table().terms(table().neutral(), np.zeros(16)).axes
    assert straight[list(table().tree.dof_names).index("slide.2"), 5] == pytest.approx(1.0)
