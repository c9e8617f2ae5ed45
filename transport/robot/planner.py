"""Clients that send no states: observers and planners."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
import numpy as np
import zmq

from controllers.command import GaitChange
from idyn.errors import IdynError
from idyn.tasks.forces import ContactTask
from idyn.tasks.motion import MotionTask
from idyn.tasks.stack import Mode
from idyn.types import Array, State
from transport.keys import Keys
from transport.protocol.codec import decode, encode, numbers
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage, GaitPart, PlanHello, PlanWelcome
from transport.protocol.messages.requests import Stop
from transport.protocol.task_input import write_tasks
from transport.robot.client import STOP_MS, Connection, ConnectionFailed, connected, expected, silent


class Observer(Connection):
    """A connection that only asks, and controls nothing.

    with Observer(endpoint) as observer:
        stats = observer.ask(StatsGet())
    """

    def __init__(self, endpoint: str, *, timeout_ms: int = 2000, keys: Keys | None = None) -> None:
        """timeout_ms: time to wait for an answer [ms]
        keys: for a server with `[curve]`, see `transport.keys.client_keys`
        """
        self._endpoint, self._timeout_ms, self._keys = endpoint, timeout_ms, keys
        self._socket = connected(endpoint, keys)
        self._socket.setsockopt(zmq.SNDTIMEO, timeout_ms)
        self._socket.setsockopt(zmq.RCVTIMEO, timeout_ms)

    def close(self) -> None:
        """Disconnect. Further calls have no effect."""
        self._socket.close()

    def ask(self, message: FromClient) -> FromServer:
        """Send a request and return the answer.

        Raises ConnectionFailed without one, and for a refusal. After that, use a new observer: an answer may still arrive.
        """
        reply = self._answer(message)
        if isinstance(reply, ErrorMessage):
            raise ConnectionFailed(f"the server refused the request ({reply.code}): {reply.message}")
        return reply

    def _answer(self, message: FromClient) -> FromServer:
        """Send a message and return the answer, also a refusal. Raises ConnectionFailed without one."""
        try:
            self._socket.send(encode(message))
            return decode(self._socket.recv())  # type: ignore[return-value]
        except zmq.Again:
            raise silent(f"no answer from {self._endpoint} within {self._timeout_ms} ms", self._endpoint, self._keys) from None


NO_MODES: Mapping[str, Mode] = {}


class CommandRefused(IdynError):
    """The server refused a command; the previous one stands until it expires. error: its refusal"""

    def __init__(self, error: ErrorMessage) -> None:
        super().__init__(error.message)
        self.error = error


class PlannerClient(Observer):
    """A connection that commands a robot through its server: a joystick, a planner or a policy.

    with PlannerClient(endpoint, "joystick") as planner:
        planner.command((0.4, 0.0, 0.0), valid_for=0.2)

    welcome: the server's description of the robot
    state: the robot's last state when the server answered last; None while no client controls the robot: before its first
        state, after its `stop`, and after a second without states
    t_robot: time of that state on the robot's clock [ns]; 0 without one
    """

    def __init__(self, endpoint: str, name: str, *, timeout_ms: int = 5000, keys: Keys | None = None) -> None:
        """name: as in the server's setting `planners`
        timeout_ms: time to wait for an answer [ms]
        keys: for a server with `[curve]`, of the role 'plan', see `transport.keys.client_keys`
        Raises ConnectionFailed without an answer, CommandRefused for a name that the server does not allow.
        """
        super().__init__(endpoint, timeout_ms=timeout_ms, keys=keys)
        try:
            reply = expected(self.ask(PlanHello(name=name)), PlanWelcome)
        except IdynError:
            self._socket.close()
            raise
        self.welcome, self._seq = reply, 0
        self._see(reply)

    def close(self) -> None:
        """Send `stop` and disconnect. The last command stands until it expires. Further calls have no effect."""
        if not self._socket.closed:
            with suppress(zmq.Again):
                self._socket.send(encode(Stop(session=self.welcome.session)), zmq.NOBLOCK)
                self._socket.poll(STOP_MS)
        self._socket.close()

    def command(
        self,
        velocity: Sequence[float] | Array | None = None,
        *,
        valid_for: float,
        height: float | None = None,
        attitude: Sequence[float] | Array | None = None,
        gait: GaitChange | None = None,
        tasks: Sequence[MotionTask | ContactTask] = (),
        modes: Mapping[str, Mode | str] = NO_MODES,
    ) -> CommandAck:
        """Command the robot for `valid_for` [s] from the arrival of the message. It replaces the last command as a whole.

        velocity: of the base, followed by the gait: forward, left [m/s], turn [rad/s] (3)
        height, attitude: of the base, relative to its stance [m], and roll, pitch [rad] (2); absent: as in the stance
        gait: pattern and timing of the steps, see `controllers.planners.gait`; absent: as configured
        tasks: see `idyn.tasks`; their targets are extrapolated by their derivatives, or joined smoothly
        modes: contact modes for `tasks`, by key

        Raises CommandRefused when the server refuses it, ConnectionFailed without an answer, InputError for tasks that cannot
        be sent.
        """
        self._seq += 1
        message = CommandMessage(
            session=self.welcome.session,
            seq=self._seq,
            valid_for=valid_for,
            velocity=None if velocity is None else np.asarray(velocity, np.float64).tolist(),
            height=height,
            attitude=None if attitude is None else np.asarray(attitude, np.float64).tolist(),
            gait=None if gait is None else GaitPart(**msgspec.structs.asdict(gait)),
            tasks=write_tasks(tasks) if tasks else None,
            modes={key: Mode(mode).value for key, mode in modes.items()} if modes else None,
        )
        reply = expected(self.ask(message), CommandAck)
        self._see(reply)
        return reply

    def ask(self, message: FromClient) -> FromServer:
        """Send a message and return the answer. Raises CommandRefused for a refusal, ConnectionFailed without an answer."""
        reply = self._answer(message)
        if isinstance(reply, ErrorMessage):
            raise CommandRefused(reply)
        return reply

    def _see(self, reply: PlanWelcome | CommandAck) -> None:
        seen = reply.state
        self.state: State | None = None
        self.t_robot = 0
        if seen is not None:
            self.state, self.t_robot = State(q=numbers(seen.q), v=numbers(seen.vel)), seen.t_robot
