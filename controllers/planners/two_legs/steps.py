"""When which foot stands, and where the centre of pressure moves; settings of steps and balance: standing → (command) →
double support → single support → double support → … → (no command, feet abreast) → standing"""

from math import exp
from typing import Annotated

import numpy as np

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.config.tables import within
from controllers.planners.two_legs.feet import Pose, Span, Swing, planned_dcm, turned
from idyn.types import Array


class StepSettings(Settings, frozen=True):
    """Timing and size of the steps."""

    period: Annotated[float, within(0.2, 3, "s")] = 0.7  # of a step, from touchdown to touchdown [s]
    double_support: Annotated[float, within(0.02, 0.9, "")] = 0.25  # share of the period in which both feet stand
    height: Annotated[float, within(0.005, 0.5, "m")] = 0.05  # highest point of the swinging foot above the ground [m]
    width: NonNegative = 0.0  # distance of the feet to the side [m]; 0: as in the stance
    longest: Positive = 0.35  # largest distance of a foot ahead of or behind the other one [m]
    # narrowest, widest: least and largest distance of the feet to the side, as shares of `width`
    narrowest: Annotated[float, within(0.1, 1, "")] = 0.75
    widest: Annotated[float, within(1, 3, "")] = 1.8
    acceleration: Positive = 0.3  # largest change of the commanded velocity [m/s², rad/s²]


class BalanceSettings(Settings, frozen=True):
    """Feedback of the divergent component of motion."""

    gain: NonNegative = 4.0  # rate at which its error shall vanish [1/s]
    margin: NonNegative = 0.01  # distance that the centre of pressure keeps from the edges of the soles [m]
    lower: NonNegative = 0.03  # height by which the centre of mass is below that of the stance [m]


SIDES = (1.0, -1.0)  # direction to the side of the left and of the right foot


def next_step(stands: Pose, foot: int, velocity: Array, width: float, period: float) -> Pose:
    """Return where a foot lands beside the standing one so that the robot moves at a velocity.

    stands: the standing foot; foot: that swings, 0: left, 1: right; velocity: forward, left [m/s], turn [rad/s] (3)
    width: distance of the feet to the side [m]; period: of a step [s]
    """
    turn = velocity[2] * period
    # the feet are beside the middle of the robot, which turns by half between the two steps
    ahead = velocity[:2] * period + np.array([0.0, 0.5 * SIDES[foot] * width])
    step = turned(stands.yaw) @ np.array([0.0, 0.5 * SIDES[foot] * width]) + turned(stands.yaw + turn) @ ahead
    return Pose(np.array([*(stands.position[:2] + step), stands.position[2]]), stands.yaw + turn)


def within_reach(place: Pose, stands: Pose, foot: int, width: float, limits: StepSettings) -> Pose:
    """Return a landing place, moved to where the foot reaches it and the legs do not cross."""
    R = turned(stands.yaw)
    ahead, left = R.T @ (place.position - stands.position)[:2]
    aside = min(max(SIDES[foot] * left, limits.narrowest * width), limits.widest * width)
    ahead = min(max(ahead, -limits.longest), limits.longest)
    moved = stands.position[:2] + R @ np.array([ahead, SIDES[foot] * aside])
    return Pose(np.array([*moved, place.position[2]]), place.yaw)


def abreast(feet: tuple[Pose, Pose], width: float) -> float:
    """Return how far the feet are from standing beside each other at a distance `width`: the larger of the distance [m] and
    the angle [rad]."""
    left, right = feet
    place = next_step(right, 0, np.zeros(3), width, 0.0)
    return max(float(np.linalg.norm((left.position - place.position)[:2])), abs(left.yaw - right.yaw))


PREVIEW = 3  # number of planned steps. Errors of the DCM at the end of the plan shrink by e^{ωT} ≈ 10 with each
FIRST = 0.6  # double support before the first step and after the last one [s]; before the first one on point feet a period
ABREAST = 0.03  # feet that are nearer to their places beside each other than this stand still [m, rad]
LEARNING = 0.1  # share of the difference of a step of a point foot from the commanded one by which the plan is shorter
EARLY = 0.6  # share of the swing after which a foot that touches has landed


class Steps:
    """State of the gait.

    planted: where the feet stand, or stood last; the heading is the planned one
    swinging: 0: left, 1: right; None in double support
    swing: path of the foot in the air
    correction: of the velocity of the plan, so that steps of point feet are on average as long as commanded [m/s, rad/s] (3)
    """

    def __init__(self, settings: StepSettings, width: float, omega: float, stands: bool, ankle: Array) -> None:
        """width: of the feet [m]; omega: √(g/h) [1/s]; stands: whether the robot can stand still
        ankle: half sizes of the part of a sole on which the centre of pressure corrects the motion alone [m] (2)
        """
        self._settings, self._width, self._omega, self._stands, self._ankle = settings, width, omega, stands, ankle
        self._points = not ankle.any()  # only the landing places correct the motion

    def reset(self, feet: tuple[Pose, Pose]) -> None:
        """Stand on these feet."""
        self.planted = list(feet)
        self.swinging: int | None = None
        self.swing: Swing | None = None
        self._next = 0  # foot of the next swing
        self.correction = np.zeros(3)
        self._stops = False  # whether the next step is to be the last one
        self._since, self._lasts, self._from = 0.0, np.inf, self.middle
        self.standing = True

    @property
    def middle(self) -> Array:
        """Return the middle of the feet in the plane [m] (2)."""
        middle: Array = 0.5 * (self.planted[0].position + self.planted[1].position)[:2]
        return middle

    def advance(self, t: float, velocity: Array, measured: tuple[Pose, Pose], lands: bool) -> None:
        """Begin the next phase if it is time.

        velocity: commanded (3); measured: feet; lands: whether the foot in the air touches the ground
        """
        s, elapsed = self._settings, t - self._since
        wanted = bool(velocity.any()) or not self._stands
        if self.standing:
            if wanted:
                self._next = 0 if velocity[1] + 0.1 * velocity[2] >= 0.0 else 1
                self._stops = False
                self._begin(t, s.period if self._points else FIRST, self.middle)
        elif self.swinging is not None:
            if elapsed >= self._lasts or (lands and elapsed > EARLY * self._lasts):
                if self._points:
                    self._learn(velocity)
                self._land(t, measured, wanted)
        elif elapsed >= self._lasts:
            foot = self._next
            for side in (0, 1):
                self.planted[side] = self.planted[side]._replace(position=measured[side].position)
            place = self._place(velocity)
            start = self.planted[foot]
            lasts = (1.0 - s.double_support) * s.period
            self.swing = Swing(_four(start), _four(place), lasts, s.height)
            self.swinging, self._since, self._lasts = foot, t, lasts
        if self.swing is not None:
            self.swing.move(t - self._since)

    def _begin(self, t: float, lasts: float, start: Array) -> None:
        """Begin a double support, in which the centre of pressure moves from `start` to the foot that stands next."""
        self.standing, self.swinging, self.swing = False, None, None
        self._since, self._lasts, self._from = t, lasts, start

    def _land(self, t: float, measured: tuple[Pose, Pose], wanted: bool) -> None:
        foot, s = self.swinging, self._settings
        assert foot is not None
        assert self.swing is not None
        yaw = float(self.swing.goal[3])
        start = self.planted[1 - foot].position[:2]
        self.planted[foot] = Pose(measured[foot].position, yaw)
        self._next = 1 - foot
        early = max(self._lasts - (t - self._since), 0.0) if self._points else 0.0
        self._begin(t + early, s.double_support * s.period, start)
        if self._stops and not wanted and abreast((self.planted[0], self.planted[1]), self._width) < ABREAST:
            self.standing = True
        self._stops = not wanted

    def _learn(self, velocity: Array) -> None:
        """Correct the velocity of the plan by a share of what the step that ends differs from the commanded one."""
        assert self.swing is not None
        place = self._place(velocity)
        moved = turned(place.yaw).T @ (self.swing.goal[:2] - place.position[:2])
        self.correction[:2] -= LEARNING * moved / self._settings.period

    def _place(self, velocity: Array) -> Pose:
        """Return where the next foot lands without correction."""
        stands, s = self.planted[1 - self._next], self._settings
        place = next_step(stands, self._next, velocity, self._width, s.period)
        return within_reach(place, stands, self._next, self._width, s)

    def plan(self, t: float, velocity: Array) -> list[Span]:
        """Return the motion of the centre of pressure from now on, with landing places that are not corrected.

        velocity: commanded (3)
        """
        s, elapsed = self._settings, t - self._since
        if self.standing:
            return [_rest(self._from, self.middle, FIRST, elapsed)]
        double, single = s.double_support * s.period, (1.0 - s.double_support) * s.period
        foot, feet = self._next, list(self.planted)
        at = feet[1 - foot].position[:2]
        if self.swinging is None:
            spans = [_rest(self._from, at, self._lasts, elapsed), Span(single, at, at)]
            if elapsed < 0.0:  # the foot has landed early
                spans = [Span(-elapsed, self._from, self._from), *spans]
        else:
            spans = [Span(max(self._lasts - elapsed, 0.0), at, at)]
        feet[foot] = self._place(velocity)
        for _ in range(PREVIEW):
            if self._stops and abreast((feet[0], feet[1]), self._width) < ABREAST:
                return [*spans, Span(FIRST, at, 0.5 * (feet[0].position + feet[1].position)[:2])]
            stands, before = feet[foot], at
            at, foot = stands.position[:2], 1 - foot
            spans += [Span(double, before, at), Span(single, at, at)]
            feet[foot] = next_step(stands, foot, velocity, self._width, s.period)
        return [*spans, Span(double, at, 0.5 * (feet[0].position + feet[1].position)[:2])]

    def reference(self, t: float, velocity: Array, dcm: Array) -> tuple[Array, Array]:
        """Return the planned centre of pressure and the planned DCM [m], each (2), after moving the landing place of the foot
        in the air by what the ankle cannot correct of the DCM's error until then.

        velocity: commanded (3); dcm: measured (2)
        """
        spans = self.plan(t, velocity)
        planned = planned_dcm(spans, self._omega)
        if self.swinging is None or self.swing is None:
            return spans[0].start, planned
        foot, s, w = self.swinging, self._settings, self._omega
        place, stands = self._place(velocity), self.planted[1 - foot]
        grows, R = exp(w * spans[0].duration), turned(stands.yaw)
        # e(T) = e e^{ωT} − δ (e^{ωT} − 1), δ: shift of the centre of pressure
        error = R.T @ (dcm - planned) * grows
        reach = self._ankle * (grows - 1.0)
        # a step that lands farther by s moves ξ(T) by κ s, κ = (1 − e^{−ωD}) / ωD, D: double support
        D = s.double_support * s.period
        kappa = (1.0 - exp(-w * D)) / (w * D)
        shift = R @ (error - np.clip(error, -reach, reach)) / kappa
        moved = Pose(place.position + np.array([*shift, 0.0]), place.yaw)
        self.swing.aim(_four(within_reach(moved, stands, foot, self._width, s)), t - self._since)
        return spans[0].start, planned + (self.swing.goal - _four(place))[:2] * kappa / grows


def _rest(start: Array, end: Array, lasts: float, elapsed: float) -> Span:
    """Return what is left of a movement of the centre of pressure."""
    share = min(max(elapsed / lasts, 0.0), 1.0)
    return Span((1.0 - share) * lasts, start + share * (end - start), end)


def _four(pose: Pose) -> Array:
    return np.array([*pose.position, pose.yaw])
