"""The record of a walking robot's plan, see `controllers.planners.locomotion`; its kernels: `controllers.planners.steps`."""

import numpy as np

from controllers.planners.cubics import Cubics
from controllers.planners.gait import GaitSettings
from controllers.planners.legs import Legs
from controllers.planners.path import Path
from idyn.jit.records import ArrayRecord, Flags, Matrix, Vector
from idyn.types import Array

CUBIC_PEAK = 1.5
"""Largest over mean speed of a cubic from rest to rest."""


class Plan(ArrayRecord):
    """What is meant to happen, of n feet.

    The robot   legs; path: where to go; hips: where feet are to stand on average, in the base frame [m] (n, 3)
    Settings    start, tick, swing_time, stance_time: when the gait begins, of the ticks, of one swing and stance [s]; longest:
        step [m]; walks: feet lift; touchdown: phases (n); most_patience: `patience` of `GaitSettings`, which has the others
    The base    t: of the last tick [s], NaN before the first; pose: x, y, yaw (3); u: velocity in its own frame, forward, left,
        turn (3); du: its rate (3)
    The feet    phase (n); lag: by how much the gait is late, patience: so much longer it may wait [s]; wait: until a foot lifts
        or lands [s] (n); swinging, seeking: in the air by plan, or looking for ground that was lost (n); end: of the swing [s]
        (n); lifted: where it began, in the plane (n, 2); ways: cubics of x, y in the plane and of z in the base frame
    The joints  angles: last reference [rad] (na)
    """

    legs: Legs
    path: Path
    ways: Cubics
    hips: Matrix
    lifted: Matrix
    touchdown: Vector
    pose: Vector
    u: Vector
    du: Vector
    phase: Vector
    wait: Vector
    end: Vector
    angles: Vector
    swinging: Flags
    seeking: Flags
    walks: bool
    start: float
    tick: float
    period: float
    duty: float
    swing_time: float
    stance_time: float
    longest: float
    step_height: float
    most_patience: float
    t: float
    lag: float
    patience: float

    def __init__(
        self, legs: Legs, path: Path, hips: Array, gait: GaitSettings, times: tuple[float, float], angles: Array
    ) -> None:
        """times: start, tick [s]; angles: any, for their number (na). Raises ConfigError for what is no gait of these feet."""
        n, swing_time = len(hips), (1.0 - gait.duty) * gait.period
        self.put(legs=legs, path=path, ways=Cubics(hips), hips=hips, start=times[0], tick=times[1], touchdown=gait.phases(n))
        self.put(walks=gait.pattern != "stand", period=gait.period, duty=gait.duty, step_height=gait.step_height)
        self.put(swing_time=swing_time, stance_time=gait.duty * gait.period, most_patience=gait.patience)
        self.put(longest=gait.swing_speed * swing_time / CUBIC_PEAK, angles=angles.copy(), lifted=np.zeros((n, 2)))
        self.put(
            **{name: np.zeros(3) for name in ("pose", "u", "du")}, **{name: np.zeros(n) for name in ("phase", "wait", "end")}
        )
        self.put(swinging=np.zeros(n, dtype=np.bool_), seeking=np.zeros(n, dtype=np.bool_))
