"""Tosses with known answers: a block in exact free flight, and the arrays of a file with such tosses."""

import numpy as np
from scipy.spatial.transform import Rotation

from sim_harness.judge.tosses import RATE, Toss

CENTRE, GRAVITY = np.array([0.001, -0.002, 0.006]), 9.6


def flying(seed, samples=25, height=0.3):
    """A toss in flight, exact: the centre of mass on a parabola, a constant spin."""
    random = np.random.default_rng(seed)
    t = np.arange(-1, samples) / RATE
    spin, start = random.normal(size=3) * 5.0, Rotation.random(rng=random)
    turns = (start * Rotation.from_rotvec(t[:, None] * spin)).as_matrix()
    centre = np.array([0.0, 0.0, height]) + t[:, None] * random.normal(size=3) - 0.5 * t[:, None] ** 2 * [0, 0, GRAVITY]
    position = centre - turns @ CENTRE
    return Toss(
        position=position[1:], rotation=turns[1:], velocity=RATE * np.diff(position, axis=0), spin=np.tile(spin, (samples, 1))
    )


def arrays(tosses):
    """The arrays of a file with these tosses."""
    quaternions = np.concatenate([Rotation.from_matrix(toss.rotation).as_quat(scalar_first=True) for toss in tosses])
    return {
        "start": np.cumsum([0, *map(len, tosses)]),
        "position": np.concatenate([toss.position for toss in tosses]),
        "quaternion_wxyz": quaternions,
        "velocity": np.concatenate([toss.velocity for toss in tosses]),
        "angular_velocity": np.concatenate([toss.spin for toss in tosses]),
    }
