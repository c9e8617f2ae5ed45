"""Replay of a log through a new service: the same law gives the same torques bit for bit; another law is compared."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from controllers.build import controller_from_snapshot
from controllers.config.loading import parse
from controllers.config.tables import merged
from controllers.controller import Controller
from idyn.errors import ConfigError
from idyn.prediction.loaded import EVERYTHING, NOT_LOADED, defer, loaded
from idyn.types import Array
from transport.log.part import Entry, LogError
from transport.log.provenance import recorded_settings
from transport.log.reader import LogReader
from transport.protocol.messages.base import Vector
from transport.protocol.messages.torque import ContactForce
from transport.realtime import steady
from transport.server.reconfigure import ControllerBuilder
from transport.server.served_controller import ServedController
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.warm_up import warm_up

TICKS_AT_ONCE = 100
"""Ticks between two calls of `progress`."""

Build = Callable[[dict[str, Any]], ServedController]


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """How the replayed torques differ from the recorded ones, over all ticks that both answered."""

    tau_mean: float  # mean |Δτ| [N·m]
    tau_max: float  # max |Δτ| [N·m]
    recorded_rate: float  # mean |dτ/dt| of the recorded torques [N·m/s]
    replayed_rate: float  # mean |dτ/dt| of the replayed ones [N·m/s]
    normal_force: float  # mean |Σ f_N − Σ f_N recorded| [N]


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay.

    path: of the log
    complete: whether the log was read to its end; messages: number of messages read
    ticks: states answered with a torque in the log; identical: those whose replayed torques have the same bits
    first_difference: seq of the first state with other torques, None without one
    recorded_s: duration on the robot's clock [s]; replayed_s: duration of the replay [s]
    differences: None when all torques are identical
    """

    path: str
    complete: bool
    messages: int
    ticks: int
    identical: int
    first_difference: int | None
    recorded_s: float
    replayed_s: float
    differences: Differences | None

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
        now = _Clock()
        service = _service(reader, build, now, law=law, selection=selection)
        tally, reported = _Tally(), 0
        begin = time.perf_counter()
        for entry in reader.exchanges():
            if not entry.reply:
                service.overtaken(entry.identity, entry.request, entry.t_recv_ns)
                continue
            recorded = _torque(entry.reply)
            now.t_ns = entry.t_recv_ns if recorded is None else recorded.t_send
            missing = _misses_parts(recorded) or (recorded is None and NOT_LOADED.encode() in entry.reply)
            answer = _answered(service, entry, missing)
            tally.note(entry, recorded, answer)
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


def _misses_parts(recorded: "_Torque | None") -> bool:
    """Return whether the server had not loaded a part of the fallback cascade that this tick would have used."""
    return recorded is not None and recorded.solver is not None and NOT_LOADED in recorded.solver.rung


def _answered(service: Service, entry: Entry, deferred: bool) -> bytes:
    """Return the reply to a request. deferred: whether the server had not loaded all kernels"""
    if deferred:
        defer({EVERYTHING})
    try:
        return service.handle(entry.identity, entry.request, entry.t_recv_ns).reply
    finally:
        if deferred:
            loaded({EVERYTHING})


class _Solver(msgspec.Struct, gc=False):
    """The field of `Solver` that is compared."""

    rung: str


class _Torque(msgspec.Struct, tag_field="t", tag="torque", gc=False, kw_only=True):
    """The fields of a torque message that are compared. Contact forces are decoded only where their bytes differ."""

    session: int
    seq: int
    t_robot: int
    t_send: int
    solver: _Solver | None = None
    tau: Vector
    contact_force: msgspec.Raw


_TORQUE = msgspec.msgpack.Decoder(_Torque)
_FORCES = msgspec.msgpack.Decoder(list[ContactForce])


def _torque(reply: bytes) -> _Torque | None:
    """Decode a torque message. Return None for any other message."""
    try:
        return _TORQUE.decode(reply)
    except msgspec.DecodeError:
        return None


class _Clock:
    """The service's clock: returns the recorded time of the current answer [ns]."""

    t_ns = 0

    def __call__(self) -> int:
        return self.t_ns


def _service(reader: LogReader, build: Build, now: _Clock, *, law: str | None, selection: str | None) -> Service:
    snapshot, server = recorded_settings(reader)
    try:
        settings = parse(server, ServerSettings, "server")
    except ConfigError as error:
        raise LogError(f"{reader.path}: {error}") from error
    changes = {name: value for name, value in (("law", law), ("selection", selection)) if value is not None}
    snapshot["settings"] = merged(snapshot["settings"], changes)
    shadow = build(snapshot) if settings.shadow else None
    controller = build(snapshot)
    if isinstance(controller, Controller):
        warm_up(controller, settings)  # as the server does at its start
    return Service(controller, settings, shadow=shadow, clock=now, builder=ControllerBuilder(build, in_thread=False))


class _Tally:
    """Collects the exchanges of a log. All sums are taken at the end."""

    def __init__(self) -> None:
        self.ticks = self.identical = 0
        self.first_difference: int | None = None
        self._compared: list[tuple[int, int, Vector, Vector]] = []  # session, t_robot, recorded τ, replayed τ
        self._force_sum = 0.0

    def note(self, entry: Entry, recorded: _Torque | None, reply: bytes) -> None:
        if not entry.answered:
            return
        self.ticks += 1
        replayed = _torque(reply)
        if recorded is None:
            raise LogError(f"tick {self.ticks}: expected a torque as the recorded reply, got another message")
        same = replayed is not None and replayed.tau == recorded.tau
        self.identical += same
        if not same and self.first_difference is None:
            self.first_difference = recorded.seq
        if replayed is not None:
            self._compared.append((recorded.session, recorded.t_robot, recorded.tau, replayed.tau))
            if replayed.contact_force != recorded.contact_force:
                self._force_sum += abs(_normal_force(replayed) - _normal_force(recorded))

    @property
    def robot_s(self) -> float:
        """Duration on the robot's clock, summed over the sessions [s]."""
        return float(self._periods()[1].sum())

    def differences(self) -> Differences | None:
        if self.first_difference is None or not self._compared:
            return None
        tau = np.array([[_numbers(value) for value in both] for _, _, *both in self._compared])  # (ticks, 2, na)
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


def _numbers(value: Vector) -> Array:
    return np.frombuffer(value, dtype="<f8") if isinstance(value, bytes) else np.array(value)


def _normal_force(torque: _Torque) -> float:
    return sum(contact.fn for contact in _FORCES.decode(torque.contact_force))
