"""Communication link between robot and server with delayed and lost messages."""

from collections import deque
from typing import TypeVar

import numpy as np

from sim_harness.robot.imperfections.sensors import Purpose, stream
from sim_harness.robot.imperfections.settings import LinkSettings, Loss
from sim_harness.robot.robot_side import Exchanger
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage

M = TypeVar("M", StateMessage, TorqueMessage)


class Link:
    """A client with a link that delays and loses messages.

    Time is the robot's clock. If several states or torques arrive in the same tick, only the newest is delivered.
    """

    def __init__(self, client: Exchanger, settings: LinkSettings, dt: float, seed: int | None) -> None:
        """dt: period of the ticks [s]"""
        self._client = client
        self._state_delay, self._torque_delay = (
            round(ticks * dt * 1e9) for ticks in (settings.state_delay, settings.torque_delay)
        )
        self._lost_states = Losses(settings.lost_states, dt, stream(seed, Purpose.LOST_STATES))
        self._lost_torques = Losses(settings.lost_torques, dt, stream(seed, Purpose.LOST_TORQUES))
        self._states: deque[tuple[int, StateMessage]] = deque()
        self._torques: deque[tuple[int, TorqueMessage]] = deque()
        self._begun = False
        self.error: ErrorMessage | None = None

    @property
    def session(self) -> int:
        return self._client.session

    @property
    def deadline(self) -> float:
        return self._client.deadline

    def ask(self, message: FromClient) -> FromServer:
        """Send any message but a state and return the reply, without delay or loss."""
        return self._client.ask(message)

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        """Send the state of this tick and return the torque that arrives in this tick, None without one."""
        now, late = state.t_robot, self._begun
        self._begun, self.error = True, None
        lost_state, lost_torque = self._lost_states.next(), self._lost_torques.next()
        if not lost_state:
            self._states.append((now + (self._state_delay if late else 0), state))
        arrived = _newest(self._states, now)
        if arrived is not None:
            torque = self._client.exchange(arrived)
            self.error = None if lost_torque else self._client.error
            if torque is not None and not lost_torque:
                self._torques.append((now + (self._torque_delay if late else 0), torque))
        return _newest(self._torques, now)


class Losses:
    """Random losses of the messages of one direction."""

    def __init__(self, settings: Loss, dt: float, rng: np.random.Generator) -> None:
        """dt: period of the ticks [s]"""
        self._probability = settings.probability
        self._begins = -float(np.expm1(-settings.rate * dt))
        self._length, self._every = round(settings.length / dt), round(settings.every / dt)
        self._tick, self._at, self._left = 0, -1, 0
        self._rng = rng

    def next(self) -> bool:
        """Return true when the message of this tick is lost. Always draws two random numbers."""
        single, burst = self._rng.random(2)
        due = self._is_due(burst)
        if self._left == 0 and (due or burst < self._begins):
            self._left = self._length
        in_burst = self._left > 0
        self._left -= in_burst
        return bool(in_burst or single < self._probability)

    def _is_due(self, burst: float) -> bool:
        """Return true when the burst of the current period of `every` begins.

        burst: uniform random number in [0, 1); that of a period's first tick decides in which tick the burst begins
        """
        if not self._every:
            return False
        moment, self._tick = self._tick % self._every, self._tick + 1
        if moment == 0:
            self._at = round((0.25 + 0.5 * burst) * self._every)
        return moment == self._at


def _newest(queue: deque[tuple[int, M]], now: int) -> M | None:
    """Remove all messages with arrival time ≤ now [ns] and return the newest of them, None without any."""
    newest = None
    while queue and queue[0][0] <= now:
        newest = queue.popleft()[1]
    return newest
