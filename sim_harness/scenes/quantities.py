"""What can be measured of a body in a run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sim_harness.scenes.recording import Recording


class Quantity(NamedTuple):
    """unit: of the value; value: of the body with an index"""

    unit: str
    value: Callable[[Recording, int], float]


def late(r: Recording) -> slice:
    """The last quarter of the steps."""
    return slice(3 * r.steps // 4, None)


def landing(r: Recording, body: int) -> float:
    """End of the first step in which something pressed on the body, NaN when nothing did."""
    pressed = np.abs(r.force[:, body]).max(axis=1) > 0
    return float(r.t[1 + np.argmax(pressed)]) if pressed.any() else float("nan")


QUANTITIES = {
    "travel": Quantity("m", lambda r, b: float(r.centres[-1, b, 0] - r.centres[0, b, 0])),
    "rise": Quantity("m", lambda r, b: float(r.centres[-1, b, 2] - r.centres[0, b, 2])),
    "displacement": Quantity("m", lambda r, b: float(np.linalg.norm(r.centres[-1, b] - r.centres[0, b]))),
    "speed": Quantity("m/s", lambda r, b: float(np.linalg.norm(r.velocities[-1, b]))),
    "acceleration": Quantity("m/s²", lambda r, b: float((r.velocities[-1, b, 0] - r.velocities[0, b, 0]) / r.t[-1])),
    "load": Quantity("N", lambda r, b: float(np.abs(r.force[late(r), b, 2]).mean())),
    "penetration": Quantity("m", lambda r, b: float(max(0.0, -r.gap[-1, b]))),
    "slip": Quantity("m/s", lambda r, b: float(r.slip[late(r), b].max())),
    "landing": Quantity("s", landing),
    "energy": Quantity("J", lambda r, b: float(r.energy[-1])),
}
"""By name. `travel` and `acceleration` are along x; `load`, `slip` are those of the last quarter of the run."""
