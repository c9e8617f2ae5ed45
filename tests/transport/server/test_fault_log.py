"""The exchanges before a fault, written as a separate log."""

from pathlib import Path

import pytest
from rig import Rig

from idyn.model.robot import Robot
from transport.log.reader import LogReader
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.server.fault_log import keep_fault
from transport.server.settings import ServerSettings

SETTINGS = ServerSettings(controller="standin")


def test_a_fault_is_written_as_a_log(tmp_path: Path, robot: Robot) -> None:
    rig = Rig(robot)
    rig.greet()
    for seq in (1, 2, 3):
        assert isinstance(rig.tick(seq), TorqueMessage)
    reply = rig.tick(200)
    assert isinstance(reply, ErrorMessage)
    assert reply.code is Code.LATCHED_FAULT
    (fault,) = rig.faults
    keep_fault(fault, tmp_path, rig.controller, SETTINGS)
    (path,) = tmp_path.glob("fault-*.mcap")
    with LogReader(path) as log:
        assert len(list(log.exchanges())) == 3
        assert "no state for 197 ms" in log.metadata["fault"]["reason"]


def test_a_fault_log_that_cannot_be_written_is_reported_without_an_exception(
    tmp_path: Path, robot: Robot, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder is a file."""
    rig = Rig(robot)
    rig.greet()
    rig.tick(1)
    assert isinstance(rig.tick(200), ErrorMessage)
    (fault,) = rig.faults
    (tmp_path / "logs").write_text("no folder")
    keep_fault(fault, tmp_path / "logs", rig.controller, SETTINGS)
    assert "the fault log cannot be written" in caplog.text
