"""Swing of the arms against the angular momentum of the legs about the vertical."""

import numpy as np

from controllers.planners.two_legs.beside import legs_of
from controllers.planners.two_legs.feet import Foot
from idyn.model.robot import Robot
from idyn.types import Array

SIDEWAYS = 0.7  # least part to the side of the axis of a joint that swings an arm
MOST = 0.6  # largest angle of a swing, at the longest step [rad]
BESIDE = 0.25  # least distance of such a joint from the middle, as a share of that of the feet
LEAST = 0.1  # least share of the momentum of the legs that a swing of this size cancels, else the joint is not used


def arm_swing(robot: Robot, stance: Array, feet: tuple[Foot, Foot], longest: float) -> Array:
    """Return the angle of each actuated joint per distance of the left foot ahead of the right one [rad/m] (na).

    stance: level configuration with heading 0 (nq); longest: distance of the feet ahead of each other [m]
    Of the joints above the legs on either side of the robot, with an axis to the side, that one swings which moves most angular
    momentum L_z = A q̇. The smallest q̇ that cancels the L_z of the legs is theirs: q̇ = −c ḋ Aᵀ/(A Aᵀ), where the legs below a
    base at rest have L_z = c ḋ.
    """
    tree, still, limits, angles = robot.tree, np.zeros(robot.nv), robot.limits, robot.joint_angles(stance)
    momentum, of_legs = robot.frames.centroidal(stance, still).matrix[5], 0.0
    for sign, foot in zip((0.5, -0.5), feet, strict=True):
        moves = tree.a[tree.support[robot.frames.attached(foot.frame).joint, tree.a]]
        forward = np.linalg.lstsq(robot.frames.jacobian(foot.frame, stance)[:, moves], np.eye(6)[0], rcond=1e-3)[0]
        of_legs += sign * float(momentum[moves] @ forward)
    terms = robot.terms(stance, still)
    left = terms.placements[tree.dof_joint[tree.a], 10]  # how far each joint is to the left [m]
    apart = BESIDE * abs(robot.frames.placement(feet[0].frame, stance).translation[1])
    swings = ~legs_of(robot, stance) & (np.abs(terms.axes[tree.a, 4]) > SIDEWAYS)
    of_joints, rates = np.where(swings, momentum[tree.a], 0.0), np.zeros(robot.na)
    sides = [np.abs(of_joints) * side for side in (left > apart, left < -apart)]
    used = [int(sizes.argmax()) for sizes in sides if sizes.max() * MOST > LEAST * abs(of_legs) * longest]
    if used:
        rates[used] = -of_legs * of_joints[used] / float(of_joints[used] @ of_joints[used])
    room = np.minimum(MOST, np.minimum(limits.q_max - angles, angles - limits.q_min))[used]
    return rates * float((room / np.maximum(longest * np.abs(rates[used]), room)).min(initial=1.0))
