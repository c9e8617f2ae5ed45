"""Debouncing of foot switches: a switch that flickers is named, and counts as closed until it is quiet.

Whether the foot stands is then decided by the plan and by its height, as without a switch.
"""

from idyn.types import ContactSet
from transport.protocol.foot_switches import FootSwitches

Reported = ContactSet | FootSwitches | None
"""Contacts of a state as the client reports them; None: it does not."""

WINDOW_S = 0.1
"""Time constant of the count of changes [s]."""

FLICKERS, QUIET = 35.0, 10.0
"""Changes in `WINDOW_S` above which a switch flickers, and below which it is quiet again. Feet that bounce as they land have up
to 21 (four robots that trot in MuJoCo, also on hills)."""


class SwitchDebounce:
    """Counts the changes of each switch of one client."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all switches."""
        self._closed: frozenset[str] | None = None
        self._changes: dict[str, float] = {}
        self._flickering: set[str] = set()

    def debounced(self, switches: Reported, dt: float) -> tuple[Reported, str]:
        """Return the switches with flickering ones closed, and which these are, '' without any. dt: time since the last [s]

        Contacts that are not switches are returned as they are.
        """
        if not isinstance(switches, FootSwitches):
            return switches, ""
        closed = frozenset(switches.keys)
        changed = frozenset() if self._closed is None else closed ^ self._closed
        self._closed = closed
        if not changed and not self._changes:
            return switches, ""
        keep = max(1.0 - dt / WINDOW_S, 0.0)
        for key in changed | self._changes.keys():
            count = self._changes[key] = self._changes.get(key, 0.0) * keep + (key in changed)
            if count > FLICKERS:
                self._flickering.add(key)
            elif count < QUIET:
                self._flickering.discard(key)
            if count < 0.01:
                del self._changes[key]
        if not self._flickering:
            return switches, ""
        names = sorted(self._flickering)
        missing = tuple(key for key in names if key not in closed)
        return switches.changed((*switches.keys, *missing)), f"foot switches flicker: {', '.join(names)}"
