"""Everything else a client may ask for, and the answers."""

from typing import Any, Literal

from transport.protocol.messages.base import ClientMessage, Count, ServerMessage, Time, Vector
from transport.protocol.messages.torque import Comm


class Stop(ClientMessage, tag="stop"):
    session: Count = 0
    reason: str = ""


class StopAck(ServerMessage, tag="stop_ack"):
    session: Count


class Reset(ClientMessage, tag="reset"):
    """Clears a latched fault or emergency stop. Refused while the robot, now at q and vel, tilts or moves too much."""

    session: Count
    q: Vector  # as in `state`
    vel: Vector  # as in `state`


class ResetAck(ServerMessage, tag="reset_ack"):
    session: Count


class Heartbeat(ClientMessage, tag="heartbeat"):
    """Keeps the session when no states are sent, for instance before the start. Does not feed the watchdog."""

    session: Count
    t_send: Time = 0


class HeartbeatAck(ServerMessage, tag="heartbeat_ack"):
    session: Count
    t_send: int  # echo
    t_recv: int  # server clock
    mode: Literal["ok", "latched"]


class ConfigGet(ClientMessage, tag="config_get"):
    pass


class ConfigSet(ClientMessage, tag="config_set"):
    """Changes controller settings; refused while a client controls."""

    settings: dict[str, Any]  # the part of `config.settings` that is to change, same nesting


class Config(ServerMessage, tag="config"):
    settings: dict[str, Any]


class StatsGet(ClientMessage, tag="stats_get"):
    pass


class Stats(ServerMessage, tag="stats"):
    received: int  # messages of all clients
    torques: int
    refused: dict[str, int]  # by error code
    deadline_misses: int
    step_us_mean: float
    step_us_max: float
    comm: Comm | None  # of the asking client's session
    fault: str | None  # why that session is latched
