"""The messages of all clients but the controlling one, which share a part of the server's time while it controls the robot.

Every client has a queue of its own, and the queues are served in turn, so that a flood of one client delays itself. States of a
shadow client are not queued: the newest waits beside the queues, and one is answered after each answer to the robot.
"""

from collections import deque
from time import thread_time_ns

from transport.protocol.codec import message_type
from transport.server.service import Service

SHARE = 0.04
"""Part of the server's time: 40 µs of a tick of 1 ms. Time in which the system runs other processes is not counted as spent."""

MOST_CREDIT_NS = 100_000
"""Unused time that is kept [ns]."""

MOST_DEBT_NS = 50_000_000
"""Time beyond their share that others pay back [ns], within 1.25 s: a flood that has ended does not shut them out."""

MOST_WAITING, MOST_WAITING_BYTES = 1024, 1 << 20
"""Messages of one client that may wait, and their bytes; further ones are dropped."""

MOST_BYTES = 16 * 1024
"""Longest message of a client without a session [bytes], while another one controls the robot. A hello of a robot of 50 joints,
with all limits, has about 6 KiB."""

Message = tuple[bytes, bytes, int]
"""Identity, bytes, arrival on the server's clock [ns]."""


class Others:
    """Waiting messages, and the time that is left for them. clients: number of clients with waiting messages"""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._queues: dict[bytes, deque[Message]] = {}
        self._bytes: dict[bytes, int] = {}
        self._shadow: Message | None = None
        self._credit_ns, self._since_ns = MOST_CREDIT_NS, 0
        self._begin_ns = 0

    @property
    def clients(self) -> int:
        return len(self._queues)

    def has_time(self, now_ns: int) -> bool:
        """Return whether time is left. now_ns: server's clock [ns]"""
        earned = round(SHARE * (now_ns - self._since_ns))
        self._credit_ns, self._since_ns = min(self._credit_ns + earned, MOST_CREDIT_NS), now_ns
        return self._credit_ns > 0

    def start(self) -> None:
        """Begin to measure time that is spent on other clients: processor time of this thread."""
        self._begin_ns = thread_time_ns()

    def charge(self, part: float = 1.0, *, owed: bool = True) -> None:
        """Count the time since the last `start` or `charge` as spent on other clients.

        part: the part of it that was spent on them
        owed: subtract it from what is left. It may be more than that; they wait the longer.
        """
        now_ns = thread_time_ns()
        spent_ns, self._begin_ns = round(part * (now_ns - self._begin_ns)), now_ns
        self._service.timings.others_ns += spent_ns
        if owed:
            self._credit_ns = max(self._credit_ns - spent_ns, -MOST_DEBT_NS)

    def put(self, message: Message) -> None:
        """Queue a message. It is dropped, and counted, if too many of its client wait."""
        identity, data, _ = message
        queue = self._queues.get(identity)
        if queue is None and self._service.dispatcher.shadows(identity) and message_type(data) == "state":
            if self._shadow is not None:
                self._service.overtaken(*self._shadow)
            self._shadow = message
            return
        if queue is None:
            queue = self._queues[identity] = deque()
            self._bytes[identity] = 0
        if len(queue) >= MOST_WAITING or self._bytes[identity] + len(data) > MOST_WAITING_BYTES:
            self._service.drop(message[2])
            return
        queue.append(message)
        self._bytes[identity] += len(data)

    def take(self) -> Message | None:
        """Return the next message, None without one."""
        if not self._queues:
            return None
        identity = next(iter(self._queues))
        queue = self._queues.pop(identity)
        message = queue.popleft()
        self._bytes[identity] -= len(message[1])
        if queue:
            self._queues[identity] = queue  # at the end
        else:
            del self._bytes[identity]
        return message

    def take_shadow(self) -> Message | None:
        """Return the newest state of the shadow client, None without one."""
        message, self._shadow = self._shadow, None
        return message


def newest(batch: list[Message]) -> tuple[list[Message], list[Message]]:
    """Split a batch into messages to answer and overtaken states, both in their order.

    A state is overtaken when the batch has a later one of the same client. All other messages are answered.
    """
    if len(batch) == 1:
        return batch, []
    kept: list[Message] = []
    overtaken: list[Message] = []
    newer: set[bytes] = set()
    for message in reversed(batch):
        identity, data, _ = message
        is_state = message_type(data) == "state"
        (overtaken if is_state and identity in newer else kept).append(message)
        if is_state:
            newer.add(identity)
    return kept[::-1], overtaken[::-1]
