"""The locomotion planner: a commanded base velocity into footsteps, foot motion and joint references  [ZD §7.2.1].

Feet and base move in a plan of their own, in which the base follows the command exactly and standing feet stay where they
are. A foot that lifts off swings along cubics to where it will stand under its hip in the middle of the next stance. Joints
follow from the feet as the base sees them,

    x = Rᵀ (f − c),     ẋ = Rᵀ ḟ − u − ω × x,     ẍ = Rᵀ f̈ − ω × Rᵀ ḟ − u̇ − ω̇ × x − ω × ẋ
with c, R the base's place and heading, u its velocity in its own frame, f a foot. So standing feet move backwards as fast as
the base is to move forwards, and touch down without sliding.
"""

import math

import numpy as np

from controllers.command import Reference, Schedule
from controllers.planners.gait import Gait, GaitSettings
from controllers.planners.legs import Legs
from controllers.planners.path import Path, PathSettings
from idyn.compiled import compiled
from idyn.robot import Robot
from idyn.types import Array, State

STILL = 1e-9
"""A command slower than this is a stop [m/s, rad/s]."""


class Locomotion:
    """Feet that step as the gait says, under a base that follows the path. Owns the plan."""

    def __init__(
        self, robot: Robot, stance: Array, start: float, gait: GaitSettings, path: PathSettings, period: float
    ) -> None:
        """
        stance: configuration in which the feet stand under their hips (nq)
        start: when the gait begins [s]; period: of the ticks [s]
        """
        self._legs = Legs(robot)
        self._angles = robot.joint_angles(stance)
        self._keys = robot.contact_keys
        self._hips = self._legs.feet(self._angles)
        self._gait = Gait(gait, len(self._keys))
        self._path = Path(path)
        self._settings = gait
        self._start, self._period = start, period
        self.reset()

    def reset(self) -> None:
        """Everything back to the stance."""
        n = len(self._keys)
        self._t: float | None = None
        self._pose = np.zeros(3)
        self._u, self._du = np.zeros(3), np.zeros(3)
        self._swinging = np.zeros(n, dtype=np.bool_)
        self._phase: Array | None = None
        self._begin = np.zeros(n)
        self._cubic = np.zeros((n, 4, 2))
        self._since = np.zeros(n)
        self._foot, self._foot_v, self._foot_a = self._hips.copy(), np.zeros((n, 3)), np.zeros((n, 3))
        self._q = self._angles
        self._path.reset()

    def at(self, t: float, state: State) -> Reference:
        """The reference at time t [s]; times never go back. The path is followed by the base of `state`."""
        self._advance(t)
        if t >= self._start:
            self._steer(t - self._start, state)
            self._step(t)
        x, v, a = _seen_from_base(self._foot, self._foot_v, self._foot_a, self._pose, self._u, self._du)
        q, dq, ddq, _ = self._legs.solve(x, v, a, self._q)
        self._q = q
        return Reference(q=q, v=dq, a=ddq, schedule=self._schedule(t))

    def _advance(self, t: float) -> None:
        """The base from the last tick to this one, with the acceleration decided then."""
        dt = 0.0 if self._t is None else t - self._t
        self._t = t
        mean = self._u + 0.5 * dt * self._du
        self._pose = _moved(self._pose, mean * dt)
        self._u = self._u + dt * self._du

    def _steer(self, t: float, state: State) -> None:
        """Towards the commanded velocity as fast as the path's acceleration allows."""
        q = state.q
        yaw = math.atan2(2 * (q[6] * q[5] + q[3] * q[4]), 1 - 2 * (q[4] * q[4] + q[5] * q[5]))
        command = self._path.command(t, q[0], q[1], yaw)
        limit = self._path.acceleration
        self._du = np.clip((command - self._u) / self._period, -limit, limit)

    def _step(self, t: float) -> None:
        """Lift-offs and touchdowns; swinging feet along their cubics."""
        gait, s = self._gait, self._settings
        phase = gait.phase(t - self._start)
        before = self._phase
        moving = gait.walks and not (self._path.done and np.abs(self._u).max() < STILL and self._at_home())
        for i in range(len(phase)):
            swing = phase[i] >= gait.duty
            if swing and not self._swinging[i] and moving and (before is None or before[i] < gait.duty):
                self._swinging[i] = True
                self._begin[i] = t - (phase[i] - gait.duty) * gait.period
                self._since[i] = t
                self._cubic[i] = 0.0
                self._cubic[i, 0] = self._foot[i, :2]
            elif not swing and self._swinging[i]:
                self._swinging[i] = False
                self._foot_v[i] = self._foot_a[i] = 0.0
                self._foot[i, :2] = self._landing[i]
                self._foot[i, 2] = self._hips[i, 2]
            if self._swinging[i]:
                self._swing(i, t)
        self._phase = phase

    @property
    def _landing(self) -> Array:
        T = self._begin + self._gait.swing_time - self._since
        return np.array([c[0] + T[i] * (c[1] + T[i] * (c[2] + T[i] * c[3])) for i, c in enumerate(self._cubic)])

    def _swing(self, i: int, t: float) -> None:
        swing_time = self._gait.swing_time
        end = self._begin[i] + swing_time
        tau = t - self._since[i]
        c = self._cubic[i]
        p, v = c[0] + tau * (c[1] + tau * (c[2] + tau * c[3])), c[1] + tau * (2 * c[2] + 3 * tau * c[3])
        if t - self._begin[i] <= self._settings.redirect * swing_time:
            T = end - t
            far = _moved(self._pose, self._u * (T + 0.5 * self._gait.stance_time))
            cos, sin = math.cos(far[2]), math.sin(far[2])
            hx, hy = self._hips[i, 0], self._hips[i, 1]
            goal = np.array([far[0] + cos * hx - sin * hy, far[1] + sin * hx + cos * hy])
            d = goal - p
            c[0], c[1], c[2], c[3] = p, v, 3 * d / T**2 - 2 * v / T, -2 * d / T**3 + v / T**2
            self._since[i], tau = t, 0.0
        self._foot[i, :2], self._foot_v[i, :2] = p, v
        self._foot_a[i, :2] = 2 * c[2] + 6 * tau * c[3]
        z, dz, ddz = _hop((t - self._begin[i]) / swing_time, self._settings.step_height, swing_time)
        self._foot[i, 2], self._foot_v[i, 2], self._foot_a[i, 2] = self._hips[i, 2] + z, dz, ddz

    def _at_home(self) -> bool:
        x, _, _ = _seen_from_base(self._foot, self._foot_v, self._foot_a, self._pose, self._u, self._du)
        return bool(np.abs(x - self._hips).max() < 1e-3)

    def _schedule(self, t: float) -> Schedule:
        if self._phase is None or not self._gait.walks:
            wait = np.full(len(self._keys), np.inf)
        else:
            phase, gait = self._phase, self._gait
            wait = np.where(self._swinging, 1.0 - phase, (gait.duty - phase) % 1.0) * gait.period
        return Schedule(stance=~self._swinging, time_to_switch=wait)


def _moved(pose: Array, twist: Array) -> Array:
    """The planar pose (x, y, yaw) after moving by a constant twist in its own frame for unit time."""
    x, y, yaw = pose.tolist()
    dx, dy, turn = twist.tolist()
    half = 0.5 * turn
    chord = math.sin(half) / half if abs(half) > 1e-8 else 1.0
    c, s = math.cos(yaw + half), math.sin(yaw + half)
    return np.array([x + chord * (c * dx - s * dy), y + chord * (s * dx + c * dy), yaw + turn])


def _hop(s: float, height: float, time: float) -> tuple[float, float, float]:
    """Height, its speed and acceleration at share s of a hop: up and down again on a cubic each, at rest at the ends and on top."""
    up = s < 0.5
    x, half = (2 * s, 0.5 * time) if up else (2 - 2 * s, -0.5 * time)
    return height * x * x * (3 - 2 * x), height * 6 * x * (1 - x) / half, height * 6 * (1 - 2 * x) / half**2


@compiled
def _seen_from_base(feet, velocities, accelerations, pose, u, du):
    """Foot places, velocities and accelerations in the base frame (n, 3)."""
    n = len(feet)
    x, v, a = np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3))
    c, s, turn = np.cos(pose[2]), np.sin(pose[2]), u[2]
    for i in range(n):
        fx, fy = feet[i, 0] - pose[0], feet[i, 1] - pose[1]
        x[i, 0], x[i, 1], x[i, 2] = c * fx + s * fy, c * fy - s * fx, feet[i, 2]
        vx, vy = c * velocities[i, 0] + s * velocities[i, 1], c * velocities[i, 1] - s * velocities[i, 0]
        v[i, 0] = vx - u[0] + turn * x[i, 1]
        v[i, 1] = vy - u[1] - turn * x[i, 0]
        v[i, 2] = velocities[i, 2]
        ax, ay = c * accelerations[i, 0] + s * accelerations[i, 1], c * accelerations[i, 1] - s * accelerations[i, 0]
        a[i, 0] = ax + turn * vy - du[0] + du[2] * x[i, 1] + turn * v[i, 1]
        a[i, 1] = ay - turn * vx - du[1] - du[2] * x[i, 0] - turn * v[i, 0]
        a[i, 2] = accelerations[i, 2]
    return x, v, a
