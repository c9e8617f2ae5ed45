"""Path of a foot in the air; plans of the divergent component of motion.

The DCM ξ (capture point) of a linear inverted pendulum in the plane, with its centre of mass c at the height h:

    ξ = c + ċ/ω,   ω = √(g/h),   ξ̇ = ω (ξ − p),   c̈ = ω² (c − p)      p: centre of pressure
While p moves at a constant rate ṗ for the duration D,

    ξ(0) = p(0) + ṗ/ω + (ξ(D) − p(D) − ṗ/ω) e^{−ωD}
so that a plan of p gives ξ by recursion from its end, where the errors vanish [Englsberger].
"""

from math import exp, inf
from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import ArrayRecord, Matrix, Vector
from idyn.solvers.linalg import copy, fill
from idyn.types import Array


class Spans(NamedTuple):
    """A plan in parts: their durations [s], and the centres of pressure at their starts and ends, between which it moves at a
    constant rate [m] (n each, places are complex)."""

    durations: Array
    starts: Array
    ends: Array


@compiled
def planned_dcm(spans: Spans, first: int, count: int, omega: float) -> complex:
    """Return ξ at the beginning of part `first` of a plan of `count` parts [m], which ends at rest above the last centre of
    pressure. omega [1/s]"""
    dcm = spans.ends[count - 1]
    for k in range(count - 1, first - 1, -1):
        lasts, start, end = spans.durations[k], spans.starts[k], spans.ends[k]
        if lasts > 0.0:
            lead = (end - start) * (1.0 / (lasts * omega))
            dcm = start + lead + (dcm - end - lead) * exp(-omega * lasts)
    return dcm


SETTLED = 0.06  # time before touchdown from which the target no longer changes [s]
QUICKEST, FASTEST = 0.25, 1.5  # least duration of a swing [s]; speed of a foot that lands sooner than planned [m/s]


class Swing(ArrayRecord):
    """Position and heading of a foot in the air: forward, left, up [m] and heading [rad]."""

    x: Vector  # now, with their velocities and accelerations (4)
    v: Vector
    a: Vector
    goal: Vector  # where the foot lands (4)
    c: Matrix  # coefficients of 1, s, …, s⁵, s: time since `since`, without the way up and down (6, 4)
    lasts: float  # from lift-off to touchdown [s]
    height: float  # of the highest point above start and goal [m]
    share: float  # of the way up and down
    phase: float  # this share at the time `begun`, when the duration was set [s]
    begun: float
    since: float  # last change of the goal [s]

    def __init__(self) -> None:
        self.put(**{name: np.zeros(4) for name in ("x", "v", "a", "goal")}, c=np.zeros((6, 4)))


@entry(Swing, Vector, Vector, float, float)
def lift(swing: Swing, start: Array, goal: Array, lasts: float, height: float) -> None:
    """Begin a swing. start, goal: position and heading (4); height: of the highest point above them [m]"""
    swing.share, swing.phase, swing.begun, swing.since, swing.lasts, swing.height = 0.0, 0.0, 0.0, 0.0, lasts, height
    copy(start, swing.x)
    copy(goal, swing.goal)
    fill(swing.v, 0.0)
    fill(swing.a, 0.0)
    _fit((swing.x, swing.v, swing.a), goal, lasts, swing.c)


@compiled
def soonest(swing: Swing, place: complex) -> float:
    """Return the least time from now to touchdown at a place [s]."""
    far = max(abs(place.real - swing.x[0]), abs(place.imag - swing.x[1]))
    return max(QUICKEST * (1.0 - swing.share), far / FASTEST, SETTLED)


@entry(Swing, Vector, float, float)
def aim(swing: Swing, goal: Array, t: float, within: float) -> None:
    """Land at another goal (4), from the time t since lift-off on, and at most the time `within` later [s]; ignored shortly
    before touchdown."""
    left, moved = swing.lasts - t, 0.0
    for k in range(4):
        moved = max(moved, abs(goal[k] - swing.goal[k]))
    if left < SETTLED or (moved < 1e-6 and within >= left):
        return
    if within < left:
        swing.phase, swing.begun, swing.lasts, left = swing.share, t, t + within, within
    now = stack_array(4), stack_array(4), stack_array(4)
    _at(swing, t, now)
    copy(goal, swing.goal)
    swing.since = t
    _fit(now, goal, left, swing.c)


ANY = inf  # of `aim`: the planned time of touchdown


@entry(Swing, float)
def move(swing: Swing, t: float) -> None:
    """Set x, v, a to those at the time t since lift-off [s]; at the end the foot rests at the goal."""
    x, v, a = swing.x, swing.v, swing.a
    _at(swing, min(t, swing.lasts), (x, v, a))
    T, h = (swing.lasts - swing.begun) / (1.0 - swing.phase), swing.height
    s = swing.share = min(swing.phase + (t - swing.begun) / T, 1.0)
    r = s * (1.0 - s)
    # 64 h s³ (1 − s)³, of height h at s = 1/2
    x[2] += 64.0 * h * r * r * r
    v[2] += 192.0 * h * r * r * (1.0 - 2.0 * s) / T
    a[2] += 384.0 * h * r * (1.0 - 5.0 * r) / (T * T)


@compiled
def _at(swing: Swing, t: float, out: tuple[Array, Array, Array]) -> None:
    """Fill x, ẋ, ẍ at a time since lift-off [s], without the way up and down (4 each)."""
    (x, v, a), s, c = out, t - swing.since, swing.c
    for k in range(4):
        x[k] = c[0, k] + s * (c[1, k] + s * (c[2, k] + s * (c[3, k] + s * (c[4, k] + s * c[5, k]))))
        v[k] = c[1, k] + s * (2.0 * c[2, k] + s * (3.0 * c[3, k] + s * (4.0 * c[4, k] + s * 5.0 * c[5, k])))
        a[k] = 2.0 * c[2, k] + s * (6.0 * c[3, k] + s * (12.0 * c[4, k] + s * 20.0 * c[5, k]))


@compiled
def _fit(now: tuple[Array, Array, Array], goal: Array, T: float, c: Array) -> None:
    """Fill the coefficients of 1, s, …, s⁵ from x, v, a at s = 0 to rest at a goal at s = T (6, 4)."""
    x, v, a = now
    for k in range(4):
        d, dv, da = goal[k] - x[k], v[k] * T, a[k] * T * T
        c[0, k], c[1, k], c[2, k] = x[k], v[k], 0.5 * a[k]
        c[3, k] = (10.0 * d - 6.0 * dv - 1.5 * da) / (T * T * T)
        c[4, k] = (8.0 * dv + 1.5 * da - 15.0 * d) / (T * T * T * T)
        c[5, k] = (6.0 * d - 3.0 * dv - 0.5 * da) / (T * T * T * T * T)
