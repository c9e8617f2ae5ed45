"""Input and outcomes of the dispatcher."""

import msgspec

from transport.protocol.messages import FromServer
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.hello import Welcome
from transport.protocol.messages.requests import ConfigSet, ResetAck
from transport.protocol.messages.state import StateMessage
from transport.protocol.state_input import Measured
from transport.server.sessions.latches import Fault
from transport.server.sessions.session import Session


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A received message. identity: its client; data: its bytes; now_ns: arrival on the server's clock [ns]"""

    identity: bytes
    data: bytes
    now_ns: int


class Accepted(msgspec.Struct, frozen=True):
    """Answer a valid state with a torque."""

    session: Session
    message: StateMessage
    measured: Measured


class Resend(msgspec.Struct, frozen=True):
    """Send a recorded reply again: the same state has been answered before."""

    reply: bytes


class Restart(msgspec.Struct, frozen=True):
    """Reset the session's controller and send the message: a session has started or was reset.

    fault: the silence before the session, if that is latched
    """

    session: Session
    message: Welcome | ResetAck
    fault: Fault | None = None


class Reply(msgspec.Struct, frozen=True):
    """Send the message, without effect on controllers."""

    message: FromServer


class Refusal(msgspec.Struct, frozen=True):
    """Send a refusal.

    about_state: it answers a state
    fault: the fault that the refused message caused, which stops its session until a reset (latched); None without one
    """

    message: ErrorMessage
    about_state: bool
    fault: Fault | None


class StatsRequest(msgspec.Struct, frozen=True):
    """Send the statistics."""

    session: Session | None


class TickRequest(msgspec.Struct, frozen=True):
    """Send the last tick. controlled: whether a client controls the robot"""

    controlled: bool


class SettingsRequest(msgspec.Struct, frozen=True):
    """Build a controller with other settings."""

    session: Session | None
    message: ConfigSet


Outcome = Accepted | Resend | Restart | Reply | Refusal | StatsRequest | TickRequest | SettingsRequest
"""The outcome of a message, for the service to carry out."""
