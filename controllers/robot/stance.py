"""The stance that a robot starts in: by its joint angles on a plane, and on the ground that there is."""

import numpy as np

from controllers.robot.kinematics import angles_for_places, contact_places
from idyn.contact.terrain import Terrain
from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from idyn.types import Array

CLOSING_STEPS = 50
"""Of Newton's method."""

OUT_OF_PLANE = 1e-5
"""What no joint can close may stay open by so much [m]: links of a plane linkage that are not quite in one plane."""

RESTING = 1e-10
"""A foot with a gap of at most this rests [m], and a joint that would move by less [rad or m]."""


def standing(robot: Robot, angles: dict[str, float]) -> Array:
    """The stance with the given joint angles [rad], base level, its lowest contact sphere on the plane z = 0 (nq)."""
    known = [*robot.joint_names, *(passive_joints(robot) if robot.closures.keys else ())]
    step = np.zeros(robot.nv)
    for name, angle in angles.items():
        if name not in known:
            raise ConfigError(f"standing.{name}", f"no such joint{nearest(name, known)}")
        step[robot.tree.dof_names.index(name)] = angle
    q = robot.with_joint_angles(robot.integrate(robot.neutral(), step), step[robot.tree.a])
    if robot.closures.keys:
        q = closed(robot, q)
    if robot.floating and robot.spheres.keys:
        q[2] -= float((contact_places(robot, q)[:, 2] - robot.spheres.radii).min())
    return q


def passive_joints(robot: Robot) -> list[str]:
    """Names of the degrees of freedom without a motor that are not the base's."""
    first = 6 if robot.floating else 0
    return [robot.tree.dof_names[k] for k in robot.tree.u.tolist() if k >= first]


def closed(robot: Robot, q: Array) -> Array:
    """q with its closed chains closed by their joints without a motor, which go the shortest way (nq). Raises ConfigError where
    they cannot be closed."""
    u = robot.tree.u
    for _ in range(CLOSING_STEPS):
        gaps, G = robot.closure_gaps(q)
        step = np.zeros(robot.nv)
        step[u] = np.linalg.lstsq(G[:, u], -gaps, rcond=1e-9)[0]
        if np.abs(step).max() < RESTING and np.abs(gaps).max() < OUT_OF_PLANE:
            return q
        q = robot.integrate(q, step)
    worst = robot.closures.keys[int(np.abs(gaps).argmax()) // 3]
    raise ConfigError("standing", f"the chain {worst} stays open by {np.abs(gaps).max():.3g} m")


def resting(robot: Robot, stance: Array, terrain: Terrain) -> Array:
    """The stance on the terrain (nq): every contact place straight above or below where it was, touching without penetration.

    The base keeps its attitude and goes up by what the feet do on average; joints do the rest. A robot with a fixed base stays
    as it is. Raises ConfigError when the legs do not reach.
    """
    if not robot.floating or not robot.spheres.keys:
        return stance
    places = contact_places(robot, stance)
    start = places.copy()
    for _ in range(50):
        distances, normals = terrain.query(places)
        gaps = distances - robot.spheres.radii
        if np.abs(gaps).max() < RESTING:
            break
        places[:, 2] -= gaps / np.maximum(normals[:, 2], 0.1)
    else:
        raise ConfigError("contact.terrain", "no place straight above or below a foot of the stance touches the ground")
    up = places[:, 2] - start[:, 2]
    if np.abs(up).max() < RESTING:
        return stance
    q = np.array(stance)
    q[2] += up.mean()
    angles = angles_for_places(robot, q, places)
    if angles is None:
        raise ConfigError("contact.terrain", "the legs of the stance do not reach the ground on all feet")
    q = robot.with_joint_angles(q, angles)
    return closed(robot, q) if robot.closures.keys else q
