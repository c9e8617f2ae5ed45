"""Speeds at which rigid contacts may close: recovery from penetration, and Newton's law of restitution.

    N v⁺ + c ≥ 0        c = max(φ/dt, −recovery)        c ≤ e N v   where a contact closes within the step, φ/dt + N v < 0
v is the velocity before the step, e the coefficient of restitution. The body bounces at the beginning of the step in which it
would touch, so up to dt |N v| too high. Newton's law can gain energy where friction changes the direction of an impact, and
several contacts that close together bounce one by one.
"""

from typing import Annotated

import msgspec
import numpy as np

from idyn.types import Array

Restitution = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""Coefficient of restitution e."""

SLOWEST = 0.05
"""Impacts slower than this are inelastic [m/s], so that resting bodies do not hop."""


def gap_speeds(gaps: Array, speeds: Array, dt: float, recovery: float, restitution: float) -> Array:
    """Return c of each contact [m/s] (n).

    gaps: φ [m] (n); speeds: N v before the step, positive where contacts open [m/s] (n)
    recovery: largest speed at which a penetration is reduced [m/s]; restitution: e, 0 to 1
    """
    at_rest = gaps / dt
    c = np.maximum(at_rest, -recovery)
    if restitution == 0.0:
        return c
    bounces = (at_rest + speeds < 0.0) & (speeds < -SLOWEST)
    return np.where(bounces, np.minimum(c, restitution * speeds), c)
