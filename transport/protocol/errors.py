"""The error for a refused message, its conversion to an error reply, and printable text of others."""

from typing import Any, TextIO

from idyn.errors import IdynError
from transport.protocol.messages.base import Code, ErrorMessage

LONGEST = 500  # length of texts inside a line [characters]: they may quote a message of any length
LAYOUT = "\n\t"  # control characters of our own output


def printable(text: str) -> str:
    """Return a text on one line, without its middle if it is long: line breaks, control characters and escape sequences become
    escapes such as `\\n`."""
    return _escaped(text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}", "")


class Screen:
    """A stream that writes only printable text, of any number of lines, to another one.

    raw: the other stream, for movements of the cursor
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write a text, with escapes for all control characters but those of the layout."""
        return self.raw.write(_escaped(text, LAYOUT))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def raw(stream: TextIO | Screen) -> TextIO:
    """Return the stream behind a screen, and any other one itself."""
    return stream.raw if isinstance(stream, Screen) else stream


def _escaped(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode("ascii") for c in text)


_OF_HELLO = Code.VERSION_MISMATCH, Code.MODEL_MISMATCH, Code.JOINT_MAP, Code.NOT_CONTROLLING
_UNRECOVERABLE = {*_OF_HELLO, Code.LATCHED_FAULT, Code.ESTOP, Code.INTERNAL}
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
