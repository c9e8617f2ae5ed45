"""The exchanges of a log, answered again by a new service with the log's settings, or with another law."""

from collections.abc import Callable, Iterator
from math import inf
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
from transport.server.reconfigure import ControllerBuilder
from transport.server.served_controller import ServedController
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.warm_up import warm_up

Build = Callable[[dict[str, Any]], ServedController]

OTHER_TORQUES = {"alarms": {"motor": inf, "roughness_stop": inf, "reality_stop": inf}}
"""Changes to a controller whose torques the recorded robot did not get: neither what it compares with the robot's motion, nor
torques that oscillate or are at their limits, stop it."""


class Replayed(msgspec.Struct, frozen=True, gc=False):
    """A request of a log that was answered, with both replies.

    recorded: the torque of the log; None if its reply was another message. A tick (`entry.answered`) always has one
    reply: of the replay
    """

    entry: Entry
    recorded: "Torque | None"
    reply: bytes


def replayed(
    reader: LogReader,
    *,
    law: str | None = None,
    selection: str | None = None,
    build: Build = controller_from_snapshot,
    unanswered: int = 0,
) -> Iterator[Replayed]:
    """Send the requests of a log to a new service, and return an iterator over them with both replies.

    law, selection, build: as for `replay`. With another law or selection, and after ticks without an answer, no alarm about
        torques stops the robot
    unanswered: number of ticks at the start that the service notes without an answer, as it does with states that it receives
        too late. The robot may then move in the first tick that is answered. Their requests are not yielded
    Raises LogError and ConfigError for the settings at once, and LogError at a recorded reply that is malformed.
    """
    now = _Clock()
    service = _service(reader, build, now, changes={"law": law, "selection": selection}, moving=unanswered > 0)
    return _exchanges(reader, service, now, unanswered)


def _exchanges(reader: LogReader, service: Service, now: "_Clock", unanswered: int) -> Iterator[Replayed]:
    ticks = 0
    for entry in reader.exchanges():
        ticks += entry.answered
        if not entry.reply or (unanswered > 0 and entry.about_state):
            service.overtaken(entry.identity, entry.request, entry.t_recv_ns)
            unanswered -= entry.answered
            continue
        recorded = torque_of(entry.reply)
        if recorded is None and entry.answered:
            raise LogError(f"{reader.path}: tick {ticks}: expected a torque as the recorded reply, got another message")
        now.t_ns = entry.t_recv_ns if recorded is None else recorded.t_send
        now.step_ns = 0 if recorded is None or recorded.solver is None else round(recorded.solver.time_us * 1e3)
        missing = _misses_parts(recorded) or (recorded is None and NOT_LOADED.encode() in entry.reply)
        yield Replayed(entry, recorded, _answered(service, entry, missing))


def _misses_parts(recorded: "Torque | None") -> bool:
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
    """The fields of `Solver` that are compared, and that decide on commanded tasks."""

    rung: str
    time_us: float = 0.0


class Torque(msgspec.Struct, tag_field="t", tag="torque", gc=False, kw_only=True):
    """The fields of a torque message that are compared. Contact forces are decoded only when they are asked for."""

    session: int
    seq: int
    t_robot: int
    t_send: int
    solver: _Solver | None = None
    tau: Vector
    status: str
    contact_force: msgspec.Raw

    @property
    def normal_force(self) -> float:
        """Sum of the predicted normal forces [N]."""
        return sum(contact.fn for contact in _FORCES.decode(self.contact_force))


_TORQUE = msgspec.msgpack.Decoder(Torque)
_FORCES = msgspec.msgpack.Decoder(list[ContactForce])


def torque_of(reply: bytes) -> Torque | None:
    """Decode a torque message. Return None for any other message."""
    try:
        return _TORQUE.decode(reply)
    except msgspec.DecodeError:
        return None


def numbers(value: Vector) -> Array:
    """Return a vector of a message as an array."""
    return np.frombuffer(value, dtype="<f8") if isinstance(value, bytes) else np.array(value, dtype=np.float64)


class _Clock:
    """The service's clock: returns the recorded time of the current answer [ns], first that of the beginning of its step."""

    t_ns = step_ns = 0

    def __call__(self) -> int:
        begin_ns, self.step_ns = self.t_ns - self.step_ns, 0
        return begin_ns


def _service(reader: LogReader, build: Build, now: _Clock, *, changes: dict[str, str | None], moving: bool) -> Service:
    """Return a service with the settings of a log. changes: to the controller's; moving: the robot may move at the start"""
    snapshot, server = recorded_settings(reader)
    try:
        settings = parse(server, ServerSettings, "server")
    except ConfigError as error:
        raise LogError(f"{reader.path}: {error}") from error
    if moving:
        settings = msgspec.structs.replace(settings, start="motion")
    given = {name: value for name, value in changes.items() if value is not None}
    if given or moving:
        snapshot["settings"] = merged(snapshot["settings"], OTHER_TORQUES | given)
    shadow = build(snapshot) if settings.shadow else None
    controller = build(snapshot)
    if isinstance(controller, Controller):
        warm_up(controller, settings)  # as the server does at its start
    return Service(controller, settings, shadow=shadow, clock=now, builder=ControllerBuilder(build, in_thread=False))
