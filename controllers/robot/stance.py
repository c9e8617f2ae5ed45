"""The stance in which a robot starts: from its joint angles on a plane, then adapted to the terrain."""

import numpy as np

from controllers.robot.kinematics import angles_for_places, contact_places, feet_of
from idyn.contact.terrain import Terrain
from idyn.errors import ConfigError, nearest
from idyn.model import so3
from idyn.model.robot import Robot
from idyn.types import Array

CLOSING_STEPS = 50  # largest number of Newton steps that close the chains
OUT_OF_PLANE = 1e-5  # largest gap of a closed chain [m]. Linkages that are not exactly in one plane cannot close further

SLANTED = 1e-8
"""Largest position error of a resting foot [m] where an exact solution needs a third joint: for a leg of two joints whose plane
is not exactly vertical, as with an angle of 1.57075 rad in the URDF."""

RESTING = 1e-10  # convergence limit: gap of a resting foot [m], last joint step [rad or m]


def standing(robot: Robot, angles: dict[str, float]) -> Array:
    """Return the stance with the given joint angles [rad]: base level, lowest contact sphere on the plane z = 0 (nq).

    Raises ConfigError for an unknown joint or a chain that cannot be closed.
    """
    known = list(robot.joint_names)
    if robot.closures.keys:  # and those without a motor, except those of the base
        known += [robot.tree.dof_names[k] for k in robot.tree.u.tolist() if k >= 6 or not robot.floating]
    step = np.zeros(robot.nv)
    for name, angle in angles.items():
        if name not in known:
            raise ConfigError(f"standing.{name}", f"no such joint{nearest(name, known)}")
        step[robot.tree.dof_names.index(name)] = angle
    q = robot.with_joint_angles(robot.integrate(robot.neutral(), step), step[robot.tree.a])
    if robot.closures.keys:
        q = close_chains(robot, q)
    if robot.floating and robot.spheres.keys:
        q[2] -= float((contact_places(robot, q)[:, 2] - robot.spheres.radii).min())
    return q


def close_chains(robot: Robot, q: Array) -> Array:
    """Return q with its chains closed by their joints without a motor, moved by least-squares steps (nq).

    Raises ConfigError if a chain cannot be closed.
    """
    u = robot.tree.u
    for _ in range(CLOSING_STEPS):
        gaps, G = robot.closure_gaps(q)
        # Newton: G_u δq_u = −g, least norm
        step = np.zeros(robot.nv)
        step[u] = np.linalg.lstsq(G[:, u], -gaps, rcond=1e-9)[0]
        if np.abs(step).max() < RESTING and np.abs(gaps).max() < OUT_OF_PLANE:
            return q
        q = robot.integrate(q, step)
    worst = robot.closures.keys[int(np.abs(gaps).argmax()) // 3]
    raise ConfigError("standing", f"the closed chain {worst} does not close: gap {np.abs(gaps).max():.3g} m")


def closing(robot: Robot, q: Array, v: Array) -> Array:
    """Return v (nv) with the speeds of the joints without a motor changed as little as possible, so that chains stay closed."""
    passive = robot.tree.u[6:] if robot.floating else robot.tree.u
    _, G = robot.closure_gaps(q)
    moving = np.array(v)
    # G (v + P_uᵀ δ) = 0, least norm of δ
    moving[passive] += np.linalg.lstsq(G[:, passive], -G @ moving, rcond=1e-9)[0]
    return moving


def resting(robot: Robot, stance: Array, terrain: Terrain) -> Array:
    """Return the stance on the terrain (nq): each foot moves vertically until it touches without penetration.

    The base keeps its attitude and is raised by the mean displacement of the feet; the joints provide the remaining
    displacement. Where the legs do not reach, the base leans with the plane through the feet. The stance of a robot with a
    fixed base is returned unchanged. Raises ConfigError if the legs do not reach.
    """
    if not robot.floating or not robot.spheres.keys:
        return stance
    feet = feet_of(robot, stance)
    places, radii = contact_places(robot, stance)[feet], robot.spheres.radii[feet]
    start = places.copy()
    for _ in range(50):
        distances, normals = terrain.query(places)
        gaps = distances - radii
        if np.abs(gaps).max() < RESTING:
            break
        places[:, 2] -= gaps / np.maximum(normals[:, 2], 0.1)
    else:
        raise ConfigError("contact.terrain", "found no ground vertically above or below a foot of the stance")
    up = places[:, 2] - start[:, 2]
    if np.abs(up).max() < RESTING:
        return stance
    q = np.array(stance)
    q[2] += up.mean()
    angles = angles_for_places(robot, q, places, SLANTED, feet)
    if angles is None and len(places) > 2:
        q = _leaning(robot, q, places)
        angles = angles_for_places(robot, q, places, SLANTED, feet)
    if angles is None:
        raise ConfigError("contact.terrain", "the legs of the stance do not reach the ground on all feet")
    q = robot.with_joint_angles(q, angles)
    return close_chains(robot, q) if robot.closures.keys else q


def _leaning(robot: Robot, q: Array, places: Array) -> Array:
    """Return q with its base turned by the shortest rotation from the vertical to the normal of the plane through `places`."""
    d = places - places.mean(axis=0)
    gradient = np.linalg.lstsq(d[:, :2], d[:, 2], rcond=None)[0]
    normal = np.array([-gradient[0], -gradient[1], 1.0]) / np.sqrt(1.0 + gradient @ gradient)
    axis = np.cross([0.0, 0.0, 1.0], normal)
    sine, turn = float(np.linalg.norm(axis)), np.zeros(robot.nv)
    # the base's velocity is in its own frame: rotate the axis from the world to it
    turn[3:6] = so3.rotation(q[3:7]).T @ axis * (np.arcsin(sine) / max(sine, 1e-12))
    return robot.integrate(q, turn)
