"""What can go wrong between a client and the service, told so that either side knows whom to blame."""

from idyn.errors import IdynError
from transport.protocol.messages.error import Code, ErrorMessage

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
"""After these the same session needs `hello` or `reset` before a state is served again."""


class ProtocolError(IdynError):
    """A message that is refused. Nothing of it was applied.

    code: which promise it breaks
    field: the field to blame, as in `contacts[1].mu`, or None when the whole message is
    seq: of the refused state, when it could be read
    recoverable: whether a correct next message will be served
    """

    def __init__(self, code: Code, field: str | None, message: str, seq: int | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.code = code
        self.field = field
        self.message = message
        self.seq = seq

    @property
    def recoverable(self) -> bool:
        return self.code not in _UNRECOVERABLE

    def reply(self, session: int | None = None, seq: int | None = None) -> ErrorMessage:
        """The error as it goes over the wire."""
        return ErrorMessage(
            code=self.code,
            message=_shortened(str(self)),
            recoverable=self.recoverable,
            field=None if self.field is None else _shortened(self.field),
            seq=self.seq if seq is None else seq,
            session=session,
        )


LONGEST = 500
"""Of what is said about a message: it may quote the message, which may be long [characters]."""


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
