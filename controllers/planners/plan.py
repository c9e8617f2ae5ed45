"""The plan of a walking robot, and how it goes on from tick to tick: see `controllers.planners.locomotion`."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from controllers.planners.cubics import Cubics, aim
from controllers.planners.gait import Gait, GaitSettings
from controllers.planners.legs import Legs, solve
from controllers.planners.path import DONE, Path, command
from controllers.planners.steps import ahead, seen, step
from controllers.robot.attitude import yaw
from idyn.jit.compiled import INDICES, REAL, VECTOR, compiled
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.jit.records import ArrayRecord, Flags, Matrix, Vector
from idyn.solvers.linalg import copy
from idyn.terms.inputs import finite
from idyn.types import Array

CUBIC_PEAK = 1.5
"""Largest over mean speed of a cubic from rest to rest."""


class Plan(ArrayRecord):
    """What is meant to happen, of n feet.

    The robot   legs; path: where to go; hips: where feet are to stand on average, in the base frame [m] (n, 3)
    Settings    start, tick, swing_time, stance_time: when the gait begins, of the ticks, of one swing and stance [s]; longest:
        step [m]; walks, touchdown (n), touching and the others: see `GaitSettings`
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
    touchdown_speed: float
    redirect: float
    touching: float
    most_patience: float
    settle: float
    t: float
    lag: float
    patience: float

    def __init__(
        self,
        legs: Legs,
        path: Path,
        hips: Array,
        settings: GaitSettings,
        gait: Gait,
        times: tuple[float, float],
        angles: Array,
    ) -> None:
        """times: start, tick [s]; angles: any, for their number (na)"""
        s, n = settings, len(hips)
        self.put(legs=legs, path=path, ways=Cubics(hips), hips=hips, start=times[0], tick=times[1])
        self.put(walks=gait.walks, period=gait.period, duty=gait.duty, touchdown=gait.touchdown)
        self.put(swing_time=gait.swing_time, stance_time=gait.stance_time, longest=s.swing_speed * gait.swing_time / CUBIC_PEAK)
        self.put(step_height=s.step_height, touchdown_speed=s.touchdown_speed, redirect=s.redirect, touching=s.touching)
        self.put(most_patience=s.patience, settle=s.settle, pose=np.zeros(3), u=np.zeros(3), du=np.zeros(3))
        self.put(phase=np.zeros(n), wait=np.zeros(n), end=np.zeros(n), lifted=np.zeros((n, 2)), angles=angles.copy())
        self.put(swinging=np.zeros(n, dtype=np.bool_), seeking=np.zeros(n, dtype=np.bool_))

    @cached_property
    def follow(self) -> Callable[..., bool]:
        """The entrance to `follow`; the first time it is asked for, that is compiled."""
        return entrance(follow, TYPE, REAL, MEASURED, CONTACTS, MOTION)

    def begin_anew(self, feet: Array, angles: Array) -> None:
        """At rest with the feet there, in the base frame [m] (n, 3), and such joints [rad] (na)."""
        self.ways.rest(feet)
        self.angles[:] = angles
        forget(self.fields)


TYPE = Plan.TYPE
MEASURED, CONTACTS, MOTION = Lent(VECTOR, VECTOR, VECTOR), Lent(INDICES, VECTOR), Filled(VECTOR, VECTOR, VECTOR)
"""What `follow` takes besides."""


@compiled
def forget(plan):
    """The next tick is the first; until the gait begins the feet go under the hips."""
    plan.t, plan.lag, plan.patience = np.nan, 0.0, plan.most_patience
    plan.pose[:], plan.u[:], plan.du[:], plan.phase[:], plan.end[:] = 0.0, 0.0, 0.0, 0.0, 0.0
    plan.wait[:], plan.swinging[:], plan.seeking[:] = np.inf, False, False
    for i in range(len(plan.hips)):
        for k in range(2):
            aim(plan.ways, i, k, 0.0, plan.start, plan.hips[i, k], 0.0)


@compiled
def follow(plan, t, measured, contacts, motion):
    """The plan at time t [s], and the joints' motion that goes with it: fills angles, speeds and accelerations (na). Whether
    every leg reaches so far.

    measured: q, v and the joint angles of the robot as it is
    contacts: their places, −1 for those that are elsewhere, and gaps (n)
    """
    _advance(plan, t)
    if t >= plan.start:
        q = measured[0]
        if plan.walks:
            wanted = command(plan.path, t - plan.start, (q[0], q[1], yaw(q[3:7])))
            for k in range(3):
                limit = plan.path.accelerations[k]
                plan.du[k] = min(max((wanted[k] - plan.u[k]) / plan.tick, -limit), limit)
        step(plan, t, plan.path.progress[DONE] == 0, measured, _touching(plan, contacts))
    feet = np.empty((3, len(plan.hips), 3))
    for i in range(len(plan.hips)):
        feet[0, i], feet[1, i], feet[2, i] = seen(plan, i, t)
    copy(plan.angles, motion[0])
    reached = solve(plan.legs, (feet[0], feet[1], feet[2]), motion)
    if finite(motion[0]):
        copy(motion[0], plan.angles)
    return reached


@compiled
def _touching(plan, contacts):
    """Which feet touch (n)."""
    places, gaps = contacts
    touches = np.zeros(len(plan.hips), dtype=np.bool_)
    for i in range(min(len(places), len(gaps))):
        if places[i] >= 0 and gaps[i] <= plan.touching:
            touches[places[i]] = True
    return touches


@compiled
def _advance(plan, t):
    """The base from the last tick to this one, with the acceleration decided then."""
    dt = 0.0 if np.isnan(plan.t) else t - plan.t
    plan.t = t
    plan.pose[0], plan.pose[1], plan.pose[2] = ahead(plan, dt, 0.5 * dt)
    for k in range(3):
        plan.u[k] += dt * plan.du[k]
