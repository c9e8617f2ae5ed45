"""Measured contact forces, kept for as long as a sensor and its filter would hold them back  [ZD §7.3]."""

from collections import deque

import numpy as np

from idyn.types import Array, ContactSet


class SensedForces:
    """Gives the forces of `delay` measurements ago to the contacts of today; owns the measurements between.

    The newest measurement already lies one period back: ID(t−1) is delay 1, ID(t−2) delay 2.
    """

    def __init__(self, delay: int) -> None:
        self._measured: deque[dict[str, Array]] = deque(maxlen=delay)

    def reset(self) -> None:
        """Nothing has been measured."""
        self._measured.clear()

    def measure(self, contacts: ContactSet, force: Array | None) -> None:
        """Note what was measured now: the force on the robot, in the world frame, of each contact [N] (n, 3); None: nothing."""
        self._measured.append({} if force is None else dict(zip(contacts.keys, force, strict=True)))

    def impulses(self, contacts: ContactSet, dt: float) -> Array:
        """Impulses of one period in S, T, N rows [N·s] (3n); zero for contacts that were not there then."""
        p = np.zeros((len(contacts), 3))
        if len(self._measured) < (self._measured.maxlen or 0):
            return p.ravel()
        then = self._measured[0]
        for i, key in enumerate(contacts.keys):
            if key in then:
                s, n = contacts.tangents[i], contacts.normals[i]
                p[i] = dt * np.array([s @ then[key], np.cross(n, s) @ then[key], n @ then[key]])
        return p.ravel()
