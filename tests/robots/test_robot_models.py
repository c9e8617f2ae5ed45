"""The shipped robots: weight, stance, and reports of model errors."""

import numpy as np
import pytest

from controllers.config.loading import find, load
from controllers.robot.kinematics import standing
from controllers.robot.load import RobotSettings, load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import FrameNotFound
from idyn.model.description import ContactPoint, Description
from idyn.model.robot import Robot

ROBOTS = ("quadruped", "solo12", "a1", "go2", "g1", "talos", "fivebar")
LEGS = ("LF", "RF", "LH", "RH")
MIRROR = np.array([1.0, -1.0, 1.0])
"""Reflection in the sagittal plane."""


def quadruped_text():
    return (find("robots", "quadruped").parent / "quadruped.urdf").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ROBOTS)
def test_every_robot_stands_level_on_its_feet(name):
    robot, q = load_robot(name)
    contacts = contacts_from_geometry(robot, q, Flat(), margin=1.0)
    assert len(contacts) == (8 if name in ("g1", "talos") else 4)
    np.testing.assert_allclose(contacts.gaps, 0, atol=1e-9)
    np.testing.assert_array_equal(q[3:7], [0, 0, 0, 1])
    x, y = contacts.points[:, 0], contacts.points[:, 1]
    com = robot.center_of_mass(q)
    assert x.min() < com[0] < x.max()
    assert y.min() < com[1] < y.max()


def test_bolt_balances_above_its_point_feet():
    robot, q = load_robot("bolt")
    points = contacts_from_geometry(robot, q, Flat(), margin=1.0).points
    np.testing.assert_allclose(points[:, 2], 0, atol=1e-9)
    np.testing.assert_allclose(robot.center_of_mass(q)[:2], points.mean(axis=0)[:2], atol=1e-3)


@pytest.mark.parametrize("name", [*ROBOTS, "bolt"])
def test_every_stance_is_within_the_limits(name):
    robot, q = load_robot(name)
    angles = robot.joint_angles(q)
    assert (angles > robot.limits.q_min).all()
    assert (angles < robot.limits.q_max).all()
    assert np.isfinite(robot.limits.tau_max).all()


def test_the_quadruped_has_the_published_weight():
    robot, _ = load_robot("quadruped")
    assert robot.total_mass == pytest.approx(4.80, abs=1e-12)
    assert robot.total_mass * 9.81 == pytest.approx(47.088, abs=1e-9)
    assert (robot.nv, robot.na, robot.nu) == (18, 12, 6)
    assert set(robot.joint_names) == {f"{leg}_{joint}" for leg in LEGS for joint in ("X_1", "Y_2", "Y_3")}
    assert robot.spheres.keys == tuple(f"{leg}_FOOT" for leg in LEGS)


def test_the_quadruped_stands_where_the_authors_put_its_feet():
    robot, q = load_robot("quadruped")
    points = contacts_from_geometry(robot, q, Flat(), margin=1.0).points
    np.testing.assert_allclose(points[0], [0.309926 / 2, 0.1344496 / 2, 0], atol=5e-5)
    np.testing.assert_allclose(points[1], points[0] * MIRROR, atol=1e-12)
    np.testing.assert_allclose(points[2:], points[:2] * [-1, 1, 1], atol=1e-12)
    assert q[2] == pytest.approx(0.161853, abs=1e-6)
    np.testing.assert_allclose(robot.center_of_mass(q)[:2], 0, atol=1e-12)


def test_inspection_finds_no_fault_in_the_quadruped():
    robot, _ = load_robot("quadruped")
    assert robot.inspect() == []


def test_an_impossible_inertia_is_reported_by_link():
    broken = quadruped_text().replace('1.275e-4"', '1.275e-3"')
    found = Robot(Description(urdf=broken)).inspect()
    assert {(finding.severity, finding.where) for finding in found} == {("warning", f"{leg}_LEG_2") for leg in LEGS}
    assert all("triangle" in finding.message for finding in found)


def test_a_joint_without_effort_limit_is_noted():
    unlimited = Robot(Description(urdf=quadruped_text().replace('effort="7.3"', 'effort="0"')))
    assert {(finding.severity, finding.where) for finding in unlimited.inspect()} == {
        ("note", name) for name in unlimited.joint_names
    }
    assert np.isinf(unlimited.limits.tau_max).all()


def test_the_placeholder_limits_of_solo12_are_replaced():
    robot, _ = load_robot("solo12")
    np.testing.assert_array_equal(robot.limits.tau_max, 2.7)
    settings = load("robots", "solo12", RobotSettings)
    assert set(settings.tau_max) == set(robot.joint_names)


def test_a_missing_foot_lists_the_nearest_names():
    with pytest.raises(FrameNotFound, match=r"'LF_FOT'.*LF_FOOT"):
        Robot(Description(urdf=quadruped_text(), contact=(ContactPoint(frame="LF_FOT"),)))


def test_the_base_height_follows_from_the_lowest_foot():
    robot, q = load_robot("quadruped")
    crooked = standing(robot, {"LF_Y_3": 2.0})
    gaps = contacts_from_geometry(robot, crooked, Flat(), margin=1.0).gaps
    assert gaps.min() == pytest.approx(0, abs=1e-12)
    assert crooked[2] != q[2]


def test_large_efforts_are_limits_but_in_logs_of_older_versions():
    text = quadruped_text().replace('effort="7.3"', 'effort="1e5"')
    assert (Robot(Description(urdf=text)).limits.tau_max == 1e5).all()
    assert np.isinf(Robot(Description(urdf=text, placeholder=1000.0)).limits.tau_max).all()
