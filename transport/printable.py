"""Text of clients in log lines."""

LONGEST = 300
"""Length of such texts [characters]."""


def printable(text: str) -> str:
    """Return a text on one line: line breaks, control characters and escape sequences become escapes such as `\\n`."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
