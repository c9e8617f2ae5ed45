"""Anticipation: estimates when the next state is due, so that the server can poll for it; and the time for other clients.

After a millisecond of sleep caches are cold, and a tick takes twice as long: with a regular client the server polls from
`lead_us` before the next state is due until `lead_us` after.
"""

from collections import deque
from time import thread_time_ns

from transport.protocol.codec import message_type
from transport.server.service import Service

REGULAR = 0.2  # largest relative difference of two successive intervals of a regular client
SOON_NS = 200_000  # time around a due state in which no other client is served [ns]


class Anticipation:
    """Estimates the arrival of the next state from the last two intervals."""

    def __init__(self, lead_us: float) -> None:
        """lead_us: time before and after the due time in which the server polls [µs]; 0: never"""
        self._lead_ns = round(lead_us * 1e3)
        self._last_ns = 0
        self._interval_ns = 0
        self._regular = False

    def arrived(self, now_ns: int, period_ns: int) -> None:
        """Note the arrival of a state. period_ns: nominal period of the client [ns]

        Longer intervals are not regular: a state that waited because the server slept must not make it sleep longer.
        """
        interval = now_ns - self._last_ns
        steady = abs(interval - self._interval_ns) < REGULAR * interval
        self._regular = steady and interval < (1.0 + REGULAR) * period_ns
        self._last_ns, self._interval_ns = now_ns, interval

    def rest_s(self, now_ns: int) -> float:
        """Return the time to sleep before polling [s]; 0 for an irregular client, and when polling should start."""
        if not self._regular or self._lead_ns == 0:
            return 0.0
        return max(0.0, (self._last_ns + self._interval_ns - self._lead_ns - now_ns) * 1e-9)

    def expects(self, now_ns: int) -> bool:
        """Return whether to keep polling: the next state is late by less than `lead_us`."""
        return now_ns < self._last_ns + self._interval_ns + self._lead_ns

    def due_ns(self) -> int:
        """Return when the next state is due, if the client is regular [ns]."""
        return self._last_ns + self._interval_ns

    def soon(self, now_ns: int) -> bool:
        """Return whether the state of a regular client is due within `SOON_NS`, or is late by less than that."""
        return self._regular and abs(self.due_ns() - now_ns) < SOON_NS


SHARE = 0.04
"""Part of the server's time: 40 µs of a tick of 1 ms. Time in which the system runs other processes is not counted as spent."""

MOST_CREDIT_NS = 100_000  # unused time that is kept [ns]

MOST_DEBT_NS = 50_000_000
"""Time beyond their share that others pay back [ns], within 1.25 s: a flood that has ended does not shut them out."""

MOST_WAITING, MOST_WAITING_BYTES = 1024, 1 << 20
"""Messages of one client that may wait, and their bytes; further ones are dropped."""

MOST_BYTES = 16 * 1024
"""Longest message of a client without a session [bytes], while another one controls the robot. A hello of a robot of 50 joints,
with all limits, has about 6 KiB."""

Message = tuple[bytes, bytes, int]  # identity, bytes, arrival on the server's clock [ns]


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
