"""A client that notes what the server says: messages of replies, and tasks of commands."""

import re
from collections import Counter

from sim_harness.robot.robot_side import Exchanger
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.server.sessions.command_latch import STANDS

NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")

MOST_LINES = 20


class Listener:
    """An exchanger in front of another one. Messages that differ by numbers only count as one."""

    def __init__(self, client: Exchanger) -> None:
        self._client = client
        self.error: ErrorMessage | None = None
        self._messages: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._tasks: dict[str, tuple[int, int, float]] = {}  # name → ticks, ticks in which it was met, largest missing

    @property
    def deadline(self) -> float:
        return self._client.deadline

    @property
    def session(self) -> int:
        return self._client.session

    def ask(self, message: FromClient) -> FromServer:
        return self._client.ask(message)

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        reply = self._client.exchange(state)
        self.error = self._client.error
        if reply is not None:
            if reply.message:
                kind = NUMBER.sub("#", reply.message)
                self._first.setdefault(kind, reply.message)
                self._messages[kind] += 1
            for task in reply.tasks:
                ticks, met, missing = self._tasks.get(task.name, (0, 0, 0.0))
                self._tasks[task.name] = ticks + 1, met + task.met, max(missing, task.missing)
        return reply

    @property
    def steered(self) -> bool:
        """Whether replies show that commands were in force: they report tasks, or that the last command has expired."""
        return bool(self._tasks) or any(STANDS in message for message in self._messages)

    def report(self) -> tuple[str, ...]:
        """Return what was said, one line each."""
        said = [f"in {count} ticks: {self._first[kind]}" for kind, count in self._messages.most_common(MOST_LINES)]
        tasks = [
            f"task {name}: met in {met} of {ticks} ticks, at most {missing:.3g} m/s², rad/s² or N off"
            for name, (ticks, met, missing) in self._tasks.items()
        ]
        return (*said, *tasks[:MOST_LINES])
