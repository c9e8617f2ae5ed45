"""The exchanges before a fault, as a log of its own."""

import logging
from pathlib import Path

from transport.log.part import Entry, LogError
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.server.served_controller import ServedController
from transport.server.sessions.session import Fault
from transport.server.settings import ServerSettings

log = logging.getLogger(__name__)


def keep_fault(fault: Fault, directory: Path, controller: ServedController, settings: ServerSettings) -> None:
    """Write them into a new file of `directory`, with the same head as any log, beside the loop: a disk that fails is told, and
    costs the robot nothing."""
    path = directory / f"fault-{fault.session:016x}-{fault.t_ns}.mcap"
    told = {"fault": {"reason": fault.reason, "t_ns": str(fault.t_ns), "session": str(fault.session)}}
    try:
        recorder = Recorder(path, attachments(controller.snapshot(), settings), metadata(controller.robot, None) | told)
        for exchange in fault.exchanges:
            recorder.put(Entry(b"", fault.t_ns, exchange.state, exchange.torque, about_state=True, answered=True))
        recorder.close()
    except (LogError, OSError) as error:
        log.error("session %d: the fault's log cannot be written (%s)", fault.session, error)
