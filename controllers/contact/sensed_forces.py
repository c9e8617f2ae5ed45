"""Measured contact forces, delayed like those of a sensor with a filter  [ZD §7.3]."""

from collections import deque

import numpy as np

from idyn.types import Array, ContactSet


class SensedForces:
    """Delay line of contact forces: returns the forces of `delay` measurements ago. Stores the measurements since then.

    The newest measurement is already one period old: ID(t−1) is delay 1, ID(t−2) delay 2.
    """

    def __init__(self, delay: int) -> None:
        self._measured: deque[dict[str, Array]] = deque(maxlen=delay)

    def reset(self) -> None:
        """Forget all measurements."""
        self._measured.clear()

    def measure(self, contacts: ContactSet, force: Array | None) -> None:
        """Record a measurement: force on the robot per contact, world frame [N] (n, 3); None: not measured."""
        self._measured.append({} if force is None else dict(zip(contacts.keys, force, strict=True)))

    def impulses(self, contacts: ContactSet, dt: float) -> Array:
        """Return the impulses of one period in S, T, N rows [N·s] (3n); zero for contacts that the delayed measurement does not
        contain."""
        p = np.zeros((len(contacts), 3))
        if len(self._measured) < (self._measured.maxlen or 0):
            return p.ravel()
        then = self._measured[0]
        for i, key in enumerate(contacts.keys):
            if key in then:
                s, n = contacts.tangents[i], contacts.normals[i]
                p[i] = dt * np.array([s @ then[key], np.cross(n, s) @ then[key], n @ then[key]])
        return p.ravel()
