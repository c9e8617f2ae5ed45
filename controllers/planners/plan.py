"""Record of the gait plan; see `controllers.planners.locomotion`, and `controllers.planners.steps` for its kernels."""

import numpy as np

from controllers.planners.cubics import Cubics
from controllers.planners.gait import FastSettings, GaitSettings
from controllers.planners.legs import Legs
from controllers.planners.path import Path
from controllers.planners.pose import BasePose
from controllers.planners.slope import Slope
from idyn.jit.records import ArrayRecord, Flags, Matrix, Vector
from idyn.types import Array

HOLDS, HALTS, READY = 0, 1, 2
"""Indices into `Plan.change`."""

GRAVITY = 9.81
"""[m/s²]"""


class Plan(ArrayRecord):
    """Plan of a gait with n feet.

    Robot
        legs: inverse kinematics
        path: path follower of the base
        base: height and attitude of the base; all feet below are in its level frame
        slope: of the ground
        hips: nominal positions of the feet under the hips, level frame [m] (n, 3)
    Settings, of which period, duty and step_height follow the speed, see `GaitSettings`
        start: start of the gait [s]
        tick: control period [s]
        slow, fast: period, duty and step_height at low and at high speed (3)
        speeds: speeds of the hips at which the gait begins to change, and has changed [m/s] (2)
        swing_time, stance_time: durations of swing and stance [s]
        stride: largest distance of a foothold from the hip, forwards [m]; slender: over that sideways
        capture: distance of a capture point per velocity [s]; 0: the plan does not follow the measured velocity
        walks: whether feet lift
        touchdown: touchdown phases (n)
        max_patience: `patience` of `GaitSettings` [s]
    Base
        t, dt: time of the last tick [s], NaN before the first, and time since the tick before
        pose: x, y [m], yaw [rad] (3)
        u, du: velocity in the base's frame, forward, left [m/s], turn [rad/s], and its rate (3)
        ramp, seen: commanded velocity within the acceleration limits, measured one, smoothed (3)
        share: share of the gait at high speed in the present one
    Feet
        phase: share of the period since touchdown (n)
        cycle: number of periods since the start of the gait (1)
        lifting: duty factor at which `phase` was last compared
        cut: whether a foothold was moved within reach in this tick (1)
        change: while another gait is awaited, whether lift-offs are held back, and whether the base halts; whether all feet
            stand, so that the gait may change (3)
        patience: remaining time for which lift-offs may wait [s]
        wait: time until a foot lifts or lands [s] (n)
        swinging: planned to be in the air (n)
        seeking: planned to stand, lowered in search of the ground (n)
        end: end of the swing [s]; −inf after a standing foot lost the ground (n)
        touched: time at which the foot last touched [s] (n)
        lifted: position at lift-off in the plane [m] (n, 2)
        cubics: paths of x, y in the plane and of z in the level frame, above the slope through its origin
    Joints
        angles: last reference, see `Legs` [rad] (m)
    """

    legs: Legs
    path: Path
    base: BasePose
    slope: Slope
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
    touched: Vector
    angles: Vector
    change: Flags
    cut: Flags
    cycle: Vector
    slow: Vector
    fast: Vector
    speeds: Vector
    ramp: Vector
    seen: Vector
    swinging: Flags
    seeking: Flags
    walks: bool
    start: float
    tick: float
    period: float
    duty: float
    swing_time: float
    stance_time: float
    stride: float
    slender: float
    capture: float
    share: float
    lifting: float
    dt: float
    step_height: float
    max_patience: float
    t: float
    patience: float

    def __init__(
        self,
        legs: Legs,
        path: Path,
        base: BasePose,
        slope: Slope,
        *,
        hips: Array,
        gait: GaitSettings,
        times: tuple[float, float],
        angles: Array,
    ) -> None:
        """times: start of the gait, control period [s]
        angles: joint angles of the stance [rad] (m)
        Raises ConfigError if the settings are not a gait of these feet."""
        n = len(hips)
        self.put(
            legs=legs,
            path=path,
            base=base,
            slope=slope,
            cubics=Cubics(hips),
            hips=hips,
            start=times[0],
            tick=times[1],
            stride=np.inf,
            slender=1.0,
            dt=0.0,
            cut=np.zeros(1, np.bool_),
        )
        self.put(angles=angles.copy(), lifted=np.zeros((n, 2)), cycle=np.zeros(1))
        self.put(**{name: np.zeros(3) for name in ("pose", "u", "du", "ramp", "seen", "slow", "fast")}, speeds=np.zeros(2))
        self.put(**{name: np.zeros(n) for name in ("phase", "wait", "end", "touched", "touchdown")})
        self.put(**{name: np.zeros(k, dtype=np.bool_) for name, k in (("swinging", n), ("seeking", n), ("change", 3))})
        self.adopt(gait)

    def adopt(self, gait: GaitSettings) -> None:
        """Set the timing and shape of the steps. Raises ConfigError if the settings are not a gait of these feet."""
        swing_time = (1.0 - gait.duty) * gait.period
        self.touchdown[:] = gait.phases(len(self.hips))
        self.put(walks=gait.pattern != "stand", period=gait.period, duty=gait.duty, step_height=gait.step_height)
        self.put(swing_time=swing_time, stance_time=gait.duty * gait.period, max_patience=gait.patience)
        self.slow[:] = gait.period, gait.duty, gait.step_height
        fast = gait.fast or FastSettings(speeds=(1e9, 2e9), period=gait.period, duty=gait.duty, step_height=gait.step_height)
        self.fast[:], self.speeds[:] = (fast.period, fast.duty, fast.step_height), fast.speeds
        self.put(share=0.0, lifting=gait.duty, capture=gait.capture * np.sqrt(np.abs(self.hips[:, 2]).mean() / GRAVITY))
        self.change[:] = False

    def restart_cycle(self, t: float) -> None:
        """Begin the cycle at time t [s], while all feet stand: just before a lift-off at which as many feet as possible are in
        their planned stance, so that feet lift as near as possible to their nominal positions. Feet that are in their planned
        swing stand until their next lift-off."""
        if not self.walks:
            self.u[:], self.du[:], self.ramp[:], self.wait[:] = 0.0, 0.0, 0.0, np.inf
            return
        begins = self.touchdown + self.duty - 0.5 * self.tick / self.period
        phases = (begins[:, None] - self.touchdown) % 1.0  # of each foot, if the cycle begins with the lift-off of the first
        left = (self.duty - phases) % 1.0 * self.period
        away = np.abs(self._displacements(t) - left[..., None] * self.u[:2]).max(axis=(1, 2))
        standing = (phases < self.duty).sum(axis=1)
        best = int(np.argmin(np.where(standing == standing.max(), away, np.inf)))
        self.phase[:] = phases[best]
        self.cycle[0] = begins[best]

    def places(self, t: float) -> Array:
        """Return the places of the feet in the plane at time t [s] [m] (n, 2)."""
        c, s = self.cubics.c[:, :2], (np.minimum(t, self.cubics.until) - self.cubics.since)[:, :2]
        found: Array = c[..., 0] + s * (c[..., 1] + s * (c[..., 2] + s * c[..., 3]))
        return found

    def _displacements(self, t: float) -> Array:
        """Return the places of the feet relative to their nominal ones at time t [s], level frame, in the plane [m] (n, 2)."""
        x, y, yaw = self.pose
        place = self.places(t) - (x, y)
        R = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
        moved: Array = place @ R - self.hips[:, :2]
        return moved
