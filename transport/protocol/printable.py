"""Text of peers and files, made safe for terminals: the one place that decides which characters leave as they are.

`printable` is for a text inside a line: in log lines, in replies to other clients, on screens. `Screen` is for all output of a
command.
"""

from typing import Any, TextIO

LONGEST = 500
"""Length of texts inside a line [characters]: they may quote a message of any length."""

LAYOUT = "\n\t"
"""Control characters of our own output."""


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
