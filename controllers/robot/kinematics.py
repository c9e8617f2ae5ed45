"""Inverse kinematics for any robot: joint angles that put the contact spheres at given places for a given base, and the
stance in which a robot starts, adapted to the terrain. Gaits use `controllers.planners.legs`, which runs in the tick."""

from collections.abc import Callable

import numpy as np

from idyn.contact.contacts import centres_of
from idyn.contact.terrain import Terrain
from idyn.errors import ConfigError, nearest
from idyn.model import so3
from idyn.model.robot import Robot
from idyn.types import Array

CLOSED = 1e-5  # a closed chain with gaps smaller than this counts as closed [m]
TOLERANCE = 1e-11  # largest position error of a contact sphere in a solution [m]
KNOTS = 41  # solutions along a motion of the base
STANDS = 0.05  # a contact sphere higher than this above the lowest one is no foot [m]


def contact_places(robot: Robot, q: Array) -> Array:
    """Return the centres of all contact spheres in the world frame [m] (n, 3)."""
    return centres_of(robot, q, robot.spheres)


def feet_of(robot: Robot, q: Array) -> Array:
    """Return the indices of the contact spheres on which the robot stands at a configuration on a plane z = const (n).

    The others touch the ground when the robot lies.
    """
    bottoms = contact_places(robot, q)[:, 2] - robot.spheres.radii
    return np.flatnonzero(bottoms <= bottoms.min(initial=np.inf) + STANDS)


def angles_for_base_shift(robot: Robot, q: Array, shift: Array, where: str = "reference") -> Array:
    """Return joint angles (na) that keep the feet of q in place while the base is shifted by `shift` [m] (3).

    Raises ConfigError with the path `where` if the legs do not reach.
    """
    moved = np.array(q)
    moved[:3] += shift
    feet = feet_of(robot, q)
    angles = angles_for_places(robot, moved, contact_places(robot, q)[feet], rows=feet)
    if angles is None:
        raise ConfigError(where, f"the legs do not reach the contact points when the base moves by {np.array(shift)} m")
    return angles


def angles_along(robot: Robot, q: Array, s: Array, shifts: Array, where: str) -> Callable[[float, int], Array]:
    """Return θ(s, n): n-th derivative of the joint angles (na) that keep the feet of q in place while the base is shifted.

    A spline joins the solutions at the places s (k), where the shifts are `shifts` [m] (k, 3). It is exact to 1e-8 rad for 41
    solutions along centimetres. Raises ConfigError with the path `where` if the legs do not reach.
    """
    from scipy.interpolate import CubicSpline  # noqa: PLC0415  (its import takes longer than that of a controller without it)

    spline: Callable[[float, int], Array] = CubicSpline(s, [angles_for_base_shift(robot, q, shift, where) for shift in shifts])
    return spline


def angles_for_places(
    robot: Robot, q: Array, places: Array, nearly: float = TOLERANCE, rows: Array | None = None
) -> Array | None:
    """Return joint angles (na) that put contact spheres at `places` [m] (n, 3) with the base of q; None if out of reach.

    nearly: largest position error of the nearest solution, where there is no exact one [m]
    rows: indices of the spheres (n); None: all of them

    Gauss–Newton steps with the contact Jacobian, from the joint angles of q. Joints without a motor are moved so that
    chains stay closed.
    """
    moved, still = np.array(q), np.zeros(robot.nv)
    rows = np.arange(len(places)) if rows is None else rows
    joints = robot.tree.a if not robot.closures.keys else np.arange(6 if robot.floating else 0, robot.nv)
    for _ in range(50):
        gaps, G = robot.closure_gaps(moved)
        error = np.concatenate([(places - contact_places(robot, moved)[rows]).ravel(), -gaps])
        if np.abs(error[: places.size]).max() < TOLERANCE and np.abs(gaps).max(initial=0.0) < CLOSED:
            return robot.joint_angles(moved)
        nearest = moved, float(np.abs(error).max())
        # δθ = argmin ‖[J; G] δθ − [x_des − x; −g]‖, with |δθ| ≤ 0.2 rad
        axes = robot.terms(moved, still).axes
        step, J = np.zeros(robot.nv), np.vstack([contact_jacobian(robot, axes, places, rows), G])
        step[joints] = np.linalg.lstsq(J[:, joints], error, rcond=1e-9)[0]
        moved = robot.integrate(moved, np.clip(step, -0.2, 0.2))
    return robot.joint_angles(nearest[0]) if nearest[1] < nearly else None


def contact_jacobian(robot: Robot, axes: Array, points: Array, rows: Array | None = None) -> Array:
    """Jacobian of the world velocities of n points on the bodies of n contact spheres (3n, nv).

    axes: linear and angular velocity per unit velocity, see `Kinematics` (nv, 6)
    points: in the world frame [m] (n, 3)
    rows: indices of the spheres (n); None: the first n
    """
    joints = robot.spheres.joints[: len(points)] if rows is None else robot.spheres.joints[rows]
    blocks = []
    for joint, point in zip(joints, points, strict=True):
        velocity = axes[:, :3] + np.cross(axes[:, 3:], point)
        blocks.append(np.where(robot.tree.support[joint][:, None], velocity, 0.0).T)
    return np.vstack(blocks)


CLOSING_STEPS = 50  # largest number of Newton steps that close the chains
OUT_OF_PLANE = 1e-5  # largest gap of a closed chain [m]. Linkages that are not exactly in one plane cannot close further
SLANTED = 1e-8  # largest error of a resting foot of two joints not in a vertical plane, as by an angle of 1.57075 rad [m]
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
