"""The trial of a foreign client: its process, a real service, and the answers that it gets."""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from time import monotonic, monotonic_ns
from typing import Any, NamedTuple

import msgspec
import numpy as np

from controllers.controller import Controller
from idyn.errors import IdynError
from idyn.types import Array
from sim_harness.conform.probe import ENCODER, Fields, NotSeen, Stand, expect_that, numbers
from transport.protocol.codec import encode
from transport.protocol.messages.requests import Estop
from transport.server.service import Service
from transport.server.settings import ServerSettings

STATES = 40  # states of a phase with correct answers
PATIENCE_S = 3.0  # time in which a client must send its next message, or return to normal states [s]
START_S = 30.0  # time in which its process must say hello [s]
BUTTON = "idyn conform"  # name of the emergency stop with which the trial latches a robot
Treat = Callable[["Heard"], bytes | None]  # given a state and its correct answer, return what is sent; None: nothing


class Heard(NamedTuple):
    """A message of the client. fields: as a map, {} if it is none; reply: the service's answer"""

    identity: bytes
    frames: list[bytes]
    fields: Fields
    reply: Fields

    @property
    def kind(self) -> str:
        return str(self.fields.get("t"))

    @property
    def applied(self) -> Array:
        """The torques that the client had in its motors. Raises NotSeen if it does not send them."""
        if self.fields.get("tau_applied") is None:
            raise NotSeen("the client sends no tau_applied")
        return numbers(self.fields["tau_applied"])


def correct(heard: Heard) -> bytes:
    return ENCODER.encode(heard.reply)


def altered(**changes: Any) -> Treat:
    """Return a treatment that changes fields of the answer."""
    return lambda heard: ENCODER.encode(heard.reply | changes)


def withheld(heard: Heard) -> None:
    """Send nothing."""


class Trial:
    """A client's process at a stand. heard: all its messages; refused: those that the service refused, unplanned"""

    def __init__(self, command: str, endpoint: str, controller: Controller, settings: ServerSettings) -> None:
        self._command, self._controller = command, controller
        self._settings = msgspec.structs.replace(settings, estops=(BUTTON,), max_state_age_ms=1000.0)
        self.stand = Stand(endpoint)
        self.heard: list[Heard] = []
        self.refused: list[Heard] = []
        self.planned = False  # refusals are part of the current phase
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Trial":
        self._start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def renew(self) -> None:
        """Begin anew, with a new process and a new server."""
        self._end()
        self._start()

    def _start(self) -> None:
        self.planned = False
        self.start_server()
        endpoint = self.stand.endpoint
        words = [word.replace("{}", endpoint) for word in shlex.split(self._command)]
        try:
            self.process = subprocess.Popen(words, env=os.environ | {"IDYN_ENDPOINT": endpoint}, start_new_session=True)
        except OSError as error:
            self.stand.close()
            raise IdynError(f"cannot start {words[0]} ({error.strerror})") from error

    def _end(self) -> None:
        self.stand.close()
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    # -- the server ---------------------------------------------------------------------------------------------------

    def start_server(self, *, latched: bool = False) -> None:
        """Open a server that knows no session. latched: its robot is stopped until `reset`"""
        self._controller.reset()
        self.service = Service(self._controller, self._settings)
        if latched:
            self.service.handle(b"button", encode(Estop(name=BUTTON)), monotonic_ns())
            self.service.settle()
        self.stand.open(self.service)

    def latch(self, reason: str) -> None:
        """Latch a fault of the robot."""
        for session in self.service.dispatcher.sessions.values():
            session.latch(reason, monotonic_ns())

    def end_sessions(self, reason: str) -> None:
        """Say goodbye to all clients."""
        for identity, goodbye in self.service.farewell(reason):
            self.stand.send(identity, goodbye)

    # -- the client ---------------------------------------------------------------------------------------------------

    def next(self, seconds: float = PATIENCE_S) -> Heard | None:
        """Return the client's next message with the service's answer, which is not sent yet; None without a message."""
        arrived = self.stand.next(seconds)
        if arrived is None:
            return None
        identity, *frames = arrived
        data = frames[0] if len(frames) == 1 else b""
        reply = self.service.handle(identity, data, monotonic_ns()).reply
        self.service.settle()
        heard = Heard(identity, frames, _map(data), msgspec.msgpack.decode(reply))
        self.heard.append(heard)
        if heard.reply["t"] == "error" and not self.planned:
            self.refused.append(heard)
        return heard

    def messages(self, seconds: float = PATIENCE_S) -> Iterator[Heard]:
        """Yield messages for this time. Raises NotSeen if the client's process has ended."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            if (heard := self.next(min(left, 0.2))) is not None:
                yield heard
            elif self.process is not None and self.process.poll() is not None:
                raise NotSeen(f"the client has ended (exit code {self.process.returncode})")

    def answer(self, heard: Heard, reply: bytes | None) -> None:
        if reply is not None:
            self.stand.send(heard.identity, reply)

    def states(self, count: int, treat: Treat = correct) -> list[Heard]:
        """Treat the next states; answer other messages correctly. Return the states. Raises NotSeen if they do not come."""
        found: list[Heard] = []
        for heard in self.messages(PATIENCE_S + 0.1 * count):
            if heard.kind == "state":
                found.append(heard)
            self.answer(heard, treat(heard) if heard.kind == "state" else correct(heard))
            if len(found) == count:
                return found
        raise NotSeen(f"only {len(found)} of {count} states came")

    def until(self, kind: str, seconds: float = PATIENCE_S, treat: Treat = correct) -> tuple[Heard, list[Heard]]:
        """Treat messages until one of this type comes, which is not answered. Return it and those before it.

        Raises Broken if it does not come.
        """
        before: list[Heard] = []
        for heard in self.messages(seconds):
            if heard.kind == kind:
                return heard, before
            self.answer(heard, treat(heard) if heard.kind == "state" else correct(heard))
            before.append(heard)
        kinds = sorted({heard.kind for heard in before})
        expect_that(False, "t", kinds or "no message", f"{kind} within {seconds:g} s")
        raise AssertionError

    def normal(self) -> list[Heard]:
        """Answer correctly until the states are answered by torques again. Return the last states, in order."""
        run: list[Heard] = []
        for heard in self.messages(2 * PATIENCE_S):
            self.answer(heard, correct(heard))
            if heard.kind == "state":
                followed = heard.reply["t"] == "torque" and heard.reply["status"] in ("ok", "degraded")
                run = [*run, heard] if followed else []
            if len(run) == STATES:
                return run
        raise NotSeen("the client did not return to states that are answered")


def _map(data: bytes) -> Fields:
    try:
        fields = msgspec.msgpack.decode(data)
    except msgspec.DecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def far_from(tau: Array, tau_max: Array) -> Array:
    """Return torques that are easily told from the given ones, within the limits."""
    return np.where(tau > 0.0, -0.5, 0.5) * tau_max
