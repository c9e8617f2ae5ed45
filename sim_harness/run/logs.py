"""Traces and figures of recorded logs, of real and of simulated robots alike."""

from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from controllers.build import controller_from_snapshot
from controllers.config.loading import parse
from controllers.controller import Controller
from idyn.errors import ConfigError
from idyn.types import Array, ContactSet, Record
from sim_harness.measure.metrics import Summary, summarise
from sim_harness.measure.trace import Trace, TraceWriter, origin_of
from sim_harness.measure.verdict import Task, Verdict, judge
from sim_harness.run.experiment import task_of
from transport.log.part import LogError
from transport.log.provenance import recorded_settings
from transport.log.reader import LogReader
from transport.protocol.agreement import Agreement
from transport.protocol.base_estimate import estimated
from transport.protocol.codec import decode, vector
from transport.protocol.contact_input import read_contacts
from transport.protocol.errors import ProtocolError
from transport.protocol.foot_switches import FootSwitches
from transport.protocol.messages.command import CommandAck, CommandMessage
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.hello import Hello, Welcome
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.state_input import StateReader
from transport.server.served_controller import build_host
from transport.server.sessions.handshake import agree
from transport.server.settings import ServerSettings


class Exchange(NamedTuple):
    """A state and its reply: a torque, or why the state was refused. t_recv_ns: arrival of the state, server's clock [ns]"""

    state: StateMessage
    reply: TorqueMessage | ErrorMessage
    t_recv_ns: int


REFUSED_STATE = "refused"
"""Mode of a tick in which the server refused the state: the log does not have the torque of the robot's failsafe."""


class LoggedRun(Record, frozen=True):
    """A session of a controlling client.

    label: path of the log, with the number of the session from the second one on
    exchanges: state and reply of each row of the trace
    steered: whether the server accepted commands, of this client or of a planner
    wall_offset_ns: from times of arrival to wall-clock time [ns]
    complete: whether the log was read to its end
    """

    label: str
    controller: Controller
    agreement: Agreement
    trace: Trace
    exchanges: list[Exchange]
    steered: bool
    wall_offset_ns: int
    complete: bool

    @property
    def period(self) -> float:
        """Agreed period [s]."""
        return self.agreement.dt_ns * 1e-9

    @property
    def task(self) -> Task:
        return msgspec.structs.replace(task_of(self.controller.settings), steered=self.steered)

    @property
    def verdict(self) -> Verdict:
        """How it ended. A log does not have the planned length of the run: it counts as whole."""
        return judge(self.trace, self.controller.robot, self.task, ticks=len(self.trace), dt=self.period)


def summarise_log(path: Path) -> list[Summary]:
    """Return a summary of each session of a controlling client that sent states, in order.

    Raises LogError, also for a log without such a session.
    Predicted contact forces are compared with `f_sensed` of the states; without them, force errors are NaN.
    """
    runs = logged_runs(path)
    if not runs:
        raise LogError(f"{path}: expected a session with states, found none")
    return [
        summarise(
            run.trace,
            run.controller.robot,
            run.task,
            label=run.label,
            engine="recorded",
            ticks=len(run.trace),
            dt=run.period,
        )
        for run in runs
    ]


def logged_runs(path: Path) -> list[LoggedRun]:
    """Return each session of a controlling client that sent states, in order. Raises LogError."""
    found: list[LoggedRun] = []
    with LogReader(path) as reader:
        controller, settings = origin(reader)
        recorded = sessions(reader, controller, settings)
    for agreement, exchanges in recorded.exchanges:
        if len(trace := trace_of(agreement, exchanges)):
            found.append(
                LoggedRun(
                    label=str(path) if not found else f"{path} #{len(found) + 1}",
                    controller=controller,
                    agreement=agreement,
                    trace=trace,
                    exchanges=exchanges[-len(trace) :],  # without unreadable states at the start
                    steered=recorded.steered,
                    wall_offset_ns=reader.wall_offset_ns,
                    complete=reader.complete,
                )
            )
    return found


def origin(reader: LogReader) -> tuple[Controller, ServerSettings]:
    """Return the controller and the server settings of a log. Raises LogError."""
    snapshot, server = recorded_settings(reader)
    try:
        return controller_from_snapshot(snapshot), parse(server, ServerSettings, "server")
    except (ConfigError, KeyError, ValueError) as error:
        raise LogError(f"{reader.path}: {error}") from error


class Sessions(NamedTuple):
    """Sessions of a log. exchanges: for each controlling session, the agreement of `hello` and all states with their replies

    steered: whether the server accepted commands
    """

    exchanges: list[tuple[Agreement, list[Exchange]]]
    steered: bool


def sessions(reader: LogReader, controller: Controller, settings: ServerSettings) -> Sessions:
    """Return the controlling sessions of a log."""
    host = build_host(controller, settings)
    found: dict[int, tuple[Agreement, list[Exchange]]] = {}
    steered = False
    for entry in reader.exchanges():
        if not entry.reply:
            continue  # this state was overtaken by a newer one
        request, reply = decode(entry.request), decode(entry.reply)
        if isinstance(request, Hello) and isinstance(reply, Welcome) and not reply.dry_run:
            found[reply.session] = agree(request, host, entry.request, entry.t_recv_ns), []
        elif isinstance(request, StateMessage) and isinstance(reply, TorqueMessage | ErrorMessage) and request.session in found:
            found[request.session][1].append(Exchange(request, reply, entry.t_recv_ns))
        steered = steered or (isinstance(request, CommandMessage) and isinstance(reply, CommandAck))
    return Sessions(list(found.values()), steered)


def trace_of(agreement: Agreement, exchanges: list[Exchange]) -> Trace:
    """Return the trace of a session, in the robot's joint order. Its torques are those of the replies, NaN for refused states.

    A refused state that cannot be read counts as equal to the last one that could; it is left out if it is the first.
    """
    robot, joints = agreement.robot, agreement.joints
    trace, reader, last = TraceWriter(robot, len(exchanges)), StateReader(agreement), None
    following = [*(exchange.state for exchange in exchanges[1:]), None]
    for (state, reply, t_recv_ns), after in zip(exchanges, following, strict=True):
        try:
            measured = reader.read(state.q, state.vel).state
            if agreement.estimator is not None:
                measured = estimated(measured, reply)
            last = measured.q.copy(), measured.v.copy()
        except ProtocolError:
            if last is None:
                continue
        trace.state((state.t_robot - exchanges[0].state.t_robot) * 1e-9, *last, t_recv_ns * 1e-9)
        if isinstance(reply, ErrorMessage):
            trace.refused(reply.code, reply.message)
            trace.command(np.full(robot.na, np.nan), REFUSED_STATE, np.nan)
            trace.simulated((), np.zeros((0, 3)), status=0)
            continue
        trace.answer(origin_of(None if reply.solver is None else reply.solver.path))
        trace.command(joints.torques_to_robot(vector(reply.tau, robot.na, "tau")), reply.status, np.nan)
        if reply.ref is not None:
            both = [joints.torques_to_robot(vector(part, robot.na, "ref")) for part in (reply.ref.q, reply.ref.v)]
            trace.reference(*both)
        if reply.solver is not None:
            trace.solved(reply.solver.time_us * 1e-6)
        if reply.reality is not None:
            trace.mismatch(reply.reality.motion, reply.reality.force)
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
