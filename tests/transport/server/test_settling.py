"""Work that is done after the reply has been sent: once, in order, and before the next message is handled."""

import threading
from pathlib import Path

import numpy as np
import pytest
from rig import Rig
from standin import MS, SpringDamper, from_snapshot, hello, standing

from idyn.model.robot import Robot
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.log.replay import replay
from transport.protocol.codec import decode, encode
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.hello import Welcome
from transport.protocol.messages.requests import Stats, StatsGet
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.robot.client import RobotClient
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.server.sockets.anticipation import Anticipation
from transport.server.sockets.router import Router

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
        welcome = decode(self.service.handle(b"a", encode(hello(robot)), 0).reply)
        assert isinstance(welcome, Welcome)
        self.rig.session = welcome.session

    def tick(self, seq: int, **changes: object) -> object:
        return decode(self.service.handle(b"a", encode(self.rig.state(seq, **changes)), seq * MS).reply)


def test_the_reply_is_ready_before_the_controller_settles(robot: Robot) -> None:
    client = Client(robot)
    assert isinstance(client.tick(1), TorqueMessage)
    assert client.controller.settled == 0
    assert client.service.settle() is None
    assert client.service.settle() is None
    assert client.controller.settled == 1


@pytest.mark.parametrize("what", ["handle", "overtaken"])
def test_the_next_message_waits_for_settling(robot: Robot, what: str) -> None:
    client = Client(robot)
    client.tick(1)
    if what == "handle":
        stats = decode(client.service.handle(b"b", encode(StatsGet()), MS).reply)
        assert isinstance(stats, Stats)
        assert stats.torques == 1
    else:
        client.service.overtaken(b"a", encode(client.rig.state(2)), 2 * MS)
    assert client.controller.settled == 1


def test_a_fault_of_the_robot_is_recorded_after_its_reply(robot: Robot) -> None:
    client = Client(robot)
    q = standing(robot)
    q[2] = 1.01
    reply = client.tick(1, q=q.tobytes())
    assert isinstance(reply, TorqueMessage)
    assert reply.status == "fault"
    fault = client.service.settle()
    assert fault is not None
    assert [exchange.seq for exchange in fault.exchanges] == [1]
    assert isinstance(client.tick(2), ErrorMessage)


@pytest.mark.parametrize("told", [True, False])
def test_a_controller_that_fails_to_settle_latches_its_session(robot: Robot, tmp_path: Path, told: bool) -> None:
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
        assert fault is not None
        assert "a wire came loose" in fault.reason
    reply = client.tick(3)
    assert isinstance(reply, ErrorMessage)
    assert reply.code is Code.LATCHED_FAULT
    assert "a wire came loose" in reply.message
    client.service.settle()
    recorder.close()
    report = replay(tmp_path / "run.mcap", build=from_snapshot)
    assert (report.ticks, report.exact) == (2, True)


def test_the_reply_is_sent_before_the_service_settles(robot: Robot, tmp_path: Path) -> None:
    """The controller settles only after the client has its torque; otherwise the test would time out."""
    controller, arrived, stop = Settling(robot), threading.Event(), threading.Event()
    waited: list[bool] = []
    controller.settle = lambda: waited.append(arrived.wait(10.0))  # type: ignore[method-assign]
    service = Service(controller, SETTINGS)
    with Router(service, f"ipc://{tmp_path}/s", lambda fault: None, Anticipation(lead_us=250.0)) as router:
        thread = threading.Thread(target=router.run, args=(stop,))
        thread.start()
        try:
            with RobotClient(router.endpoint, hello_for(robot, 1e-3, kind="sim"), deadline_ms=30_000) as client:
                client.hello()
                q, vel = standing(robot).tobytes(), np.zeros(robot.nv).tobytes()
                reply = client.exchange(StateMessage(q=q, vel=vel, t_robot=MS))
                arrived.set()
        finally:
            stop.set()
            thread.join()
    assert isinstance(reply, TorqueMessage)
    assert waited == [True]
