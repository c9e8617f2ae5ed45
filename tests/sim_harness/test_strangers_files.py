"""Files that strangers brought (../shared/cases/robots): each is drafted, or refused with its cause."""

from pathlib import Path

import pytest
from fast import every, fast, first_is_fast, full

from idyn import Robot, load_robot
from sim_harness.commands.main import main

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "robots"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not beside the project")

FOUR = ("u0_baseline", "u1_floating_joint", "u2_links_named_as_joints", "u3_trunk_mesh_missing", "u4_root_joint_fixed")
FOUR += ("u6_material_without_name", "u7_rod_on_the_thigh")
QUADRUPEDS = [f"{name}.urdf" for name in FOUR]
QUADRUPEDS += [f"{name}.xml" for name in ("q0_baseline", "q1_box_feet", "q2_capsule_feet", "q3_wheels", "q4_wrapped_base")]
QUADRUPEDS += [f"{name}.xml" for name in ("q5_free_joint_with_default_armature", "q6_equality_default", "q7_empty_equality")]
QUADRUPEDS += [f"{name}.xml" for name in ("q8_position_actuators", "q9_home_is_folded", "q10_light_wrist")]


@pytest.fixture
def drafted(tmp_path, capsys):
    """The robot and stance of the draft of a file, and what `idyn new` printed."""

    def new(name):
        target = tmp_path / f"{name}.toml"
        assert main(["new", str(CASES / name), "--out", str(target)]) == 0
        return *load_robot(str(target)), capsys.readouterr().out

    return new


@pytest.mark.parametrize("name", fast(QUADRUPEDS))
def test_a_quadruped_stands_on_four_feet(drafted, name):
    robot, _, printed = drafted(name)
    assert robot.floating
    assert len(robot.contact_names) == 4
    assert "4 feet" in printed


@full
@every("name", first_is_fast(["b0_biped.urdf", "b1_sole_3cm_wide.urdf", "b2_foot_frame_not_upright.urdf"]))
def test_a_biped_stands_on_two_soles(drafted, name):
    robot, stance, _ = drafted(name)
    assert robot.floating
    assert len(robot.contact_names) == 8
    poses = [(robot.frames.placement(place.frame, stance), place.offset) for place in robot.description.contact]
    lowest = [pose.translation[2] + pose.rotation[2] @ offset for pose, offset in poses]
    assert max(lowest) - min(lowest) < 1e-3


@full
def test_a_mesh_that_is_missing_is_named_once(drafted):
    _, _, printed = drafted("u3_trunk_mesh_missing.urdf")
    assert printed.count("trunk_is_not_there.stl") == 1


def test_limits_and_gravity_are_those_of_the_file():
    limits = {"m2_position_forcerange": {30.0, 20.0}, "m9_actuatorfrcrange_and_motor": {5.0, 10.0}}
    for name, expected in limits.items():
        assert {*Robot.from_mjcf(CASES / f"{name}.xml").limits.tau_max.tolist()} <= expected, name
    assert Robot.from_mjcf(CASES / "m4_gravity_moon.xml").bodies.gravity[2] == pytest.approx(-1.62)
    assert Robot.from_mjcf(CASES / "m5_mass_of_fixed_child_lost.xml").total_mass == pytest.approx(8.0)
    assert Robot.from_mjcf(CASES / "m12_settotalmass.xml").total_mass == pytest.approx(20.0)
    assert Robot.from_mjcf(CASES / "m1_passive_joint.xml").description.unactuated
    assert Robot.from_mjcf(CASES / "m8_free_by_class.xml").floating
    assert {*Robot.from_urdf(CASES / "u5_big_effort_1200.urdf").limits.tau_max.tolist()} == {1200.0}


@full
@every("name", ["m13_fixed_base_with_sphere", "m13b_sphere_above", "m13c_sphere_on_link", "m14_arm_base_sphere"])
def test_arms_with_spheres_hold(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert main(["new", str(CASES / f"{name}.xml"), "--out", "arm.toml"]) == 0
    assert main(["simulate", "arm.toml", "--seconds", "0.5"]) == 0
