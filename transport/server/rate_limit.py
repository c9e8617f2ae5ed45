"""Log lines that a flood of bad messages cannot turn into a flood of lines."""

PERIOD_NS = 1_000_000_000
"""At most one line of a kind in this time [ns]."""


class RateLimit:
    """Says whether a line of a kind may be written, and how many were not."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def admit(self, kind: str, now_ns: int) -> int | None:
        """None: be silent. Else how many of this kind were not written since the last line."""
        since = self._since.get(kind)
        if since is not None and 0 <= now_ns - since < PERIOD_NS:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return None
        self._since[kind] = now_ns
        return self._suppressed.pop(kind, 0)
