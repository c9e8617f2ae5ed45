"""All other requests of a client, and their answers."""

from typing import Any, Literal

import msgspec

from transport.protocol.messages.base import ClientMessage, Count, Name, ServerMessage, ServerPart, Time, Vector
from transport.protocol.messages.command import SeenState
from transport.protocol.messages.state import Imu
from transport.protocol.messages.torque import Comm


class Stop(ClientMessage, tag="stop"):
    """Ends the session. Works with any session number."""

    session: Count = 0
    reason: Name = ""


class StopAck(ServerMessage, tag="stop_ack"):
    """The answer to `stop`. With a `reason` it is the server's own goodbye: it ends, and no further state is answered."""

    session: Count
    reason: str = ""


class Reset(ClientMessage, tag="reset"):
    """Clears a latched fault or emergency stop. Refused while the robot, at q and vel, tilts or moves too much."""

    session: Count
    q: Vector  # as in `state`
    vel: Vector  # as in `state`
    imu: Imu | None = None  # with `base.measured: imu`: attitude and rate of the base


class ResetAck(ServerMessage, tag="reset_ack"):
    session: Count


class Estop(ClientMessage, tag="estop"):
    """Stops the robot: its torque damps until `reset`. Needs no session, only the role `estop`; counts from any connection."""

    name: Name = ""  # as in the server's setting `estops`; not needed with a key
    stop: bool = True  # false: only a heartbeat, see the server's setting `estop_timeout_ms`


class EstopAck(ServerMessage, tag="estop_ack"):
    stopped: bool  # the emergency stop is engaged
    reason: str  # '' if it is not
    timeout_ms: float | None  # longest time between messages of such a client [ms]


class Heartbeat(ClientMessage, tag="heartbeat"):
    """Tests the connection without a state. Neither prolongs the client's control of the robot nor resets the watchdog."""

    session: Count
    t_send: Time = 0


class HeartbeatAck(ServerMessage, tag="heartbeat_ack"):
    session: Count
    t_send: int  # of the heartbeat
    t_recv: int  # server clock
    mode: Literal["ok", "latched"]


class ConfigGet(ClientMessage, tag="config_get"):
    """Requests the controller settings."""


class ConfigSet(ClientMessage, tag="config_set"):
    """Changes controller settings. Refused while a client controls the robot."""

    settings: dict[str, Any]  # changes, nested as in `config.settings`


class Config(ServerMessage, tag="config"):
    """The controller settings in use."""

    settings: dict[str, Any]


class StatsGet(ClientMessage, tag="stats_get"):
    """Requests the server's statistics."""


class Stats(ServerMessage, tag="stats"):
    """Statistics since the start of the server."""

    received: int  # messages of all clients, valid or not
    torques: int  # torque messages computed
    refused: dict[str, int]  # by error code
    deadline_misses: int
    step_us_mean: float  # duration of a controller step [µs]
    step_us_max: float  # [µs]
    comm: Comm | None  # of the client's session, else of the last one that took control
    fault: str | None  # what stops the robot until `reset`
    others_us_mean: float = 0.0  # time for other clients per torque [µs]
    dropped: int = 0  # messages without an answer, for lack of time
    states: int = 0  # states of clients with a session, answered or not


class TickGet(ClientMessage, tag="tick_get"):
    """Requests the last tick of the controlled robot."""


class WorldForce(ServerPart):
    """Predicted force on the robot at one contact, in the world."""

    frame: str
    point: Vector  # where it acts [m] (3)
    force: Vector  # [N] (3)


class Tick(ServerMessage, tag="tick"):
    """The last tick of the controlled robot, in the server's order of the joints, for observers."""

    urdf_sha256: str  # of the server's model
    state: SeenState | None = None  # that was answered; absent while no client controls the robot
    tau: Vector | None = None  # of the answer [N·m] (na)
    contact_force: list[WorldForce] = msgspec.field(default_factory=list)  # of the answer
    imu: Imu | None = None  # of the state
    status: str = ""  # of the answer, as in `torque`; '' without a state
    message: str = ""
