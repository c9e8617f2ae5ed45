"""All messages, by sender."""

from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.requests import AnyAnswer, AnyRequest, Hello, Welcome
from transport.protocol.messages.state import StateMessage, TorqueMessage

FromClient = Hello | StateMessage | AnyRequest | PlanHello | CommandMessage
FromServer = Welcome | TorqueMessage | ErrorMessage | AnyAnswer | PlanWelcome | CommandAck
Message = FromClient | FromServer
