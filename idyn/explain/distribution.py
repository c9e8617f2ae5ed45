"""Forces of the soles that obey friction and supply the required wrench as well as possible, shared between the feet.

    min  ‖A f − w‖²  +  ε² Σ exp(h/h₀) (‖f across‖² + κ² ‖f along‖²)      f in its friction pyramid

A f: wrench about the centre of mass; `along` and `across` the line from the point to the centre of mass; h: the point's height.
ε is small: the second part only chooses among forces that supply the wrench equally well. Least forces alone would not let the
feet push against each other, but people do: the front foot brakes, the rear one pushes.
"""

import numpy as np
from scipy.optimize import nnls

from idyn.errors import InputError
from idyn.types import Array, Record

LENGTH = 1.0
"""Length that makes moments comparable with forces in the residual [m]."""


class Distribution(Record, frozen=True):
    """Which points of the soles may carry, and how they share the load.

    mu: friction coefficient, > 0
    edges: of the friction pyramid, inside the cone, ≥ 4
    height: points higher than this above the floor carry nothing [m]
    speed: points faster than this against the floor (the belt of a treadmill) carry nothing [m/s]
    pace: the same as a share of the speed of the centre of mass, where that is more: for running
    fade: h₀, the height over which a point becomes e times as soft [m], > 0; inf: all points alike
    along: κ, weight of forces along the line to the centre of mass beside forces across it, from 0 to 1. 1: least forces.
        0.5 was found on one walker (Gait2354's subject01), for whom 0.2 to 0.7 differ little.
    choice: ε, > 0

    Raises InputError for other values.
    """

    mu: float = 0.8
    edges: int = 8
    height: float = 0.04
    speed: float = 0.5
    pace: float = 0.4
    fade: float = 0.02
    along: float = 0.5
    choice: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("mu", "height", "speed", "pace", "fade", "choice"):
            value = getattr(self, name)
            if not value > 0.0:
                raise InputError(f"distribution.{name}", f"expected a number > 0, got {value!r}")
        if not (isinstance(self.edges, int) and self.edges >= 4):
            raise InputError("distribution.edges", f"expected a whole number ≥ 4, got {self.edges!r}")
        if not 0.0 <= self.along <= 1.0:
            raise InputError("distribution.along", f"expected a number from 0 to 1, got {self.along!r}")


def pyramid(mu: float, edges: int) -> Array:
    """Return the edges of a friction pyramid inside the cone, as forces with vertical component 1 (3, edges)."""
    angles = 2.0 * np.pi * np.arange(edges) / edges
    return np.stack([mu * np.cos(angles), mu * np.sin(angles), np.ones(edges)])


def distribute(points: Array, heights: Array, required: Array, centre: Array, settings: Distribution) -> Array:
    """Return forces on the points [N] (n, 3).

    points: in the world [m] (n, 3); heights: of the points above the floor [m] (n)
    required: wrench about the centre of mass, force, then moment [N, N·m] (6); centre: centre of mass [m] (3)
    """
    edges = pyramid(settings.mu, settings.edges)
    n, scale = len(points), np.linalg.norm(required[:3])
    if n == 0 or scale == 0.0:
        return np.zeros((n, 3))
    arms = points - centre
    lines = arms / np.linalg.norm(arms, axis=1)[:, None]
    along = np.einsum("ni,nj,je->nie", lines, lines, edges)
    soft = settings.choice * np.exp(0.5 * np.maximum(heights, 0.0) / settings.fade)
    preferred = soft[:, None, None] * (edges - (1.0 - settings.along) * along)
    moments = np.cross(arms[:, None, :], edges.T).transpose(0, 2, 1) / LENGTH
    wrench = np.concatenate([np.broadcast_to(edges, (n, *edges.shape)), moments], axis=1)
    top = wrench.transpose(1, 0, 2).reshape(6, -1)
    rest = np.zeros((3 * n, n * settings.edges))
    for i in range(n):
        rest[3 * i : 3 * i + 3, i * settings.edges : (i + 1) * settings.edges] = preferred[i]
    target = np.concatenate([required[:3], required[3:] / LENGTH, np.zeros(3 * n)]) / scale
    weights, _ = nnls(np.vstack([top, rest]), target, maxiter=100 * n * settings.edges)
    return scale * weights.reshape(n, -1) @ edges.T
