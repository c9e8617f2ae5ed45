"""A platform on six motors and a slide on three: differences on the manifold, motor names, wire messages."""

import msgspec
import numpy as np
import pytest
from fast import first_is_fast

from controllers.command import Inputs, Mode, Reference
from controllers.config.loading import parse
from controllers.controller import Controller
from controllers.settings import ControllerSettings
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.model.description import Description
from idyn.model.robot import Robot
from sim_harness.world.worlds import ENGINES, build_world
from transport.protocol.messages.error import Code
from transport.protocol.messages.state import StateMessage
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

DT = 1e-3
INERTIAL = '<inertial><mass value="2"/><inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0" izz="0.04"/></inertial>'
URDF = f"""
<robot name="platforms"><link name="floor"/>
<link name="slide">{INERTIAL}</link><link name="plate">{INERTIAL}</link>
<joint name="rail" type="planar"><parent link="floor"/><child link="slide"/><axis xyz="0 0 1"/></joint>
<joint name="hexapod" type="floating"><parent link="slide"/><child link="plate"/></joint></robot>
"""
NAMES = (*(f"rail.{k}" for k in range(3)), *(f"hexapod.{k}" for k in range(6)))


def build(**settings):
    robot = Robot(Description(urdf=URDF, base="fixed", actuated=("rail", "hexapod"), tau_max={"hexapod.2": 900.0}))
    table = {"robot": "platforms", "feedback": {"kp": 400.0, "kd": 40.0}, "safety": {"torque_rate": np.inf}}
    return Controller(parse(table | settings, ControllerSettings, "test"), robot, robot.neutral())


@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_rotations_take_the_shortest_way(seed):
    """From turns of 2.8 rad to turns of −2.8 rad about one axis: 0.68 rad through π, not 5.6 rad back."""
    c, rng = build(), np.random.default_rng(seed)
    robot, axis = c.robot, rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    start = np.r_[0.1, -0.2, 2.8, 0.1, 0.0, 0.2, 2.8 * axis]
    goal = np.r_[-0.1, 0.1, -2.8, 0.0, 0.1, -0.1, -2.8 * axis]
    there = robot.with_joint_angles(robot.neutral(), goal)
    world = build_world(ENGINES["lcp"](), robot, Flat(-5.0), robot.with_joint_angles(robot.neutral(), start))
    reference = Reference(q=goal, v=np.zeros(9), a=np.zeros(9))
    way = np.linalg.norm(robot.difference(world.q, there))
    begun, furthest = way, 0.0
    for k in range(1500):
        command = c.step(world.state, c.contacts(world.q), Inputs(dt=DT * (k > 0), reference=reference))
        assert command.mode is Mode.OK, command.message
        world.step(command.tau, DT)
        way = np.linalg.norm(robot.difference(world.q, there))
        furthest = max(furthest, way)
    assert furthest < 1.05 * begun < 2.0
    assert way < 1e-3


def test_motors_are_ordered_by_name_on_the_wire():
    """A client with another order of joints and motors gets the same torques, one by one."""
    c = build()
    assert c.robot.joint_names == NAMES
    rng = np.random.default_rng(0)
    q, v = c.robot.integrate(c.robot.neutral(), 0.1 * rng.normal(size=9)), 0.1 * rng.normal(size=9)
    hello = hello_for(c.robot, DT, kind="sim")
    assert (hello.joint_names, hello.actuated) == (["rail", "hexapod"], list(NAMES))
    order = rng.permutation(9)
    other = msgspec.structs.replace(hello, joint_names=["hexapod", "rail"], actuated=[NAMES[i] for i in order])
    torques = []
    for greeting, theirs, speeds in ((hello, q, v), (other, np.r_[q[4:], q[:4]], np.r_[v[3:], v[:3]])):
        client = Loopback(Service(build(), ServerSettings(controller="platforms")), greeting)
        welcome = client.hello()
        reply = client.exchange(StateMessage(q=theirs.tobytes(), vel=speeds.tobytes(), t_robot=0))
        assert reply is not None, client.error
        torques.append(np.frombuffer(reply.tau))
    np.testing.assert_array_equal(torques[1], torques[0][order])
    assert np.frombuffer(welcome.limits.tau_max)[order.tolist().index(5)] == 900.0
    wrong = theirs.copy()
    wrong[7 + 2 :] *= 1.1
    assert client.exchange(StateMessage(q=wrong.tobytes(), vel=speeds.tobytes(), t_robot=1_000_000)) is None
    assert client.error.code is Code.QUATERNION_NOT_UNIT


def test_a_pose_that_jumps_is_ignored_and_joints_of_several_degrees_have_no_drive_stiffness():
    c = build(drive={"kp": 30.0, "kd": 0.5})
    client = Loopback(Service(c, ServerSettings(controller="platforms")), hello_for(c.robot, DT, kind="sim"))
    client.hello()
    turned = c.robot.with_joint_angles(c.robot.neutral(), np.r_[np.zeros(6), 0.3, 0.0, 0.0])
    messages = []
    for k, q in enumerate((c.robot.neutral(), turned)):
        reply = client.exchange(StateMessage(q=q.tobytes(), vel=np.zeros(9).tobytes(), t_robot=k * 1_000_000))
        messages.append(reply.message)
    assert messages[0] == ""
    assert "hexapod.3 moved 0.3 rad" in messages[1]
    assert not np.frombuffer(reply.kp).any()
    assert (np.frombuffer(reply.kd) == 0.5).all()


def test_motions_of_single_axes_are_refused():
    with pytest.raises(ConfigError, match=r"reference.kind: 'sinusoid': .* joints with one degree of freedom, got 'rail.0'"):
        build(reference={"kind": "sinusoid"})
