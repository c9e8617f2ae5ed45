"""Work that is done after the reply has been sent: once, in order, and before the next message is handled."""

import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest
from alarm_table import table
from fast import every
from rig import Rig
from standin import MS, SpringDamper, from_snapshot, hello, resting, standing, state
from wire import expect, routed

from controllers.monitor.alarms import ALARMS, POWER, AlarmSettings
from controllers.monitor.switches import CONTRADICTIONS
from idyn import Robot, RobotClient, hello_for, load_controller
from idyn.types import Array
from transport.log.provenance import attachments, metadata
from transport.log.reader import LogReader
from transport.log.recorder import Recorder
from transport.log.replay import replay
from transport.protocol.codec import decode, encode
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import ClientLimits, Stats, StatsGet, Stop, Tick, TickGet, Welcome
from transport.protocol.messages.state import Flags, Imu, StateMessage, TorqueMessage
from transport.server.service import PERIOD_NS, RateLimit, Service, similar
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback
from transport.startup.serve import keep_fault
from transport.startup.warm_up import warm_up

SETTINGS = ServerSettings(controller="standin")


class Settling(SpringDamper):
    """Counts its calls of `settle`; `fault`: raises an error in it."""

    settled = 0
    fault: Exception | None = None

    def settle(self) -> None:
        self.settled += 1
        if self.fault is not None:
            raise self.fault


class Client:
    """A client of a service without its loop, which calls `settle`."""

    def __init__(self, robot: Robot, recorder: Recorder | None = None) -> None:
        self.controller = Settling(robot)
        self.service = Service(self.controller, SETTINGS, recorder=recorder, clock=lambda: 0)
        self.rig = Rig(robot)
        welcome = expect(Welcome, decode(self.service.handle(b"a", encode(hello(robot)), 0).reply))
        self.rig.session = welcome.session

    def tick(self, seq: int, **changes: object) -> object:
        return decode(self.service.handle(b"a", encode(self.rig.state(seq, **changes)), seq * MS).reply)


def test_the_reply_is_ready_before_the_controller_settles_and_the_next_message_waits_for_it(robot):
    client = Client(robot)
    assert isinstance(client.tick(1), TorqueMessage)
    assert client.controller.settled == 0
    assert client.service.settle() is None
    assert client.service.settle() is None
    assert client.controller.settled == 1
    client = Client(robot)
    client.tick(1)
    assert expect(Stats, decode(client.service.handle(b"b", encode(StatsGet()), MS).reply)).torques == 1
    assert client.controller.settled == 1
    client = Client(robot)
    client.tick(1)
    client.service.overtaken(b"a", encode(client.rig.state(2)), 2 * MS)
    assert client.controller.settled == 1


@pytest.mark.parametrize("told", [True, False])
def test_a_controller_that_fails_to_settle_latches_its_session(robot, tmp_path, told):
    """The reply that was sent is in the log."""
    controller = SpringDamper(robot)
    recorder = Recorder(tmp_path / "run.mcap", attachments(controller.snapshot(), SETTINGS), metadata(robot, None))
    client = Client(robot, recorder)
    client.tick(1)
    client.service.settle()
    client.controller.fault = RuntimeError("a wire came loose")
    assert isinstance(client.tick(2), TorqueMessage)
    if told:
        fault = client.service.settle()
        assert "a wire came loose" in fault.reason
    reply = expect(ErrorMessage, client.tick(3))
    assert reply.code is Code.LATCHED_FAULT
    assert "a wire came loose" in reply.message
    client.service.settle()
    recorder.close()
    report = replay(tmp_path / "run.mcap", build=from_snapshot)
    assert (report.ticks, report.exact) == (2, True)


def test_the_reply_is_sent_before_the_service_settles(robot, tmp_path):
    """The controller settles only after the client has its torque; otherwise the test would time out."""
    controller, arrived = Settling(robot), threading.Event()
    waited: list[bool] = []
    controller.settle = lambda: waited.append(arrived.wait(10.0))
    service = Service(controller, SETTINGS)
    hello = hello_for(robot, 1e-3, kind="sim")
    with (
        routed(service, f"ipc://{tmp_path}/s") as (router, _),
        RobotClient(router.endpoint, hello, deadline_ms=30_000) as client,
    ):
        client.hello()
        reply = client.exchange(resting(robot, 1))
        arrived.set()
    assert isinstance(reply, TorqueMessage)
    assert waited == [True]


def ask(rig: Rig, seq: int, tau_ff: float, **changes: object) -> tuple[Array, Array, Array, bool]:
    """Return tau, tau_ff, tau_fb and ff_limited of a reply to a state for which the controller computes this tau_ff [N·m]."""
    answer = rig.controller.__class__.answer

    def with_feed_forward(state, contacts, inputs):
        command = answer(rig.controller, state, contacts, inputs)
        wanted = 0.0 if inputs.estop else tau_ff
        return msgspec.structs.replace(command, tau_ff=np.full(rig.robot.na, wanted))

    rig.controller.answer = with_feed_forward
    reply = expect(TorqueMessage, rig.tick(seq, **changes))
    tau, ff, fb = (np.frombuffer(each) for each in (reply.tau, reply.tau_ff, reply.tau_fb))
    return tau, ff, fb, reply.ff_limited


@every("wanted", [1e11, -1e11, np.inf])
def test_the_feed_forward_keeps_the_torque_limits(wanted, robot):
    rig = Rig(robot)
    rig.greet(limits=ClientLimits(tau_max=[2.0] * 12))
    tau, ff, fb, limited = ask(rig, 1, wanted)
    assert limited
    np.testing.assert_array_equal(ff, 0.0 if np.isinf(wanted) else 2.0 * np.sign(wanted))
    np.testing.assert_allclose(ff + fb, tau, atol=1e-12)


def test_the_feed_forward_keeps_the_rate_from_its_last_value_and_a_stopped_robot_has_none_at_once(fresh):
    fresh.greet(limits=ClientLimits(dtau_max=[100.0] * 12))
    *_, limited = ask(fresh, 1, 0.5)
    assert not limited
    _, ff, _, limited = ask(fresh, 2, 2.0)
    np.testing.assert_allclose(ff, 0.6)
    assert limited
    _, ff, _, _ = ask(fresh, 3, 0.5, flags=Flags(estop=True))
    assert not ff.any()


def look(rig: Rig) -> Tick:
    return expect(Tick, rig.send(TickGet(), b"observer"))


def test_there_is_no_state_before_the_first_one_and_after_the_session_nor_that_of_a_shadow(fresh):
    fresh.greet_as(b"shadow", kind="shadow")
    fresh.send(fresh.state(1), b"shadow")
    assert look(fresh) == Tick(urdf_sha256=fresh.robot.urdf_sha256)
    fresh.greet()
    assert look(fresh).state is None
    fresh.tick(1)
    assert look(fresh).state is not None
    fresh.send(Stop(session=fresh.session))
    assert look(fresh).state is None
    fresh.greet()
    assert look(fresh).state is None  # that of the session before


def test_the_order_is_the_servers(fresh, robot):
    names = list(robot.joint_names)
    fresh.greet(joint_names=names[::-1], actuated=names[::-1])
    q = standing(robot)
    q[7:] = 0.01 * np.arange(robot.na)
    backwards = np.concatenate([q[:7], q[:6:-1]])
    imu = Imu(quat=[0.0, 0.0, 0.0, 1.0], gyro=[0.1, 0.2, 0.3], acc=[0.0, 0.0, 9.81])
    reply = fresh.send(state(robot, fresh.session, 1, q=backwards.tobytes(), imu=imu))
    tick = look(fresh)
    np.testing.assert_array_equal(np.frombuffer(tick.state.q), q)
    np.testing.assert_array_equal(np.frombuffer(tick.tau), np.frombuffer(reply.tau)[::-1])
    assert (tick.status, tick.message, tick.imu) == (reply.status, reply.message, imu)
    assert tick.state.t_robot == reply.t_robot


def test_forces_in_the_world_carry_the_robot_and_act_at_its_feet():
    """Turned about the vertical and standing: the forces add up to the weight, without a moment about the centre of mass."""
    controller, settings = load_controller("quadruped"), ServerSettings(controller="quadruped")
    warm_up(controller, settings)
    service, robot, q = Service(controller, settings), controller.robot, np.array(controller.stance)
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


def test_a_fault_is_written_as_a_log(tmp_path, rig, caplog):
    """Where the folder is a file, that is reported without an exception."""
    for seq in (1, 2, 3):
        assert isinstance(rig.tick(seq), TorqueMessage)
    reply = expect(ErrorMessage, rig.tick(200))
    assert reply.code is Code.LATCHED_FAULT
    (fault,) = rig.faults
    keep_fault(fault, tmp_path, rig.controller, SETTINGS)
    (path,) = tmp_path.glob("fault-*.mcap")
    with LogReader(path) as log:
        assert len(list(log.exchanges())) == 3
        assert "no state for 197 ms" in log.metadata["fault"]["reason"]
    (tmp_path / "logs").write_text("no folder")
    keep_fault(fault, tmp_path / "logs", rig.controller, SETTINGS)
    assert "the fault log cannot be written" in caplog.text


def test_each_kind_of_line_is_written_once_per_period_with_the_number_of_suppressed_ones():
    lines = RateLimit()
    assert lines.admit("x", 0) == 0
    assert lines.admit("x", 1) is None
    assert lines.admit("x", PERIOD_NS - 1) is None
    assert lines.admit("y", 1) == 0
    assert lines.admit("x", PERIOD_NS) == 2
    assert lines.admit("x", 2 * PERIOD_NS) == 0
    assert (similar(0), similar(2)) == ("", "; 2 similar not logged")


def test_the_documentation_has_the_table():
    document = (Path(__file__).parents[3] / "docs" / "reference" / "alarms.md").read_text(encoding="utf-8")
    between = document.split("<!-- alarms -->\n")[1].split("<!-- /alarms -->")[0]
    assert between.strip() == table().strip()


def test_every_setting_belongs_to_an_alarm():
    used = {name for each in ALARMS for name in (each.threshold, each.also, each.stop) if name}
    used |= {each.threshold for each in CONTRADICTIONS} | {limit for limits in POWER.values() for limit in limits}
    assert used == set(AlarmSettings.__struct_fields__)
