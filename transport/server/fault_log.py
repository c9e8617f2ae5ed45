"""A separate log of the exchanges before a fault."""

import logging
from pathlib import Path

from transport.log.part import Entry, LogError
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.server.controller_slot import ServedController
from transport.server.sessions.latches import Fault
from transport.server.settings import ServerSettings

log = logging.getLogger(__name__)


def keep_fault(fault: Fault, directory: Path, controller: ServedController, settings: ServerSettings) -> None:
    """Write the exchanges of a fault to a new log in `directory`. An error is logged, not raised.

    Runs outside of the server's loop, so that a slow disk does not delay torques.
    """
    path = directory / f"fault-{fault.session:016x}-{fault.t_ns}.mcap"
    record = {"fault": {"reason": fault.reason, "t_ns": str(fault.t_ns), "session": str(fault.session)}}
    try:
        recorder = Recorder(path, attachments(controller.snapshot(), settings), metadata(controller.robot, None) | record)
        for exchange in fault.exchanges:
            recorder.put(Entry(b"", fault.t_ns, exchange.state, exchange.torque, about_state=True, answered=True))
        recorder.close()
    except (LogError, OSError) as error:
        log.error("session %d: the fault log cannot be written (%s)", fault.session, error)
