"""Record of the gait plan; see `controllers.planners.locomotion`, and `controllers.planners.steps` for its kernels."""

import numpy as np

from controllers.planners.cubics import Cubics
from controllers.planners.gait import GaitSettings
from controllers.planners.legs import Legs
from controllers.planners.path import Path
from controllers.planners.pose import BasePose
from idyn.jit.records import ArrayRecord, Flags, Matrix, Vector
from idyn.types import Array

CUBIC_PEAK = 1.5
"""Ratio of largest to mean speed of a cubic from rest to rest."""


class Plan(ArrayRecord):
    """Plan of a gait with n feet.

    Robot
        legs: inverse kinematics
        path: path follower of the base
        base: commanded height and attitude of the base; all feet below are in its level frame
        hips: nominal positions of the feet under the hips, level frame [m] (n, 3)
    Settings; for period, duty and step_height see `GaitSettings`
        start: start of the gait [s]
        tick: control period [s]
        swing_time, stance_time: durations of swing and stance [s]
        longest: longest step [m]
        walks: whether feet lift
        touchdown: touchdown phases (n)
        max_patience: `patience` of `GaitSettings` [s]
    Base
        t: time of the last tick [s]; NaN before the first
        pose: x, y [m], yaw [rad] (3)
        u, du: velocity in the base's frame, forward, left [m/s], turn [rad/s], and its rate (3)
    Feet
        phase: share of the period since touchdown (n)
        lag: total delay of the gait due to lift-offs that waited [s]
        patience: remaining time for which lift-offs may wait [s]
        wait: time until a foot lifts or lands [s] (n)
        swinging: planned to be in the air (n)
        seeking: planned to stand, lowered in search of the ground (n)
        end: end of the swing [s] (n)
        lifted: position at lift-off in the plane [m] (n, 2)
        cubics: paths of x, y in the plane and of z in the level frame
    Joints
        angles: last reference [rad] (na)
    """

    legs: Legs
    path: Path
    base: BasePose
    cubics: Cubics
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
    max_patience: float
    t: float
    lag: float
    patience: float

    def __init__(
        self,
        legs: Legs,
        path: Path,
        base: BasePose,
        *,
        hips: Array,
        gait: GaitSettings,
        times: tuple[float, float],
        angles: Array,
    ) -> None:
        """times: start of the gait, control period [s]
        angles: joint angles of the stance [rad] (na)
        Raises ConfigError if the settings are not a gait of these feet."""
        n, swing_time = len(hips), (1.0 - gait.duty) * gait.period
        self.put(
            legs=legs,
            path=path,
            base=base,
            cubics=Cubics(hips),
            hips=hips,
            start=times[0],
            tick=times[1],
            touchdown=gait.phases(n),
        )
        self.put(walks=gait.pattern != "stand", period=gait.period, duty=gait.duty, step_height=gait.step_height)
        self.put(swing_time=swing_time, stance_time=gait.duty * gait.period, max_patience=gait.patience)
        self.put(longest=gait.swing_speed * swing_time / CUBIC_PEAK, angles=angles.copy(), lifted=np.zeros((n, 2)))
        self.put(
            **{name: np.zeros(3) for name in ("pose", "u", "du")}, **{name: np.zeros(n) for name in ("phase", "wait", "end")}
        )
        self.put(swinging=np.zeros(n, dtype=np.bool_), seeking=np.zeros(n, dtype=np.bool_))
