"""The shipped robots: weight, stance, reports of model errors. A URDF that cannot be simulated is refused with the place."""

import re
from pathlib import Path

import numpy as np
import pytest
from disk import written
from fast import every, every_row

from controllers.config.loading import find
from controllers.robot.kinematics import standing
from controllers.robot.load import urdf_path as shipped_path
from idyn import ConfigError, Description, Flat, ModelError, Robot, contacts_from_geometry, load_robot

ROBOTS = ("quadruped", "solo12", "a1", "go2", "g1", "talos", "fivebar", "bolt")
LEGS = ("LF", "RF", "LH", "RH")
MIRROR = np.array([1.0, -1.0, 1.0])  # reflection in the sagittal plane
BODY = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
ROD = 0.05 * 2.0**2 / 12
DIAGONAL = dict.fromkeys(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), "1e-6")
"""A moment of 3e-6 about one diagonal, whose other moments are −2e-22 after rounding, as several robots have it."""


def quadruped_text():
    return (find("robots", "quadruped").parent / "quadruped.urdf").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ROBOTS)
def test_every_robot_stands_level_on_its_feet_within_its_limits(name):
    robot, q = load_robot(name)
    contacts = contacts_from_geometry(robot, q, Flat(), margin=1.0)
    assert len(contacts) == {"g1": 8, "talos": 8, "bolt": 2}.get(name, 4)
    np.testing.assert_allclose(contacts.points[:, 2], 0, atol=1e-9)
    np.testing.assert_array_equal(q[3:7], [0, 0, 0, 1])
    angles, com, points = robot.joint_angles(q), robot.center_of_mass(q)[:2], contacts.points[:, :2]
    assert ((angles > robot.limits.q_min) & (angles < robot.limits.q_max)).all()
    assert np.isfinite(robot.limits.tau_max).all()
    if name == "bolt":  # it balances
        np.testing.assert_allclose(com, points.mean(axis=0), atol=1e-3)
    else:
        assert ((points.min(axis=0) < com) & (com < points.max(axis=0))).all()


def test_the_quadruped_has_the_published_weight_and_stance():
    robot, q = load_robot("quadruped")
    assert (robot.total_mass, robot.nv, robot.na, robot.nu) == (pytest.approx(4.80, abs=1e-12), 18, 12, 6)
    assert set(robot.joint_names) == {f"{leg}_{joint}" for leg in LEGS for joint in ("X_1", "Y_2", "Y_3")}
    assert robot.spheres.keys == tuple(f"{leg}_FOOT" for leg in LEGS)
    assert robot.inspect() == []
    points = contacts_from_geometry(robot, q, Flat(), margin=1.0).points
    np.testing.assert_allclose(points[0], [0.309926 / 2, 0.1344496 / 2, 0], atol=5e-5)
    np.testing.assert_allclose(points[1], points[0] * MIRROR, atol=1e-12)
    np.testing.assert_allclose(points[2:], points[:2] * [-1, 1, 1], atol=1e-12)
    assert q[2] == pytest.approx(0.161853, abs=1e-6)
    np.testing.assert_allclose(robot.center_of_mass(q)[:2], 0, atol=1e-12)
    crooked = standing(robot, {"LF_Y_3": 2.0})  # the base height follows from the lowest foot
    assert contacts_from_geometry(robot, crooked, Flat(), margin=1.0).gaps.min() == pytest.approx(0, abs=1e-12)
    assert crooked[2] != q[2]


def test_limits_of_torques():
    unlimited = Robot(Description(urdf=quadruped_text().replace('effort="7.3"', 'effort="0"')))
    found = {(finding.severity, finding.where) for finding in unlimited.inspect()}
    assert found == {("note", name) for name in unlimited.joint_names}
    assert np.isinf(unlimited.limits.tau_max).all()
    text = quadruped_text().replace('effort="7.3"', 'effort="1e5"')
    assert (Robot(Description(urdf=text)).limits.tau_max == 1e5).all()
    np.testing.assert_array_equal(load_robot("solo12")[0].limits.tau_max, 2.7)  # in place of the URDF's placeholders


def link(name, inertial=BODY):
    return f'<link name="{name}">{inertial}</link>'


def joint(name, parent, child, kind="revolute", axis="0 0 1", limit='lower="-1" upper="1" effort="1" velocity="1"', more=""):
    parts = f'<parent link="{parent}"/><child link="{child}"/><axis xyz="{axis}"/><limit {limit}/>{more}'
    return f'<joint name="{name}" type="{kind}">{parts}</joint>'


def urdf(*parts):
    return f'<robot name="small">{"".join(parts)}</robot>'


def inertial(mass="1", **moments):
    values = {"ixx": 1, "iyy": 1, "izz": 1, "ixy": 0, "ixz": 0, "iyz": 0} | moments
    written = " ".join(f'{name}="{value}"' for name, value in values.items())
    return f'<inertial><mass value="{mass}"/><inertia {written}/></inertial>'


def pair(body=BODY, **fields):
    return urdf(link("a"), link("b", body), joint("j", "a", "b", **fields))


def limits(text):
    return pair(limit=f'{text} effort="1" velocity="1"')


AB, ABC = (link("a"), link("b")), (link("a"), link("b"), link("c"))
REFUSED = [  # what `tests/faults/test_files.py` has not
    (pair(inertial("1e300")), "b: mass: expected 0 to 1e+06 kg, got 1e+300"),
    (pair(BODY.replace('<mass value="1"/>', "")), "b: inertial: expected a mass and an inertia"),
    (pair('<inertial><mass value="1"/></inertial>'), "b: inertial: expected a mass and an inertia"),
    (pair(BODY.replace("<mass", '<origin xyz="0 nan 0"/><mass')), "b: origin xyz: expected a finite number"),
    (pair(""), "j: expected links with mass and inertia beyond this joint"),
    (pair(more='<origin xyz="0 0"/>'), "j: origin xyz: expected 3 numbers, got 2"),
    (
        pair(more='<origin xyz="$(optenv OFFSET 0 0 1)"/>'),
        "j: origin xyz: '$(optenv OFFSET 0 0 1)' is an expression of xacro: expand the file by xacro first",
    ),
    (pair(axis="0 0 nan"), "j: axis: expected a finite number, got 'nan'"),
    (limits('lower="0.5" upper="0.5"'), "j: limit: expected lower < upper, got 0.5 and 0.5"),
    (limits('lower="nan" upper="1"'), "j: limit lower: expected a finite number, got 'nan'"),
    (pair(limit='lower="-1" upper="1" effort="-5" velocity="1"'), "j: limit effort: expected ≥ 0"),
    (pair(kind="ball"), "j: type: expected one of fixed, revolute, "),
    (urdf(*ABC, joint("j", "a", "b"), joint("j", "a", "c")), "j: expected each joint once, got 2"),
    (urdf(*AB, joint("root_joint", "a", "b")), "root_joint: a joint must not have this name"),
    (urdf(*AB, joint("j", "a", "c")), "j: child: no link named 'c'"),
    (urdf(*ABC, joint("j", "a", "b")), "expected one root link, got a, c"),
    (urdf(*AB, joint("j", "a", "b"), "<k>" * 5000, "</k>" * 5000), "at most 100 nested"),
    (urdf(*AB).replace("</robot>", "\n") + joint("j", "a", "b", kind="screw") + "</robot>", "line 2, joint j: type: expected"),
    ("<html/>", "expected the element 'robot', got 'html'"),
]


@every(("text", "message"), REFUSED)
def test_a_defect_is_refused_by_name(text, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        Robot(Description(urdf=text))


def chain(n, kind):
    joints = (joint(f"j{i}", f"l{i - 1}", f"l{i}", kind=kind if i > 1 else "revolute") for i in range(1, n))
    return urdf(*(link(f"l{i}") for i in range(n)), *joints)


@every_row(
    (2001, "fixed", "expected at most 2000 links, got 2001"),
    pytest.param(50_000, "fixed", "expected at most 2000 links, got 50000", marks=pytest.mark.full),
    (502, "fixed", "l501: expected at most 500 joints between the root and a link, got 501"),
    (252, "revolute", "expected at most 250 velocities of joints, got 251"),
)
def test_robots_beyond_the_limits_are_refused(n, kind, message):
    with pytest.raises(ModelError, match=message):
        Robot(Description(urdf=chain(n, kind)))


def test_a_robot_at_the_limit_is_built():
    assert Robot(Description(urdf=chain(501, "fixed"))).total_mass == pytest.approx(501)


def test_an_entity_that_expands_without_end_is_refused():
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "aaaaaaaaaa"}">' for i in range(12))
    text = f"<!DOCTYPE r [{entities}]>{pair()}".replace('name="small"', 'name="&a11;"')
    with pytest.raises(ModelError, match="amplification"):
        Robot(Description(urdf=text))


def messages(text):
    return [(finding.severity, finding.where, finding.message) for finding in Robot(Description(urdf=text)).inspect()]


@every_row(
    (inertial("1e-6", **DIAGONAL), "inertia of rank one: principal moments 0, 0, 3e-06 kg·m² violate the triangle inequality"),
    (inertial(ixx="1e-3", iyy="1e-3", izz="2.001e-3"), "inertia: principal moments"),
    (inertial(ixx="1e-3", iyy="1e-3", izz="2.0000000001e-3"), ""),  # rounding of the largest moment
    (inertial(ixx="-1e-20", iyy="1e-20", izz="3e-20"), ""),
    (inertial(ixx=1, iyy=1, izz=1, ixy=1.2), "principal moments -0.2, 1, 2.2 kg·m²: the smallest is negative"),
    (inertial("0.05"), "inertia: 0.05 kg with moments up to 1 kg·m² are spread over 5.5 m"),
    (inertial("0.05", ixx=ROD, iyy=ROD, izz=1e-6), ""),  # a rod of 2 m
)
def test_an_impossible_inertia_is_a_warning(body, says):
    found = messages(pair(body))
    said = [(severity, where, message[: len(says)]) for severity, where, message in found]
    assert said == [("warning", "b", says)] * bool(says)


def test_a_prefix_that_no_element_declares_and_settings_for_mujoco_are_ignored(tmp_path):
    """As URDFs for Drake have it. The lines of errors stay those of the file."""
    limit = 'drake:acceleration="2" lower="-1" upper="1" effort="3" velocity="1"'
    text = pair(limit=limit).replace("</robot>", "\n<drake:group><drake:member/></drake:group>\n</robot>")
    path = written(tmp_path / "drake.urdf", pair().replace("</robot>", "<mujoco><compiler/></mujoco></robot>"))
    assert Robot.from_urdf(path).joint_names == ("j",)
    path.write_text(text, encoding="utf-8")
    assert Robot.from_urdf(path).limits.tau_max == pytest.approx([3.0])
    broken = text.replace("</robot>", joint("k", "b", "c", kind="screw") + link("c") + "</robot>")
    path.write_text(broken, encoding="utf-8")
    with pytest.raises(ModelError, match="line 3, joint k: type"):
        Robot.from_urdf(path)
    path.write_text(text.replace("</drake:group>", ""), encoding="utf-8")
    with pytest.raises(ModelError, match="not XML"):
        Robot.from_urdf(path)


def test_a_file_whose_joints_are_made_by_xacro_is_told_so():
    text = urdf(link("world"), '<xacro:arm parent="world"/>')
    text = text.replace("<robot", '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"')
    with pytest.raises(ModelError, match="expected at least one moving joint, got none: elements of xacro are not expanded"):
        Robot(Description(urdf=text, base="fixed"))


def test_what_the_parser_ignores_is_a_warning():
    for law, says in (('joint="j"', "1 · j + 0"), ('joint="j" multiplier="-2" offset="0.1"', "-2 · j + 0.1")):
        mimic = urdf(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("k", "a", "c", more=f"<mimic {law}/>"))
        ((severity, where, message),) = messages(mimic)
        assert (severity, where) == ("warning", "k")
        assert f"mimic is ignored: nothing holds the joint at {says}; it moves on its own, with a motor" in message
    assert messages(pair(axis="0 3 4")) == [("warning", "j", "axis: 0 3 4 is normalised, its length is 5")]


@pytest.mark.parametrize(
    ("path", "defects"),
    [
        ("go1_description/urdf/go1.urdf", 1),
        ("b1_description/urdf/b1.urdf", 1),
        ("hyq_description/robots/hyq_no_sensors.urdf", 5),
        ("talos_data/robots/talos_reduced.urdf", 0),
    ],
)
def test_real_robots_load_with_their_defects_in_words(path, defects):
    robot = Robot.from_urdf(shipped_path("example-robot-data:" + path, Path()))
    inertias = [finding for finding in robot.inspect() if "rank one" in finding.message]
    assert len(inertias) == defects
    assert not any("e-22" in finding.message for finding in robot.inspect())
    assert np.isfinite(robot.total_mass)


def standing_at(folder, angle):
    source = find("robots", "quadruped")
    text = source.read_text(encoding="utf-8")
    text = text.replace('urdf = "quadruped.urdf"', f'urdf = "{source.parent / "quadruped.urdf"}"')
    changed, n = re.subn(r"LF_X_1 = [-\d.]+", f"LF_X_1 = {angle}", text)
    assert n == 1
    return str(written(folder / "robot.toml", changed))


def test_a_stance_beyond_the_limits_is_refused_by_joint_and_one_at_a_limit_accepted(tmp_path):
    for angle in ("-1.58", "nan", "inf"):
        with pytest.raises(ConfigError, match=r"robot.standing.LF_X_1: expected -1.5708 to 1.5708 rad .*, got"):
            load_robot(standing_at(tmp_path, angle))
    robot, stance = load_robot(standing_at(tmp_path, "1.5708"))
    assert robot.joint_angles(stance)[0] == 1.5708
