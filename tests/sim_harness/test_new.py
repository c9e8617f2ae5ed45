"""`idyn new`: configurations drafted from URDFs and MJCFs of robots that have no shipped settings."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
import urdf
from cli import fails, prints
from disk import written
from fast import every, every_row, first_is_fast, full
from stands import quiet

from controllers.command import Inputs
from controllers.config.loading import files
from controllers.robot.kinematics import contact_places, resting
from idyn import Flat, Robot, State, load_controller, load_robot
from sim_harness.commands.main import main
from sim_harness.measure.verdict import Ending
from sim_harness.new.draft import draft, load
from sim_harness.new.source import find_model, poses_of
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan
from transport.bridges.unitree.robot import unitree_robot
from transport.protocol.joint_map import joint_slots

DATA = "example-robot-data:"
QUADRUPEDS = {
    "go1": "go1_description/urdf/go1.urdf",
    "hyq": "hyq_description/robots/hyq_no_sensors.urdf",
    "laikago": "laikago_description/urdf/laikago.urdf",
    "b1": "b1_description/urdf/b1.urdf",
    "anymal-c": "anymal_c_simple_description/urdf/anymal.urdf",
}
STANDING = ("solo_description/robots/solo.urdf", "panda_description/urdf/panda.urdf", "z1_description/urdf/z1.urdf")
DRAFTED = [path for path in files("experiments").values() if path.parent.name == "drafted"]
FOOT = urdf.touching('sphere radius="0.02"', -0.18)
WHEEL = urdf.touching('cylinder radius="0.07" length="0.03"', rpy="1.570796 0 0")
CORNERS = {"FL": (0.2, 0.1), "FR": (0.2, -0.1), "RL": (-0.2, 0.1), "RR": (-0.2, -0.1)}  # hips of the small quadruped [m]


def drafted(urdf, folder, *options):
    path = folder / "mine.toml"
    assert main(["new", DATA + urdf, "--out", str(path), *options]) == 0
    return path


@every_row(
    (QUADRUPEDS["go1"], {"FL_foot", "FR_foot", "RL_foot", "RR_foot"}, 0.02),
    (QUADRUPEDS["hyq"], {"lf_foot", "lh_foot", "rf_foot", "rh_foot"}, 0.0217),
    ("solo_description/robots/solo.urdf", {"FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"}, 0.016),
)
def test_feet_are_found_with_their_radii(file, frames, radius, tmp_path):
    """From spheres of the URDF, and from meshes: solo's is a sphere of 16 mm."""
    contact = tomllib.loads(drafted(file, tmp_path).read_text())["robot"]["contact"]
    assert {place["frame"] for place in contact} == frames
    assert [place["radius"] for place in contact] == pytest.approx([radius] * 4, abs=1.5e-3)


@every(("urdf", "most"), first_is_fast([
    ("talos_data/robots/talos_reduced.urdf", 0.015), ("alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf", 0.01)
]))  # fmt: skip
def test_a_humanoid_stands_with_its_mass_above_two_level_soles(urdf, most, tmp_path):
    """Alexander has no pose; with its feet below the hips its centre of mass was in front of the toes."""
    robot, stance = load_robot(str(drafted(urdf, tmp_path, "--force")))
    places, com = contact_places(robot, stance), robot.center_of_mass(stance)
    assert len(places) == 8
    assert np.ptp(places[:, 2]) < 1e-5
    assert np.abs(places.mean(axis=0) - com)[:2].max() < most


@pytest.mark.long
@pytest.mark.parametrize("urdf", ["human_description/robots/human.urdf", "tiago_description/robots/tiago_dual.urdf"])
def test_a_pose_at_a_joint_limit_stays_inside_it(tmp_path, urdf):
    """Limits of 1.5708 rad: an angle rounded to 1 mrad would be 1.571 rad."""
    robot, stance = load_robot(str(drafted(urdf, tmp_path)))
    angles = robot.joint_angles(stance)
    assert np.all((robot.limits.q_min <= angles) & (angles <= robot.limits.q_max))


@full
def test_gains_follow_the_inertia_of_light_joints(tmp_path):
    """B1's gripper: its inertia about its axis, with the robot free, is below damping × period. No rotor is invented for it."""
    path = drafted("b1_description/urdf/b1-z1.urdf", tmp_path)
    controller = load_controller(str(path))
    robot, stance = controller.robot, controller.stance
    apparent = 1 / np.diag(np.linalg.inv(robot.terms(stance, np.zeros(robot.nv)).M))[robot.tree.a]
    command = controller.step(State(q=stance, v=np.zeros(robot.nv)), controller.contacts(stance), Inputs(dt=0.0))
    asked, light = controller.settings.drive.kd, robot.joint_names.index("jointGripper")
    assert "armature" not in tomllib.loads(path.read_text())["robot"]
    assert asked * 1e-3 > apparent[light]
    assert command.drive.kd[light] * 1e-3 == pytest.approx(0.5 * apparent[light])
    assert (command.drive.kd == asked).sum() > 12


@full
def test_an_arm_is_fixed_to_the_world_in_a_pose_that_its_motors_hold(tmp_path):
    """Baxter's shoulders hold less than its arms stretched out, the pose at zero."""
    robot, pose = load_robot(str(drafted("baxter_description/urdf/baxter.urdf", tmp_path)))
    assert load(robot, robot.neutral()) > 1
    assert load(robot, pose) < 0.5
    robot = tomllib.loads(drafted("panda_description/urdf/panda.urdf", tmp_path, "--force").read_text())["robot"]
    assert (robot["base"], "contact" in robot) == ("fixed", False)


def test_what_mujoco_refuses_is_simulated_by_the_default_engine(tmp_path, capsys):
    path = drafted("icub_description/robots/icub_reduced.urdf", tmp_path)
    assert "A + B >= C" in capsys.readouterr().out
    assert "engine" not in tomllib.loads(path.read_text())["experiment"]


def test_a_file_is_replaced_only_when_told(tmp_path, capsys):
    path = drafted(QUADRUPEDS["go1"], tmp_path)
    before = path.read_text()
    assert "the file exists" in fails(capsys, "new", DATA + QUADRUPEDS["go1"], "--out", str(path), "--stand")
    assert path.read_text() == before
    drafted(QUADRUPEDS["go1"], tmp_path, "--stand", "--force")
    assert "gait" in before
    assert "gait" not in path.read_text()


def leg(name, x, y):
    """A leg of an MJCF: three hinges, a sphere at its end."""
    link = '<inertial pos="0 0 -0.1" mass="0.4" diaginertia="0.003 0.003 0.001"/>'
    return (
        f'<body name="{name}_hip" pos="{x} {y} 0"><joint name="{name}_roll" axis="1 0 0"/>{link}'
        f'<body name="{name}_thigh"><joint name="{name}_pitch" axis="0 1 0"/>{link}'
        f'<body name="{name}_shank" pos="0 0 -0.2"><joint name="{name}_knee" axis="0 1 0" range="-2.5 -0.1"/>{link}'
        '<geom type="sphere" size="0.02" pos="0 0 -0.2"/></body></body></body>'
    )


@pytest.fixture
def mjcf(tmp_path):
    names = [f"{side}{end}" for end in "FR" for side in "LR"]
    legs = "".join(leg(n, 0.2 if "F" in n else -0.2, 0.1 if "L" in n else -0.1) for n in names)
    motors = "".join(f'<motor joint="{n}_{j}" ctrlrange="-30 30"/>' for n in names[::-1] for j in ("roll", "pitch", "knee"))
    path = tmp_path / "four.xml"
    path.write_text(
        '<mujoco model="four"><compiler angle="radian" autolimits="true"/><worldbody>'
        '<body name="trunk"><freejoint/><inertial pos="0 0 0" mass="10" diaginertia="0.1 0.3 0.3"/>'
        f'<site name="imu" pos="0.1 0 0.05" euler="3.14159265 0 0"/>{legs}</body></worldbody><actuator>{motors}</actuator>'
        '<sensor><gyro site="imu"/></sensor><keyframe>'
        f'<key name="home" qpos="0 0 0.3 1 0 0 0 {"0 0.7 -1.4 " * 4}"/></keyframe></mujoco>'
    )
    return path


def test_an_mjcf_is_drafted_with_the_pose_of_its_keyframe_and_places_on_the_wire(mjcf, tmp_path):
    """Without them the server read beyond the end of a state, and crashed."""
    target = tmp_path / "mine.toml"
    assert main(["new", str(mjcf), "--out", str(target)]) == 0
    config = tomllib.loads(target.read_text())
    assert [place["radius"] for place in config["robot"]["contact"]] == [0.02] * 4
    assert (config["robot"]["standing"]["LF_knee"], config["controller"]["reference"]["kind"]) == (-1.4, "gait")
    sensing = config["controller"]["estimator"]
    assert [*sensing["imu"], *np.abs(sensing["imu_quat"])] == pytest.approx([0.1, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0], abs=1e-6)
    assert unitree_robot(str(target)).motors[:3] == ("RR_roll", "RR_pitch", "RR_knee")
    assert load_controller(str(target)).settings.period == 0.002  # of the bridge's states
    robot = Robot.from_mjcf(mjcf)
    slots = joint_slots(robot)
    assert tuple(slot.name for slot in slots) == robot.joint_names
    assert [slot.q for slot in slots] == [(k,) for k in range(7, 19)]
    assert [slot.v for slot in slots] == [(k,) for k in range(6, 18)]


@full
def test_an_mjcf_is_simulated_without_a_file_of_its_own(mjcf, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "keyframe 'home'" in prints(capsys, "simulate", str(mjcf), "--seconds", "3", "--json", "figures.json")
    (run,) = json.loads((tmp_path / "figures.json").read_text())
    assert run["verdict"]["upright"]
    assert run["drift"] > 0.3
    assert {path.name for path in tmp_path.iterdir()} == {"four.xml", "figures.json"}


@full
def test_a_robot_is_found_by_its_name_which_its_file_gets(tmp_path, monkeypatch):
    """The models of hyq and anymal_c are hyq_no_sensors.urdf and anymal.urdf."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "b1"]) == 0
    assert tomllib.loads((tmp_path / "b1.toml").read_text())["robot"]["urdf"] == DATA + QUADRUPEDS["b1"]
    assert main(["new", "hyq"]) == 0
    assert main(["new", "anymal_c"]) == 0
    assert main(["new", DATA + QUADRUPEDS["hyq"]]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"b1.toml", "hyq.toml", "anymal_c.toml", "hyq_no_sensors.toml"}


def test_a_robot_is_simulated_by_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "finger_edu", "--seconds", "0.01"]) == 0
    assert "to keep and change these settings: idyn new finger_edu" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@every_row(("g1", "stand-g1, walk-g1"), ("bolt", "walk-bolt"), ("fivebar", "squat-fivebar, trot-fivebar"))
def test_a_robot_without_a_draft_names_its_experiments(robot, experiments, tmp_path, monkeypatch, capsys):
    """Several models have the name, no draft stands, or the robot is none of the collection."""
    monkeypatch.chdir(tmp_path)
    assert f"; experiments of that name: {experiments}" in fails(capsys, "simulate", robot)


def test_a_mimic_is_said_before_other_warnings(tmp_path, capsys):
    """`idyn new` shows four of them; here five links have an inertia that no body has."""
    parts = [urdf.link("l0")]
    for k in range(6):
        bent = '<mimic joint="j0" multiplier="2"/>' if k == 5 else ""
        parts.append(urdf.link(f"l{k + 1}", 1.0, (0.01 if k == 5 else 0.05, 0.01, 0.01)))
        parts.append(urdf.joint(f"j{k}", f"l{k}", f"l{k + 1}", bent, axis="0 1 0", at=0.1, kind="continuous"))
    path = written(tmp_path / "finger.urdf", urdf.robot("finger", *parts))
    said = prints(capsys, "new", str(path), "--out", str(tmp_path / "x.toml"))
    assert "joint j5: mimic is ignored: nothing holds the joint at 2 · j0 + 0" in said
    assert "and 2 more warnings: idyn check" in said


@every(("value", "lowest"), [("-1.5", -1.5), ("-3.0718", -3.0718)])
def test_a_given_srdf_is_used_also_for_a_joint_at_its_limit(tmp_path, value, lowest):
    srdf = tmp_path / "mine.srdf"
    srdf.write_text(f'<robot><group_state name="standing"><joint name="panda_joint4" value="{value}"/></group_state></robot>')
    config = tomllib.loads(drafted("panda_description/urdf/panda.urdf", tmp_path, "--srdf", str(srdf)).read_text())
    assert lowest <= config["robot"]["standing"]["panda_joint4"] == pytest.approx(lowest, abs=1e-3)


@every_row(
    ("anymal", "several robots have this name"),
    ("hyqq", "nearest: hyq"),
    ("robot.urdf.xacro", "expand it first"),
    ("missing.urdf", "no such file"),
    ("robot_descriptions:no_such_robot", "robot_descriptions"),
    (DATA + "iris_description/robots/iris_simple.urdf", "expected at least one joint with a motor"),
)
def test_what_is_not_found_or_has_no_motors_is_said(word, message, capsys, tmp_path):
    assert message in fails(capsys, "new", word, "--out", str(tmp_path / "x.toml"))
    assert not (tmp_path / "x.toml").exists()


@full
@pytest.mark.parametrize("urdf", [*QUADRUPEDS.values(), *STANDING])
def test_a_draft_trots_or_stands_in_mujoco_at_the_first_try(tmp_path, urdf):
    path, figures = drafted(urdf, tmp_path), tmp_path / "figures.json"
    assert main(["simulate", str(path), "--seconds", "4", "--json", str(figures)]) == 0
    (run,) = json.loads(figures.read_text())
    assert run["verdict"]["upright"]
    assert run["tracking"] < 0.01
    if urdf not in STANDING:
        gait = tomllib.loads(path.read_text())["controller"]["reference"]
        assert run["drift"] > 0.7 * 4 * gait["path"]["velocity"][0]


@every("path", first_is_fast(DRAFTED))
def test_a_shipped_draft_is_what_new_writes(path):
    assert path.stem in QUADRUPEDS
    model = find_model(tomllib.loads(path.read_text(encoding="utf-8"))["robot"]["urdf"], Path.cwd())
    assert draft(model, poses_of(model)).text == path.read_text(encoding="utf-8")


def robot(places, wheels):
    """Return a URDF with a leg of three joints on each side at each of the places [m], which end in wheels or in spheres."""
    parts = [urdf.link("trunk", 5.0, (0.1, 0.1, 0.02), more=urdf.touching('box size="0.5 0.2 0.08"'))]
    for i, x in enumerate(places):
        for side, s in (("l", 1), ("r", -1)):
            name = f"{side}{i}"
            parts.append(urdf.link(f"{name}_hip", 0.3, (1e-3, 1e-3, 2e-4)))
            parts.append(urdf.link(f"{name}_thigh", 0.4, (2e-3, 2e-3, 4e-4), -0.08))
            parts.append(urdf.link(f"{name}_shank", 0.15, (6e-4, 6e-4, 1.2e-4), -0.08, "" if wheels else FOOT))
            for k, parent, child, at, axis, lower, upper in (
                (1, "trunk", f"{name}_hip", (x, 0.1 * s, 0), "1 0 0", -0.8, 0.8),
                (2, f"{name}_hip", f"{name}_thigh", (0, 0.06 * s, 0), "0 1 0", -1.5, 2.5),
                (3, f"{name}_thigh", f"{name}_shank", -0.18, "0 1 0", -2.6, -0.2),
            ):
                parts.append(urdf.joint(f"{name}_{k}", parent, child, axis=axis, at=at, limits=(lower, upper, 25, 20)))
            if wheels:
                parts.append(urdf.link(f"{name}_wheel", 0.2, (1e-3, 1e-3, 2e-4), more=WHEEL))
                axle, turns = f"{name}_shank", '<limit effort="25" velocity="20"/>'
                parts.append(urdf.joint(f"{name}_4", axle, f"{name}_wheel", turns, axis="0 1 0", at=-0.18, kind="continuous"))
    return urdf.robot("legs", *parts)


@every(("places", "wheels", "radius"), first_is_fast([((0.2, -0.2), True, 0.07), ((0.25, 0.0, -0.25), False, 0.02)]))
def test_it_stands_in_its_own_world(tmp_path, capsys, places, wheels, radius):
    path, draft = tmp_path / "legs.urdf", tmp_path / "legs.toml"
    path.write_text(robot(places, wheels), encoding="utf-8")
    said = prints(capsys, "new", str(path), "--out", str(draft))
    contact = tomllib.loads(draft.read_text())["robot"]["contact"]
    assert len(contact) == 2 * len(places)
    assert {place["radius"] for place in contact} == {radius}
    assert all("offset" not in place for place in contact) == wheels  # a sphere about the axle
    assert ("a sphere of its radius about its axle" in said) == wheels
    assert "stood" in prints(capsys, "simulate", str(draft), "--seconds", "0.5")


def solid(name, mass, shape="", at=0.0):
    return urdf.link(name, mass, 0.01, more=urdf.touching(shape, at) if shape else "")


def hinge(name, parent, child, at=0.0, axis="0 1 0", lower=-3.1, upper=3.1, rpy="0 0 0"):
    return urdf.joint(name, parent, child, axis=axis, at=at, rpy=rpy, limits=(lower, upper, 50, 30))


def flat_leg(name, hip, along=(1, 0, 0), parent="trunk", rpy="0 0 0"):
    """A leg of two joints in its plane, 0.4 m long; at angles of zero it points along `along` of the base turned by `rpy`."""
    end, middle = 0.2 * np.array(along), 0.1 * np.array(along)
    parts = [solid(f"{name}_thigh", 0.3, 'sphere radius="0.01"', middle)]
    parts.append(solid(f"{name}_shank", 0.2, 'sphere radius="0.02"', end))
    parts.append(hinge(f"{name}_pitch", parent, f"{name}_thigh", hip, rpy=rpy))
    return "".join([*parts, hinge(f"{name}_knee", f"{name}_thigh", f"{name}_shank", end)])


def write(path, parts):
    path.write_text(urdf.robot("four", solid("trunk", 6.0, 'box size="0.4 0.2 0.1"'), *parts), encoding="utf-8")
    return path


def drafted_with_words(urdf, capsys, *options):
    target = urdf.with_suffix(".toml")
    assert main(["new", str(urdf), "--out", str(target), *options]) == 0
    return tomllib.loads(target.read_text(encoding="utf-8")), " ".join(capsys.readouterr().out.split()), str(target)


def quadruped(path, along):
    parts = []
    for name, (x, y) in CORNERS.items():
        parts += [solid(f"hip_{name}", 0.3), hinge(f"{name}_roll", "trunk", f"hip_{name}", (x, y, 0), axis="1 0 0")]
        parts.append(flat_leg(name, 0.0, along, f"hip_{name}"))
    return write(path, parts)


@pytest.mark.full
@pytest.mark.parametrize("along", [(0, 0, 1), (1, 0, 0)])
def test_legs_that_lie_flat_or_point_up_at_zero_are_found(tmp_path, capsys, along):
    """As of Spirit 40, whose legs lie flat at zero, and of Minitaur, whose legs point up."""
    config, _, target = drafted_with_words(quadruped(tmp_path / "four.urdf", along), capsys)
    assert [place["frame"] for place in config["robot"]["contact"]] == [f"{name}_shank" for name in CORNERS]
    assert config["controller"]["reference"]["kind"] == "gait"
    robot, stance = load_robot(target)
    places = contact_places(robot, stance)
    assert places[:, 2] == pytest.approx([0.02] * 4, abs=1e-5)
    assert stance[2] > 0.3
    assert np.sign(places[:, :2]).tolist() == [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    assert "walked" in prints(capsys, "simulate", target, "--seconds", "4")


@full
def test_a_model_with_y_up_is_told_how_to_turn(tmp_path, capsys):
    """The same quadruped turned about its x axis; the joint that the message names turns it back."""
    legs = [flat_leg(name, (x, 0, -y), (0, -1, 0)) for name, (x, y) in CORNERS.items()]
    path = write(tmp_path / "lying.urdf", [leg.replace('axis xyz="0 1 0"', 'axis xyz="0 0 1"') for leg in legs])
    said = fails(capsys, "new", str(path), "--out", str(tmp_path / "refused.toml"))
    assert "another axis of the base than z seems to point up: y. 4 feet reach the ground then" in said
    assert "--fixed fixes the robot to the world" in said
    rpy = said.partition('rpy="')[2].partition('"')[0]
    turn = urdf.link("root") + urdf.joint("turn", "root", "trunk", rpy=rpy)
    path.write_text(path.read_text().replace("</robot>", f"{turn}</robot>"), encoding="utf-8")
    config, said, _ = drafted_with_words(path, capsys, "--force")
    assert len(config["robot"]["contact"]) == 4
    assert "seems to point up" not in said


@full
def test_of_two_halves_of_a_leg_one_has_the_contact(tmp_path, capsys):
    """Eight halves with three rows each would be 24 rows for the 22 velocities of the robot."""
    places = [(f"{name}{half}", (x, y + s, 0)) for name, (x, y) in CORNERS.items() for half, s in (("a", 0), ("b", 0.02))]
    halves = [flat_leg(name, place, (0, 0, 1)) for name, place in places]
    config, said, _ = drafted_with_words(write(tmp_path / "halves.urdf", halves), capsys)
    assert [place["frame"] for place in config["robot"]["contact"]] == [f"{name}a_shank" for name in CORNERS]
    assert "another foot is beside them: FLb_shank, FRb_shank, RLb_shank, RRb_shank" in said


@full
def test_legs_of_two_joints_rest_although_their_planes_are_not_exactly_vertical(tmp_path, capsys):
    """With an angle of 1.57075 rad in the URDF a foot cannot reach its place sideways, by 10 nm."""
    parts = [flat_leg(name, (x, y, 0.001 * x), (0, 0, -1), rpy="4.7e-3 0 0") for name, (x, y) in CORNERS.items()]
    _, _, target = drafted_with_words(write(tmp_path / "slanted.urdf", parts), capsys)
    robot, stance = load_robot(target)
    q = resting(robot, stance, Flat())
    assert contact_places(robot, q)[:, 2] == pytest.approx([0.02] * 4, abs=1e-8)


@full
def test_a_hand_is_not_a_quadruped(tmp_path, capsys):
    """Its four fingers point up, and their limits do not let them hang below the palm."""
    urdf = DATA + "allegro_hand_description/urdf/allegro_left_hand.urdf"
    assert "fixed to the world" in prints(capsys, "new", urdf, "--out", str(tmp_path / "x.toml"))


@pytest.mark.full
@pytest.mark.parametrize("limit", [0.2, 3.1])
def test_a_sole_is_found_in_a_level_frame_of_its_link(tmp_path, capsys, limit):
    """The last frame of the foot is one of a sensor, which is turned. Ankles that turn little stay within their limits."""
    parts = []
    for name, y in (("L", 0.1), ("R", -0.1)):
        foot = 'box size="0.2 0.08 0.02"'
        parts += [
            solid(f"{name}_thigh", 2.0), solid(f"{name}_shin", 1.0), solid(f"{name}_foot", 0.5, foot, (0.02, 0, -0.05)),
            hinge(f"{name}_hip", "trunk", f"{name}_thigh", (0, y, 0)),
            hinge(f"{name}_knee", f"{name}_thigh", f"{name}_shin", -0.3),
            hinge(f"{name}_ankle", f"{name}_shin", f"{name}_foot", -0.3, lower=-limit, upper=limit),
            urdf.link(f"{name}_zz_skin"), urdf.joint(f"{name}_skin", f"{name}_foot", f"{name}_zz_skin", rpy="0.7 0.9 0"),
        ]  # fmt: skip
    config, _, target = drafted_with_words(write(tmp_path / "two.urdf", parts), capsys)
    soles = config["robot"]["sole"]
    assert [sole["frame"] for sole in soles] == ["L_foot", "R_foot"]
    assert [(sole["length"], sole["width"]) for sole in soles] == [(pytest.approx(0.2), pytest.approx(0.08))] * 2
    robot, stance = load_robot(target)
    assert np.ptp(contact_places(robot, stance)[:, 2]) < 1e-5
    assert (np.abs(robot.joint_angles(stance)[[2, 5]]) <= limit).all()


def five_joints(path):
    """Two legs that do not roll their soles, 3 cm wide."""
    parts, axes = [], {"yaw": "0 0 1", "roll": "1 0 0", "thigh": "0 1 0", "shin": "0 1 0", "foot": "0 1 0"}
    for side, y in (("L", 0.12), ("R", -0.12)):
        above, at = "trunk", [(0, y, 0), 0.0, 0.0, -0.35, -0.35]
        for (name, axis), place in zip(axes.items(), at, strict=True):
            sole = 'box size="0.24 0.03 0.02"' if name == "foot" else ""
            parts += [solid(side + name, 1.0, sole, (0.03, 0, -0.06)), hinge(f"{side}_{name}", above, side + name, place, axis)]
            above = side + name
    return write(path, parts)


def test_a_robot_on_legs_of_five_joints_stands_by_tasks(tmp_path, capsys):
    """Such soles cannot roll: they count as edges, as long as the motor of the ankle bears the weight at their ends."""
    path = five_joints(tmp_path / "two.urdf")
    config, _, target = drafted_with_words(path, capsys, "--stand")
    assert (len(config["robot"]["contact"]), config["controller"]["reference"]["commands"]) == (4, [])
    assert sorted(place["offset"][0] for place in config["robot"]["contact"]) == [-0.09, -0.09, 0.15, 0.15]
    assert "stood 4.0 s" in prints(capsys, "simulate", target, "--seconds", "4")
    path.write_text(path.read_text(encoding="utf-8").replace('effort="50"', 'effort="15.7"'), encoding="utf-8")  # of 157 N
    config, *_ = drafted_with_words(path, capsys, "--force")
    ends = [place["offset"][0] for place in config["robot"]["contact"]]
    assert np.allclose(sorted(ends), [-0.09, -0.09, 0.1, 0.1], atol=1e-3)


@full
def test_a_robot_on_legs_of_five_joints_walks_and_stops_though_it_is_pushed(tmp_path, capsys):
    """In the world the soles are as wide as in the file. Pushes of 0.15 weights come from four sides."""
    config, _, target = drafted_with_words(five_joints(tmp_path / "two.urdf"), capsys)
    assert config["controller"]["reference"]["step"].get("width", 0.24) == pytest.approx(0.24)
    push = "[[experiment.push]]\nweights = [0.0, 0.15, 0.0]\nstart = 3.0\nduration = 0.1\nevery = 1.7\nturn = 1.57079633\n"
    Path(target).write_text(Path(target).read_text(encoding="utf-8") + push, encoding="utf-8")
    run = run_in_process(load_plan(target, 14.0), "walk", quiet)
    assert run.summary.verdict.ending == Ending.WALKED, run.summary.verdict.text
    ((seconds, speed, *_),) = config["controller"]["reference"]["commands"]
    assert run.trace.q[-1, 0] == pytest.approx(seconds * speed, rel=0.15)
    assert run.summary.tilt < 0.1
    assert run.summary.torque_rate < 200.0
    assert run.trace.share("ok") > 0.99


@pytest.mark.full
def test_fingers_in_a_row_are_no_legs(tmp_path, capsys):
    """As of a hand whose fingers point down: with its four ends in one line it tips over."""
    for apart in (0.001, 0.1):
        parts = [flat_leg(name, (0.1 * k - 0.15, apart * (-1) ** k, 0), (0, 0, -1)) for k, name in enumerate("abcd")]
        config, said, _ = drafted_with_words(write(tmp_path / "hand.urdf", parts), capsys, "--force")
        tips = apart < 0.1
        assert (config["robot"].get("base") == "fixed", "its feet are so close together that it tips over" in said) == (
            tips,
            tips,
        )
        assert len(config["robot"].get("contact", [])) == (0 if tips else 4)


def test_an_arm_whose_base_has_no_inertia_is_fixed_to_the_world(tmp_path, capsys):
    """A floating base without mass below a joint about z has a singular mass matrix."""
    arm = solid("upper", 1.0) + hinge("turn", "base", "upper", axis="0 0 1")
    path = written(tmp_path / "arm.urdf", urdf.robot("arm", urdf.link("base"), arm))
    config, said, _ = drafted_with_words(path, capsys)
    assert config["robot"]["base"] == "fixed"
    assert "its base has no inertia of its own" in said
    path.write_text(path.read_text().replace('iyy="0.01" izz="0.01"', 'iyy="nan" izz="0.01"'), encoding="utf-8")
    assert main(["new", str(path), "--out", str(tmp_path / "other.toml")]) == 2
    assert "link upper: inertia iyy: expected a finite number" in capsys.readouterr().err
