"""What goes into the reception, and what comes out of it."""

import msgspec

from transport.protocol.messages import FromServer
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.hello import Welcome
from transport.protocol.messages.requests import ConfigSet, ResetAck
from transport.server.sessions.session import Accepted, Fault, Session


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """One message as it came: whose it is, its bytes, and when it arrived on the server's clock [ns]."""

    identity: bytes
    data: bytes
    now_ns: int


class Resend(msgspec.Struct, frozen=True):
    """Send this again: it answered the same state before."""

    reply: bytes


class Restart(msgspec.Struct, frozen=True):
    """A session begins, or goes on after a fault: reset its controller and send this."""

    session: Session
    message: Welcome | ResetAck


class Reply(msgspec.Struct, frozen=True):
    """Send this; the controllers have nothing to do with it."""

    message: FromServer


class Refusal(msgspec.Struct, frozen=True):
    """Send this. about_state: in answer to a state; fault: what this message latched its session for, None: it did not"""

    message: ErrorMessage
    about_state: bool
    fault: Fault | None


class StatsRequest(msgspec.Struct, frozen=True):
    """Answer with the counters."""

    session: Session | None


class SettingsRequest(msgspec.Struct, frozen=True):
    """Have a controller with other settings built."""

    session: Session | None
    message: ConfigSet


Outcome = Accepted | Resend | Restart | Reply | Refusal | StatsRequest | SettingsRequest
"""What a message leads to, for the service to carry out; of a state that is accepted, a step of the controller."""
