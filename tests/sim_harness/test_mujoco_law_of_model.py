"""The law read from an MJCF: forces in that very model, and what it refuses."""

import msgspec
import mujoco
import numpy as np
import pytest
from fast import every

from idyn import predict
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import State
from sim_harness.mujoco.law import load_model, read_law

DT = 5e-4

ROBOT = """<mujoco>
  <option timestep="0.0005" cone="elliptic" impratio="3" tolerance="0" iterations="200" ls_iterations="200"/>
  <default><joint damping="0.02" frictionloss="0.1" armature="0.01" range="-0.05 0.3" margin="0.01"/>
    <default class="foot"><geom type="sphere" size="0.03" solref="0.01 0.9" friction="0.5 0.005 0.0001" solmix="2"/></default>
  </default>
  <worldbody>{ground}
    <body name="trunk" pos="0 0 0.4"><freejoint/>
      <inertial pos="0.01 0 0" mass="6" diaginertia="0.06 0.05 0.07"/>{legs}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>"""

GROUND = '<geom name="floor" type="plane" size="0 0 1" solref="0.03 1.1" solimp="0.8 0.9 0.002" margin="0.001" friction="0.7"/>'

LEG = """<body name="thigh{i}" pos="{x} {y} 0">
  <joint name="hip{i}" type="hinge" axis="0 1 0" limited="true"/>
  <inertial pos="0 0 -0.1" mass="0.4" diaginertia="0.002 0.002 0.0005"/>
  <body name="shank{i}" pos="0 0 -0.2"><joint name="knee{i}" type="hinge" axis="0 1 0" limited="true"/>
    <inertial pos="0 0 -0.08" mass="0.2" diaginertia="0.001 0.001 0.0002"/>
    <geom type="cylinder" size="0.01 0.05" pos="0 0 -0.05" condim="1"/>
    <geom name="foot{i}" class="foot" pos="0 0 -0.17"/>
  </body>
</body>"""

CORNERS = [(0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1)]


def text_of(ground=GROUND, *changes):
    legs = "".join(LEG.format(i=i, x=x, y=y) for i, (x, y) in enumerate(CORNERS))
    motors = "".join(f'<motor joint="{name}{i}" ctrlrange="-1000 1000"/>' for i in range(4) for name in ("hip", "knee"))
    text = ROBOT.format(ground=ground, legs=legs, motors=motors)
    for before, after in changes:
        text = text.replace(before, after)
    return text


def loaded(folder, *changes):
    paths = folder / "robot.xml", folder / "scene.xml"
    for path, ground in zip(paths, ("", GROUND), strict=True):
        path.write_text(text_of(ground, *changes), encoding="utf-8")
    return Robot.from_mjcf(paths[0]), load_model(paths[1])


@every(("condim", "integrator"), [(3, "Euler"), (4, "implicitfast"), (6, "implicit")])
@every("cone", ["elliptic", "pyramidal"])
def test_forces_are_those_of_the_model(tmp_path, cone, condim, integrator):
    """Parameters of feet and floor are mixed by MuJoCo; joints have damping, dry friction and limits. Shanks have a shape
    that is no contact of the robot."""
    options = ("elliptic", f'{cone}" integrator="{integrator}')
    robot, model = loaded(tmp_path, options, ('type="sphere"', f'type="sphere" condim="{condim}"'))
    found, data, pressed = read_law(model, robot), mujoco.MjData(model), 0
    assert found.timestep == DT
    assert set(found.friction) == set(robot.contact_names)
    law, mu = found.law.build(), np.array([found.friction[key] for key in robot.contact_names])
    motors = [model.joint(name).dofadr[0] for name in robot.joint_names]
    hinges = [model.joint(name).qposadr[0] for name in robot.joint_names]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        q = robot.integrate(robot.neutral(), np.r_[np.zeros(3), rng.uniform(-0.1, 0.1, robot.nv - 3)])
        q[2] -= contacts_from_geometry(robot, q, Flat(), margin=np.inf).gaps.min() + rng.uniform(-5e-4, 2e-3)
        v = 0.5 * rng.normal(size=robot.nv)
        contacts = contacts_from_geometry(robot, q, Flat(), margin=0.01, mu=mu)
        answer = predict(robot, State(q=q, v=v), contacts, 20.0 * rng.normal(size=robot.na), law=law, dt=DT)
        assert answer.status.ok
        assert answer.residuals.worst < 1e-10
        data.qpos[:7], data.qpos[hinges] = np.r_[q[:3], q[[6, 3, 4, 5]]], q[7:]
        mujoco.mj_kinematics(model, data)
        data.qvel[:6] = np.r_[data.xmat[1].reshape(3, 3) @ v[:3], v[3:6]]
        data.qvel[motors], data.qfrc_applied[motors] = v[6:], answer.tau
        data.qacc_warmstart[:] = 0.0
        mujoco.mj_step1(model, data)
        mujoco.mj_step2(model, data)
        forces, wrench = dict.fromkeys(answer.keys, np.zeros(3)), np.zeros(6)
        for i in range(data.ncon):
            mujoco.mj_contactForce(model, data, i, wrench)
            geom = model.geom(int(data.contact.geom[i].max()))
            forces[f"{model.body(geom.bodyid[0]).name}.{geom.name}"] = wrench[:3] @ data.contact.frame[i].reshape(3, 3)
        for key, force in zip(answer.keys, answer.force, strict=True):
            np.testing.assert_allclose(force, forces[key], atol=1e-9 * robot.weight)
        np.testing.assert_allclose(data.qvel[motors], answer.v_plus[6:], atol=1e-9)
        pressed += answer.normal_force.max(initial=0.0) > 1.0
    assert pressed >= 5


REFUSED = {
    "option.integrator": ('cone="elliptic"', 'cone="elliptic" integrator="RK4"'),
    "option.noslip_iterations": ('cone="elliptic"', 'cone="elliptic" noslip_iterations="3"'),
    "geom.shank0.foot0": ('type="sphere" size="0.03"', 'type="capsule" size="0.03 0.02"'),
    "joint.stiffness": ('damping="0.02"', 'damping="0.02" stiffness="1"'),
    "option.density": ('cone="elliptic"', 'cone="elliptic" density="1.2"'),
}


@every("named", REFUSED)
def test_what_the_law_does_not_support_is_named(tmp_path, named):
    robot, _ = loaded(tmp_path)
    path = tmp_path / "other.xml"
    path.write_text(text_of(GROUND, REFUSED[named]), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read_law(load_model(path), robot)
    assert error.value.path == named


def test_a_model_with_other_masses_is_refused(tmp_path):
    robot, model = loaded(tmp_path)
    heavier = robot.variant(armature=dict.fromkeys(robot.joint_names, 0.02))
    with pytest.raises(ConfigError, match="inverse inertia"):
        read_law(model, heavier)
    with pytest.raises(ConfigError, match="MuJoCo cannot compile"):
        load_model(tmp_path / "missing.xml")


def test_the_settings_survive_a_file(tmp_path):
    robot, model = loaded(tmp_path)
    law = read_law(model, robot).law
    assert msgspec.json.decode(msgspec.json.encode(law), type=type(law)) == law
