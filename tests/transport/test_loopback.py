"""A client and a service in one process, through bytes: a legged robot, one with a free body, and a wheel."""

import msgspec
import numpy as np
import pytest
from standin import SpringDamper, resting
from wire import expect

from controllers.build import build_controller, load_controller
from transport.protocol.joint_map import joint_slots
from transport.protocol.messages.base import Code
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.robot.client import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback


def test_each_state_gets_its_torque(robot):
    service = Service(SpringDamper(robot), ServerSettings(controller="standin"))
    with Loopback(service, hello_for(robot, 1e-3, kind="sim")) as client:
        client.hello()
        for tick in range(200):
            torque = expect(TorqueMessage, client.exchange(resting(robot, tick)))
            assert torque.seq == tick + 1
        assert torque.comm.rtt_p50_us > 0
        assert client.exchange(resting(robot, 200, q=[0.0])) is None
        assert client.error.code is Code.WRONG_LENGTH
        assert client.exchange(resting(robot, 200)) is not None
        assert client.error is None


@pytest.fixture
def controller():
    return load_controller("arm")


def ask(controller, q, v, names=None):
    """The torque (na), or the error, for one state; `names`: the client's order of joints, its q and v in that order."""
    hello = hello_for(controller.robot, 1e-3, kind="sim")
    if names is not None:
        hello = msgspec.structs.replace(hello, joint_names=names)
    client = Loopback(Service(build_controller(controller.settings), ServerSettings(controller="arm")), hello)
    client.hello()
    reply = client.exchange(StateMessage(q=q.tobytes(), vel=v.tobytes(), t_robot=0))
    return client.error if reply is None else np.frombuffer(reply.tau)


def moved(controller):
    rng = np.random.default_rng(0)
    robot = controller.robot
    q = robot.integrate(controller.stance, np.r_[np.zeros(3), 0.2, -0.1, 0.3, np.zeros(11)])
    return q, 0.01 * rng.normal(size=robot.nv)


def test_a_client_may_order_joints_and_free_bodies(controller):
    q, v = moved(controller)
    slots = joint_slots(controller.robot)
    assert "BOX_FREE" in [slot.name for slot in slots]
    other = [slots[i] for i in np.random.default_rng(1).permutation(len(slots))]
    shuffled = np.concatenate([q[list(s.q)] for s in other]), np.concatenate([v[list(s.v)] for s in other])
    np.testing.assert_array_equal(ask(controller, *shuffled, [s.name for s in other]), ask(controller, q, v))


def test_a_quaternion_is_normalised_or_refused(controller):
    q, v = moved(controller)
    rough, wrong = q.copy(), q.copy()
    rough[3:7] *= 1 + 1e-7
    wrong[3:7] *= 1.1
    np.testing.assert_allclose(ask(controller, rough, v), ask(controller, q, v), atol=1e-9)
    error = ask(controller, wrong, v)
    assert error.code is Code.QUATERNION_NOT_UNIT
    assert "q[3:7]" in (error.field or "")
