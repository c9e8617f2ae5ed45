"""The error for a refused message, and its conversion to an error reply."""

from idyn.errors import IdynError
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.printable import printable

_UNRECOVERABLE = frozenset(
    {
        Code.VERSION_MISMATCH,
        Code.MODEL_MISMATCH,
        Code.JOINT_MAP,
        Code.NOT_CONTROLLING,
        Code.LATCHED_FAULT,
        Code.ESTOP,
        Code.INTERNAL,
    }
)
"""Codes after which the session needs `hello` or `reset` before the next state is answered."""


class ProtocolError(IdynError):
    """A refused message. None of its content has been applied.

    code: reason of the refusal
    field: the invalid field, as in `contacts[1].mu`; None: the whole message
    seq: of the refused state, if readable
    """

    def __init__(self, code: Code, field: str | None, message: str, seq: int | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.code = code
        self.field = field
        self.message = message
        self.seq = seq

    @property
    def recoverable(self) -> bool:
        """Whether the next correct message is answered, without `hello` or `reset` before."""
        return self.code not in _UNRECOVERABLE

    def reply(self, session: int | None = None, seq: int | None = None) -> ErrorMessage:
        """Return the error reply. session: number of the client's session; seq: of the refused state"""
        return ErrorMessage(
            code=self.code,
            message=printable(str(self)),
            recoverable=self.recoverable,
            field=None if self.field is None else printable(self.field),
            seq=self.seq if seq is None else seq,
            session=session,
        )
