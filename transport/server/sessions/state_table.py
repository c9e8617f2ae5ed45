"""The state table of a client: which message is served in which phase."""

from enum import StrEnum, auto

from transport.protocol.messages.hello import Hello
from transport.protocol.messages.requests import ConfigGet, ConfigSet, Heartbeat, Reset, StatsGet, Stop
from transport.protocol.messages.state import StateMessage


class Phase(StrEnum):
    """Where a client stands."""

    ABSENT = "absent"  # no hello yet
    RUNNING = "running"
    LATCHED = "latched"  # a fault; states are refused until `reset`
    ENDED = "ended"  # said stop


class Action(StrEnum):
    """What a message leads to; `Reception` has a method for each."""

    GREET = auto()
    TICK = auto()
    RESET = auto()
    STOP = auto()
    ECHO = auto()
    REPORT = auto()
    TELL_SETTINGS = auto()
    CHANGE_SETTINGS = auto()
    REFUSE_ABSENT = auto()
    REFUSE_LATCHED = auto()


TABLE: dict[Phase, dict[type, Action]] = {
    phase: {
        Hello: Action.GREET,
        StateMessage: state,
        Reset: reset,
        Heartbeat: heartbeat,
        Stop: Action.STOP,
        StatsGet: Action.REPORT,
        ConfigGet: Action.TELL_SETTINGS,
        ConfigSet: Action.CHANGE_SETTINGS,
    }
    for phase, state, reset, heartbeat in (
        (Phase.ABSENT, Action.REFUSE_ABSENT, Action.REFUSE_ABSENT, Action.REFUSE_ABSENT),
        (Phase.RUNNING, Action.TICK, Action.RESET, Action.ECHO),
        (Phase.LATCHED, Action.REFUSE_LATCHED, Action.RESET, Action.ECHO),
        (Phase.ENDED, Action.REFUSE_ABSENT, Action.REFUSE_ABSENT, Action.REFUSE_ABSENT),
    )
}
"""What each message leads to in each phase; other types of messages are not sent by clients."""
