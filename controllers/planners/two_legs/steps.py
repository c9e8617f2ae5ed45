"""When which foot stands, and where the centre of pressure moves; settings of steps and balance: standing → (command) →
double support → single support → double support → … → (no command, feet abreast) → standing"""

from cmath import rect
from math import exp
from typing import Annotated, NamedTuple

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.config.tables import within
from controllers.planners.two_legs.feet import SETTLED, Pose, Span, Swing, planned_dcm


class StepSettings(Settings, frozen=True):
    """Timing and size of the steps."""

    period: Annotated[float, within(0.2, 3, "s")] = 0.7  # of a step, from touchdown to touchdown [s]
    double_support: Annotated[float, within(0.02, 0.9, "")] = 0.25  # share of the period in which both feet stand
    height: Annotated[float, within(0.005, 0.5, "m")] = 0.05  # highest point of the swinging foot above the ground [m]
    width: NonNegative = 0.0  # distance of the feet to the side [m]; 0: as in the stance
    longest: Positive = 0.35  # largest distance of a foot ahead of or behind the other one [m]
    # narrowest, widest: least and largest distance of the feet to the side, as shares of `width`
    narrowest: Annotated[float, within(0.1, 1, "")] = 0.5
    widest: Annotated[float, within(1, 3, "")] = 1.8
    acceleration: Positive = 0.3  # largest change of the commanded velocity [m/s², rad/s²]


class BalanceSettings(Settings, frozen=True):
    """Feedback of the divergent component of motion."""

    gain: NonNegative = 4.0  # rate at which its error shall vanish [1/s]
    margin: NonNegative = 0.01  # distance that the centre of pressure keeps from the edges of the soles [m]
    lower: NonNegative = 0.03  # height by which the centre of mass is below that of the stance [m]


SIDES = (1.0, -1.0)  # direction to the side of the left and of the right foot


class Velocity(NamedTuple):
    """Velocity of the robot: forward + i left [m/s], turn [rad/s]."""

    plane: complex
    turn: float


def next_step(stands: Pose, foot: int, velocity: Velocity, width: float, period: float) -> Pose:
    """Return where a foot lands beside the standing one so that the robot moves at a velocity.

    stands: the standing foot; foot: that swings, 0: left, 1: right
    width: distance of the feet to the side [m]; period: of a step [s]
    """
    yaw, half = stands.yaw + velocity.turn * period, complex(0.0, 0.5 * SIDES[foot] * width)
    # the feet are beside the middle of the robot, which turns by half between the two steps
    step = rect(1.0, stands.yaw) * half + rect(1.0, yaw) * (velocity.plane * period + half)
    return Pose(stands.place + step, stands.height - stands.above, yaw)


def within_reach(place: Pose, stands: Pose, foot: int, width: float, limits: StepSettings) -> Pose:
    """Return a landing place, moved to where the foot reaches it and the legs do not cross."""
    turn = rect(1.0, stands.yaw)
    way = turn.conjugate() * (place.place - stands.place)
    aside = min(max(SIDES[foot] * way.imag, limits.narrowest * width), limits.widest * width)
    ahead = min(max(way.real, -limits.longest), limits.longest)
    return place._replace(place=stands.place + turn * complex(ahead, SIDES[foot] * aside))


def abreast(feet: tuple[Pose, Pose], width: float) -> float:
    """Return how far the feet are from standing beside each other at a distance `width`: the larger of the distance [m] and
    the angle [rad]."""
    left, right = feet
    place = next_step(right, 0, Velocity(0j, 0.0), width, 0.0)
    return max(abs(left.place - place.place), abs(left.yaw - right.yaw))


PREVIEW = 3  # number of planned steps. Errors of the DCM at the end of the plan shrink by e^{ωT} ≈ 10 with each
FIRST = 0.6  # double support before the first step and after the last one [s]; before the first one on point feet a period
SHIFT = 0.04  # speed at which the centre of pressure of a robot that begins to stand moves to the middle [m/s]
ABREAST = 0.03  # feet that are nearer to their places beside each other than this stand still [m, rad]
LEARNING = 0.1  # share of the difference of a step of a foot without width from the planned one that changes the plan
BEYOND, SOONER = 1e-3, 8  # distance beyond reach from which a foot lands sooner [m]; number of times that are tried
HURRY = 0.1  # double support before a step that catches the robot [s]
EARLY = 0.6  # share of the swing after which a foot that touches has landed


class Steps:
    """State of the gait.

    planted: where the feet stand, or stood last; the heading is the planned one
    swinging: 0: left, 1: right; None in double support
    swing: path of the foot in the air
    correction: of the velocity of the plan, so that steps of feet without width are on average as long as commanded [m/s]
    """

    def __init__(self, settings: StepSettings, width: float, omega: float, stands: bool, ankle: complex) -> None:
        """width: of the feet [m]; omega: √(g/h) [1/s]; stands: whether the robot can stand still
        ankle: half sizes of the part of a sole on which the centre of pressure corrects the motion alone [m]
        """
        self._settings, self._width, self._omega, self._stands, self._ankle = settings, width, omega, stands, ankle
        # a step that lands farther by s moves ξ by κ s, κ = (1 − e^{−ωD}) / ωD, D: double support
        double = omega * settings.double_support * settings.period
        self._kappa = (1.0 - exp(-double)) / double
        self._points = not ankle  # only the landing places correct the motion
        self._narrow = not ankle.imag  # and that to the side

    def reset(self, feet: tuple[Pose, Pose], start: complex | None = None) -> None:
        """Stand on these feet. start: where the centre of pressure begins to move to their middle [m]; None: there"""
        self.planted = list(feet)
        self.swinging: int | None = None
        self.swing: Swing | None = None
        self._next = 0  # foot of the next swing
        self.correction = 0j
        self._outside = 0.0  # how far outside its line an edge presses, since it leans to this side with its leg [m]
        self._stops = False  # whether the next step is to be the last one
        self._caught = False  # whether a step is to catch the robot: it stands as soon as the foot has landed
        self._since, self._from = 0.0, self.middle if start is None else start
        self._lasts = max(FIRST, abs(self.middle - self._from) / SHIFT)
        self.standing = True

    @property
    def middle(self) -> complex:
        """Return the middle of the feet [m]."""
        return _middle(self.planted)

    def advance(self, t: float, velocity: Velocity, measured: tuple[Pose, Pose], lands: bool, outside: complex = 0j) -> None:
        """Begin the next phase if it is time.

        velocity: commanded; measured: feet; lands: whether the foot in the air touches the ground
        outside: by how much the DCM of a robot that stands is off its soles [m]; only a step to this side can stop it
        """
        s, elapsed = self._settings, t - self._since
        wanted = any(velocity) or not self._stands
        if self.standing:
            if outside:
                self._next = 0 if (rect(1.0, -self.planted[0].yaw) * outside).imag >= 0.0 else 1
                self._caught = True
                self._begin(t, HURRY, self.middle)
            elif wanted:
                self._next = 0 if velocity.plane.imag + 0.1 * velocity.turn >= 0.0 else 1
                self._stops = self._caught = False
                self._begin(t, s.period if self._points else FIRST, self.middle)
        elif self.swinging is not None:
            if elapsed >= self._lasts or (lands and elapsed > EARLY * self._lasts):
                if self._narrow:
                    self._learn(velocity)
                self._land(t, measured, wanted)
        elif elapsed >= self._lasts:
            foot = self._next
            for side in (0, 1):
                self.planted[side] = measured[side]._replace(yaw=self.planted[side].yaw)
            place = self._place(velocity)
            start = self.planted[foot]
            lasts = (1.0 - s.double_support) * s.period
            self.swing = Swing(start.four(), place.four(), lasts, s.height)
            self.swinging, self._since, self._lasts = foot, t, lasts
        if self.swing is not None:
            self.swing.move(t - self._since)

    def _begin(self, t: float, lasts: float, start: complex) -> None:
        """Begin a double support, in which the centre of pressure moves from `start` to the foot that stands next."""
        self.standing, self.swinging, self.swing = False, None, None
        self._since, self._lasts, self._from = t, lasts, start

    def _land(self, t: float, measured: tuple[Pose, Pose], wanted: bool) -> None:
        foot, s = self.swinging, self._settings
        assert foot is not None
        assert self.swing is not None
        yaw = float(self.swing.goal[3])
        start = self._pressed(self.planted[1 - foot], 1 - foot)
        self.planted[foot] = measured[foot]._replace(yaw=yaw)
        self._next = 1 - foot
        early = max(self._lasts - (t - self._since), 0.0)
        early *= self._points or (self._narrow and early <= SETTLED)  # else the next phase begins now
        self._begin(t + early, s.double_support * s.period, start)
        is_abreast = abreast((self.planted[0], self.planted[1]), self._apart) < ABREAST
        if not wanted and (self._caught or (self._stops and is_abreast)):
            self.standing, self._lasts = True, FIRST
        self._stops = not wanted

    @property
    def _apart(self) -> float:
        """Return at which distance to the side the feet stand still: that of the steps, without width any [m]."""
        left, right = self.planted
        return (rect(1.0, -right.yaw) * (left.place - right.place)).imag if self._narrow else self._width

    def _learn(self, velocity: Velocity) -> None:
        """Correct the velocity of the plan by a share of what the step that ends differs from the commanded one."""
        assert self.swing is not None
        place = self._place(velocity)
        moved = rect(1.0, -place.yaw) * (complex(*self.swing.goal[:2]) - place.place)
        s = self._settings
        self.correction -= LEARNING * moved / s.period
        if not self._points:  # a centre of pressure farther out by δ makes steps wider by δ (e^{ωT} − 1) / κ
            grows = exp(self._omega * (1.0 - s.double_support) * s.period)
            self._outside += LEARNING * SIDES[self._next] * moved.imag * self._kappa / (grows - 1.0)

    def _place(self, velocity: Velocity) -> Pose:
        """Return where the next foot lands without correction."""
        stands, s = self.planted[1 - self._next], self._settings
        place = next_step(stands, self._next, velocity, self._width, s.period)
        return within_reach(place, stands, self._next, self._width, s)

    def _pressed(self, stands: Pose, foot: int) -> complex:
        """Return where the centre of pressure of a foot that carries alone is [m]."""
        return stands.place + rect(SIDES[foot] * self._outside, stands.yaw) * 1j

    def plan(self, t: float, velocity: Velocity) -> list[Span]:
        """Return the motion of the centre of pressure from now on, with landing places that are not corrected."""
        s, elapsed = self._settings, t - self._since
        if self.standing:
            return [_rest(self._from, self.middle, self._lasts, elapsed)]
        double, single = s.double_support * s.period, (1.0 - s.double_support) * s.period
        foot, feet = self._next, list(self.planted)
        at = self._pressed(feet[1 - foot], 1 - foot)
        if self.swinging is None:
            spans = [_rest(self._from, at, self._lasts, elapsed), Span(single, at, at)]
            if elapsed < 0.0:  # the foot has landed early
                spans = [Span(-elapsed, self._from, self._from), *spans]
        else:
            spans = [Span(max(self._lasts - elapsed, 0.0), at, at)]
        feet[foot] = self._place(velocity)
        for _ in range(PREVIEW):
            if self._stops and not self._narrow and abreast((feet[0], feet[1]), self._width) < ABREAST:
                return [*spans, Span(FIRST, at, _middle(feet))]
            stands, before = feet[foot], at
            at, foot = self._pressed(stands, foot), 1 - foot
            spans += [Span(double, before, at), Span(single, at, at)]
            feet[foot] = next_step(stands, foot, velocity, self._width, s.period)
        return [*spans, Span(double, at, _middle(feet))]

    def reference(self, t: float, velocity: Velocity, dcm: complex) -> tuple[complex, complex]:
        """Return the planned centre of pressure and the planned DCM [m], after moving the landing place of the foot
        in the air by what the ankle cannot correct of the DCM's error until then.

        velocity: of the plan; dcm: measured
        """
        spans, w = self.plan(t, velocity), self._omega
        if self.swinging is None or self.swing is None:
            return spans[0].start, planned_dcm(spans, w)
        place, (T, at, _), end = self._place(velocity), spans[0], planned_dcm(spans[1:], w)
        aims = at, dcm, end, place
        moved, beyond = self._landing(T, aims)
        soonest = self.swing.soonest(moved.four())
        if beyond > BEYOND and not self._points and soonest < T:  # the DCM's error is the smaller, the sooner the foot lands
            times = [soonest + k / SOONER * (T - soonest) for k in range(SOONER)]
            T = next((each for each in reversed(times) if self._landing(each, aims)[1] <= BEYOND), soonest)
            moved, self._lasts = self._landing(T, aims)[0], t - self._since + T
        self.swing.aim(moved.four(), t - self._since, T)
        grows = exp(w * T)
        planned = at + (end - at) / grows
        return at, planned + (complex(*self.swing.goal[:2]) - place.place) * self._kappa / grows

    def _landing(self, T: float, aims: tuple[complex, complex, complex, Pose]) -> tuple[Pose, float]:
        """Return where the foot in the air lands after a time [s], and by how much it had to land farther away [m].

        aims: centre of pressure until then, measured DCM, DCM that is planned for then, landing place for this [m]
        """
        assert self.swinging is not None
        (at, dcm, end, place), s, foot = aims, self._settings, self.swinging
        stands, grows = self.planted[1 - foot], exp(self._omega * T)
        turn = rect(1.0, stands.yaw)
        # e(T) = p + (ξ − p) e^{ωT} − ξ_end − δ (e^{ωT} − 1), δ: shift of the centre of pressure
        error, reach = turn.conjugate() * (at + (dcm - at) * grows - end), self._ankle * (grows - 1.0)
        shift = turn * complex(_beyond(error.real, reach.real), _beyond(error.imag, reach.imag)) / self._kappa
        wanted = place._replace(place=place.place + shift)
        moved = within_reach(wanted, stands, foot, self._width, s)
        return moved, abs(wanted.place - moved.place)


def _rest(start: complex, end: complex, lasts: float, elapsed: float) -> Span:
    """Return what is left of a movement of the centre of pressure."""
    share = min(max(elapsed / lasts, 0.0), 1.0)
    return Span((1.0 - share) * lasts, start + share * (end - start), end)


def _beyond(value: float, most: float) -> float:
    """Return the part of a value by which it is larger than `most`."""
    return value - min(max(value, -most), most)


def _middle(feet: list[Pose]) -> complex:
    return 0.5 * (feet[0].place + feet[1].place)
