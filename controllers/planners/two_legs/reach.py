"""Which velocities a gait of two legs follows: those whose steps keep a reserve to their bounds."""

import numpy as np

from controllers.planners.two_legs.feet import Foot, Pose
from controllers.planners.two_legs.steps import SIDES, Steps, Velocity, next_step
from idyn.library.kernels import compiled
from idyn.model.robot import Robot
from idyn.types import Array

RESERVE = 0.9
"""Share of the bounds of a step that a velocity may use. At the longest step g1 falls, as nothing is left for balance."""

SHARPEST = 1.0  # largest turn of a step, of legs whose joints permit more [rad]
UPRIGHT = 0.7  # least vertical part of the axis of a joint that turns a foot
HALVINGS = 30  # of the interval in which the largest share of a velocity lies


def sharpest_turn(robot: Robot, stance: Array, feet: tuple[Foot, Foot]) -> float:
    """Return the largest turn of a step [rad]: one foot turns by half of it to the inside while the other does to the outside.

    stance: level configuration (nq)
    Joints below the fork of the legs count. Soles turn by these alone, point feet also on their points.
    """
    tree, angles = robot.tree, robot.joint_angles(stance)
    upright = np.abs(robot.terms(stance, np.zeros(robot.nv)).axes[tree.a, 5]) > UPRIGHT
    left = np.minimum(robot.limits.q_max - angles, angles - robot.limits.q_min)  # of the range of each joint, on either side
    legs = [tree.support[robot.frames.attached(foot.frame).joint, tree.a] for foot in feet]
    of_one = upright & (legs[0] != legs[1])
    turns = [2.0 * float(left[of_one & leg].sum()) for leg, foot in zip(legs, feet, strict=True) if foot.flat]
    return max(min([SHARPEST, *turns]), 0.0)


@compiled
def followed(steps: Steps, wanted: Velocity) -> Velocity:
    """Return the velocity that is followed instead of a wanted one: the same if its steps keep the reserve; else the turn is
    limited first, then the largest share of all is taken that keeps it."""
    most = RESERVE * steps.sharpest / steps.period
    plane, turn, share, beyond = wanted.plane, min(max(wanted.turn, -most), most), 1.0, 1.0
    if not keeps_reserve(steps, Velocity(plane, turn)):
        share = 0.0
        for _ in range(HALVINGS):
            middle = 0.5 * (share + beyond)
            if keeps_reserve(steps, Velocity(plane * middle, turn * middle)):
                share = middle
            else:
                beyond = middle
    return Velocity(plane * share, turn * share)


@compiled
def keeps_reserve(steps: Steps, velocity: Velocity) -> bool:
    """Return whether the feet of a velocity land within the share `RESERVE` of their bounds ahead and to the side."""
    keeps, rounding = True, 1e-12
    for foot in range(2):
        place = next_step(Pose(0j, 0.0, 0.0, 0.0), foot, velocity, steps.width, steps.period).place
        more = SIDES[foot] * place.imag - steps.width
        keeps = keeps and abs(place.real) <= RESERVE * steps.longest + rounding
        keeps = keeps and more <= RESERVE * (steps.widest - steps.width) + rounding
        keeps = keeps and -more <= RESERVE * (steps.width - steps.narrowest) + rounding
    return keeps
