"""`idyn new`: configurations drafted from URDFs of robots that nobody set up."""

import json
import tomllib

import numpy as np
import pytest
from fast import full

from controllers.robot.kinematics import contact_places
from controllers.robot.load import load_robot
from sim_harness.commands.main import main

DATA = "example-robot-data:"
QUADRUPEDS = {
    "go1": "go1_description/urdf/go1.urdf",
    "hyq": "hyq_description/robots/hyq_no_sensors.urdf",
    "laikago": "laikago_description/urdf/laikago.urdf",
    "b1": "b1_description/urdf/b1.urdf",
}


def drafted(urdf, folder, *options):
    path = folder / "mine.toml"
    assert main(["new", DATA + urdf, "--out", str(path), *options]) == 0
    return path


@pytest.mark.parametrize(
    ("urdf", "frames", "radius"),
    [
        (QUADRUPEDS["go1"], {"FL_foot", "FR_foot", "RL_foot", "RR_foot"}, 0.02),
        (QUADRUPEDS["hyq"], {"lf_foot", "lh_foot", "rf_foot", "rh_foot"}, 0.0217),
        ("solo_description/robots/solo.urdf", {"FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"}, 0.016),
    ],
)
def test_feet_are_found_with_their_radii(tmp_path, urdf, frames, radius):
    """From spheres of the URDF, and from meshes: solo's is a sphere of 16 mm."""
    contact = tomllib.loads(drafted(urdf, tmp_path).read_text())["robot"]["contact"]
    assert {place["frame"] for place in contact} == frames
    assert [place["radius"] for place in contact] == pytest.approx([radius] * 4, abs=1.5e-3)


def test_a_humanoid_stands_on_two_level_soles(tmp_path):
    robot, stance = load_robot(str(drafted("talos_data/robots/talos_reduced.urdf", tmp_path)))
    places = contact_places(robot, stance)
    assert len(places) == 8
    assert np.ptp(places[:, 2]) < 1e-5
    assert places[:, 0].min() < robot.frames.centroidal(stance, np.zeros(robot.nv)).position[0] < places[:, 0].max()


def test_an_arm_is_fixed_to_the_world(tmp_path):
    robot = tomllib.loads(drafted("panda_description/urdf/panda.urdf", tmp_path).read_text())["robot"]
    assert (robot["base"], "contact" in robot) == ("fixed", False)


def test_a_file_is_replaced_only_when_told(tmp_path, capsys):
    path = drafted(QUADRUPEDS["go1"], tmp_path)
    before = path.read_text()
    assert main(["new", DATA + QUADRUPEDS["go1"], "--out", str(path), "--stand"]) == 2
    assert "the file exists" in capsys.readouterr().err
    assert path.read_text() == before
    drafted(QUADRUPEDS["go1"], tmp_path, "--stand", "--force")
    assert "gait" in before
    assert "gait" not in path.read_text()


def test_a_robot_without_motors_is_refused(capsys, tmp_path):
    assert main(["new", DATA + "iris_description/robots/iris_simple.urdf", "--out", str(tmp_path / "x.toml")]) == 2
    assert "expected at least one joint with a motor" in capsys.readouterr().err
    assert not (tmp_path / "x.toml").exists()


@full
@pytest.mark.parametrize("name", QUADRUPEDS)
def test_a_quadruped_trots_in_mujoco_at_the_first_try(tmp_path, name):
    figures = tmp_path / "figures.json"
    path = drafted(QUADRUPEDS[name], tmp_path)
    assert main(["simulate", str(path), "--seconds", "4", "--json", str(figures)]) == 0
    (run,) = json.loads(figures.read_text())
    assert run["upright"]
    assert run["tracking"] < 0.01


@full
@pytest.mark.parametrize(
    "urdf",
    [
        "solo_description/robots/solo.urdf",
        "panda_description/urdf/panda.urdf",
        "z1_description/urdf/z1.urdf",
    ],
)
def test_other_robots_stand_in_mujoco(tmp_path, urdf):
    figures = tmp_path / "figures.json"
    assert main(["simulate", str(drafted(urdf, tmp_path)), "--seconds", "4", "--json", str(figures)]) == 0
    (run,) = json.loads(figures.read_text())
    assert run["upright"]
    assert run["tracking"] < 0.01
