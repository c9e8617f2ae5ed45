"""Random numbers of a run, a stream of their own for each purpose: what one draws does not move another's."""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is for; the numbers are part of what a seed means."""

    BIAS = 1
    NOISE = 2
    LOST_STATES = 3
    LOST_TORQUES = 4


def stream(seed: int | None, purpose: Purpose) -> np.random.Generator:
    """The stream of a run's seed; None counts as 0."""
    return np.random.default_rng((seed or 0, purpose))
