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

FORGOTTEN = 0.01
"""Changes in `WINDOW_S` below which a switch counts as one that never changed."""


class SwitchDebounce:
    """Counts the changes of each switch of one client."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all switches."""
        self._keys: tuple[str, ...] | None = None
        self._changes: dict[str, float] = {}
        self._flickering: set[str] = set()

    def debounced(self, switches: Reported, dt: float) -> tuple[Reported, str]:
        """Return the switches with flickering ones closed, and which these are, '' without any. dt: time since the last [s]

        Contacts that are not switches are returned as they are.
        """
        if not isinstance(switches, FootSwitches):
            return switches, ""
        keys, before, changes = switches.keys, self._keys, self._changes
        if changes:
            keep = max(1.0 - dt / WINDOW_S, 0.0)
            for key, count in changes.items():
                changes[key] = count * keep
        if keys != before:
            self._keys = keys
            for key in () if before is None else set(keys) ^ set(before):
                count = changes[key] = changes.get(key, 0.0) + 1.0
                if count > FLICKERS:
                    self._flickering.add(key)
        if self._flickering or (changes and min(changes.values()) < FORGOTTEN):
            self._calm()
        if not self._flickering:
            return switches, ""
        names = sorted(self._flickering)
        missing = tuple(key for key in names if key not in keys)
        return switches.changed((*keys, *missing)), f"foot switches flicker: {', '.join(names)}"

    def _calm(self) -> None:
        """End the flickering of switches that are quiet, and forget those without changes in the last half second."""
        for key in [key for key, count in self._changes.items() if count < QUIET]:
            self._flickering.discard(key)
            if self._changes[key] < FORGOTTEN:
                del self._changes[key]
