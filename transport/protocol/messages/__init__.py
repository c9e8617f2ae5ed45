"""All messages, by sender."""

from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.requests import (
    Config,
    ConfigGet,
    ConfigSet,
    Estop,
    EstopAck,
    Heartbeat,
    HeartbeatAck,
    Hello,
    Reset,
    ResetAck,
    Stats,
    StatsGet,
    Stop,
    StopAck,
    Tick,
    TickGet,
    Welcome,
)
from transport.protocol.messages.state import StateMessage, TorqueMessage

FromClient = (
    Hello
    | StateMessage
    | Stop
    | Reset
    | Estop
    | Heartbeat
    | ConfigGet
    | ConfigSet
    | StatsGet
    | TickGet
    | PlanHello
    | CommandMessage
)
FromServer = (
    Welcome
    | TorqueMessage
    | ErrorMessage
    | StopAck
    | ResetAck
    | EstopAck
    | HeartbeatAck
    | Config
    | Stats
    | Tick
    | PlanWelcome
    | CommandAck
)
Message = FromClient | FromServer
