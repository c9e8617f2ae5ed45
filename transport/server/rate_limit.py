"""Rate limit of log lines."""

PERIOD_NS = 1_000_000_000
"""Minimum interval of lines of one kind [ns]."""


def similar(suppressed: int) -> str:
    """Return the end of a line: how many lines of its kind were suppressed since the last one; '' without any."""
    return f"; {suppressed} similar not logged" if suppressed else ""


class RateLimit:
    """Limits log lines to one per kind and period, and counts the suppressed ones."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def admit(self, kind: str, now_ns: int) -> int | None:
        """Return None to suppress a line, else the number of lines of this kind suppressed since the last one."""
        since = self._since.get(kind)
        if since is not None and 0 <= now_ns - since < PERIOD_NS:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return None
        self._since[kind] = now_ns
        return self._suppressed.pop(kind, 0)
