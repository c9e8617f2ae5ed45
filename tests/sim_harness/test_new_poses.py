"""`idyn new`: robots whose joint angles of zero are no pose to stand in, and soles whose frames are not level."""

import tomllib

import numpy as np
import pytest
from fast import first_is_fast, full

from controllers.robot.kinematics import contact_places
from controllers.robot.load import load_robot
from controllers.robot.stance import resting
from idyn.contact.terrain import Flat
from sim_harness.commands.main import main

CORNERS = {"FL": (0.2, 0.1), "FR": (0.2, -0.1), "RL": (-0.2, 0.1), "RR": (-0.2, -0.1)}
"""Hips of the small quadruped [m]."""


def link(name, mass, shape="", at="0 0 0"):
    inertia = " ".join(f'{k}="{v}"' for k, v in {"ixx": 0.01, "iyy": 0.01, "izz": 0.01, "ixy": 0, "ixz": 0, "iyz": 0}.items())
    touching = f'<collision><origin xyz="{at}"/><geometry>{shape}</geometry></collision>' if shape else ""
    return f'<link name="{name}"><inertial><mass value="{mass}"/><inertia {inertia}/></inertial>{touching}</link>'


def hinge(name, parent, child, at="0 0 0", axis="0 1 0", lower=-3.1, upper=3.1, rpy="0 0 0"):
    return (
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}" rpy="{rpy}"/>'
        f'<axis xyz="{axis}"/><limit lower="{lower}" upper="{upper}" effort="50" velocity="30"/></joint>'
    )


def leg(name, hip, along="1 0 0", rpy="0 0 0"):
    """A leg of two joints in its plane, 0.4 m long; at angles of zero it points along `along` of the base turned by `rpy`."""
    end = " ".join(str(0.2 * float(x)) for x in along.split())
    middle = " ".join(str(0.1 * float(x)) for x in along.split())
    return "".join(
        [
            link(f"{name}_thigh", 0.3, '<sphere radius="0.01"/>', middle),
            link(f"{name}_shank", 0.2, '<sphere radius="0.02"/>', end),
            hinge(f"{name}_pitch", "hip_" + name if rpy == "" else "trunk", f"{name}_thigh", hip, rpy=rpy or "0 0 0"),
            hinge(f"{name}_knee", f"{name}_thigh", f"{name}_shank", end),
        ]
    )


def rolling_leg(name, hip, along):
    """The same leg below a joint that rolls."""
    return (
        link(f"hip_{name}", 0.3)
        + hinge(f"{name}_roll", "trunk", f"hip_{name}", hip, axis="1 0 0")
        + leg(name, "0 0 0", along, "")
    )


def write(path, parts):
    path.write_text(f'<robot name="four">{link("trunk", 6.0, TRUNK)}{"".join(parts)}</robot>', encoding="utf-8")
    return path


TRUNK = '<box size="0.4 0.2 0.1"/>'


def drafted(urdf, capsys, *options):
    target = urdf.with_suffix(".toml")
    assert main(["new", str(urdf), "--out", str(target), *options]) == 0
    return tomllib.loads(target.read_text(encoding="utf-8")), " ".join(capsys.readouterr().out.split()), str(target)


def quadruped(path, along="1 0 0"):
    return write(path, [rolling_leg(name, f"{x} {y} 0", along) for name, (x, y) in CORNERS.items()])


@pytest.mark.full
@pytest.mark.parametrize("along", first_is_fast(["0 0 1", "1 0 0"]))
def test_legs_that_lie_flat_or_point_up_at_zero_are_found(tmp_path, capsys, along):
    """As of Spirit 40, whose legs lie flat at zero, and of Minitaur, whose legs point up."""
    config, _, target = drafted(quadruped(tmp_path / "four.urdf", along), capsys)
    assert [place["frame"] for place in config["robot"]["contact"]] == [f"{name}_shank" for name in CORNERS]
    assert config["controller"]["reference"]["kind"] == "gait"
    robot, stance = load_robot(target)
    places = contact_places(robot, stance)
    assert places[:, 2] == pytest.approx([0.02] * 4, abs=1e-5)
    assert stance[2] > 0.3
    assert np.sign(places[:, :2]).tolist() == [[1, 1], [1, -1], [-1, 1], [-1, -1]]


@full
def test_a_quadruped_whose_legs_lie_flat_at_zero_trots(tmp_path, capsys):
    _, _, target = drafted(quadruped(tmp_path / "four.urdf"), capsys)
    assert main(["simulate", target, "--seconds", "4"]) == 0
    assert "walked" in capsys.readouterr().out


def test_a_model_with_y_up_is_told_how_to_turn(tmp_path, capsys):
    """The same quadruped turned about its x axis; the joint that the message names turns it back."""
    parts = [
        leg(name, f"{x} 0 {-y}", "0 -1 0").replace('axis xyz="0 1 0"', 'axis xyz="0 0 1"') for name, (x, y) in CORNERS.items()
    ]
    path = write(tmp_path / "lying.urdf", parts)
    assert main(["new", str(path), "--out", str(tmp_path / "refused.toml")]) == 2
    said = capsys.readouterr().err
    assert "another axis of the base than z seems to point up: y. 4 feet reach the ground then" in said
    assert "--fixed fixes the robot to the world" in said
    rpy = said.partition('rpy="')[2].partition('"')[0]
    turn = f'<joint name="turn" type="fixed"><parent link="root"/><child link="trunk"/><origin rpy="{rpy}"/></joint>'
    path.write_text(path.read_text().replace("</robot>", f'<link name="root"/>{turn}</robot>'), encoding="utf-8")
    config, said, _ = drafted(path, capsys, "--force")
    assert len(config["robot"]["contact"]) == 4
    assert "seems to point up" not in said


@full
def test_of_two_halves_of_a_leg_one_has_the_contact(tmp_path, capsys):
    """Eight halves with three rows each would be 24 rows for the 22 velocities of the robot."""
    halves = [
        leg(f"{name}{half}", f"{x} {y + s} 0", "0 0 1")
        for name, (x, y) in CORNERS.items()
        for half, s in zip("ab", (0, 0.02), strict=True)
    ]
    config, said, _ = drafted(write(tmp_path / "halves.urdf", halves), capsys)
    assert [place["frame"] for place in config["robot"]["contact"]] == [f"{name}a_shank" for name in CORNERS]
    assert "another foot is beside them: FLb_shank, FRb_shank, RLb_shank, RRb_shank" in said


def test_legs_of_two_joints_rest_although_their_planes_are_not_exactly_vertical(tmp_path, capsys):
    """With an angle of 1.57075 rad in the URDF a foot cannot reach its place sideways, by 10 nm."""
    parts = [leg(name, f"{x} {y} {0.001 * x}", "0 0 -1", "4.7e-3 0 0") for name, (x, y) in CORNERS.items()]
    _, _, target = drafted(write(tmp_path / "slanted.urdf", parts), capsys)
    robot, stance = load_robot(target)
    q = resting(robot, stance, Flat())
    assert contact_places(robot, q)[:, 2] == pytest.approx([0.02] * 4, abs=1e-8)


@full
def test_a_hand_is_not_a_quadruped(tmp_path, capsys):
    """Its four fingers point up, and their limits do not let them hang below the palm."""
    assert (
        main(
            [
                "new",
                "example-robot-data:allegro_hand_description/urdf/allegro_left_hand.urdf",
                "--out",
                str(tmp_path / "x.toml"),
            ]
        )
        == 0
    )
    assert "fixed to the world" in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.parametrize("limit", first_is_fast([0.2, 3.1]))
def test_a_sole_is_found_in_a_level_frame_of_its_link(tmp_path, capsys, limit):
    """The last frame of the foot is one of a sensor, which is turned. Ankles that turn little stay within their limits."""
    parts = []
    for name, y in (("L", 0.1), ("R", -0.1)):
        foot = '<box size="0.2 0.08 0.02"/>'
        parts += [
            link(f"{name}_thigh", 2.0), link(f"{name}_shin", 1.0), link(f"{name}_foot", 0.5, foot, "0.02 0 -0.05"),
            hinge(f"{name}_hip", "trunk", f"{name}_thigh", f"0 {y} 0"),
            hinge(f"{name}_knee", f"{name}_thigh", f"{name}_shin", "0 0 -0.3"),
            hinge(f"{name}_ankle", f"{name}_shin", f"{name}_foot", "0 0 -0.3", lower=-limit, upper=limit),
            f'<link name="{name}_zz_skin"/><joint name="{name}_skin" type="fixed"><parent link="{name}_foot"/>'
            f'<child link="{name}_zz_skin"/><origin rpy="0.7 0.9 0"/></joint>',
        ]  # fmt: skip
    config, _, target = drafted(write(tmp_path / "two.urdf", parts), capsys)
    soles = config["robot"]["sole"]
    assert [sole["frame"] for sole in soles] == ["L_foot", "R_foot"]
    assert [(sole["length"], sole["width"]) for sole in soles] == [(pytest.approx(0.2), pytest.approx(0.08))] * 2
    robot, stance = load_robot(target)
    assert np.ptp(contact_places(robot, stance)[:, 2]) < 1e-5
    assert (np.abs(robot.joint_angles(stance)[[2, 5]]) <= limit).all()


@pytest.mark.full
def test_fingers_in_a_row_are_no_legs(tmp_path, capsys):
    """As of a hand whose fingers point down: with its four ends in one line it tips over."""
    parts = [leg(name, f"{0.1 * k - 0.15} {0.001 * (-1) ** k} 0", "0 0 -1") for k, name in enumerate("abcd")]
    config, said, _ = drafted(write(tmp_path / "hand.urdf", parts), capsys)
    assert config["robot"]["base"] == "fixed"
    assert "its feet are so close together that it tips over" in said
    parts = [leg(name, f"{0.1 * k - 0.15} {0.1 * (-1) ** k} 0", "0 0 -1") for k, name in enumerate("abcd")]
    config, said, _ = drafted(write(tmp_path / "hand.urdf", parts), capsys, "--force")
    assert len(config["robot"]["contact"]) == 4


def test_an_arm_whose_base_has_no_inertia_is_fixed_to_the_world(tmp_path, capsys):
    """A floating base without mass below a joint about z has a singular mass matrix."""
    arm = link("upper", 1.0, at="0 0 0.2") + hinge("turn", "base", "upper", axis="0 0 1")
    path = tmp_path / "arm.urdf"
    path.write_text(f'<robot name="arm"><link name="base"/>{arm}</robot>', encoding="utf-8")
    config, said, _ = drafted(path, capsys)
    assert config["robot"]["base"] == "fixed"
    assert "its base has no inertia of its own" in said
    path.write_text(path.read_text().replace('iyy="0.01" izz="0.01"', 'iyy="nan" izz="0.01"'), encoding="utf-8")
    assert main(["new", str(path), "--out", str(tmp_path / "other.toml")]) == 2
    assert "link upper: inertia iyy: expected a finite number" in capsys.readouterr().err
