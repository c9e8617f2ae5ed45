"""The connections of a bridge to a server: one that observes, and one that commands. A server that ends is waited for."""

from typing import Any

from idyn.errors import IdynError
from transport.keys import Keys
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.error import Code
from transport.protocol.messages.requests import Config, ConfigGet, Stats, StatsGet, Tick, TickGet
from transport.robot.conversation import ConnectionFailed, expected
from transport.robot.observer import Observer
from transport.robot.planner import CommandRefused, PlannerClient

TIMEOUT_MS = 500
"""Default time to wait for an answer [ms]."""


class ServerLink:
    """Reads the ticks of a server, and commands its robot.

    settings: of the controller, as the server has them
    """

    def __init__(self, endpoint: str, planner: str | None, keys: Keys | None = None, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """planner: name in the server's setting `planners`; None: send no commands
        keys: for a server with `[curve]`, of the role 'plan' or, without commands, 'watch'
        timeout_ms: time to wait for an answer [ms]
        Raises ConnectionFailed without a server, CommandRefused for a planner that it does not allow.
        """
        self._endpoint, self._name, self._keys, self._timeout_ms = endpoint, planner, keys, timeout_ms
        self._planner: PlannerClient | None = None
        self._observer = self._observe()
        try:
            config = expected(self._observer.ask(ConfigGet()), Config)
            self._plan()
        except IdynError:
            self._observer.close()
            raise
        self.settings: dict[str, Any] = config.settings

    def close(self) -> None:
        """Disconnect. The last command stands until it expires."""
        self._observer.close()
        if self._planner is not None:
            self._planner.close()

    def tick(self) -> Tick | None:
        """Return the last tick; None without an answer."""
        tick = self._ask(TickGet())
        return tick if isinstance(tick, Tick) else None

    def stats(self) -> Stats | None:
        """Return the statistics; None without an answer."""
        stats = self._ask(StatsGet())
        return stats if isinstance(stats, Stats) else None

    def command(self, **command: Any) -> str:
        """Command the robot, see `PlannerClient.command`. Return why it was refused, ''."""
        try:
            self._plan()
            assert self._planner is not None
            self._planner.command(**command)
        except (CommandRefused, ConnectionFailed) as error:
            lost = isinstance(error, ConnectionFailed) or error.error.code is Code.NOT_CONTROLLING
            if lost and self._planner is not None:  # the server may be another one by now
                self._planner.close()
                self._planner = None
            return str(error)
        return ""

    def _ask(self, request: FromClient) -> FromServer | None:
        try:
            return self._observer.ask(request)
        except ConnectionFailed:
            self._observer.close()
            self._observer = self._observe()
            return None

    def _plan(self) -> None:
        """Start the session of a planner, if there is none."""
        if self._name is not None and self._planner is None:
            self._planner = PlannerClient(self._endpoint, self._name, timeout_ms=self._timeout_ms, keys=self._keys)

    def _observe(self) -> Observer:
        return Observer(self._endpoint, timeout_ms=self._timeout_ms, keys=self._keys)
