"""Robots from MJCF against MuJoCo itself: mass matrix, bias, kinematics, limits, contacts, and what is refused."""

import pickle
import tomllib

import mujoco
import numpy as np
import pytest

from controllers.robot.load import load_robot
from idyn import ModelError, Robot, State, contacts_from_geometry, predict
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.mujoco.robot_model import bodies_of
from sim_harness.mujoco.settings import MujocoSettings

HOPPER = """
<mujoco model="hopper">
  <compiler angle="radian" autolimits="true"/>
  <option gravity="0 0 -9.81"/>
  <default>
    <geom friction="0.7"/>
    <joint armature="0.01" damping="0.3"/>
    <motor ctrlrange="-20 20"/>
    <default class="knee">
      <joint axis="0 1 0" range="-2.5 -0.3"/>
      <motor ctrlrange="-5 5" gear="6"/>
      <default class="foot"><geom type="sphere" size="0.02" pos="0 0 -0.2" friction="0.4 0.02 0.01"/></default>
    </default>
  </default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="trunk" pos="0 0 0.5">
      <freejoint/>
      <inertial pos="0.01 0 0.02" quat="0.9 0.1 0.3 0.3" mass="4" diaginertia="0.03 0.04 0.05"/>
      <geom type="box" size="0.2 0.1 0.05"/>
      <body name="thigh" pos="0.1 0.05 0" quat="0.97 0 0.2 0.1">
        <joint name="hip" axis="0 1 0" range="-1 2"/>
        <inertial pos="0 0.01 -0.1" mass="0.8" fullinertia="0.004 0.005 0.002 0.0001 -0.0002 0.0003"/>
        <body name="shank" pos="0 0 -0.2" childclass="knee">
          <joint name="knee"/>
          <inertial pos="0 0 -0.1" mass="0.2" diaginertia="0.001 0.001 0.0001"/>
          <geom name="toe" class="foot"/>
          <geom type="sphere" size="0.01" contype="0" conaffinity="0"/>
        </body>
      </body>
      <body name="mast" pos="0 0 0.1">
        <joint name="lift" type="slide" axis="0 0.6 0.8" armature="0.5" range="0 0.3"/>
        <inertial pos="0 0 0.1" mass="0.5" diaginertia="0.002 0.002 0.001"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="hip" joint="hip"/>
    <motor name="knee" class="knee" joint="knee"/>
  </actuator>
</mujoco>
"""


def text_of(name):
    """MJCF of a shipped robot, as MuJoCo writes it."""
    if name == "hopper":
        return HOPPER
    spec = bodies_of(load_robot(name)[0], MujocoSettings())
    for joint in spec.joints:
        joint.name = f"joint of {joint.parent.name}"
    spec.compile()
    return spec.to_xml()


@pytest.fixture
def robot_of(tmp_path):
    def robot(name, text=None, **settings):
        (tmp_path / "robot.xml").write_text(text or text_of(name))
        return Robot.from_mjcf(tmp_path / "robot.xml", **settings)

    return robot


@pytest.mark.parametrize("name", ["hopper", "go2", "g1"])
def test_mass_matrix_bias_and_places_are_those_of_mujoco(robot_of, name):
    text = text_of(name)
    robot, model = robot_of(name, text), mujoco.MjModel.from_xml_string(text)
    data, rng = mujoco.MjData(model), np.random.default_rng(2)
    assert [model.joint(i).name for i in range(model.njnt)][robot.floating :] == list(robot.joint_names)
    for _ in range(10):
        qpos, qvel, turn = 0.4 * rng.normal(size=model.nq), rng.normal(size=model.nv), np.eye(model.nv)
        q = qpos.copy()
        if robot.floating:
            qpos[3:7] /= np.linalg.norm(qpos[3:7])
            q[:7] = qpos[[0, 1, 2, 4, 5, 6, 3]]
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(model, data)
        v, drift = qvel.copy(), np.zeros(model.nv)
        if robot.floating:  # MuJoCo: linear velocity along world axes; here: along the base's
            R = data.xmat[1].reshape(3, 3)
            turn[:3, :3], v[:3] = R, R.T @ qvel[:3]
            drift[:3] = R @ np.cross(qvel[3:6], v[:3])  # ẍ = R (v̇ + ω × v)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        terms = robot.terms(q, v)
        np.testing.assert_allclose(terms.M, turn.T @ M @ turn, atol=1e-9 * np.abs(M).max())
        bias = turn.T @ (data.qfrc_bias + M @ drift)
        np.testing.assert_allclose(terms.h, bias, atol=1e-9 * max(1.0, np.abs(bias).max()))
        for i in range(1, model.nbody):
            place = robot.frames.placement(model.body(i).name, q).translation
            np.testing.assert_allclose(place, data.xpos[i], atol=1e-12)


def test_limits_armature_contacts_and_base_are_read_with_their_classes(robot_of):
    robot = robot_of("hopper")
    assert (robot.name, robot.floating, robot.joint_names) == ("hopper", True, ("hip", "knee", "lift"))
    np.testing.assert_array_equal(robot.limits.tau_max, [20.0, 30.0, np.inf])
    np.testing.assert_array_equal(robot.limits.q_min, [-1.0, -2.5, 0.0])
    np.testing.assert_array_equal(robot.limits.q_max, [2.0, -0.3, 0.3])
    assert robot.description.armature == {"hip": 0.01, "knee": 0.01, "lift": 0.5}
    assert robot.contact_names == ("shank.toe",)
    np.testing.assert_array_equal(robot.spheres.radii, [0.02])
    np.testing.assert_array_equal(robot.spheres.mu, [0.4])
    assert robot.frames.placement("root_joint", robot.neutral()).translation.tolist() == [0.0, 0.0, 0.0]
    other = robot_of("hopper", tau_max={"knee": 3.0}, contact=())
    assert other.limits.tau_max.tolist() == [20.0, 3.0, np.inf]
    assert not other.contact_names


def test_a_robot_from_mjcf_predicts_and_is_pickled(robot_of):
    robot = robot_of("hopper")
    again = pickle.loads(pickle.dumps(robot))
    state = State(q=robot.neutral(), v=np.zeros(robot.nv))
    contacts = contacts_from_geometry(robot, state.q, Flat(), margin=10.0)
    one, other = (predict(each, state, contacts, np.zeros(robot.na), law="no-slip", dt=1e-3) for each in (robot, again))
    assert np.isfinite(one.tau).all()
    np.testing.assert_array_equal(one.tau, other.tau)


def test_an_mjcf_is_not_read_as_a_urdf(tmp_path):
    """Its contacts and torque limits would be missing."""
    path = tmp_path / "hopper.xml"
    path.write_text(HOPPER)
    with pytest.raises(ModelError, match=r"expected a URDF, got an MJCF: use `Robot\.from_mjcf`"):
        Robot.from_urdf(path)


def test_check_reads_an_mjcf_with_its_contacts_and_limits(tmp_path, capsys):
    path = tmp_path / "hopper.xml"
    path.write_text(HOPPER)
    assert main(["check", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "contact points shank.toe" in printed
    assert "hopper.knee: no valid effort limit" not in printed
    assert main(["check", str(path), "--fixed"]) == 2
    assert "--fixed: expected a URDF" in capsys.readouterr().err


def test_a_configuration_may_name_an_mjcf(tmp_path):
    (tmp_path / "hopper.xml").write_text(HOPPER)
    file = tmp_path / "hopper.toml"
    file.write_text('urdf = "hopper.xml"\n[standing]\nhip = 0.5\nknee = -1.0\n')
    assert tomllib.loads(file.read_text())["urdf"] == "hopper.xml"
    robot, stance = load_robot(str(file))
    assert robot.contact_names == ("shank.toe",)
    assert robot.description.armature["lift"] == 0.5
    assert robot.joint_angles(stance).tolist() == [0.5, -1.0, 0.0]
    file.write_text('urdf = "hopper.xml"\nbase = "fixed"\n')
    with pytest.raises(ConfigError, match="expected 'free_flyer', as the MJCF has it"):
        load_robot(str(file))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("<mujoco", "<robot", "not XML|expected an MJCF"),
        ("<option ", '<include file="x.xml"/><option ', "'include' is not supported"),
        ("<actuator>", '<equality><connect body1="trunk" anchor="0 0 0"/></equality><actuator>', "'equality' is not"),
        ("<actuator>", '<tendon><fixed><joint joint="hip" coef="1"/></fixed></tendon><actuator>', "'tendon' is not"),
        ('<joint name="hip"', '<joint name="hip2" axis="1 0 0"/><joint name="hip"', "'thigh': expected at most one joint"),
        ('<inertial pos="0 0 0.1" mass="0.5" diaginertia="0.002 0.002 0.001"/>', "", "'mast' moves and needs"),
        ('<joint name="hip"', '<joint name="hip" ref="0.2"', "'hip': expected ref 0"),
        ('<body name="trunk"', '<body name="ball"/><body name="trunk"', "expected one body in 'worldbody'"),
        ('<joint name="knee"/>', "<joint/>", "'shank': expected a name for its joint"),
        ("</mujoco>", "", "not XML"),
    ],
)
def test_what_is_not_supported_is_refused_and_named(robot_of, before, after, message):
    assert before in HOPPER
    with pytest.raises(ModelError, match=message):
        robot_of("hopper", HOPPER.replace(before, after, 1))


def test_a_refused_element_is_named_with_its_line(robot_of):
    text = HOPPER.replace("<actuator>", "<tendon/>\n<actuator>", 1)
    line = 1 + text[: text.index("<tendon/>")].count("\n")
    with pytest.raises(ModelError, match=rf"line {line}: the element 'tendon'"):
        robot_of("hopper", text)
