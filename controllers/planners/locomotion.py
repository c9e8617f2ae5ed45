"""The locomotion planner: a commanded base velocity into footsteps, foot motion and joint references  [ZD §7.2.1].

Feet and base move in a plan of their own, in which the base follows the command exactly and standing feet stay where they
are. A foot that lifts off swings along cubics to where it will stand under its hip in the middle of its next stance. Joints
follow from the feet as the base sees them,

    x = Rᵀ (f − c),     ẋ = Rᵀ ḟ − u − ω × x,     ẍ = Rᵀ f̈ − ω × Rᵀ ḟ − u̇ − ω̇ × x − ω × ẋ
with c, R the base's place and heading, u its velocity in its own frame, f a foot. So standing feet move backwards as fast as
the base is to move forwards, and touch down without sliding.

Across the plane the plan is blind; in height it looks: a foot that comes down aims at the level of the feet that stand, seen
from the base as it really is. Once it stands, it goes to its height below a level base, which levels the base. A foot that
loses the ground goes after it, and no foot lifts while another one that is to carry instead does not touch yet.
"""

import math

import numpy as np

from controllers import attitude
from controllers.command import Reference, Schedule
from controllers.planners.cubics import Cubics
from controllers.planners.gait import Gait, GaitSettings
from controllers.planners.legs import Legs
from controllers.planners.path import Path, PathSettings
from idyn.compiled import compiled
from idyn.robot import Robot
from idyn.types import Array, ContactSet, State

STILL = 1e-9
"""A base slower than this stands [m/s, rad/s]."""

AT_HOME = 1e-3
"""Feet nearer than this to their places under the hips need no further step [m]."""

LANDING = 0.1
"""Share of the swing time in which a foot that is about to land, or is late, is to reach the ground."""

EARLY = 0.4
"""Share of the swing at its end in which ground that is met ends it."""

UNREACHED = "the planner wants a foot where its leg does not reach"

CUBIC_PEAK = 1.5
"""Largest over mean speed of a cubic from rest to rest."""


class Locomotion:
    """Feet that step as the gait says, under a base that follows the path. Owns the plan."""

    def __init__(
        self, robot: Robot, stance: Array, start: float, gait: GaitSettings, path: PathSettings, period: float
    ) -> None:
        """
        stance: level configuration in which the robot starts (nq)
        start: when the gait begins [s]; period: of the ticks [s]
        """
        self._robot = robot
        self._legs = Legs(robot)
        self._stance = robot.joint_angles(stance)
        self._feet_at_first = self._legs.feet(self._stance)
        self._hips = _around(self._feet_at_first, robot.center_of_mass(stance) - stance[:3])
        self._settings = gait
        self._gait = Gait(gait, len(self._hips))
        self._path = Path(path)
        self._start, self._period = start, period
        self.reset()

    def reset(self) -> None:
        """Everything back to the stance."""
        n = len(self._hips)
        self._t: float | None = None
        self._pose = np.zeros(3)
        self._u, self._du = np.zeros(3), np.zeros(3)
        self._phase = np.zeros(n)
        self._lag, self._patience = 0.0, self._settings.patience
        self._wait = np.full(n, np.inf)
        self._swinging, self._seeking = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
        self._end, self._lifted = np.zeros(n), np.zeros((n, 2))
        self._along, self._height = Cubics(self._feet_at_first[:, :2]), Cubics(self._hips[:, 2:])
        for i in range(n):
            self._along.aim(i, 0.0, self._start, self._hips[i, :2], np.zeros(2))
        self._angles = self._stance
        self._path.reset()

    def at(self, t: float, state: State, contacts: ContactSet) -> Reference:
        """The reference at time t [s]; times never go back. The path is followed by the base of `state`."""
        self._advance(t)
        if t >= self._start:
            if self._gait.walks:
                self._steer(t - self._start, state)
            self._step(t, state, contacts)
        x, v, a = self._feet(t)
        q, dq, ddq, reached = self._legs.solve(x, v, a, self._angles)
        self._angles = q
        schedule = Schedule(stance=~self._swinging, time_to_switch=self._wait)
        return Reference(q=q, v=dq, a=ddq, schedule=schedule, base=self._u, problem="" if reached else UNREACHED)

    # -- the base ----------------------------------------------------------------------------------------------------

    def _advance(self, t: float) -> None:
        """The base from the last tick to this one, with the acceleration decided then."""
        dt = 0.0 if self._t is None else t - self._t
        self._t = t
        self._pose = _moved(self._pose, (self._u + 0.5 * dt * self._du) * dt)
        self._u = self._u + dt * self._du

    def _steer(self, t: float, state: State) -> None:
        """Towards the commanded velocity as fast as the path's acceleration allows."""
        x, y = state.q[:2].tolist()
        limit = self._path.acceleration
        wanted = (self._path.command(t, x, y, attitude.yaw(state.q[3:7])) - self._u) / self._period
        self._du = np.minimum(np.maximum(wanted, -limit), limit)  # np.clip takes five times as long

    # -- the feet ----------------------------------------------------------------------------------------------------

    def _step(self, t: float, state: State, contacts: ContactSet) -> None:
        """Lift-offs, swings and touchdowns."""
        gait, before = self._gait, self._phase
        phase = gait.phase(t - self._start - self._lag)
        touches = self._touching(contacts)
        lifts = (phase >= gait.duty) & ~self._swinging & (before < gait.duty)
        if lifts.any() and self._patience > 0.0 and not touches[~self._swinging & ~lifts].all():
            self._patience -= self._period
            self._lag += self._period
            phase, lifts = before, np.zeros_like(lifts)
        elif lifts.any():
            self._patience = self._settings.patience
        self._phase = phase
        self._seek_lost(t, touches)
        if lifts.any() and self._wants_to_step(t):
            for i in np.flatnonzero(lifts).tolist():
                self._lift(i, t, (1.0 - phase[i]) * gait.period)
        for i in np.flatnonzero(self._swinging | self._seeking).tolist():
            late = phase[i] < gait.duty or phase[i] > 1.0 - EARLY * (1.0 - gait.duty)
            if touches[i] and late:
                self._land(i, t)
            elif phase[i] < gait.duty and not self._seeking[i]:
                self._swinging[i], self._seeking[i] = False, True
                self._along.stop(i, t)
        if (self._swinging | self._seeking).any():
            self._reach(t, state, touches)
        if gait.walks:
            self._wait = np.where(self._swinging, 1.0 - phase, (gait.duty - phase) % 1.0) * gait.period

    def _seek_lost(self, t: float, touches: Array) -> None:
        """Feet that are to stand but do not touch any more look for the ground again."""
        lost = ~(self._swinging | self._seeking | touches)
        if lost.any():
            for i in np.flatnonzero(lost).tolist():
                self._seeking[i] = True
                self._along.stop(i, t)

    def _lift(self, i: int, t: float, swing: float) -> None:
        self._swinging[i], self._seeking[i] = True, False
        self._end[i], self._lifted[i] = t + swing, self._along.at(t)[0][i]
        top = self._hips[i, 2:] + self._settings.step_height
        self._height.aim(i, t, t + 0.5 * swing, top, np.zeros(1))

    def _land(self, i: int, t: float) -> None:
        """Stay on the ground that was met, and level the base."""
        self._swinging[i] = self._seeking[i] = False
        self._along.stop(i, t)
        self._height.stop(i, t)
        self._height.aim(i, t, t + self._settings.settle, self._hips[i, 2:], np.zeros(1))

    def _touching(self, contacts: ContactSet) -> Array:
        near = {key for key, gap in zip(contacts.keys, contacts.gaps.tolist(), strict=True) if gap <= self._settings.touching}
        return np.array([key in near for key in self._robot.spheres.keys], dtype=np.bool_)

    def _wants_to_step(self, t: float) -> bool:
        if not self._gait.walks:
            return False
        return not self._path.done or np.abs(self._u).max() > STILL or np.abs(self._feet(t)[0] - self._hips).max() > AT_HOME

    def _reach(self, t: float, state: State, touches: Array) -> None:
        """Aim the swinging feet at their footholds, and those that are late at the ground."""
        gait, s = self._gait, self._settings
        level: tuple[Array, Array] | None = None
        for i in np.flatnonzero(self._swinging | self._seeking).tolist():
            left = self._end[i] - t
            share = left / gait.swing_time
            if self._swinging[i] and share >= 1.0 - s.redirect:
                self._along.aim(i, t, self._end[i], self._foothold(i, left), np.zeros(2))
            falls = share >= LANDING and left <= 0.5 * gait.swing_time + self._period  # no tick is lost on top
            if not self._seeking[i] and not falls:
                continue
            level = level or self._ground(t, state, touches)
            goal, speed, until = level[0][i], level[1][i] - s.touchdown_speed, self._end[i]
            if self._seeking[i]:
                until = t + LANDING * gait.swing_time
                goal = self._height.at(t)[0][i, 0] + speed * (until - t)
            self._height.aim(i, t, until, np.array([goal]), np.array([speed]))

    def _foothold(self, i: int, left: float) -> Array:
        """Where foot i will be under its hip in the middle of the stance that begins in `left` [s] (2)."""
        x, y, yaw = _moved(self._pose, self._u * (left + 0.5 * self._gait.stance_time)).tolist()
        c, s = math.cos(yaw), math.sin(yaw)
        hx, hy = self._hips[i, 0], self._hips[i, 1]
        way = np.array([x + c * hx - s * hy, y + s * hx + c * hy]) - self._lifted[i]
        longest = self._settings.swing_speed * self._gait.swing_time / CUBIC_PEAK
        return self._lifted[i] + way * min(1.0, longest / max(math.hypot(*way), 1e-12))

    def _ground(self, t: float, state: State, touches: Array) -> tuple[Array, Array]:
        """Height in the base frame of the ground below each foot, as the feet that touch tell it, and its rate [m, m/s] (n)."""
        up = attitude.up(state.q[3:7])
        feet = self._legs.feet(self._robot.joint_angles(state.q))
        known = touches if touches.any() else ~self._swinging
        below = (feet @ up)[known].mean()  # of the base's origin, along world z
        x, v, _ = self._feet(t)
        height = (below - x[:, :2] @ up[:2]) / up[2]
        places = np.column_stack([x[:, :2], height])
        rising = (state.v[:3] + np.cross(state.v[3:6], places)) @ up
        return height, -(rising + v[:, :2] @ up[:2]) / up[2]

    def _feet(self, t: float) -> tuple[Array, Array, Array]:
        """Places, velocities and accelerations of the feet in the base frame (n, 3)."""
        return _seen_from_base(self._along.at(t), self._height.at(t), self._pose, self._u, self._du)


def _around(feet: Array, centre: Array) -> Array:
    """The feet (n, 3) moved together in the plane, so that `centre` (3) is above their middle: a trot stands on diagonals."""
    shift = centre - feet.mean(axis=0)
    shift[2] = 0.0
    return feet + shift


def _moved(pose: Array, twist: Array) -> Array:
    """The planar pose (x, y, yaw) after moving by a constant twist in its own frame for unit time."""
    x, y, yaw = pose.tolist()
    dx, dy, turn = twist.tolist()
    half = 0.5 * turn
    chord = math.sin(half) / half if abs(half) > 1e-8 else 1.0
    c, s = chord * math.cos(yaw + half), chord * math.sin(yaw + half)
    return np.array([x + c * dx - s * dy, y + s * dx + c * dy, yaw + turn])


@compiled
def _seen_from_base(level, upright, pose, u, du):
    """level, upright: places, velocities and accelerations in the plane (n, 2) and above it (n, 1)."""
    (along, along_v, along_a), (height, height_v, height_a) = level, upright
    n = len(along)
    x, v, a = np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3))
    c, s, turn = np.cos(pose[2]), np.sin(pose[2]), u[2]
    for i in range(n):
        fx, fy = along[i, 0] - pose[0], along[i, 1] - pose[1]
        vx, vy = c * along_v[i, 0] + s * along_v[i, 1], c * along_v[i, 1] - s * along_v[i, 0]
        ax, ay = c * along_a[i, 0] + s * along_a[i, 1], c * along_a[i, 1] - s * along_a[i, 0]
        x[i, 0], x[i, 1], x[i, 2] = c * fx + s * fy, c * fy - s * fx, height[i, 0]
        v[i, 0], v[i, 1], v[i, 2] = vx - u[0] + turn * x[i, 1], vy - u[1] - turn * x[i, 0], height_v[i, 0]
        a[i, 0] = ax + turn * vy - du[0] + du[2] * x[i, 1] + turn * v[i, 1]
        a[i, 1] = ay - turn * vx - du[1] - du[2] * x[i, 0] - turn * v[i, 0]
        a[i, 2] = height_a[i, 0]
    return x, v, a
