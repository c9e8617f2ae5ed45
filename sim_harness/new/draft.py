"""A configuration drafted from a URDF or an MJCF: what the robot is, how it stands, and with which gains."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from controllers.robot.stance import standing
from idyn.errors import ConfigError, ModelError
from idyn.model.description import ContactPoint
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.new.holding import MOST, holding_pose, load
from sim_harness.new.limbs import Foot, feet_of
from sim_harness.new.pose import Pose, below_the_hips, fits, heights_of, known_angles, level, middle
from sim_harness.new.rotors import rotors_of
from sim_harness.new.source import Model, warnings_of
from sim_harness.new.toml import controller_section, experiment_section, fixed_section, header, robot_section

LEVEL = 0.02
"""Largest difference between the heights of the feet of a pose that is used as it is [m]."""


EXACT = 1e-5
"""Difference of these heights that needs no correction [m]."""

OWN = "simulated in idyn's own engine `lcp`"
"""Beginning of the sentence about a robot that MuJoCo refuses."""

SOLELESS = "two feet without soles do not stand still"
"""Beginning of the sentence about a biped that is fixed to the world."""

WEAK = "its motors cannot hold this pose"
"""Beginning of the sentence about a robot with too small torque limits."""

SHOWN = 4
"""Names of joints in one sentence."""


class Draft(NamedTuple):
    """A configuration in one file.

    text: TOML; found: what was found or guessed, and from where; legs: number of feet; walks: whether it has a gait;
    warnings: parts of the model that are ignored or doubtful, with their lines
    """

    text: str
    found: tuple[str, ...]
    legs: int
    walks: bool
    warnings: tuple[str, ...] = ()


def draft(model: Model, poses: Sequence[Pose] = (), *, stand: bool = False) -> Draft:
    """Return the draft for a robot. poses: that it may stand in, the best first; stand: without a gait

    Raises ModelError for a model that cannot be simulated, or that has no joint with a motor.
    """
    robot = model.robot()
    if not robot.na:
        raise ModelError(f"{model.path}: expected at least one joint with a motor, got none")
    if not robot.floating:
        return _fixed(model, robot, poses, "the model is fixed to the world")
    pose, q = _first_pose(robot, poses)
    feet = feet_of(robot, model.shapes(robot), q)
    if len(feet) > 2 or (len(feet) == 2 and all(foot.is_flat for foot in feet)):
        return _standing(model, robot.variant(contact=_places(feet)), feet, pose, q, stand=stand)
    why = SOLELESS if len(feet) == 2 else "less than two legs that reach the ground"
    if model.is_mjcf:
        raise ModelError(f"{model.path}: {why}, and the base has a free joint; remove it to fix the robot to the world")
    return _fixed(model, model.robot("fixed"), poses, f"{why}: fixed to the world")


def foot_list(feet: Sequence[Foot]) -> str:
    """Return the frames of feet and where their sizes come from."""
    sources: dict[str, list[str]] = {}
    for foot in feet:
        sources.setdefault(foot.source, []).append(foot.limb.frame)
    return "; ".join(f"{', '.join(frames)} ({source})" for source, frames in sources.items())


def _standing(model: Model, robot: Robot, feet: Sequence[Foot], pose: Pose | None, q: Array, *, stand: bool) -> Draft:
    """Return the draft of a robot that stands on its feet. robot: with their contact places; q: where they were looked for"""
    found = [f"{len(feet)} feet: {foot_list(feet)}"]
    if pose is None or _spread(robot, feet, standing(robot, pose.angles)) > LEVEL:
        pose = below_the_hips(robot, feet, q)
    if _spread(robot, feet, standing(robot, pose.angles)) > EXACT:
        pose = level(robot, feet, pose, standing(robot, pose.angles))
    height = _hip_height(robot, feet, standing(robot, pose.angles))
    found += [
        f"standing: {pose.source}",
        f"{robot.total_mass:.4g} kg, hips {height:.3g} m above the ground: gains from weight × height",
    ]
    armature, rotors = rotors_of(robot, standing(robot, pose.angles), robot.weight * height)
    refusal = mujoco_refusal(robot)
    found += [*rotors, *_unlimited(robot), *refusal]
    walks = len(feet) == 4 and not stand and all(len(foot.limb.joints) == 3 for foot in feet)
    sections = [
        robot_section(model.reference, feet, pose, armature),
        controller_section(robot.weight * height, height, walks),
        experiment_section(walks, mujoco=not refusal),
    ]
    return Draft(
        "\n".join([header(model.path.name, found), *sections]), tuple(found), len(feet), walks, tuple(warnings_of(model, robot))
    )


def _fixed(model: Model, robot: Robot, poses: Sequence[Pose], why: str) -> Draft:
    """Return the draft of a robot that is fixed to the world."""
    given = next((Pose(known_angles(robot, pose), pose.source) for pose in poses if fits(robot, pose)), None)
    pose = given or holding_pose(robot)
    share = load(robot, standing(robot, pose.angles))
    found = [f"{why}: {robot.na} joints, {robot.total_mass:.4g} kg", f"standing: {pose.source}", *_unlimited(robot)]
    if share > MOST:
        found.append(f"{WEAK}: {share:.2g} times the torque limit of a joint is needed")
    refusal = mujoco_refusal(robot)
    found += refusal
    sections = [fixed_section(model.reference, pose), experiment_section(walks=False, mujoco=not refusal)]
    return Draft(
        "\n".join([header(model.path.name, found), *sections]), tuple(found), 0, False, tuple(warnings_of(model, robot))
    )


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


def _places(feet: Sequence[Foot]) -> tuple[ContactPoint, ...]:
    return tuple(point for foot in feet for point in foot.points)


def _spread(robot: Robot, feet: Sequence[Foot], q: Array) -> float:
    """Return the difference between the heights of the contact places [m]."""
    return float(np.ptp(np.concatenate([heights_of(robot, foot, q) for foot in feet])))


def _hip_height(robot: Robot, feet: Sequence[Foot], q: Array) -> float:
    """Return the mean height of the first joints of the legs above the feet [m]."""
    placements = robot.terms(q, np.zeros(robot.nv)).placements
    return float(np.mean([placements[foot.limb.joints[0], 11] - heights_of(robot, foot, q).min() for foot in feet]))
