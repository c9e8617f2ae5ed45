"""A standing pose: from an SRDF file beside the URDF, or computed with the feet below the hips."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
from scipy.optimize import least_squares

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.new.limbs import Foot

PREFERRED = ("standing", "stand", "stance", "half_sitting", "home", "initial", "nominal", "reference")
"""Names of poses in SRDF files, the best first."""

REACH = 0.8
"""Height of a hip above its foot, as a share of the length of the leg."""

STARTS = 24
"""Number of starts of the search for the angles of a leg."""


class Pose(NamedTuple):
    """Joint angles by name [rad]. source: where they come from"""

    angles: dict[str, float]
    source: str


def srdf_poses(urdf: Path) -> Iterator[Pose]:
    """Yield the poses of SRDF files beside the URDF or in a folder `srdf` beside its folder, the best names first."""
    found = []
    for folder in (urdf.parent, urdf.parent / "srdf", urdf.parent.parent / "srdf"):
        for path in sorted(folder.glob("*.srdf"), key=lambda path: path.stem != urdf.stem):
            found += _states(path)
    order = {name: k for k, name in enumerate(PREFERRED)}
    known = [(order[name], pose) for name, pose in found if name in order]
    yield from (pose for _, pose in sorted(known, key=lambda each: each[0]))


def _states(path: Path) -> list[tuple[str, Pose]]:
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError:
        return []
    states = []
    for state in root.iter("group_state"):
        angles = {}
        for joint in state.iter("joint"):
            values = joint.get("value", "").split()
            if len(values) == 1:
                angles[joint.get("name", "")] = float(values[0])
        name = state.get("name", "")
        states.append((name, Pose(angles, f"pose '{name}' of {path.name}")))
    return states


def fits(robot: Robot, pose: Pose) -> bool:
    """Return whether all joints of a pose that the robot has are within their limits, and it has one of them."""
    limits, known = robot.limits, [name for name in pose.angles if name in robot.joint_names]
    rows = [robot.joint_names.index(name) for name in known]
    angles = np.array([pose.angles[name] for name in known])
    return bool(rows) and bool((angles >= limits.q_min[rows] - 1e-9).all() and (angles <= limits.q_max[rows] + 1e-9).all())


def known_angles(robot: Robot, pose: Pose) -> dict[str, float]:
    """Return the angles of the robot's own joints that are not zero."""
    return {name: angle for name, angle in pose.angles.items() if name in robot.joint_names and angle != 0.0}


def middle(robot: Robot) -> dict[str, float]:
    """Return angles of all joints: zero, or the nearest angle within the limits, a tenth of the range inside them."""
    angles = {}
    for k, name in enumerate(robot.joint_names):
        low, high = robot.limits.q_min[k], robot.limits.q_max[k]
        inside = 0.1 * (high - low) if np.isfinite(high - low) else 0.0
        angle = float(np.clip(0.0, low + inside, high - inside))
        if not low <= 0.0 <= high:
            angles[name] = round(angle, 3)
    return angles


def below_the_hips(robot: Robot, feet: Sequence[Foot], q: Array) -> Pose:
    """Return a pose with each foot below its first joint that differs from q as little as possible."""
    angles = middle(robot)
    heights = [REACH * _length(robot, foot, q) for foot in feet]
    height = min(heights)
    for foot in feet:
        angles |= _leg(robot, foot, q, height)
    return Pose({name: round(angle, 3) for name, angle in angles.items()}, "computed, with the feet below the hips")


def level(robot: Robot, feet: Sequence[Foot], pose: Pose, q: Array) -> Pose:
    """Return the pose with the joints of legs changed as little as possible, so that all contact places are at one height.
    q: its configuration"""
    joints = {joint for foot in feet for joint in foot.limb.joints}
    rows = [k for k, dof in enumerate(robot.tree.a.tolist()) if robot.tree.dof_joint[dof] in joints]

    def error(change: Array) -> Array:
        step = np.zeros(robot.nv)
        step[robot.tree.a[rows]] = change
        there = robot.integrate(q, step)
        heights = np.concatenate([heights_of(robot, foot, there) for foot in feet])
        return np.concatenate([1e3 * (heights - heights.mean()), 1e-3 * change])

    change = least_squares(error, np.zeros(len(rows))).x
    moved = dict(zip([robot.joint_names[k] for k in rows], (robot.joint_angles(q)[rows] + change).tolist(), strict=True))
    return Pose(pose.angles | {name: round(angle, 6) for name, angle in moved.items()}, f"{pose.source}, feet made level")


def heights_of(robot: Robot, foot: Foot, q: Array) -> Array:
    """Return the heights of the lowest points of the contact places of a foot [m]."""
    pose = robot.frames.placement(foot.limb.frame, q)
    heights: Array = np.array([(pose.translation + pose.rotation @ np.array(p.offset))[2] - p.radius for p in foot.points])
    return heights


def _length(robot: Robot, foot: Foot, q: Array) -> float:
    """Return the length of a leg: the sum of the distances between its joints and the foot [m]."""
    placements = robot.terms(q, np.zeros(robot.nv)).placements
    origins = [placements[joint, 9:] for joint in foot.limb.joints] + [_contact(robot, foot, q)]
    return float(sum(np.linalg.norm(b - a) for a, b in pairwise(origins)))


def _contact(robot: Robot, foot: Foot, q: Array) -> Array:
    """Return the middle of the contact places of a foot [m] (3)."""
    pose = robot.frames.placement(foot.limb.frame, q)
    place: Array = pose.translation + pose.rotation @ np.mean([point.offset for point in foot.points], axis=0)
    return place


def _leg(robot: Robot, foot: Foot, q: Array, height: float) -> dict[str, float]:
    """Return the angles of a leg with its contact place `height` below its first joint."""
    rows = [k for k, dof in enumerate(robot.tree.a.tolist()) if robot.tree.dof_joint[dof] in foot.limb.joints]
    low, high = np.maximum(robot.limits.q_min[rows], -np.pi), np.minimum(robot.limits.q_max[rows], np.pi)
    hip = robot.terms(q, np.zeros(robot.nv)).placements[foot.limb.joints[0], 9:]
    names = [robot.joint_names[k] for k in rows]

    def error(angles: Array) -> Array:
        step = np.zeros(robot.nv)
        step[robot.tree.a[rows]] = angles
        there = robot.integrate(q, step)
        wanted = hip - np.array([0.0, 0.0, height])
        parts = [10.0 * (_contact(robot, foot, there) - wanted), 0.02 * angles]
        if foot.is_flat:  # the sole keeps its attitude
            parts.append(10.0 * (robot.frames.placement(foot.limb.frame, there).rotation - attitude).ravel())
        return np.concatenate(parts)

    base, attitude = robot.joint_angles(q)[rows], robot.frames.placement(foot.limb.frame, q).rotation
    rng = np.random.default_rng(0)
    starts = [np.clip(base, low, high) - base, *(rng.uniform(low, high) - base for _ in range(STARTS))]
    bounds = low - base - 1e-9, high - base + 1e-9
    solutions = [least_squares(error, np.clip(start, low - base, high - base), bounds=bounds) for start in starts]
    best = min(solutions, key=lambda solution: float(solution.cost))
    return dict(zip(names, (base + best.x).tolist(), strict=True))
