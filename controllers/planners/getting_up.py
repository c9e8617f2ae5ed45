"""Getting up from any resting pose on flat ground: fold the legs, roll over where needed, push up to the stance. On its back
the robot pushes with the legs of its higher side, on its side with the lower ones; after `tries` pushes without success the
other side pushes. Of the state only angles at the start, attitude and angular speed of the base are used."""

import math
from collections.abc import Callable
from enum import Enum
from typing import ClassVar

import numpy as np

from controllers.command import Reference
from controllers.config.loading import Positive
from controllers.contact.ground import Known
from controllers.planners.trajectory import MotionSettings, Trajectory, smooth_step
from controllers.robot.kinematics import KNOTS, angles_along
from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from idyn.model.so3 import up
from idyn.types import Array, ContactSet, Kinematics, Record, State

MIRRORED = 0.02  # largest distance between a joint and the mirror image of its counterpart [m]; the same for their axes


class Sides(Record, frozen=True):
    """Symmetry of a robot about the xz plane of its base."""

    left: Array  # whether a joint is on the left side (na)
    partner: Array  # the joint on the other side (na)
    sign: Array  # angle of the partner in a mirrored posture, per angle of the joint, 1 or −1 (na)


def sides_of(robot: Robot) -> Sides:
    """Return the symmetry of a robot. Raises ConfigError for a robot whose joints are not in pairs of hinges."""
    neutral = robot.neutral()
    joints = robot.tree.dof_joint[robot.tree.a]
    axes = robot.terms(neutral, np.zeros(robot.nv)).axes[robot.tree.a, 3:].copy()
    places = robot.place(neutral)[1][joints].copy()
    # the mirror image of a rotation about w is one about −(w − 2 w_y e_y)
    images, turned = places * [1.0, -1.0, 1.0], axes * [-1.0, 1.0, -1.0]
    along = turned @ axes.T
    apart = np.linalg.norm(images[:, None] - places[None], axis=2) + (1.0 - np.abs(along))
    partner = apart.argmin(axis=1)
    alone = (apart.min(axis=1) > MIRRORED) | (partner == np.arange(len(partner)))
    if alone.any():
        name = robot.joint_names[int(alone.argmax())]
        raise ConfigError("reference.kind", f"'get-up' needs legs of hinges in pairs left and right; '{name}' has no partner")
    sign = np.sign(np.take_along_axis(along, partner[:, None], axis=1)[:, 0])
    return Sides(left=places[:, 1] > 0.0, partner=partner, sign=sign)


def posture(robot: Robot, sides: Sides, others: Array, angles: dict[str, float], where: str) -> Array:
    """Return a symmetric posture [rad] (na).

    others: angles of joints that are left out [rad] (na); angles: of joints of the left side; where: path in errors
    Raises ConfigError for an unknown joint, one of the right side, or an angle beyond its limits.
    """
    result, names = others.copy(), list(robot.joint_names)
    for name, angle in angles.items():
        if name not in names or not sides.left[names.index(name)]:
            left = [each for each, there in zip(names, sides.left, strict=True) if there]
            raise ConfigError(f"{where}.{name}", f"expected a joint of the left side{nearest(name, left)}")
        k = names.index(name)
        result[k], result[sides.partner[k]] = angle, sides.sign[k] * angle
    return within_limits(robot, result, where)


def within_limits(robot: Robot, angles: Array, where: str) -> Array:
    """Return the angles [rad] (na). Raises ConfigError, with the path `where`, for a joint beyond its limits."""
    limits = robot.limits
    beyond = (angles < limits.q_min) | (angles > limits.q_max)
    if beyond.any():
        k = int(beyond.argmax())
        expected = f"expected {limits.q_min[k]:g} to {limits.q_max[k]:g} rad of {robot.joint_names[k]}"
        raise ConfigError(where, f"{expected}, got {angles[k]:g}")
    return angles


LEVEL, TIPPED = 0.6, 1.0  # tilts of a robot on its belly, and beyond which one that rises or stands begins anew [rad]
STILL, REST = 0.3, 1.0  # folded legs have come to rest below this angular speed of the base [rad/s], or after this time [s]
HELD = 0.3  # time for which a push lasts after its motion [s]
PEAK = 15.0 / 8.0  # largest speed of a quintic, relative to its mean speed
Sample = tuple[Array, Array, Array]  # angles [rad], speeds [rad/s] and accelerations [rad/s²] of the joints (na)


class Motion(Record, frozen=True):
    """A motion of the joints."""

    start: Array  # angles [rad] (na)
    goal: Array  # angles [rad] (na)
    speeds: Array  # at the start [rad/s] (na)
    begin: float  # time of the start [s]
    lasts: float  # duration [s]
    # θ(x, n): n-th derivative of the angles between start, x = 0, and goal, x = 1; None: a straight line
    path: Callable[[float, int], Array] | None = None

    def at(self, t: float) -> Sample:
        """Return the motion at time t [s]; before it begins as at its start."""
        x, dx, ddx = smooth_step(max(t - self.begin, 0.0), self.lasts)
        if self.path is None:
            along = self.goal - self.start
            q, v, a = self.start + x * along, dx * along, ddx * along
        else:
            first = self.path(x, 1)
            q, v, a = self.path(x, 0), dx * first, dx * dx * self.path(x, 2) + ddx * first
        h, dh, ddh = _fading(min(max(t - self.begin, 0.0) / self.lasts, 1.0))
        return q + self.lasts * h * self.speeds, v + dh * self.speeds, a + ddh / self.lasts * self.speeds


def _fading(s: float) -> tuple[float, float, float]:
    """Return the quintic with slope 1 at s = 0 that is 0 at both ends and flat at s = 1, and its derivatives."""
    return s - 6 * s**3 + 8 * s**4 - 3 * s**5, 1 - 18 * s**2 + 32 * s**3 - 15 * s**4, -36 * s + 96 * s**2 - 60 * s**3


def duration(start: Array, goal: Array, speed: float) -> float:
    """Return the time in which the fastest joint moves from start to goal with this largest speed [rad/s], ≥ 0.1 s."""
    return max(PEAK * float(np.abs(goal - start).max()) / speed, 0.1)


def rise(robot: Robot, stance: Array, depth: float) -> Callable[[float, int], Array]:
    """Return θ(x, n) of a base that rises from `depth` [m] below the stance, x = 0, to the stance, x = 1, over standing feet.

    Raises ConfigError if the legs do not fold as far.
    """
    share = np.linspace(0.0, 1.0, KNOTS)
    shifts = (1.0 - share)[:, None] * np.array([0.0, 0.0, -depth])
    return angles_along(robot, stance, share, shifts, "reference.depth")


class Phase(Enum):
    """What a robot that gets up is doing."""

    FOLD = "folds its legs"  # beside the trunk, the feet below the places where they stand in the stance
    SWING = "swings its legs over"  # not on the belly: those of one side, so that they point past the back
    PUSH = "pushes itself over"  # these legs stretch and push the ground: the trunk rolls away from them
    TUCK = "draws its legs in"  # those that were swung over: stretched ones would kick the ground on their way back
    RISE = "rises"  # on the belly: the legs push the trunk up to the stance
    STAND = "stands"  # the stance is held


LIES = (Phase.FOLD, Phase.SWING, Phase.PUSH, Phase.TUCK)  # other parts than the feet carry the robot and may slide


class GetUp(Trajectory):
    """Gets up and stands. Stores the motion and the number of pushes.

    phase: what it is doing; pushes: number of pushes since it lay on its belly or stood
    left_pushes: which side pushes, or pushed last
    """

    def __init__(self, robot: Robot, stance: Array, settings: "GetUpSettings") -> None:
        """stance: level configuration (nq). Raises ConfigError for a robot without pairs of legs, or wrong postures."""
        self._robot, self._settings, self._sides = robot, settings, sides_of(robot)
        self._stance, self._rise = robot.joint_angles(stance), rise(robot, stance, settings.depth)
        self._folded = within_limits(robot, self._rise(0.0, 0), "reference.depth")
        self._over = posture(robot, self._sides, self._stance, settings.over, "reference.over")
        self._from_back = posture(robot, self._sides, self._over, settings.from_back, "reference.from_back")
        self._from_side = posture(robot, self._sides, self._over, settings.from_side, "reference.from_side")
        self.reset()

    def reset(self) -> None:
        self.phase, self.pushes, self.left_pushes = Phase.FOLD, 0, False
        self._beside = False  # whether it pushes from its side
        self._swung = np.zeros(self._robot.na, np.bool_)  # joints of the legs that are swung over
        self._motion: Motion | None = None

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference at time t [s]. It starts from the measured angles."""
        if self._motion is None:
            angles = self._robot.joint_angles(state.q)
            lasts = self._settings.start + duration(angles, self._folded, self._settings.speed)
            self._motion = Motion(angles, self._folded, np.zeros_like(angles), t + self._settings.start, lasts)
        self._decide(t, up(state.q[3:7]), float(np.linalg.norm(state.v[3:6])))
        q, v, a = self._motion.at(t)
        vain = f"getting up: {self.pushes - 1} pushes did not roll the robot over" if self.pushes > 1 else ""
        return Reference(q=q, v=v, a=a, problem=vain, drags=self.phase in LIES)

    def _decide(self, t: float, above: Array, spin: float) -> None:
        """Begin the next motion when the present one is done. above: the vertical in the base frame (3)"""
        assert self._motion is not None
        after, level = t - self._motion.begin - self._motion.lasts, float(above[2])
        on_belly = level > math.cos(LEVEL)
        if self.phase in (Phase.RISE, Phase.STAND):
            if level < math.cos(TIPPED):
                self._move(t, Phase.FOLD, self._folded)
            elif self.phase is Phase.RISE and after >= 0.0:
                self.phase = Phase.STAND
        elif self.phase is Phase.FOLD:
            if after < 0.0 or (after < REST and spin > STILL):
                return
            if on_belly:
                self.pushes = 0
                self._move(t, Phase.RISE, self._stance)
            else:
                self._choose(above)
                self._swing(t)
        elif self.phase is Phase.TUCK:
            if after >= 0.0:
                self._move(t, Phase.FOLD, self._folded)
        elif on_belly or (self.phase is Phase.PUSH and after >= HELD):
            if on_belly or self._beside or level < -abs(above[1]):
                self._move(t, Phase.TUCK, np.where(self._swung, self._over, self._folded))
            else:  # it lies on its side now
                self._beside, self.left_pushes = True, not self.left_pushes
                self._swing(t)
        elif self.phase is Phase.SWING and after >= 0.0:
            self._push(t)

    def _choose(self, above: Array) -> None:
        """Choose the side that pushes. above: the vertical in the base frame (3)"""
        self._beside = bool(above[2] > -abs(above[1]))
        self.left_pushes = bool(above[1] < 0.0) == self._beside
        if self.pushes // self._settings.tries % 2:
            self.left_pushes = not self.left_pushes
        self.pushes += 1
        self._swung[:] = False

    def _swing(self, t: float) -> None:
        assert self._motion is not None
        pushes = self._sides.left == self.left_pushes
        self._swung |= pushes
        self._move(t, Phase.SWING, np.where(pushes, self._over, self._motion.goal))

    def _push(self, t: float) -> None:
        """Stretch the legs that push. On its side the others fold, whose weight would hold the robot back."""
        assert self._motion is not None
        pushes = self._sides.left == self.left_pushes
        if self._beside:
            self._swung &= pushes
            goal = np.where(pushes, self._from_side, self._folded)
        else:
            goal = np.where(pushes, self._from_back, self._motion.goal)
        self._move(t, Phase.PUSH, goal)

    def _move(self, t: float, phase: Phase, goal: Array) -> None:
        """Begin a motion from the present reference."""
        assert self._motion is not None
        start, speeds, _ = self._motion.at(t)
        rises = phase is Phase.RISE
        lasts = self._settings.rise if rises else duration(start, goal, self._settings.speed)
        self.phase = phase
        self._motion = Motion(start, goal, speeds, t, lasts, self._rise if rises else None)


class GetUpSettings(MotionSettings, frozen=True, kw_only=True, tag="get-up"):
    """Get up from lying on flat ground, then hold the stance."""

    depth: Positive  # how far the base of the folded robot is below that of the stance, over the same feet [m]
    # angles of the joints of the left legs that are swung over, so that they point past the back [rad]; joints left out: as in
    # the stance; right legs: mirrored
    over: dict[str, float]
    # from_back, from_side: the same when they push the robot over from its back and from its side; joints left out: as in
    # `over`
    from_back: dict[str, float]
    from_side: dict[str, float]
    speed: Positive = 6.0  # largest speed of a joint's reference [rad/s]
    rise: Positive = 1.0  # time of the motion from folded legs to the stance [s]
    tries: int = 2  # pushes in vain after which the other side pushes
    grounds: ClassVar[tuple[Known, ...]] = ("flat", "standing")

    def build(self, robot: Robot, stance: Array, period: float) -> Trajectory:
        self._check(robot, floating=True)
        if self.tries < 1:
            raise ConfigError("reference.tries", f"expected at least 1, got {self.tries}")
        return GetUp(robot, stance, self)
