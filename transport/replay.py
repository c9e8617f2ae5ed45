"""Replay of a log through a new service: the same law gives the same torques bit for bit; another law is compared."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from controllers.build import controller_from_snapshot
from idyn.types import Array
from transport.log.reader import LogReader
from transport.protocol.messages.base import Vector
from transport.realtime import steady
from transport.replayed_exchanges import Build, Replayed, numbers, replayed, torque_of

TICKS_AT_ONCE = 100
"""Ticks between two calls of `progress`."""


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
        self._compared: list[tuple[int, int, Vector, Vector]] = []  # session, t_robot, recorded τ, replayed τ
        self._force_sum = 0.0

    def note(self, exchange: Replayed) -> None:
        recorded = exchange.recorded
        if recorded is None or not exchange.entry.answered:
            return
        self.ticks += 1
        answer = torque_of(exchange.reply)
        same = answer is not None and answer.tau == recorded.tau
        self.identical += same
        if not same and self.first_difference is None:
            self.first_difference = recorded.seq
        if answer is not None:
            self._compared.append((recorded.session, recorded.t_robot, recorded.tau, answer.tau))
            if answer.contact_force != recorded.contact_force:
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
