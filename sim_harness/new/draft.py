"""A configuration drafted from a URDF or an MJCF: what the robot is, how it stands, and with which gains."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from scipy.optimize import least_squares

from controllers.planners.two_legs.feet import Feet
from controllers.planners.two_legs.feet import feet_of as soles_of
from controllers.robot.kinematics import standing
from idyn.errors import ConfigError, ModelError
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.new.limbs import UP, Foot, feet_of, legs_with_other_axis_up, provisional_feet
from sim_harness.new.source import (
    COMPUTED,
    Model,
    Pose,
    apart,
    below_the_hips,
    fits,
    heights_of,
    known_angles,
    level,
    middle,
    rounded,
    steadiness,
    warnings_of,
)
from sim_harness.new.toml import (
    controller_section,
    estimator_section,
    experiment_section,
    fixed_section,
    header,
    robot_section,
    two_legs_section,
    way_on_two_legs,
)
from sim_harness.shapes import Shape, missing_text

EASY, MOST = 0.5, 0.95
"""Largest share of a motor's torque in a pose that is used as it is; share beyond which a motor does not hold a pose."""

NEAR = 0.02  # weight of the distance from the middle pose beside the share of the torques [1/rad]
STARTS = 16  # number of starts of the search


def holding_pose(robot: Robot) -> Pose:
    """Return the middle pose if its motors hold it easily; else one with small torques that is near to it."""
    first = middle(robot)
    q = standing(robot, first)
    if load(robot, q) <= EASY:
        return Pose(first, "zero, or inside the limits")
    base = robot.joint_angles(q)
    low, high = np.maximum(robot.limits.q_min, base - np.pi), np.minimum(robot.limits.q_max, base + np.pi)
    inside = 0.1 * (high - low)

    def error(angles: Array) -> Array:
        there = robot.with_joint_angles(q, angles)
        return np.concatenate([_shares(robot, there), NEAR * (angles - base)])

    rng = np.random.default_rng(0)
    starts = [np.clip(base, low + inside, high - inside), *(rng.uniform(low, high) for _ in range(STARTS))]
    solutions = [least_squares(error, start, bounds=(low - 1e-9, high + 1e-9)).x for start in starts]
    best = min(solutions, key=lambda angles: load(robot, robot.with_joint_angles(q, angles)))
    angles = rounded(robot, dict(zip(robot.joint_names, best.tolist(), strict=True)))
    return Pose(angles, "computed, with small motor torques")


def load(robot: Robot, q: Array) -> float:
    """Return the largest share of its torque that a motor needs to hold a configuration."""
    return float(np.abs(_shares(robot, q)).max(initial=0.0))


def _shares(robot: Robot, q: Array) -> Array:
    zero = np.zeros(robot.nv)
    shares: Array = robot.inverse_dynamics(q, zero, zero)[robot.tree.a] / robot.limits.tau_max
    return shares


LEVEL = 0.02  # largest difference between the heights of the feet of a pose that is used as it is [m]


EXACT = 1e-5  # difference of these heights that needs no correction [m]
OWN = "simulated in idyn's own engine `lcp`"  # beginning of the sentence about a robot that MuJoCo refuses
SOLELESS = "two feet without soles do not stand still"  # beginning of the sentence about a biped that is fixed to the world

NARROW = "its feet are so close together that it tips over when it is inclined"
"""Beginning of the sentence about a robot that is fixed to the world for this reason."""

STEADY = 0.06  # least steadiness of a computed pose to stand in. Humanoids have 0.1 or more
WEAK = "its motors cannot hold this pose"  # beginning of the sentence about a robot with too small torque limits
TURNED = "another axis of the base than z seems to point up"  # beginning of the sentence about a model that lies on its side
MANY = 4  # least number of feet that are looked for in other poses than the given one: arms have fewer ends
MOST_LIMBS = 8  # largest number of limbs that are tried hanging down: robots with hands have more, and the search takes long

BESIDE = 0.2
"""Distance of two feet that are one, as a share of the height of the hips: the halves of a leg that the URDF leaves open."""

JOINED = "Where the two are joined, close the chain by `[[robot.closure]]`"  # end of the sentence about such feet
SHOWN = 4  # names of joints in one sentence
STANDING = 4.0  # time for which a robot on two legs stands before and after its walk [s]
FREEDOMS = 6  # least number of joints of a leg whose foot can stand level below any pose of the trunk

MARGIN, SHARE = 0.01, 0.25
"""Margin of the centre of pressure from the edges of soles: at most [m], and as a share of half their width."""


SOLES, EDGES = 0.7, 0.43
"""Period of the steps of a robot whose hips are 0.75 m high, on soles and on feet without width, where only the next step
corrects a push to the side [s]."""

NARROWER = 0.37
"""Largest distance of feet without width to the side, as a share of the height of the hips: the farther they are apart, the
faster the robot falls to the side on one of them."""


class Draft(NamedTuple):
    """A configuration in one file."""

    text: str  # TOML
    found: tuple[str, ...]  # what was found or guessed, and from where
    legs: int  # number of feet
    walks: bool  # whether it has a gait;
    warnings: tuple[str, ...] = ()  # parts of the model that are ignored or doubtful, with their lines


def draft(model: Model, poses: Sequence[Pose] = (), *, stand: bool = False, fixed: bool = False) -> Draft:
    """Return the draft for a robot. poses: that it may stand in, the best first; stand: without a gait; fixed: to the world

    Raises ModelError for a model that cannot be simulated, that has no joint with a motor, or that has legs which are not
    understood: it is fixed to the world only on request.
    """
    if fixed:
        return _fixed(model, model.robot("fixed"), poses, "fixed to the world, as asked")
    try:
        robot = model.robot()
    except ModelError:
        if model.is_mjcf:
            raise
        robot = model.robot("fixed")  # raises if the defect is not that of the base
    if not robot.na:
        raise ModelError(f"{model.path}: expected at least one joint with a motor, got none")
    if not robot.floating:
        why = "the model is fixed to the world" if model.is_mjcf else "its base has no inertia of its own: fixed to the world"
        return _fixed(model, robot, poses, why)
    shapes, lost = model.shapes(robot)
    pose, q = _first_pose(robot, poses)
    feet = feet_of(robot, shapes, q)
    if pose is not None and not _stands(feet):  # a keyframe of a folded robot, say
        pose, q = _first_pose(robot, ())
        feet = feet_of(robot, shapes, q)
    turned = _turned(model, robot, shapes, q) if len(feet) <= 2 else []
    hints = [f"{missing_text(lost)}: feet are looked for in the other shapes"] if lost else []
    if pose is None and len(feet) < 2 and not turned:
        feet, q, beside = _hanging_feet(robot, shapes, feet, q)
        hints += beside
    if _stands(feet):
        own = robot.variant(contact=tuple(point for foot in feet for point in foot.points))
        pose = _on_level_feet(own, feet, pose, q)
        steady = steadiness(own, feet, standing(own, pose.angles))
        if steady >= STEADY or not pose.source.startswith(COMPUTED):
            return _standing(model, own, feet, pose, hints, stand=stand)
        why = f"{NARROW} by {np.arctan(max(steady, 0.0)):.2g} rad"
    else:
        why = SOLELESS if len(feet) == 2 else "less than two legs that reach the ground"
    if model.is_mjcf:
        raise ModelError(f"{model.path}: {why}, and the base has a free joint; remove it to fix the robot to the world")
    if len(feet) == 2 or turned or lost:
        raise ModelError("; ".join([f"{model.path}: {why}", *hints, *turned, "--fixed fixes the robot to the world"]))
    return _fixed(model, model.robot("fixed"), poses, f"{why}: fixed to the world")


def _edge(robot: Robot, foot: Foot, q: Array) -> Foot:
    """Return a foot without width, as of a leg of five joints, which do not roll it: as far from the ankle as its motor bears
    the weight."""
    pose, ankle = robot.frames.placement(foot.limb.frame, q), foot.limb.joints[-1]
    below = float(((robot.place(q)[1][ankle] - pose.translation) @ pose.rotation)[0])
    most = float(robot.limits.tau_max[robot.tree.dof_joint[robot.tree.a] == ankle].min()) / robot.weight
    places = np.array([point.offset for point in foot.points])
    middle = places.mean(axis=0)
    ends = min(places[:, 0].max(), below + most), max(places[:, 0].min(), below - most)
    edge = [tuple(np.round([x, *middle[1:]], 4).tolist()) for x in ends]
    return foot._replace(places=tuple(replace(foot.points[0], offset=end, name="") for end in edge))


def _stands(feet: Sequence[Foot]) -> bool:
    return len(feet) > 2 or (len(feet) == 2 and all(foot.is_flat for foot in feet))


def _turned(model: Model, robot: Robot, shapes: Sequence[Shape], q: Array) -> list[str]:
    """Return a sentence about a model that stands on four feet or more with another axis than z upwards; [] for any other."""
    if model.is_mjcf:
        return []
    axis, legs = legs_with_other_axis_up(robot, shapes, q)
    if legs < MANY:
        return []
    root = (
        f'a root link, and a fixed joint with rpy="{" ".join(f"{angle:.5g}" for angle in UP[axis])}" from it to the present one'
    )
    return [f"{TURNED}: {axis}. {legs} feet reach the ground then; add {root}"]


def _hanging_feet(robot: Robot, shapes: Sequence[Shape], feet: list[Foot], q: Array) -> tuple[list[Foot], Array, list[str]]:
    """Return the feet of a robot whose limbs lie flat or point up at q, the configuration with the limbs hanging down, and a
    sentence about feet that are left out; what was given if there are fewer than four feet."""
    limbs = provisional_feet(robot, shapes, q)
    if not MANY <= len(limbs) <= MOST_LIMBS:
        return feet, q, []
    hanging = standing(robot, below_the_hips(robot, limbs, q).angles)
    found = feet_of(robot, shapes, hanging)
    own, beside = apart(robot, found, hanging, BESIDE * _hip_height(robot, found, hanging)) if found else ([], [])
    if len(own) < MANY:
        return feet, q, []
    names = ", ".join(foot.limb.frame for foot in beside)
    return own, hanging, [f"without contact, because another foot is beside them: {names}. {JOINED}"] if beside else []


def foot_list(feet: Sequence[Foot]) -> str:
    """Return the frames of feet and where their sizes come from."""
    sources: dict[str, list[str]] = {}
    for foot in feet:
        sources.setdefault(foot.source, []).append(foot.limb.frame)
    return "; ".join(f"{', '.join(frames)} ({source})" for source, frames in sources.items())


def _on_level_feet(robot: Robot, feet: Sequence[Foot], pose: Pose | None, q: Array) -> Pose:
    """Return the pose with the feet at one height, or one with the feet below the hips. q: where the feet were found"""
    if pose is None or _spread(robot, feet, standing(robot, pose.angles)) > LEVEL:
        pose = below_the_hips(robot, feet, q)
    if _spread(robot, feet, standing(robot, pose.angles)) > EXACT:
        pose = level(robot, feet, pose, standing(robot, pose.angles))
    return pose


def _standing(model: Model, robot: Robot, feet: Sequence[Foot], pose: Pose, hints: Sequence[str], *, stand: bool) -> Draft:
    if len(feet) == 2 and all(len(foot.limb.joints) == FREEDOMS - 1 for foot in feet):
        feet = [_edge(robot, foot, standing(robot, pose.angles)) for foot in feet]
        robot = robot.variant(contact=tuple(point for foot in feet for point in foot.points))
    found = [f"{len(feet)} feet: {foot_list(feet)}", *hints]
    height = _hip_height(robot, feet, standing(robot, pose.angles))
    found += [
        f"standing: {pose.source}",
        f"{robot.total_mass:.4g} kg, hips {height:.3g} m above the ground: gains from weight × height",
    ]
    refusal = mujoco_refusal(robot)
    found += [*_unlimited(robot), *refusal]
    motors, sensing, imu = model.interface(robot, standing(robot, pose.angles))
    own, walks = _controlled(
        robot, feet, pose, height, stand=stand, mujoco=not refusal, slow=bool(sensing if len(feet) > 2 else motors)
    )
    if sensing:
        own.insert(1, estimator_section(sensing))
        if robot.frames.attached(imu).joint > 1:
            found.append(f"the IMU is on {imu}, whose joints must keep the angles of `standing`")
    text = "\n".join([header(model.path.name, found), robot_section(model.reference, feet, pose, motors), *own])
    return Draft(text, tuple(found), len(feet), walks, tuple(warnings_of(model, robot)))


def _controlled(
    robot: Robot, feet: Sequence[Foot], pose: Pose, height: float, *, stand: bool, mujoco: bool, slow: bool
) -> tuple[list[str], bool]:
    """Return the sections of controller and experiment, and whether the robot walks. height: of the hips [m]; slow: see
    `two_legs_section`"""
    stiffness = robot.weight * height
    least = min(len(foot.limb.joints) for foot in feet)
    if len(feet) == 2 and least >= FREEDOMS - 1:
        margin, period, width = _steps(robot, standing(robot, pose.angles), height)
        own = two_legs_section(stiffness, height, margin, period=period, width=width, walks=not stand, slow=slow)
        duration = 10.0 if stand else way_on_two_legs(height)[1] + STANDING
        return [own, experiment_section(mujoco=mujoco, switches=True, duration=duration)], not stand
    walks = not stand and len(feet) == 4 and all(len(foot.limb.joints) == 3 for foot in feet)
    own = controller_section(stiffness, height, walks=walks, slow=slow)
    return [own, experiment_section(mujoco=mujoco, switches=True)], walks


def _steps(robot: Robot, q: Array, height: float) -> tuple[float, float, float]:
    """Return the margin of the centre of pressure [m], the period of a step [s], and the distance of the feet to the side [m],
    0: that of the stance.

    height: of the hips [m]
    """
    soles, terms = soles_of(robot, q), robot.terms(q, np.zeros(robot.nv))
    margin = min(MARGIN, SHARE * min(each for sole in soles for each in sole.half if each > 0.0))
    edges = any(sole.edge for sole in soles)
    period = (EDGES if edges else SOLES) * float(np.sqrt(height / 0.75))
    left, right = Feet(robot, soles).measured(terms.placements)
    narrower = edges and left[1] - right[1] > NARROWER * height
    return margin, period, NARROWER * height if narrower else 0.0


def _fixed(model: Model, robot: Robot, poses: Sequence[Pose], why: str) -> Draft:
    """Return the draft of a robot that is fixed to the world. why: it is"""
    given = next((Pose(known_angles(robot, pose), pose.source) for pose in poses if fits(robot, pose)), None)
    pose = given or holding_pose(robot)
    share = load(robot, standing(robot, pose.angles))
    found = [f"{why}: {robot.na} joints, {robot.total_mass:.4g} kg", f"standing: {pose.source}", *_unlimited(robot)]
    if share > MOST:
        found.append(f"{WEAK}: {share:.2g} times the torque limit of a joint is needed")
    refusal = mujoco_refusal(robot)
    found += refusal
    sections = [fixed_section(model.reference, pose), experiment_section(mujoco=not refusal)]
    text = "\n".join([header(model.path.name, found), *sections])
    return Draft(text, tuple(found), 0, False, tuple(warnings_of(model, robot)))


def mujoco_refusal(robot: Robot) -> list[str]:
    """Return a sentence with MuJoCo's reason if it refuses the robot; [] otherwise, also where MuJoCo is not installed."""
    if find_spec("mujoco") is None:
        return []
    try:
        import_module("sim_harness.mujoco.robot_model").build_model(robot, MujocoSettings())
    except ConfigError as error:
        return [f"{OWN}, because {error.message}"]
    return []


def _unlimited(robot: Robot) -> list[str]:
    """Return a sentence about the joints without a torque limit; [] if all have one."""
    names = [name for name, most in zip(robot.joint_names, robot.limits.tau_max, strict=True) if not np.isfinite(most)]
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return [f"no torque limit in the model: {shown}"] if names else []


def _first_pose(robot: Robot, poses: Sequence[Pose]) -> tuple[Pose | None, Array]:
    """Return the first of the poses that fits, or None, and the configuration in which feet are looked for."""
    for pose in poses:
        if fits(robot, pose):
            own = Pose(known_angles(robot, pose), pose.source)
            return own, standing(robot, own.angles)
    return None, standing(robot, middle(robot))


def _spread(robot: Robot, feet: Sequence[Foot], q: Array) -> float:
    return float(np.ptp(np.concatenate([heights_of(robot, foot, q) for foot in feet])))


def _hip_height(robot: Robot, feet: Sequence[Foot], q: Array) -> float:
    """Return the mean height of the first joints of the legs above the feet [m]."""
    placements = robot.terms(q, np.zeros(robot.nv)).placements
    return float(np.mean([placements[foot.limb.joints[0], 11] - heights_of(robot, foot, q).min() for foot in feet]))
