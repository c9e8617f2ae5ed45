"""Limits and state of the alarms' measures; see `controllers.monitor.windows` for the kernel."""

import numpy as np

from idyn.jit.records import ArrayRecord, Matrix, Vector
from idyn.types import Array

(
    ANGLE,
    SPEED,
    DRIFT,
    STILL,
    START,
    REFERENCE,
    MOVED,
    ASKED,
    GIVEN,
    EXTREME,
    DIRECTION,
    SWINGS,
    RATE,
    FULL,
    LAST_ASKED,
    BASE_START,
    START_ASKED,
) = range(17)
"""Rows of `memory`, one column per actuated joint:
ANGLE, SPEED: measured last [rad], [rad/s]; DRIFT: ∫ (q̇ − v) dt [rad]
STILL: time for which the angle has not changed [s]; START: reference when it stopped changing, REFERENCE: last reference [rad]
MOVED: motion of the reference in `WINDOW` [rad]; ASKED, GIVEN: Σ τ_asked², Σ τ_asked τ_applied in `MOTOR_WINDOW` [(N·m)²]
EXTREME: last extreme of the torque [N·m], DIRECTION: sign of its last swing; SWINGS: their number in `WINDOW`
RATE: mean |dτ/dt| in `WINDOW` [N·m/s], LAST_ASKED: torque of the tick before [N·m]; FULL: share of `WINDOW` at the torque limit
BASE_START: reference when the pose of the base stopped changing [rad]
START_ASKED: torque asked when the angle stopped changing [N·m]
"""

ROWS = START_ASKED + 1

POSE, VELOCITY, MOTION, TURNED, UNMOVED, LAST = 0, 7, 13, 16, 19, 20
"""Places in `base`: pose (7) and velocity (6) measured last, ∫ (ṗ − R v) dt (3), ∫ (rate of the attitude − ω) dt (3), time for
which the pose has not changed."""


class AlarmState(ArrayRecord):
    """Limits and state of all measures.

    Limits
        thresholds, after, stop: of the measures, in their order: threshold, time above it until the mode is degraded, and until
            the robot stops [s]
        moving: threshold of the roughness while the reference moves
        tau_max: torque limits [N·m] (na)
        max_gap: longest time between states that are compared [s]; lost_after: beyond this time states were lost [s]
        floating: whether the base is free
        feet: of the stance: joint, centre in its frame [m], radius [m] (n, 5)
        tall: height of the base over the lowest foot in the stance; size: of the robot, see `AlarmSettings.sunk` [m]
    State
        memory: see `ANGLE` (ROWS, na)
        ring: torques asked in the last ticks [N·m] (ticks, na)
        base: see `POSE` (LAST)
        values, joints, above: values of the measures, joints of the largest ones, and times above the threshold [s], −1: below
        tick: number of states since `reset`
        lay: whether the reference lay, and the robot has not risen since
    """

    memory: Matrix
    ring: Matrix
    base: Vector
    values: Vector
    joints: Vector
    above: Vector
    thresholds: Vector
    after: Vector
    stop: Vector
    tau_max: Vector
    feet: Matrix
    tall: float
    size: float
    moving: float
    max_gap: float
    lost_after: float
    floating: bool
    tick: int
    lay: bool

    def __init__(self, limits: tuple[Array, Array, Array], moving: float, tau_max: Array, ticks: int) -> None:
        """limits: (thresholds, after, stop); ticks: length of the ring. Without feet, until they are put"""
        (thresholds, after, stop), na = limits, len(tau_max)
        self.put(thresholds=thresholds, after=after, stop=stop, moving=moving, tau_max=np.array(tau_max, dtype=np.float64))
        self.put(memory=np.zeros((ROWS, na)), ring=np.zeros((ticks, na)), base=np.zeros(LAST), tick=0)
        self.put(feet=np.zeros((0, 5)), tall=0.0, size=1.0, lay=False)
        self.put(**{name: np.zeros(len(thresholds)) for name in ("values", "joints", "above")})

    def reset(self) -> None:
        """Forget all states and torques."""
        for each in (self.memory, self.ring, self.base, self.values, self.joints, self.above):
            each.fill(0.0)
        self.put(tick=0, lay=False)
