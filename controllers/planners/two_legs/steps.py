"""When which foot stands, and where the centre of pressure moves: standing → (command) →
double support → single support → double support → … → (no command, feet abreast) → standing"""

from math import exp
from typing import NamedTuple

import numpy as np

from controllers.planners.two_legs.feet import Pose, along, heading, point, pose_of, put, put_pose
from controllers.planners.two_legs.settings import StepSettings
from controllers.planners.two_legs.swing import SETTLED, Spans, Swing, aim, lift, move, planned_dcm, soonest
from idyn.library.kernels import compiled, stack_array
from idyn.library.records import ArrayRecord, Matrix, Vector
from idyn.solvers.linalg import copy_rows
from idyn.types import Array

SIDES = (1.0, -1.0)  # direction to the side of the left and of the right foot


class Velocity(NamedTuple):
    """Velocity of the robot: forward + i left [m/s], turn [rad/s]."""

    plane: complex
    turn: float


NONE = -1  # instead of a foot, 0: left, 1: right

PREVIEW = 3  # number of planned steps. Errors of the DCM at the end of the plan shrink by e^{ωT} ≈ 10 with each
PARTS = 3 + 2 * PREVIEW + 1  # largest number of parts of a plan
FIRST = 0.6  # double support before the first step and after the last one [s]; before the first one on point feet a period
SHIFT = 0.04  # speed at which the centre of pressure of a robot that begins to stand moves to the middle [m/s]
ABREAST = 0.03  # feet that are nearer to their places beside each other than this stand still [m, rad]
LEARNING = 0.1  # share of the difference of a step of a foot without width from the planned one that changes the plan
BEYOND, SOONER = 1e-3, 8  # distance beyond reach from which a foot lands sooner [m]; number of times that are tried
AHEAD = 1e-9  # distance to the side below which the DCM leaves the soles ahead or behind: then the left foot steps [m]
SETTLES, LATEST = 0.01, 1.2
"""A robot that stops stands on both feet until its DCM is as near to the plan as this [m], at most for this time [s]: the error
grows by e^{ωT} ≈ 8 until the foot lands."""
HURRY = 0.1  # double support before a step that catches the robot [s]
EARLY = 0.6  # share of the swing after which a foot that touches has landed


class Steps(ArrayRecord):
    """State of the gait, and what it does not change."""

    measured: Matrix  # where the feet are (2, 5)
    planted: Matrix  # where they stand, or stood last; the heading is the planned one (2, 5)
    swing: Swing  # path of the foot in the air
    swinging: int  # this foot, `NONE` in double support
    coming: int  # foot of the next swing
    standing: bool
    stops: bool  # whether the next step is to be the last one
    caught: bool  # whether the step is to catch a robot that stood: its foot lands as soon as it can, see `reference`
    error: float  # distance of the DCM from the planned one at the last tick [m]
    since: float  # begin and duration of the phase [s]
    lasts: float
    origin: Vector  # where the centre of pressure was then [m] (2)
    correction: Vector  # of the velocity of the plan, so that steps without width are on average as long as commanded [m/s] (2)
    outside: float  # how far outside its line an edge presses, since it leans to this side with its leg [m]
    # settings, see `StepSettings`
    period: float
    double: float  # double support [s]
    single: float
    height: float
    width: float
    longest: float
    narrowest: float
    widest: float
    sharpest: float  # largest turn, see `sharpest_turn` [rad]
    omega: float  # √(g/h) [1/s]
    kappa: float
    ankle: Vector  # half sizes of the part of a sole on which the centre of pressure corrects the motion alone [m] (2)
    stands: bool  # whether the robot can stand still
    points: bool  # only the landing places correct the motion
    narrow: bool  # and that to the side

    def __init__(
        self, settings: StepSettings, width: float, sharpest: float, omega: float, stands: bool, ankle: complex
    ) -> None:
        """Arguments: see the fields"""
        s, double = settings, settings.double_support * settings.period
        self.put(measured=np.zeros((2, 5)), planted=np.zeros((2, 5)), swing=Swing(), origin=np.zeros(2), correction=np.zeros(2))
        self.put(period=s.period, double=double, single=(1.0 - s.double_support) * s.period, height=s.height, width=width)
        self.put(longest=s.longest, narrowest=s.narrowest * width, widest=s.widest * width, omega=omega, stands=stands)
        self.put(sharpest=sharpest)
        # a step that lands farther by s moves ξ by κ s, κ = (1 − e^{−ωD}) / ωD, D: double support
        self.put(kappa=(1.0 - exp(-omega * double)) / (omega * double), points=not ankle, narrow=not ankle.imag)
        self.put(ankle=np.array([ankle.real, ankle.imag]), swinging=NONE)


@compiled
def next_step(stands: Pose, foot: int, velocity: Velocity, width: float, period: float) -> Pose:
    """Return where a foot lands beside the standing one so that the robot moves at a velocity.

    stands: the standing foot; foot: that swings, 0: left, 1: right
    width: distance of the feet to the side [m]; period: of a step [s]
    """
    yaw, half = stands.yaw + velocity.turn * period, complex(0.0, 0.5 * SIDES[foot] * width)
    # the feet are beside the middle of the robot, which turns by half between the two steps
    step = heading(stands.yaw) * half + heading(yaw) * (velocity.plane * period + half)
    return Pose(stands.place + step, stands.height - stands.above, yaw, 0.0)


@compiled
def within_reach(steps: Steps, place: complex, stands: Pose, foot: int) -> complex:
    """Return a landing place, moved to where the foot reaches it and the legs do not cross."""
    turn, side = heading(stands.yaw), SIDES[foot]
    way = along(turn, place - stands.place)
    aside = min(max(side * way.imag, steps.narrowest), steps.widest)
    ahead = min(max(way.real, -steps.longest), steps.longest)
    return stands.place + turn * complex(ahead, side * aside)


@compiled
def abreast(left: Pose, right: Pose, width: float) -> float:
    """Return how far the feet are from standing beside each other at a distance `width`: the larger of the distance [m] and
    the angle [rad]."""
    place = next_step(right, 0, Velocity(0j, 0.0), width, 0.0)
    return max(abs(left.place - place.place), abs(left.yaw - right.yaw))


@compiled
def middle(feet: Array) -> complex:
    """Return the middle of the feet [m]. feet: (2, 5)"""
    return 0.5 * (point(feet[0]) + point(feet[1]))


@compiled
def stand(steps: Steps, start: complex) -> None:
    """Stand where the feet are. start: where the centre of pressure begins to move to their middle [m]"""
    copy_rows(steps.measured, steps.planted)
    steps.coming, steps.outside, steps.stops, steps.caught = 0, 0.0, False, False
    put(0j, steps.correction)
    _begin(steps, 0.0, max(FIRST, abs(middle(steps.planted) - start) / SHIFT), start)
    steps.standing = True


@compiled
def _begin(steps: Steps, t: float, lasts: float, start: complex) -> None:
    """Begin a double support, in which the centre of pressure moves from `start` to the foot that stands next."""
    steps.standing, steps.swinging, steps.since, steps.lasts = False, NONE, t, lasts
    put(start, steps.origin)


@compiled
def advance(steps: Steps, t: float, velocity: Velocity, lands: bool, outside: complex) -> None:
    """Begin the next phase if it is time.

    velocity: commanded; lands: whether the foot in the air touches the ground
    outside: by how much the DCM of a robot on both feet is off its soles [m]; only a step can stop it
    """
    elapsed = t - steps.since
    wanted = velocity.plane != 0j or velocity.turn != 0.0 or not steps.stands
    if steps.standing:
        if outside != 0j:
            steps.coming = 0 if along(heading(steps.planted[0, 3]), outside).imag >= -AHEAD else 1
            steps.stops, steps.caught = False, True
            _begin(steps, t, HURRY, middle(steps.planted))
        elif wanted:
            steps.coming = 0 if velocity.plane.imag + 0.1 * velocity.turn >= 0.0 else 1
            steps.stops = False
            _begin(steps, t, steps.period if steps.points else FIRST, middle(steps.planted))
    elif steps.swinging != NONE:
        if elapsed >= steps.lasts or (lands and elapsed > EARLY * steps.lasts):
            if steps.narrow:
                _learn(steps, velocity)
            _land(steps, t, wanted)
    elif elapsed >= steps.lasts:
        waits = steps.stops and not wanted and outside == 0j and steps.error > SETTLES and elapsed < LATEST
        if not waits:
            _lift(steps, t, velocity)
    if steps.swinging != NONE:
        move(steps.swing, t - steps.since)


@compiled
def _lift(steps: Steps, t: float, velocity: Velocity) -> None:
    """Begin a swing."""
    for side in range(2):
        yaw = steps.planted[side, 3]
        for k in range(5):
            steps.planted[side, k] = yaw if k == 3 else steps.measured[side, k]
    goal, foot = stack_array(5), steps.coming
    put_pose(_place(steps, velocity), goal)
    steps.swinging, steps.since, steps.lasts = foot, t, steps.single
    lift(steps.swing, steps.planted[foot, :4], goal[:4], steps.single, steps.height)


@compiled
def _land(steps: Steps, t: float, wanted: bool) -> None:
    """End a swing."""
    foot = steps.swinging
    start = _pressed(steps, pose_of(steps.planted[1 - foot]), 1 - foot)
    for k in range(5):
        steps.planted[foot, k] = steps.swing.goal[3] if k == 3 else steps.measured[foot, k]
    steps.coming = 1 - foot
    early = max(steps.lasts - (t - steps.since), 0.0)
    keeps = steps.points or (steps.narrow and early <= SETTLED)  # else the next phase begins now
    _begin(steps, t + (early if keeps else 0.0), steps.double, start)
    left, right = pose_of(steps.planted[0]), pose_of(steps.planted[1])
    # without width the feet stand still at any distance to the side
    apart = along(heading(right.yaw), left.place - right.place).imag if steps.narrow else steps.width
    if not wanted and steps.stops and abreast(left, right, apart) < ABREAST:
        steps.standing, steps.lasts = True, FIRST
    steps.stops, steps.caught = not wanted, False


@compiled
def _learn(steps: Steps, velocity: Velocity) -> None:
    """Correct the velocity of the plan by a share of what the step that ends differs from the commanded one."""
    place = _place(steps, velocity)
    moved = along(heading(place.yaw), point(steps.swing.goal) - place.place)
    put(point(steps.correction) - LEARNING * moved * (1.0 / steps.period), steps.correction)
    if not steps.points:  # a centre of pressure farther out by δ makes steps wider by δ (e^{ωT} − 1) / κ
        steps.outside += LEARNING * SIDES[steps.coming] * moved.imag * steps.kappa / (exp(steps.omega * steps.single) - 1.0)


@compiled
def _place(steps: Steps, velocity: Velocity) -> Pose:
    """Return where the next foot lands without correction."""
    stands = pose_of(steps.planted[1 - steps.coming])
    place = next_step(stands, steps.coming, velocity, steps.width, steps.period)
    return Pose(within_reach(steps, place.place, stands, steps.coming), place.height, place.yaw, 0.0)


@compiled
def _pressed(steps: Steps, stands: Pose, foot: int) -> complex:
    """Return where the centre of pressure of a foot that carries alone is [m]."""
    return stands.place + heading(stands.yaw) * complex(0.0, SIDES[foot] * steps.outside)


@compiled
def fill_plan(steps: Steps, t: float, velocity: Velocity, spans: Spans) -> int:
    """Fill the motion of the centre of pressure from now on, with landing places that are not corrected. Return the number of
    its parts."""
    elapsed, foot, from_here = t - steps.since, steps.coming, point(steps.origin)
    share = min(max(elapsed / steps.lasts, 0.0), 1.0)
    if steps.standing:
        end = middle(steps.planted)
        return _add(spans, 0, (1.0 - share) * steps.lasts, from_here + share * (end - from_here), end)
    feet = stack_array((2, 5))
    copy_rows(steps.planted, feet)
    at, count = _pressed(steps, pose_of(feet[1 - foot]), 1 - foot), 0
    if steps.swinging == NONE:
        if elapsed < 0.0:  # the foot has landed early
            count = _add(spans, count, -elapsed, from_here, from_here)
        count = _add(spans, count, (1.0 - share) * steps.lasts, from_here + share * (at - from_here), at)
        count = _add(spans, count, steps.single, at, at)
    else:
        count = _add(spans, count, max(steps.lasts - elapsed, 0.0), at, at)
    put_pose(_place(steps, velocity), feet[foot])
    for _ in range(PREVIEW):
        if steps.stops and not steps.narrow and abreast(pose_of(feet[0]), pose_of(feet[1]), steps.width) < ABREAST:
            return _add(spans, count, FIRST, at, middle(feet))
        stands, before = pose_of(feet[foot]), at
        at, foot = _pressed(steps, stands, foot), 1 - foot
        count = _add(spans, count, steps.double, before, at)
        count = _add(spans, count, steps.single, at, at)
        put_pose(next_step(stands, foot, velocity, steps.width, steps.period), feet[foot])
    return _add(spans, count, steps.double, at, middle(feet))


@compiled
def _add(spans: Spans, count: int, lasts: float, start: complex, end: complex) -> int:
    """Append a part to a plan of `count` parts, return their new number."""
    spans.durations[count], spans.starts[count], spans.ends[count] = lasts, start, end
    return count + 1


@compiled
def reference(steps: Steps, t: float, velocity: Velocity, dcm: complex) -> tuple[complex, complex]:
    """Return the planned centre of pressure and the planned DCM [m], after moving the landing place of the foot in the air by
    what the ankle cannot correct of the DCM's error until then. The DCM's error is the smaller, the sooner the foot lands: a
    step that cannot reach far enough is shortened, one that catches the robot, which falls to the side meanwhile, always.

    velocity: of the plan; dcm: measured
    """
    spans = Spans(stack_array(PARTS), stack_array(PARTS, np.complex128), stack_array(PARTS, np.complex128))
    count, w, foot = fill_plan(steps, t, velocity, spans), steps.omega, steps.swinging
    if foot == NONE:
        planned = planned_dcm(spans, 0, count, w)
        waits = t - steps.since > steps.lasts and not steps.standing  # p = ξ_ref: ξ_ref is at rest, its error falls by e^{−kt}
        return planned if waits else spans.starts[0], planned
    place, T, at, end = _place(steps, velocity), spans.durations[0], spans.starts[0], planned_dcm(spans, 1, count, w)
    aims = at, dcm, end, place.place
    moved, beyond = _landing(steps, T, aims)
    least = soonest(steps.swing, moved)
    if (steps.caught or beyond > BEYOND) and not steps.points and least < T:
        longest, T = T, least
        for k in range(0 if steps.caught else SOONER - 1, -1, -1):
            each = least + k / SOONER * (longest - least)
            if _landing(steps, each, aims)[1] <= BEYOND:
                T = each
                break
        moved, steps.lasts = _landing(steps, T, aims)[0], t - steps.since + T
    goal = stack_array(5)
    put_pose(Pose(moved, place.height, place.yaw, 0.0), goal)
    aim(steps.swing, goal[:4], t - steps.since, T)
    grows = exp(w * T)
    planned = at + (end - at) * (1.0 / grows)
    return at, planned + (point(steps.swing.goal) - place.place) * (steps.kappa / grows)


@compiled
def _landing(steps: Steps, T: float, aims: tuple[complex, complex, complex, complex]) -> tuple[complex, float]:
    """Return where the foot in the air lands after a time [s], and by how much it had to land farther away [m].

    aims: centre of pressure until then, measured DCM, DCM that is planned for then, landing place for this [m]
    """
    (at, dcm, end, place), foot = aims, steps.swinging
    stands, grows = pose_of(steps.planted[1 - foot]), exp(steps.omega * T)
    turn, reach = heading(stands.yaw), (grows - 1.0)
    # e(T) = p + (ξ − p) e^{ωT} − ξ_end − δ (e^{ωT} − 1), δ: shift of the centre of pressure
    error = along(turn, at + (dcm - at) * grows - end)
    ahead, aside = _beyond(error.real, reach * steps.ankle[0]), _beyond(error.imag, reach * steps.ankle[1])
    wanted = place + turn * complex(ahead, aside) * (1.0 / steps.kappa)
    moved = within_reach(steps, wanted, stands, foot)
    return moved, abs(wanted - moved)


@compiled
def _beyond(value: float, most: float) -> float:
    """Return the part of a value by which it is larger than `most`."""
    return value - min(max(value, -most), most)
