"""Robots from MJCF against MuJoCo itself: mass matrix, bias, kinematics, limits, contacts, and what is refused."""

import pickle
import tomllib

import mujoco
import numpy as np
import pytest
from cli import fails, prints
from disk import written
from fast import every, every_row

from idyn import Flat, InputError, ModelError, Robot, State, contacts_from_geometry, load_robot, predict
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.robot_model import bodies_of

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
MAST = '<inertial pos="0 0 0.1" mass="0.5" diaginertia="0.002 0.002 0.001"/>'
WELD = '<equality><weld {} body1="trunk" body2="mast"/></equality><actuator>'
BELT = '<tendon><fixed {}><joint joint="hip" coef="1"/></fixed></tendon><actuator>'


def text_of(name):
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


def test_limits_armature_contacts_and_base_are_read_with_their_classes(robot_of):
    robot = robot_of("hopper")
    assert (robot.name, robot.floating, robot.joint_names) == ("hopper", True, ("hip", "knee"))
    assert robot.description.unactuated == ("lift",)
    np.testing.assert_array_equal(robot.limits.tau_max, [20.0, 30.0])
    np.testing.assert_array_equal(robot.limits.q_min, [-1.0, -2.5])
    np.testing.assert_array_equal(robot.limits.q_max, [2.0, -0.3])
    assert [robot.description.armature[name] for name in ("hip", "knee", "lift")] == [0.01, 0.01, 0.5]
    assert robot.contact_names == ("shank.toe",)
    np.testing.assert_array_equal(robot.spheres.radii, [0.02])
    np.testing.assert_array_equal(robot.spheres.mu, [0.4])
    assert robot.frames.placement("root_joint", robot.neutral()).translation.tolist() == [0.0, 0.0, 0.0]
    other = robot_of("hopper", tau_max={"knee": 3.0}, contact=())
    assert other.limits.tau_max.tolist() == [20.0, 3.0]
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
    path = written(tmp_path / "hopper.xml", HOPPER)
    with pytest.raises(ModelError, match=r"expected a URDF, got an MJCF: use `Robot\.from_mjcf`"):
        Robot.from_urdf(path)


def test_check_reads_an_mjcf_with_its_contacts_and_limits(tmp_path, capsys):
    path = written(tmp_path / "hopper.xml", HOPPER)
    printed = prints(capsys, "check", str(path))
    assert "contact points shank.toe" in printed
    assert "hopper.knee: no effort limit" not in printed
    assert "--fixed: expected a URDF" in fails(capsys, "check", str(path), "--fixed")


def test_a_configuration_may_name_an_mjcf(tmp_path):
    (tmp_path / "hopper.xml").write_text(HOPPER)
    file = written(tmp_path / "hopper.toml", 'urdf = "hopper.xml"\n[standing]\nhip = 0.5\nknee = -1.0\n')
    assert tomllib.loads(file.read_text())["urdf"] == "hopper.xml"
    robot, stance = load_robot(str(file))
    assert robot.contact_names == ("shank.toe",)
    assert (robot.description.armature["lift"], robot.joint_angles(stance).tolist()) == (0.5, [0.5, -1.0])
    file.write_text('urdf = "hopper.xml"\nbase = "fixed"\n')
    with pytest.raises(InputError, match=r"base: expected 'free_flyer', as .*hopper\.xml has it"):
        load_robot(str(file))


@every_row(
    ("<option ", '<include file="x.xml"/><option ', "compiler refuses it: .*x.xml"),
    ("<actuator>", WELD.format(""), "equality 'equality0': weld"),
    ("<actuator>", BELT.format('name="belt" stiffness="9"'), "tendon 'belt': a spring"),
    ('<joint name="hip" axis="0 1 0" range="-1 2"/>', '<joint name="hip" type="ball"/>', "joint 'hip': a ball joint"),
    ('<joint name="hip"', '<joint name="hip" range="0 0" limited="true"', "refuses it|expected lower < upper"),
    ('<body name="mast"', '<body name="mast" gravcomp="0.5"', "body 'mast': gravcomp 0.5"),
    ('<motor name="hip" joint="hip"/>', '<muscle name="calf" joint="hip"/>', "actuator 'calf': a muscle"),
    ("</mujoco>", "", "compiler refuses it: XML"),
)
def test_what_is_not_supported_is_refused_and_named(before, after, message, robot_of):
    assert before in HOPPER
    with pytest.raises(ModelError, match=message):
        robot_of("hopper", HOPPER.replace(before, after, 1))


def test_all_that_is_not_supported_is_named_in_one_message(robot_of):
    text = HOPPER
    for body in ("mast", "thigh"):
        text = text.replace(f'<body name="{body}"', f'<body gravcomp="1" name="{body}"')
    text = text.replace("<actuator>", WELD.format('name="bond"'))
    with pytest.raises(ModelError, match="body 'thigh': gravcomp 1; body 'mast': gravcomp 1; equality 'bond': weld"):
        robot_of("hopper", text)


FEATURES = {
    "degrees": ('<compiler angle="radian"', "<compiler"),
    "anchor beside the origin": ('<joint name="hip"', '<joint name="hip" pos="0.03 0.02 0.01"'),
    "reference angle": ('<joint name="hip"', '<joint name="hip" ref="0.4" pos="0.03 0.02 0.01"'),
    "reference length": ('<joint name="lift"', '<joint name="lift" ref="0.1"'),
    "axis and angle": ('quat="0.97 0 0.2 0.1"', 'axisangle="1 1 0 0.4"'),
    "right angle": ('quat="0.97 0 0.2 0.1"', 'euler="0.3 1.5707963267948966 0.2"'),
    "two joints": ('<joint name="hip"', '<joint name="yaw" axis="0 0 1" pos="0 0.1 0"/><joint name="hip"'),
    "slide and hinge": ('<joint name="hip"', '<joint name="rail" type="slide" axis="0.6 0 0.8" ref="0.2"/><joint name="hip"'),
    "inertia of geoms": (MAST, '<geom size="0.1" mass="1.5"/>'),
    "total mass": ("<compiler ", '<compiler boundmass="3" '),
    "gravity": ('gravity="0 0 -9.81"', 'gravity="0.4 0.2 -1.6"'),
    "fixed base": ("<freejoint/>", ""),
    "inclined fixed base": ('pos="0 0 0.5">\n      <freejoint/>', 'pos="0 0 0.5" euler="0.3 0.5 0.1">'),
    "armature of the base": ("<freejoint/>", '<joint name="base" type="free"/>'),
    "joint without a name": ('<joint name="lift" ', "<joint "),
    "empty equality": ("<actuator>", "<equality/><actuator>"),
    "constraint that is off": ("<actuator>", WELD.format('active="false"')),
    "tendon that does nothing": ("<actuator>", BELT.format("")),
    "a table beside": ("</worldbody>", '<body name="table" pos="1 0 0"><geom type="box" size="1 1 1"/></body></worldbody>'),
    "a mocap body beside": ("</worldbody>", '<body name="target" mocap="true"><geom size="0.1"/></body></worldbody>'),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@every("name", ["hopper", "go2", "g1", *FEATURES])
def test_what_the_file_says_is_what_mujoco_makes_of_it(robot_of, name):
    """Places, and kinetic energy and weight by quantities of MuJoCo that `Reading.check` does not use: energies."""
    before, after = FEATURES.get(name, ("", ""))
    assert before in HOPPER
    text = HOPPER.replace(before, after, 1) if before else text_of(name)
    robot, model = robot_of(name, text), mujoco.MjModel.from_xml_string(text)
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data, rng = mujoco.MjData(model), np.random.default_rng(5)
    assert robot.nv == model.nv
    names = {model.joint(i).name or f"{model.body(model.jnt_bodyid[i]).name}_joint": i for i in range(model.njnt)}
    joints = [names[name] for name in robot.tree.dof_names[6 * robot.floating :]]  # in a URDF's order
    places, dofs = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
    first, step = 7 * robot.floating, 1e-6
    order = np.concatenate([np.arange(6 * robot.floating), dofs])
    for _ in range(3):
        angles, v = 0.5 * rng.normal(size=model.nq - first), rng.normal(size=model.nv)
        turn = rng.normal(size=4)
        turn /= np.linalg.norm(turn)
        qpos = np.concatenate([[0.1, 0.2, 0.3], turn, angles]) if robot.floating else angles
        q = qpos[places]
        if robot.floating:
            q = np.concatenate([[0.1, 0.2, 0.3], turn[[1, 2, 3, 0]], q])
        data.qpos[:], data.qvel[:] = qpos, v
        mujoco.mj_forward(model, data)
        for i in range(1, model.nbody):
            if (body := model.body(i).name) in robot.frames.names:
                np.testing.assert_allclose(robot.frames.placement(body, q).translation, data.xpos[i], atol=1e-12)
        rotation = data.xmat[1].reshape(3, 3).copy() if robot.floating else np.eye(3)
        own = v.copy()
        if robot.floating:
            own[:3] = rotation.T @ v[:3]
        own = own[order]
        assert 0.5 * own @ robot.terms(q, own).M @ own == pytest.approx(data.energy[1], rel=1e-9)
        weight = robot.terms(q, np.zeros(robot.nv)).h  # the gradient of the potential energy
        slope = np.zeros(robot.nv)
        for k in range(robot.nv):
            for sign in (1.0, -1.0):
                mujoco.mj_resetData(model, data)
                data.qpos[:] = qpos
                along = np.zeros(model.nv)
                along[k] = sign * step
                if robot.floating:
                    along[:3] = rotation @ along[:3]
                mujoco.mj_integratePos(model, data.qpos, along, 1.0)
                mujoco.mj_forward(model, data)
                slope[k] += sign * data.energy[0] / (2.0 * step)
        np.testing.assert_allclose(weight, slope[order], atol=1e-6 * max(1.0, np.abs(slope).max()))


@every("joint", ["<freejoint/>", '<joint name="door" axis="0 0 1"/>'])
def test_a_body_that_moves_beside_the_robot_is_left_out_and_said(robot_of, joint):
    text = HOPPER.replace("</worldbody>", f'<body name="other">{joint}<geom size="0.1"/></body></worldbody>')
    robot = robot_of("hopper", text)
    assert robot.nv == robot_of("hopper").nv
    assert ("other", "moves beside the robot and is not part of the model") in [(f.where, f.message) for f in robot.inspect()]


def test_limits_are_the_smallest_and_forces_and_spheres_that_are_left_out_are_reported(robot_of):
    text = HOPPER.replace('<joint name="hip"', '<joint name="hip" actuatorfrcrange="-7 7"')
    assert robot_of("hopper", text).limits.tau_max.tolist() == [7.0, 30.0]
    text = HOPPER.replace('<motor name="hip" joint="hip"/>', '<position name="hip" joint="hip" kp="50" forcerange="-9 8"/>')
    assert robot_of("hopper", text).limits.tau_max.tolist() == [9.0, 30.0]
    text = HOPPER.replace('<joint name="hip"', '<joint name="hip" stiffness="5" frictionloss="2"')
    found = {(each.where, each.message) for each in robot_of("hopper", text).inspect()}
    said = "dynamics: damping 0.3 N·m·s/rad, friction 2 N·m, stiffness 5 N·m/rad: not part of the prediction"
    assert ("hip", said) in found
    text = HOPPER.replace("<freejoint/>", '<geom name="foot of the stand" size="0.05"/>')
    assert robot_of("hopper", text).contact_names == ("shank.toe",)


def test_a_loop_closed_by_connect_is_closed_in_the_robot(robot_of):
    rod = '<equality><connect name="rod" body1="shank" body2="mast" anchor="0 0 -0.1"/></equality><actuator>'
    text = HOPPER.replace("<actuator>", rod)
    robot = robot_of("hopper", text)
    gaps, _ = robot.closure_gaps(robot.neutral())
    assert len(robot.closures.keys) == 1
    np.testing.assert_allclose(gaps, 0.0, atol=1e-12)
