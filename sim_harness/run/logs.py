"""Traces and figures of recorded logs, of real and of simulated robots alike."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from controllers.build import controller_from_snapshot
from controllers.config.loading import parse
from controllers.controller import Controller
from idyn.errors import ConfigError
from idyn.types import Array, ContactSet
from sim_harness.measure.metrics import Summary, summarise
from sim_harness.measure.trace import Trace, TraceWriter
from sim_harness.run.experiment import aims_of
from transport.log.part import LogError
from transport.log.provenance import recorded_settings
from transport.log.reader import LogReader
from transport.protocol.agreement import Agreement
from transport.protocol.codec import decode, vector
from transport.protocol.contact_input import read_contacts
from transport.protocol.foot_switches import FootSwitches
from transport.protocol.messages.hello import Hello, Welcome
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.state_input import StateReader
from transport.server.served_controller import build_host
from transport.server.sessions.handshake import agree
from transport.server.settings import ServerSettings

Exchange = tuple[StateMessage, TorqueMessage]
"""A state and its reply."""


def summarise_log(path: Path) -> list[Summary]:
    """Return a summary of each session of a controlling client that received torques, in order. Raises LogError.

    Predicted contact forces are compared with `f_sensed` of the states; without them, force errors are NaN.
    A log does not have the planned length of the run: `upright` means that no fall was recorded.
    """
    return [
        summarise(
            trace,
            controller.robot,
            aims_of(controller.settings),
            label=label,
            engine="recorded",
            ticks=len(trace),
            dt=period,
        )
        for label, controller, trace, period in traces_of(path)
    ]


def traces_of(path: Path) -> list[tuple[str, Controller, Trace, float]]:
    """Return label, controller, trace and agreed period [s] of each session of a controlling client that received torques.

    Sessions are in order. Raises LogError, also for a log without such a session.
    """
    found: list[tuple[str, Controller, Trace, float]] = []
    with LogReader(path) as reader:
        controller, settings = origin(reader)
        for agreement, exchanges in sessions(reader, controller, settings):
            label = str(path) if not found else f"{path} #{len(found) + 1}"
            found.append((label, controller, trace_of(agreement, exchanges), agreement.dt_ns * 1e-9))
    if not found:
        raise LogError(f"{path}: expected a session with torques, found none")
    return found


def origin(reader: LogReader) -> tuple[Controller, ServerSettings]:
    """Return the controller and the server settings of a log. Raises LogError."""
    snapshot, server = recorded_settings(reader)
    try:
        return controller_from_snapshot(snapshot), parse(server, ServerSettings, "server")
    except (ConfigError, KeyError, ValueError) as error:
        raise LogError(f"{reader.path}: {error}") from error


def sessions(reader: LogReader, controller: Controller, settings: ServerSettings) -> Iterator[tuple[Agreement, list[Exchange]]]:
    """Yield the agreement of `hello`, and all states with their torques, for each controlling session."""
    host = build_host(controller, settings)
    agreements: dict[int, Agreement] = {}
    exchanges: dict[int, list[Exchange]] = {}
    for entry in reader.exchanges():
        if not entry.reply:
            continue  # this state was overtaken by a newer one
        request, reply = decode(entry.request), decode(entry.reply)
        if isinstance(request, Hello) and isinstance(reply, Welcome) and not reply.dry_run:
            agreements[reply.session] = agree(request, host, entry.request, entry.t_recv_ns)
            exchanges[reply.session] = []
        elif isinstance(request, StateMessage) and isinstance(reply, TorqueMessage) and reply.session in exchanges:
            exchanges[reply.session].append((request, reply))
    for session, rows in exchanges.items():
        if rows:
            yield agreements[session], rows


def trace_of(agreement: Agreement, exchanges: list[Exchange]) -> Trace:
    """Return the trace of a session, in the robot's joint order. Its torques are those of the replies."""
    robot, joints = agreement.robot, agreement.joints
    trace, reader = TraceWriter(robot, len(exchanges)), StateReader(agreement)
    begin = exchanges[0][0].t_robot
    for (state, reply), after in zip(exchanges, [*(state for state, _ in exchanges[1:]), None], strict=True):
        measured = reader.read(state.q, state.vel).state
        trace.state((state.t_robot - begin) * 1e-9, measured.q, measured.v, reply.t_recv * 1e-9)
        trace.command(joints.torques_to_robot(vector(reply.tau, robot.na, "tau")), reply.status, np.nan)
        if reply.ref is not None:
            both = [joints.torques_to_robot(vector(part, robot.na, "ref")) for part in (reply.ref.q, reply.ref.v)]
            trace.reference(*both)
        if reply.solver is not None:
            trace.solved(reply.solver.time_us * 1e-6)
        for force in reply.contact_force:
            trace.predicted(force.frame, (force.fn, force.ft1, force.ft2))
        trace.simulated(*_sensed_forces(state, after, agreement), status=0)
    return trace.trace()


def _sensed_forces(state: StateMessage, after: StateMessage | None, agreement: Agreement) -> tuple[tuple[str, ...], Array]:
    """Return the names of the contacts and their sensed forces along n, t1, t2 during a tick [N] (n, 3).

    These forces are those in the next state `after`, expressed in the contact frames of `state`. Foot switches have no forces.
    """
    no_forces = (), np.zeros((0, 3))
    if after is None or after.contacts is None or state.contacts is None:
        return no_forces
    (_, sensed), (then, _) = read_contacts(after.contacts, agreement), read_contacts(state.contacts, agreement)
    if sensed is None or isinstance(then, FootSwitches):
        return no_forces
    keys = [contact.frame for contact in after.contacts if contact.active]
    robot = agreement.robot
    rows = [i for i, key in enumerate(keys) if key in then.keys and key in robot.contact_names]
    forces = [_along(then, then.keys.index(keys[i]), sensed[i]) for i in rows]
    return tuple(keys[i] for i in rows), np.array(forces).reshape(-1, 3)


def _along(contacts: ContactSet, i: int, force: Array) -> Array:
    """Return a force in world axes along n, t1 and t2 of a contact (3)."""
    n, s = contacts.normals[i], contacts.tangents[i]
    return np.array([n @ force, s @ force, np.cross(n, s) @ force])
