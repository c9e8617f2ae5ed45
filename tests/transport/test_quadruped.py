"""The shipped server configuration with the product's own controller; a client and a service in one process."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from wire import expect

from controllers.build import build_controller, controller_from_snapshot, load_controller
from controllers.config.loading import load
from controllers.controller import Controller
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.log.replay import replay
from transport.protocol.joint_map import joint_slots
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import Config, ConfigGet, ConfigSet
from transport.protocol.messages.state import Contact, Reference, StateMessage, TorqueMessage
from transport.robot.client import hello_for
from transport.server.reconfigure import ControllerBuilder
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback
from transport.startup.warm_up import warm_up

TICKS = 60


@pytest.fixture(scope="module")
def controller():
    return load_controller(load("server", "quadruped", ServerSettings).controller)


def recorded(controller: Controller, tmp_path: Path, demand: float = 0.0) -> Path:
    """Record a robot that trembles on its feet. demand: size of random accelerations asked for in every third tick [rad/s²]"""
    settings = load("server", "quadruped", ServerSettings)
    warm_up(controller, settings)
    path = tmp_path / "run.mcap"
    recorder = Recorder(path, attachments(controller.snapshot(), settings), metadata(controller.robot, seed=5))
    clock = iter(range(0, 10**12, 250_000))
    service = Service(controller, settings, recorder=recorder)
    robot = controller.robot
    client = Loopback(service, hello_for(robot, 1e-3, kind="sim"), clock=clock.__next__)
    client.hello()
    rng = np.random.default_rng(5)
    tau = np.zeros(robot.na)
    for tick in range(TICKS):
        q, v = controller.stance.copy(), 0.05 * rng.normal(size=robot.nv)
        q[7:] += 0.02 * rng.normal(size=robot.na)
        still = np.zeros(robot.na).tobytes()
        wanted = (demand * rng.normal(size=robot.na)).tobytes()
        ref = Reference(q=robot.joint_angles(q).tobytes(), v=still, a=wanted) if demand and tick % 3 == 0 else None
        message = StateMessage(q=q.tobytes(), vel=v.tobytes(), tau_applied=tau.tobytes(), t_robot=tick * 1_000_000, ref=ref)
        reply = expect(TorqueMessage, client.exchange(message))
        assert reply.solver is not None
        tau = np.frombuffer(reply.tau)
    recorder.close()
    return path


@pytest.mark.full
def test_a_replay_with_the_same_law_is_identical_and_with_another_reports_differences(controller, tmp_path):
    record = recorded(controller, tmp_path)
    report = replay(record)
    assert (report.exact, report.ticks) == (True, TICKS)
    report = replay(record, law="convex")
    assert report.ticks == TICKS
    assert report.differences.tau_max > 0


def test_ticks_of_the_fallback_cascade_repeat_themselves(controller, tmp_path):
    assert replay(recorded(controller, tmp_path, demand=1e4)).exact


def test_the_law_can_be_changed_while_no_client_controls(controller):
    settings = ServerSettings(controller="quadruped")
    service = Service(controller, settings, builder=ControllerBuilder(controller_from_snapshot, in_thread=False))
    client = Loopback(service, hello_for(controller.robot, 1e-3), clock=lambda: 0)
    reply = expect(Config, client.ask(ConfigSet(settings={"law": "convex"})))
    assert reply.settings["law"]["kind"] == "convex"
    assert client.ask(ConfigGet()) == reply
    refused = expect(ErrorMessage, client.ask(ConfigSet(settings={"law": "konvex"})))
    assert "convex" in refused.message


def test_the_reply_reports_the_model_mismatch():
    """A robot that hangs by its trunk: it stays where it is, as predicted, but its feet feel nothing."""
    controller = load_controller("paper-stand")
    robot, contacts = controller.robot, controller.contacts(controller.stance)
    service = Service(controller, ServerSettings(controller="paper-stand"))
    client = Loopback(service, hello_for(robot, 1e-3), clock=iter(range(0, 10**12, 250_000)).__next__)
    client.hello()
    nothing = np.zeros(3).tobytes()
    feet = [
        Contact(frame=key, p=p.tobytes(), n=n.tobytes(), f_sensed=nothing, sensed_valid=True)
        for key, p, n in zip(contacts.keys, contacts.points, contacts.normals, strict=True)
    ]
    replies = []
    for tick in range(150):
        q, v = controller.stance.tobytes(), np.zeros(robot.nv).tobytes()
        replies.append(client.exchange(StateMessage(q=q, vel=v, t_robot=tick * 1_000_000, contacts=feet)))
    assert replies[0].reality is None
    for tick, reply in enumerate(replies[1:], 1):
        assert reply.reality.motion < 1e-6
        assert reply.reality.force == pytest.approx(1 - np.exp(-tick / 100), rel=1e-6)
    assert (replies[100].status, replies[100].message, replies[-1].status) == ("ok", "", "degraded")
    differ = "the sensed contact forces differ by 77 % of the weight from the prediction, the motion"
    assert replies[-1].message.startswith(differ)


@pytest.fixture
def arm():
    return load_controller("arm")


def ask(arm, q, v, names=None):
    """The torque (na), or the error, for one state; `names`: the client's order of joints, its q and v in that order."""
    hello = hello_for(arm.robot, 1e-3, kind="sim")
    if names is not None:
        hello = msgspec.structs.replace(hello, joint_names=names)
    client = Loopback(Service(build_controller(arm.settings), ServerSettings(controller="arm")), hello)
    client.hello()
    reply = client.exchange(StateMessage(q=q.tobytes(), vel=v.tobytes(), t_robot=0))
    return client.error if reply is None else np.frombuffer(reply.tau)


def moved(arm):
    rng = np.random.default_rng(0)
    robot = arm.robot
    q = robot.integrate(arm.stance, np.r_[np.zeros(3), 0.2, -0.1, 0.3, np.zeros(11)])
    return q, 0.01 * rng.normal(size=robot.nv)


def test_a_client_may_order_joints_and_free_bodies(arm):
    q, v = moved(arm)
    slots = joint_slots(arm.robot)
    assert "BOX_FREE" in [slot.name for slot in slots]
    other = [slots[i] for i in np.random.default_rng(1).permutation(len(slots))]
    shuffled = np.concatenate([q[list(s.q)] for s in other]), np.concatenate([v[list(s.v)] for s in other])
    np.testing.assert_array_equal(ask(arm, *shuffled, [s.name for s in other]), ask(arm, q, v))


def test_a_quaternion_is_normalised_or_refused(arm):
    q, v = moved(arm)
    rough, wrong = q.copy(), q.copy()
    rough[3:7] *= 1 + 1e-7
    wrong[3:7] *= 1.1
    np.testing.assert_allclose(ask(arm, rough, v), ask(arm, q, v), atol=1e-9)
    error = ask(arm, wrong, v)
    assert error.code is Code.QUATERNION_NOT_UNIT
    assert "q[3:7]" in (error.field or "")
