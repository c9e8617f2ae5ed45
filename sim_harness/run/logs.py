"""Traces and figures of recorded logs, read in blocks of consecutive ticks, so that a log of any length fits into memory."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from controllers.build import controller_from_snapshot
from controllers.config.loading import parse
from controllers.controller import Controller
from idyn.errors import ConfigError
from idyn.types import Array, ContactSet, Record, State
from sim_harness.measure.metrics import Summary, summarise
from sim_harness.measure.trace import Trace, TraceWriter
from sim_harness.measure.verdict import Task, Verdict, judge
from sim_harness.run.experiment import task_of
from transport.log.provenance import recorded_settings
from transport.log.reader import LogReader
from transport.log.recorder import LogError
from transport.protocol.agreement import Agreement
from transport.protocol.base_estimate import estimated
from transport.protocol.codec import decode, vector
from transport.protocol.contact_input import FootSwitches, read_contacts
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage
from transport.protocol.messages.requests import Hello, Welcome
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.protocol.state_input import StateReader
from transport.server.sessions.handshake import Host, agree
from transport.server.settings import ServerSettings

TICKS = 1000  # largest number of ticks in a block. Decoded, the messages of a tick take about 10 kB

REFUSED_STATE = "refused"
"""Mode of a tick in which the server refused the state: the log does not have the torque of the robot's failsafe."""


class Exchange(NamedTuple):
    """A state and its reply: a torque, or why the state was refused. t_recv_ns: arrival of the state, server's clock [ns]"""

    state: StateMessage
    reply: TorqueMessage | ErrorMessage
    t_recv_ns: int


class Block(Record, frozen=True):
    """Consecutive ticks of a session of a controlling client."""

    session: int  # its number, from 1 on
    controller: Controller
    agreement: Agreement
    trace: Trace  # its times count from the first state of the session
    exchanges: list[Exchange]  # state and reply of each row of the trace
    wall_offset_ns: int  # from times of arrival to wall-clock time [ns]
    # whether the session ends with them: another one begins, or the log ends. States of a client that lost control to another
    # one, which the server refuses, come in later blocks
    last: bool

    def tick(self, state: StateMessage, reply: TorqueMessage) -> tuple[State, ContactSet, Array]:
        """Return the state as measured or estimated, its contacts with a predicted force, and the torques [N·m] (na)."""
        robot, joints = self.agreement.robot, self.agreement.joints
        measured = estimated(StateReader(self.agreement).motion(state.q, state.vel).state, reply)
        keys = [force.frame for force in reply.contact_force if force.frame in robot.spheres.keys]
        tau = joints.torques_to_robot(vector(reply.tau, robot.na, "tau"))
        return measured, self.controller.contacts(measured.q, keys), tau


class LogBlocks:
    """Context manager of a log that is read in blocks.

    steered: whether the server accepted commands, of a client or of a planner; complete: whether the log was read to its end.
    Both are known when `blocks` has ended.
    """

    def __init__(self, path: Path) -> None:
        """Read the head of the log. Raises LogError."""
        self.path = path
        self._reader = LogReader(path)
        try:
            self.controller, settings = _origin(self._reader)
        except LogError:
            self._reader.__exit__()
            raise
        self._host = Host(self.controller, settings)
        self._numbered = 0
        self.steered = self.complete = False

    def __enter__(self) -> "LogBlocks":
        return self

    def __exit__(self, *exception: object) -> None:
        self._reader.__exit__(*exception)

    def blocks(self, progress: Callable[[int], None] = lambda _: None) -> Iterator[Block]:
        """Yield all ticks of sessions of controlling clients; those of a session are in order.

        progress: called with the number of ticks of each block when it is done. Raises LogError.
        """
        for session, last in self._ready():
            if len(session):
                if not session.number:
                    self._numbered += 1
                    session.number = self._numbered
                trace, exchanges = session.take()
                yield Block(
                    session=session.number,
                    controller=self.controller,
                    agreement=session.agreement,
                    trace=trace,
                    exchanges=exchanges,
                    wall_offset_ns=self._reader.wall_offset_ns,
                    last=last,
                )
                progress(len(trace))
        self.complete = self._reader.complete

    def _ready(self) -> Iterator[tuple["_Session", bool]]:
        """Yield sessions whose rows are due: a full block (False), before the next session and at the end (True)."""
        found: dict[int, _Session] = {}
        for entry in self._reader.exchanges():
            if not entry.reply or entry.refused:
                continue  # a state that was overtaken by a newer one, or any bytes
            request, reply = decode(entry.request), decode(entry.reply)
            if isinstance(request, Hello) and isinstance(reply, Welcome) and not reply.dry_run:
                yield from _ended(found.values())
                found[reply.session] = _Session(agree(request, self._host, entry.request, entry.t_recv_ns))
            elif (
                isinstance(request, StateMessage)
                and isinstance(reply, TorqueMessage | ErrorMessage)
                and request.session in found
            ):
                session = found[request.session]
                session.add(Exchange(request, reply, entry.t_recv_ns))
                if len(session) == TICKS:
                    yield session, False
            self.steered = self.steered or (isinstance(request, CommandMessage) and isinstance(reply, CommandAck))
        yield from _ended(found.values())


def _origin(reader: LogReader) -> tuple[Controller, ServerSettings]:
    snapshot, server = recorded_settings(reader)
    try:
        return controller_from_snapshot(snapshot), parse(server, ServerSettings, "server")
    except (ConfigError, KeyError, ValueError) as error:
        raise LogError(f"{reader.path}: {error}") from error


def _ended(sessions: Iterable["_Session"]) -> Iterator[tuple["_Session", bool]]:
    for session in sessions:
        session.end()
        yield session, True


class _Session:
    """Rows of a session, in the robot's joint order. Torques are those of the replies, NaN for refused states.

    A refused state that cannot be read counts as equal to the last one that could; it is left out if it is the first.
    number: 0 before the first block
    """

    def __init__(self, agreement: Agreement) -> None:
        self.agreement, self.number = agreement, 0
        self._trace, self._reader = TraceWriter(agreement.robot, TICKS), StateReader(agreement)
        self._exchanges: list[Exchange] = []
        self._begin_ns: int | None = None
        self._last: tuple[Array, Array] | None = None
        self._waiting: Exchange | None = None

    def __len__(self) -> int:
        """Return the number of rows that have not been taken."""
        return len(self._exchanges)

    def take(self) -> tuple[Trace, list[Exchange]]:
        """Return the rows, and begin anew."""
        exchanges, self._exchanges = self._exchanges, []
        return self._trace.take(), exchanges

    def add(self, exchange: Exchange) -> None:
        """Write the row of the exchange before: its sensed forces are in the state of this one."""
        self._write(exchange.state)
        self._waiting = exchange

    def end(self) -> None:
        """Write the row of the last exchange."""
        self._write(None)
        self._waiting = None

    def _write(self, after: StateMessage | None) -> None:
        if self._waiting is None:
            return
        (state, reply, t_recv_ns), trace = self._waiting, self._trace
        self._begin_ns = state.t_robot if self._begin_ns is None else self._begin_ns
        robot, joints = self.agreement.robot, self.agreement.joints
        try:
            measured = self._reader.motion(state.q, state.vel).state
            if self.agreement.estimator is not None:
                measured = estimated(measured, reply)
            self._last = measured.q.copy(), measured.v.copy()
        except ProtocolError:
            if self._last is None:
                return
        self._exchanges.append(self._waiting)
        trace.state((state.t_robot - self._begin_ns) * 1e-9, *self._last, t_recv_ns * 1e-9)
        if isinstance(reply, ErrorMessage):
            trace.refused(reply.code, reply.message)
            trace.command(np.full(robot.na, np.nan), REFUSED_STATE, np.nan)
            trace.simulated((), np.zeros((0, 3)), status=0)
            return
        trace.reply(reply, joints.torques_to_robot)
        trace.command(joints.torques_to_robot(vector(reply.tau, robot.na, "tau")), reply.status, np.nan)
        trace.simulated(*_sensed_forces(state, after, self.agreement), status=0)


def _sensed_forces(state: StateMessage, after: StateMessage | None, agreement: Agreement) -> tuple[tuple[str, ...], Array]:
    """Return the names of the contacts and their sensed forces along n, t1, t2 during a tick [N] (n, 3).

    These forces are those in the next state `after`, expressed in the contact frames of `state`. Foot switches have no forces.
    """
    no_forces = (), np.zeros((0, 3))
    if after is None or after.contacts is None or state.contacts is None:
        return no_forces
    try:
        (_, sensed), (then, _) = read_contacts(after.contacts, agreement), read_contacts(state.contacts, agreement)
    except ProtocolError:  # the server refused that state
        return no_forces
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


class LoggedRun(Record, frozen=True):
    """A session of a controlling client."""

    label: str  # path of the log, with the number of the session from the second one on
    controller: Controller
    period: float  # agreed period [s]
    trace: Trace
    steered: bool  # whether the server accepted commands, of this client or of a planner
    complete: bool  # whether the log was read to its end

    @property
    def task(self) -> Task:
        return msgspec.structs.replace(task_of(self.controller.settings, self.controller.stance), steered=self.steered)

    @property
    def verdict(self) -> Verdict:
        """How it ended. A log does not have the planned length of the run: it counts as whole."""
        return judge(self.trace, self.controller.robot, self.task, ticks=len(self.trace), dt=self.period, cut=not self.complete)


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
    with LogBlocks(path) as log:
        runs = Runs(log)
        for _ in runs.blocks():
            pass
        return runs.finished()


class Runs:
    """The runs of a log whose blocks are read one after the other.

    log: the log
    """

    def __init__(self, log: LogBlocks) -> None:
        self.log = log
        self._parts: dict[int, list[Trace]] = {}
        self._periods: dict[int, float] = {}

    def blocks(self, progress: Callable[[int], None] = lambda _: None) -> Iterator[Block]:
        """Yield the blocks of the log, as `LogBlocks.blocks`."""
        for block in self.log.blocks(progress):
            self._parts.setdefault(block.session, []).append(block.trace)
            self._periods[block.session] = block.agreement.dt_ns * 1e-9
            yield block

    def finished(self) -> list[LoggedRun]:
        """Return the runs, in order, after the last block."""
        path = self.log.path
        return [
            LoggedRun(
                label=str(path) if session == 1 else f"{path} #{session}",
                controller=self.log.controller,
                period=self._periods[session],
                trace=Trace.joined(parts),
                steered=self.log.steered,
                complete=self.log.complete,
            )
            for session, parts in self._parts.items()
        ]
