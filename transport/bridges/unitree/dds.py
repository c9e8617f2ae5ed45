"""Unitree's messages over DDS (extra `unitree`), with types made from `transport.bridges.unitree.messages`."""

import json
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from idyn.errors import ConfigError, missing_extra
from transport.bridges.unitree.messages import Layout, Message, Structure

try:
    from transport.bridges.dds import (
        KINDS,
        Participant,
        RawReader,
        RawWriter,
        array,
        quality,
        raw,
        sequence,
        structure,
        typed_reader,
        typed_writer,
    )
except ImportError as error:
    raise missing_extra("bridge", "a bridge to Unitree's robots", "cyclonedds", "unitree") from error

DEPTH = 16  # messages that a reader keeps, so that none is lost during a pause of up to 32 ms at 500 Hz


class Bus(Participant):
    """A participant in one domain, on one network interface; one for each domain in a process."""

    def reader(self, topic: str, layout: Layout) -> "Reader":
        """Return a reader of a topic."""
        return Reader(self, topic, layout)

    def writer(self, topic: str, layout: Layout) -> "Writer":
        """Return a writer to a topic."""
        return Writer(self, topic, layout)


class Reader(RawReader):
    """Receives messages of one topic."""

    def __init__(self, bus: Bus, topic: str, layout: Layout) -> None:
        super().__init__(bus, topic, raw(_type_of(layout.structure)), quality(depth=DEPTH))
        self._layout = layout

    def take(self, timeout: float = 0.0) -> list[Message]:
        """Return the messages that have arrived, the oldest first; wait up to `timeout` [s] for one."""
        return [Message(self._layout, sample.data, sample.sent_ns) for sample in self.samples(timeout)]


class Writer(RawWriter):
    """Sends messages of one topic."""

    def __init__(self, bus: Bus, topic: str, layout: Layout) -> None:
        super().__init__(bus, topic, raw(_type_of(layout.structure)))


def _type_of(layout: Structure) -> Any:
    fields: dict[str, Any] = {}
    for name, form, count in layout.fields:
        kind = _type_of(form) if isinstance(form, Structure) else KINDS[form]
        fields[name] = kind if count == 1 else array(kind, count)
    return structure(layout.name, fields)


CHECK, RELEASE = 1001, 1003  # numbers of the requests

CONNECT_S, ANSWER_S, AGAIN_S, RELEASE_S, PAUSE_S = 2.0, 1.0, 0.2, 10.0, 0.5
"""Longest times to find the service and to get an answer, time after which a question is asked again, longest time until no
controller is active; pause between two looks [s]."""


def _message(name: str, **fields: Any) -> Any:
    return dataclass(structure(f"unitree_api.msg.dds_.{name}", fields))


_Identity = _message("RequestIdentity_", id=KINDS["i8"], api_id=KINDS["i8"])
_Lease = _message("RequestLease_", id=KINDS["i8"])
_Policy = _message("RequestPolicy_", priority=KINDS["i4"], noreply=bool)
_Header = _message("RequestHeader_", identity=_Identity, lease=_Lease, policy=_Policy)
_Request = _message("Request_", header=_Header, parameter=str, binary=sequence(KINDS["u1"]))
_Status = _message("ResponseStatus_", code=KINDS["i4"])
_Answered = _message("ResponseHeader_", identity=_Identity, status=_Status)
_Response = _message("Response_", header=_Answered, data=str, binary=sequence(KINDS["u1"]))


class MotionSwitcher:
    """A client of the service."""

    def __init__(self, bus: Bus) -> None:
        """Raises ConfigError if no robot on the network has the service."""
        name = "rt/api/motion_switcher"
        self._bus = bus  # readers and writers end with their participant
        self._requests = typed_writer(bus, f"{name}/request", _Request, quality(depth=4, reliable=True))
        self._responses = typed_reader(bus, f"{name}/response", _Response)
        until = monotonic() + CONNECT_S
        while not (self._requests.get_matched_subscriptions() and self._responses.get_matched_publications()):
            if monotonic() > until:
                raise ConfigError("robot", "its service motion_switcher was not found; is the domain right, and the interface?")
            sleep(0.01)

    @property
    def active(self) -> str:
        """Name of the active controller, '' without one. Raises ConfigError without an answer."""
        text = self._ask(CHECK)
        try:
            return str(json.loads(text)["name"])
        except (ValueError, KeyError, TypeError):
            raise ConfigError("robot", f"expected a controller's name from motion_switcher, got '{text}'") from None

    def release(self) -> str:
        """End the active controller and wait until none is; the joints then move freely. Return its name, '' without one.

        Raises ConfigError without an answer, and if a controller is still active after 10 s.
        """
        found = active = self.active
        until = monotonic() + RELEASE_S
        while active:
            self._ask(RELEASE)
            sleep(PAUSE_S)
            active = self.active
            if active and monotonic() > until:
                raise ConfigError("robot", f"its controller '{active}' is still active {RELEASE_S:g} s after the release")
        return found

    def _ask(self, request: int) -> str:
        """Send a request and return the text of the answer. Raises ConfigError without one, and for a refusal.

        The service may not know this writer yet, whose first question then is lost.
        """
        number = int(monotonic() * 1e9)
        message = _Request(_Header(_Identity(number, request), _Lease(0), _Policy(0, False)), "{}", [])
        self._requests.write(message)
        until, again = monotonic() + ANSWER_S, monotonic() + AGAIN_S
        while (now := monotonic()) < until:
            if request == CHECK and now > again:
                self._requests.write(message)
                again = now + AGAIN_S
            for response in self._responses.take(16):
                if response.header.identity.id != number:
                    continue
                if code := response.header.status.code:
                    raise ConfigError("robot", f"its motion_switcher refused request {request} with code {code}")
                return str(response.data)
            sleep(0.002)
        raise ConfigError("robot", f"its motion_switcher did not answer request {request} within {ANSWER_S:g} s")
