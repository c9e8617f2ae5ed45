"""What an observer sees of the controlled robot: `tick_get`."""

import numpy as np
import pytest
from rig import Rig
from standin import standing, state

from controllers.build import load_controller
from idyn.model.robot import Robot
from transport.protocol.codec import decode, encode
from transport.protocol.messages.requests import Stop, Tick, TickGet
from transport.protocol.messages.state import Imu, StateMessage
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback
from transport.startup.warm_up import warm_up


def look(rig: Rig) -> Tick:
    tick = rig.send(TickGet(), b"observer")
    assert isinstance(tick, Tick)
    return tick


def test_there_is_no_state_before_the_first_one_and_after_the_session(rig: Rig) -> None:
    assert look(rig) == Tick(urdf_sha256=rig.robot.urdf_sha256)
    rig.greet()
    assert look(rig).state is None
    rig.tick(1)
    assert look(rig).state is not None
    rig.send(Stop(session=rig.session))
    assert look(rig).state is None
    rig.greet()
    assert look(rig).state is None  # that of the session before


def test_the_order_is_the_servers(rig: Rig, robot: Robot) -> None:
    names = list(robot.joint_names)
    rig.greet(joint_names=names[::-1], actuated=names[::-1])
    q = standing(robot)
    q[7:] = 0.01 * np.arange(robot.na)
    backwards = np.concatenate([q[:7], q[:6:-1]])
    imu = Imu(quat=[0.0, 0.0, 0.0, 1.0], gyro=[0.1, 0.2, 0.3], acc=[0.0, 0.0, 9.81])
    reply = rig.send(state(robot, rig.session, 1, q=backwards.tobytes(), imu=imu))
    tick = look(rig)
    assert tick.state is not None
    np.testing.assert_array_equal(np.frombuffer(tick.state.q), q)
    np.testing.assert_array_equal(np.frombuffer(tick.tau), np.frombuffer(reply.tau)[::-1])
    assert (tick.status, tick.message, tick.imu) == (reply.status, reply.message, imu)
    assert tick.state.t_robot == reply.t_robot


def test_a_shadow_is_not_shown(rig: Rig) -> None:
    rig.greet_as(b"shadow", kind="shadow")
    rig.send(rig.state(1), b"shadow")
    assert look(rig).state is None


@pytest.fixture(scope="module")
def service() -> Service:
    controller = load_controller("quadruped")
    warm_up(controller, ServerSettings(controller="quadruped"))
    return Service(controller, ServerSettings(controller="quadruped"))


def test_forces_in_the_world_carry_the_robot_and_act_at_its_feet(service: Service) -> None:
    """Turned about the vertical and standing: the forces add up to the weight, without a moment about the centre of mass."""
    robot, q = service.controller.robot, np.array(service.controller.stance)
    q[3:7] = 0.0, 0.0, np.sin(0.4), np.cos(0.4)
    with Loopback(service, hello_for(robot, 1e-3, kind="sim")) as client:
        client.hello()
        for k in range(20):
            client.exchange(StateMessage(q=q.tobytes(), vel=np.zeros(robot.nv).tobytes(), t_robot=k * 1_000_000))
        tick = decode(service.handle(b"observer", encode(TickGet()), 0).reply)
    assert isinstance(tick, Tick)
    forces = np.array([np.frombuffer(each.force) for each in tick.contact_force])
    points = np.array([np.frombuffer(each.point) for each in tick.contact_force])
    assert {each.frame for each in tick.contact_force} == set(robot.contact_names)
    np.testing.assert_allclose(forces.sum(axis=0), [0.0, 0.0, robot.weight], atol=0.02 * robot.weight)
    np.testing.assert_allclose(points[:, 2], 0.0, atol=2e-3)
    moment = np.cross(points - robot.frames.center_of_mass(q), forces).sum(axis=0)
    np.testing.assert_allclose(moment, 0.0, atol=0.01 * robot.weight)
