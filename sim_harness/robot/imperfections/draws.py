"""Random streams of a run, one for each purpose: random numbers drawn for one purpose do not change those for another."""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """Purpose of a random stream. Changing a number changes the runs of all seeds."""

    BIAS = 1
    NOISE = 2
    LOST_STATES = 3
    LOST_TORQUES = 4
    ACCELERATION = 5


def stream(seed: int | None, purpose: Purpose) -> np.random.Generator:
    """Return the stream of a purpose for the seed of a run; None counts as 0."""
    return np.random.default_rng((seed or 0, purpose))
