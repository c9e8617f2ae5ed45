"""Replay of a log through a new service: the same law gives the same torques bit for bit, another law shows the difference."""

import time
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from controllers.build import controller_from_snapshot
from controllers.command import Command
from controllers.config.loading import parse
from controllers.config.tables import merged
from controllers.controller import Controller
from idyn.errors import ConfigError
from idyn.types import Array
from transport.log.provenance import recorded_settings
from transport.log.reader import LogReader
from transport.log.recorder import Entry, LogError
from transport.protocol.codec import numbers
from transport.protocol.messages.base import Vector
from transport.protocol.messages.state import ContactForce
from transport.protocol.torque_gate import Passed
from transport.server.process import steady
from transport.server.reconfigure import ControllerBuilder
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.warm_up import warm_up

T = TypeVar("T")
Build = Callable[[dict[str, Any]], Controller]

OTHER_TORQUES = {"alarms": {"motor": inf, "roughness_stop": inf, "reality_stop": inf}}
"""Changes to a controller whose torques the recorded robot did not get: neither what it compares with the robot's motion, nor
torques that oscillate or are at their limits, stop it."""


class Replayed(msgspec.Struct, frozen=True, gc=False):
    """A request of a log that was answered, with the torques of both replies, None for other messages."""

    entry: Entry
    recorded: "Torque | None"  # of the log. A tick (`entry.answered`) always has one
    answer: "Answered | None"  # of the replay


def replayed(
    reader: LogReader, *, law: str | None = None, selection: str | None = None, build: Build = controller_from_snapshot
) -> Iterator[Replayed]:
    """Send the requests of a log to a new service, and return an iterator over them with both torques.

    law, selection, build: as for `replay`. With another law or selection no alarm about torques stops the robot
    Raises LogError and ConfigError for the settings at once, and LogError at a recorded reply that is malformed.
    """
    now = _Clock()
    service = _service(reader, build, now, changes={"law": law, "selection": selection})
    return _exchanges(reader, service, now)


def _exchanges(reader: LogReader, service: Service, now: "_Clock") -> Iterator[Replayed]:
    ticks = 0
    for entry in reader.exchanges():
        ticks += entry.answered
        if not entry.reply:
            service.overtaken(entry.identity, entry.request, entry.t_recv_ns)
            continue
        recorded = _decoded(_TORQUE, entry.reply)
        if recorded is None and entry.answered:
            raise LogError(f"{reader.path}: tick {ticks}: expected a torque as the recorded reply, got another message")
        now.t_ns = entry.t_recv_ns if recorded is None else recorded.t_send
        now.step_ns = 0 if recorded is None or recorded.solver is None else round(recorded.solver.time_us * 1e3)
        made = service.handle(entry.identity, entry.request, entry.t_recv_ns)
        # without a decision: a reply that was sent before, or another message than a torque
        answer = _decoded(_ANSWERED, made.reply) if made.decision is None else made.decision.reply
        yield Replayed(entry, recorded, answer)


class _Solver(msgspec.Struct, gc=False):
    """The duration of the step, which decides on commanded tasks."""

    time_us: float = 0.0


class Torque(msgspec.Struct, tag_field="t", tag="torque", gc=False, kw_only=True):
    """The fields of a recorded torque message that are compared. Contact forces are decoded only when they are asked for."""

    session: int
    seq: int
    t_robot: int
    t_send: int
    solver: _Solver | None = None
    tau: Vector
    contact_force: msgspec.Raw

    @property
    def normal_force(self) -> float:
        """Sum of the predicted normal forces [N]."""
        return sum(contact.fn for contact in _FORCES.decode(self.contact_force))


class Answered(msgspec.Struct, tag_field="t", tag="torque", gc=False):
    """What a replay makes of a torque message: the fields that are compared, and those that the service reads."""

    seq: int
    t_send: int
    deadline_met: bool
    message: str
    status: str
    tau: bytes
    impulses: bytes  # predicted contact impulses (3n) [N·s]
    dt: float  # of the prediction [s]

    @property
    def normal_force(self) -> float:
        """Sum of the predicted normal forces [N]."""
        return sum(impulse / self.dt for impulse in numbers(self.impulses)[2::3].tolist())


def _answered(
    accepted: Any, command: Command, passed: Passed, note: str, times: tuple[int, int, int], *, in_time: bool, warm: bool
) -> Answered:
    """Return the reply to an accepted state. Arguments: as of `torque_message`"""
    made, tau = command.prediction, accepted.session.agreement.joints.torques_on_wire(passed.tau)
    impulses, dt = (b"", 1.0) if made is None else (made.p.tobytes(), made.dt)
    return Answered(accepted.message.seq, times[1], in_time, note, command.mode, tau, impulses, dt)


_TORQUE, _ANSWERED = msgspec.msgpack.Decoder(Torque), msgspec.msgpack.Decoder(Answered)
_FORCES = msgspec.msgpack.Decoder(list[ContactForce])


def _decoded(decoder: "msgspec.msgpack.Decoder[T]", reply: bytes) -> T | None:
    """Decode a torque message. Return None for any other message."""
    try:
        return decoder.decode(reply)
    except msgspec.DecodeError:
        return None


class _Clock:
    """The service's clock: returns the recorded time of the current answer [ns], first that of the beginning of its step."""

    t_ns = step_ns = 0

    def __call__(self) -> int:
        begin_ns, self.step_ns = self.t_ns - self.step_ns, 0
        return begin_ns


def _service(reader: LogReader, build: Build, now: _Clock, *, changes: dict[str, str | None]) -> Service:
    """Return a service with the settings of a log. changes: to the controller's"""
    snapshot, server = recorded_settings(reader)
    try:
        settings = parse(server, ServerSettings, "server")
    except ConfigError as error:
        raise LogError(f"{reader.path}: {error}") from error
    given = {name: value for name, value in changes.items() if value is not None}
    if given:
        snapshot["settings"] = merged(snapshot["settings"], OTHER_TORQUES | given)
    shadow = build(snapshot) if settings.shadow else None
    controller = build(snapshot)
    warm_up(controller, settings)  # as the server does at its start
    builder = ControllerBuilder(build, in_thread=False)
    return Service(controller, settings, shadow=shadow, clock=now, builder=builder, make_reply=_answered)


TICKS_AT_ONCE = 100  # ticks between two calls of `progress`


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """How the replayed torques differ from the recorded ones, over all ticks that both answered."""

    tau_mean: float  # mean |Δτ| [N·m]
    tau_max: float  # max |Δτ| [N·m]
    recorded_rate: float  # mean |dτ/dt| of the recorded torques [N·m/s]
    replayed_rate: float  # mean |dτ/dt| of the replayed ones [N·m/s]
    normal_force: float  # mean |Σ f_N − Σ f_N recorded| [N]


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    path: str  # of the log
    complete: bool  # whether the log was read to its end
    messages: int  # number of messages read
    ticks: int  # states answered with a torque in the log
    identical: int  # those whose replayed torques have the same bits
    first_difference: int | None  # seq of the first state with other torques, None without one
    recorded_s: float  # duration on the robot's clock [s]
    replayed_s: float  # duration of the replay [s]
    differences: Differences | None  # None when all torques are identical

    @property
    def exact(self) -> bool:
        return self.identical == self.ticks

    def table(self) -> str:
        """Return the report as text for a terminal."""
        whole = "complete" if self.complete else f"incomplete; {self.messages} messages recovered"
        speed = self.recorded_s / self.replayed_s if self.replayed_s > 0 else float("inf")
        lines = [
            f"{self.path}: {whole}",
            f"{self.ticks} ticks, {self.identical} with the same torques bit for bit",
            f"{self.recorded_s:.2f} s recorded, {self.replayed_s:.2f} s replayed ({speed:.1f} times real time)",
        ]
        if self.differences is not None:
            d = self.differences
            lines += [
                f"first difference at seq {self.first_difference}",
                f"mean |Δτ|              {d.tau_mean:12.5g} N·m",
                f"max |Δτ|               {d.tau_max:12.5g} N·m",
                f"mean |dτ/dt| recorded  {d.recorded_rate:12.5g} N·m/s",
                f"mean |dτ/dt| replayed  {d.replayed_rate:12.5g} N·m/s",
                f"mean |ΔΣ f_N|          {d.normal_force:12.5g} N",
                "Δ: replayed minus recorded; τ: torques of all joints; Σ f_N: sum of the predicted normal forces",
            ]
        return "\n".join(lines)


def replay(
    path: Path,
    *,
    law: str | None = None,
    selection: str | None = None,
    build: Build = controller_from_snapshot,
    progress: Callable[[int], None] = lambda _: None,
) -> ReplayReport:
    """Send the requests of a log to a service built from the log's settings, and compare the torques.

    law, selection: replace the recorded ones
    build: builds a controller from a snapshot
    progress: called with the number of ticks since the last call
    Raises LogError when the log cannot be read, or its settings are missing, malformed or without an equivalent today.
    """
    with LogReader(path) as reader, steady():
        tally, reported = _Tally(), 0
        exchanges = replayed(reader, law=law, selection=selection, build=build)
        begin = time.perf_counter()
        for exchange in exchanges:
            tally.note(exchange)
            if tally.ticks - reported >= TICKS_AT_ONCE:
                progress(tally.ticks - reported)
                reported = tally.ticks
        progress(tally.ticks - reported)
        replayed_s = time.perf_counter() - begin
        return ReplayReport(
            path=str(path),
            complete=reader.complete,
            messages=reader.messages,
            ticks=tally.ticks,
            identical=tally.identical,
            first_difference=tally.first_difference,
            recorded_s=tally.robot_s,
            replayed_s=replayed_s,
            differences=tally.differences(),
        )


class _Tally:
    """Collects the exchanges of a log. All sums are taken at the end."""

    def __init__(self) -> None:
        self.ticks = self.identical = 0
        self.first_difference: int | None = None
        self._compared: list[tuple[int, int, Vector, bytes]] = []  # session, t_robot, recorded τ, replayed τ
        self._force_sum = 0.0

    def note(self, exchange: Replayed) -> None:
        recorded, answer = exchange.recorded, exchange.answer
        if recorded is None or not exchange.entry.answered:
            return
        self.ticks += 1
        same = answer is not None and answer.tau == recorded.tau
        self.identical += same
        if not same and self.first_difference is None:
            self.first_difference = recorded.seq
        if answer is not None:
            self._compared.append((recorded.session, recorded.t_robot, recorded.tau, answer.tau))
            self._force_sum += abs(answer.normal_force - recorded.normal_force)

    @property
    def robot_s(self) -> float:
        """Duration on the robot's clock, summed over the sessions [s]."""
        return float(self._periods()[1].sum())

    def differences(self) -> Differences | None:
        if self.first_difference is None or not self._compared:
            return None
        tau = np.array([[numbers(value) for value in both] for _, _, *both in self._compared])  # (ticks, 2, na)
        change = np.abs(tau[:, 1] - tau[:, 0])
        following, periods = self._periods()
        rates = np.abs(np.diff(tau, axis=0)).mean(axis=2)[following] / periods[:, None]
        recorded, replayed = rates.mean(axis=0) if len(rates) else (0.0, 0.0)
        return Differences(
            tau_mean=float(change.mean()),
            tau_max=float(change.max()),
            recorded_rate=float(recorded),
            replayed_rate=float(replayed),
            normal_force=self._force_sum / len(tau),
        )

    def _periods(self) -> tuple[Array, Array]:
        """Return a mask (ticks − 1) of ticks whose previous tick is in the same session, and the periods of those ticks [s]."""
        sessions = np.array([session for session, *_ in self._compared], dtype=np.uint64)
        times = np.array([t_robot for _, t_robot, *_ in self._compared], dtype=np.int64)
        periods = np.diff(times) * 1e-9
        following = (sessions[1:] == sessions[:-1]) & (periods > 0)
        return following, periods[following]
