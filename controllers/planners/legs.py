"""Inverse kinematics of legs of two or more hinges, open or closed: angles, speeds and accelerations of the joints from the
motion of the feet in the base frame, by Newton's method from the last solution. w_j, r_j: axis of hinge j; x: foot

    J = [ w_j × (x − r_j) ],     ẋ = J θ̇,     ẍ = J θ̈ + J̇ θ̇
With two hinges, J has the third column n = J_1 × J_2 / |J_1 × J_2|, whose share of a solution is dropped: least squares.
With more than three, the posture stays near the stance (`controllers.planners.chains`). A closed leg is two chains to the
same foot.
"""

import numpy as np

from controllers.planners.chains import (
    SLACK,
    cross,
    leave_out,
    posture_bias,
    posture_matrix,
    posture_rates,
    rotate,
    solve3,
    subtract_bias,
)
from controllers.robot.kinematics import contact_places
from idyn.errors import ConfigError
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import ArrayRecord, Cube, Indices, Matrix, Spans, Vector
from idyn.model.robot import Robot
from idyn.solvers.linalg import copy, copy_rows, fill, lu_factor, lu_solve
from idyn.types import Array

Triad = tuple[Array, Array, Array]
Placed = tuple[Array, Array, Array, Array]  # directions w and points r of the hinges, foot x and Jacobian J of a chain
TOLERANCE = 1e-12  # largest position error of a foot in a solution [m]
ITERATIONS = 30  # largest number of Newton steps. From the solution of the last tick it takes two or three
LARGEST_STEP = 0.3  # largest change of a joint angle in one Newton step [rad]
LEFT_OUT = 0.03  # most distance of a target across the plane of two hinges [m]: attitudes of 0.1 rad, no steps sideways
CURVED = 1e-3  # farther from the target [m], the steps of a leg of more than three hinges ignore the curvature λ·H
ARRIVED = 1e-9  # largest error of the angles in a solution of a leg of more than three hinges [rad]
BASE = 6  # number of velocities of a floating base


class Legs(ArrayRecord):
    """Legs of a robot: one per contact sphere, without common joints. A leg is a chain of k ≥ 2 hinges. A closed leg is two or
    more: each closure at the centre of its foot is the end of one more chain, which reaches the same foot. Angles are those of
    all joints with motors, then those of the legs' joints without (m); `q_index`: their indices in q, −1 for motors of joints
    with several degrees of freedom (m).
    """

    axes: Cube  # direction of each hinge at zero angles, base frame (chains, k, 3)
    points: Cube  # a point of each hinge at zero angles, base frame [m] (chains, k, 3)
    places: Matrix  # ends of the chains at zero angles, base frame [m] (chains, 3)
    joints: Spans  # indices of the angles of each chain; of chains with fewer hinges the first `hinges` are used (chains, k)
    hinges: Indices  # number of hinges (chains)
    foot: Indices  # the foot that each chain reaches; the first n chains reach the n feet in their order (chains)
    neutral: Vector  # angles of the stance, which legs of more than three hinges stay near [rad] (m)

    def __init__(self, robot: Robot, stance: Array) -> None:
        """stance: configuration (nq). Raises ConfigError for a robot whose legs have another structure."""
        if not robot.floating or not robot.spheres.keys:
            raise ConfigError("reference.kind", "'gait' needs a floating base and contact points")
        zero, tree = robot.neutral(), robot.tree
        feet, ends, places = _ends(robot, zero)
        chains = [np.flatnonzero(tree.support[end][BASE:]) + BASE for end in ends]
        for foot, chain in zip(feet, chains, strict=True):
            if len(chain) < 2:
                given = f"'{robot.spheres.keys[foot]}' has {len(chain)}"
                raise ConfigError("reference.kind", f"'gait' needs two joints or more above each foot; {given}")
            if feet.count(foot) == 1 and np.isin(chain, tree.u).any():
                passive = tree.dof_names[chain[np.isin(chain, tree.u)][0]]
                raise ConfigError("reference.kind", f"'gait' needs motors in all joints of an open leg; '{passive}' has none")
        legs: list[set[int]] = [set() for _ in robot.spheres.keys]
        for foot, chain in zip(feet, chains, strict=True):
            legs[foot].update(chain.tolist())
        if len(set.union(*legs)) < sum(map(len, legs)):
            raise ConfigError("reference.kind", "'gait' needs feet that share no joint")
        order = np.concatenate([tree.a, np.intersect1d(np.concatenate(chains), tree.u)])
        k = max(map(len, chains))
        dofs = np.array([np.resize(chain, k) for chain in chains])
        screws = robot.terms(zero, np.zeros(robot.nv)).axes[dofs]
        axes = screws[..., 3:].copy()
        if not np.allclose(np.linalg.norm(axes, axis=2), 1.0):
            raise ConfigError("reference.kind", "'gait' needs legs of hinges, got a prismatic joint above a foot")
        turned = [robot.integrate(zero, step) != zero for step in np.eye(robot.nv)[order[robot.na :]]]
        passive = np.array([int(np.flatnonzero(moves)[0]) for moves in turned], dtype=np.int64)
        self._robot, self.q_index = robot, np.concatenate([tree.q_index, passive])
        self.put(
            axes=axes,
            points=np.cross(axes, screws[..., :3]),
            places=places,
            joints=np.argsort(order)[np.searchsorted(np.sort(order), dofs)],
            hinges=np.array([len(chain) for chain in chains], dtype=np.int64),
            foot=np.array(feet, dtype=np.int64),
            neutral=self.angles(stance),
        )

    @property
    def planar(self) -> bool:
        """Whether feet move in planes only: legs of two hinges."""
        return bool((self.hinges == 2).any())

    def angles(self, q: Array) -> Array:
        """Return the angles of a configuration (nq) [rad] (m)."""
        return np.concatenate([self._robot.joint_angles(q), q[self.q_index[self._robot.na :]]])

    def feet(self, angles: Array) -> Array:
        """Return the foot centres in the base frame [m] (n, 3) at joint angles [rad] (m)."""
        places: Array = foot_places(self, angles)
        return places


def has_legs(robot: Robot) -> bool:
    """Return whether the robot stands on legs as `Legs` describes."""
    try:
        Legs(robot, robot.neutral())
    except ConfigError:
        return False
    return True


def _ends(robot: Robot, q: Array) -> tuple[list[int], list[int], Array]:
    """Return feet and joints of the ends of all chains, and their places in the base frame of a base at the origin [m]
    (chains, 3)."""
    spheres, closures = robot.spheres, robot.closures
    feet, ends, places = list(range(len(spheres.keys))), spheres.joints.tolist(), list(contact_places(robot, q))
    rotations, origins = robot.place(q)
    for key, joints, offsets in zip(closures.keys, closures.joints.tolist(), closures.offsets, strict=True):
        for near, far in ((0, 1), (1, 0)):
            at = (spheres.joints == joints[near]) & (np.abs(spheres.offsets - offsets[near]).max(axis=1) < 1e-9)
            if at.any():
                feet.append(int(np.flatnonzero(at)[0]))
                ends.append(joints[far])
                places.append(rotations[joints[far]] @ offsets[far] + origins[joints[far]])
                break
        else:
            raise ConfigError("reference.kind", f"'gait' needs closed legs that close at the centre of a foot, not at '{key}'")
    return feet, ends, np.array(places)


@entry(Legs, Vector)
def foot_places(legs: Legs, angles: Array) -> Array:
    """Return the foot centres in the base frame [m] (n, 3) at joint angles [rad] (m)."""
    n, size = legs.foot.max() + 1, legs.joints.shape[1]
    places, w, r, J = np.empty((n, 3)), stack_array((size, 3)), stack_array((size, 3)), stack_array((size, 3))
    for leg in range(n):
        _place(legs, leg, angles, w, r, places[leg], J)
    return places


@compiled
def solve(legs: Legs, feet: Triad, motion: Triad) -> bool:
    """Fill the joint motion for a foot motion; return whether all feet are reached.

    feet: positions [m], velocities [m/s] and accelerations [m/s²] of the feet, base frame (n, 3)
    motion: joint angles [rad] (in: initial guess), speeds [rad/s] and accelerations [rad/s²] (m). A foot out of reach leaves
        the nearest angles that were found; joints that are not in a leg are unchanged
    """
    (places, velocities, accelerations), (q, dq, ddq), size = feet, motion, max(legs.joints.shape[1], 3)
    w, r, J, work = stack_array((size, 3)), stack_array((size, 3)), stack_array((size, 3)), stack_array((4, 3))
    x, d, rest = stack_array(3), stack_array(3), stack_array(3)
    fill(dq, 0.0)
    fill(ddq, 0.0)
    reached = True
    for chain in range(len(legs.foot)):
        joints, hinges, foot, near, there = legs.joints[chain], legs.hinges[chain], legs.foot[chain], False, False
        if hinges > 3:
            target = places[foot], velocities[foot], accelerations[foot]
            reached = _solve_long(legs, chain, target, motion, (w, r, x, J), rest, work) and reached
            continue
        # θ: Newton's method on the position error, J δθ = x_des − x, with bounded steps
        for _ in range(ITERATIONS):
            _place(legs, chain, q, w, r, x, J)
            for c in range(3):
                rest[c] = places[foot, c] - x[c]
            there = hinges == 3 or leave_out(J, rest) < LEFT_OUT
            near = max(abs(rest[0]), abs(rest[1]), abs(rest[2])) < TOLERANCE
            if near:
                break
            solve3(J, rest, d)
            for j in range(hinges):
                q[joints[j]] += min(max(d[j], -LARGEST_STEP), LARGEST_STEP)
        reached = reached and near and there
        # θ̇ = J⁻¹ ẋ,  θ̈ = J⁻¹ (ẍ − J̇ θ̇)
        solve3(J, velocities[foot], d)
        for c in range(3):
            rest[c] = accelerations[foot, c]
        subtract_bias((w, r, x, J), d[:hinges], rest, work)
        for j in range(hinges):
            dq[joints[j]] = d[j]
        solve3(J, rest, d)
        for j in range(hinges):
            ddq[joints[j]] = d[j]
    return reached


@compiled
def _solve_long(legs: Legs, chain: int, target: Triad, motion: Triad, placed: Placed, rest: Array, work: Array) -> bool:
    """Fill the joint motion of a chain of more than three hinges, see `controllers.planners.chains`; return whether it reaches.

    target: position, velocity and acceleration of its foot (3); placed: buffers w, r, x, J; rest, work: buffers (3), (4, 3)
    """
    (w, r, x, J), (q, dq, ddq), k = placed, motion, legs.hinges[chain]
    A, b, pull = stack_array((k + 3, k + 3)), stack_array(k + 3), stack_array(3)
    joints, near = legs.joints[chain], False
    w, r, J = w[:k], r[:k], J[:k]
    fill(pull, 0.0)
    for _ in range(ITERATIONS):
        _place(legs, chain, q, w, r, x, J)
        for c in range(3):
            rest[c] = target[0][c] - x[c]
        off = max(abs(rest[0]), abs(rest[1]), abs(rest[2]))
        if off > CURVED:
            fill(pull, 0.0)
        posture_matrix(w, J, pull, A)
        for j in range(k):
            b[j] = legs.neutral[joints[j]] - q[joints[j]]
        for c in range(3):
            b[k + c] = rest[c] + SLACK * pull[c]
        LU, order, regular = lu_factor(A)
        step = lu_solve(LU, order, b) if regular else np.zeros(k + 3)
        largest = 0.0
        for j in range(k):
            largest = max(largest, abs(step[j]))
        for c in range(3):
            pull[c] = -step[k + c]
        near = off < TOLERANCE and largest < ARRIVED
        if near:
            break
        for j in range(k):
            q[joints[j]] += min(max(step[j], -LARGEST_STEP), LARGEST_STEP)
    # θ̇ and λ̇, then θ̈
    posture_matrix(w, J, pull, A)
    LU, order, regular = lu_factor(A)
    fill(b, 0.0)
    copy(target[1], b[k:])
    speeds = posture_rates(LU, order, b)
    copy(target[2], rest)
    subtract_bias((w, r, x, J), speeds[:k], rest, work)
    posture_bias(w, J, speeds[:k], (pull, -speeds[k:]), b[:k])
    copy(rest, b[k:])
    accelerations = posture_rates(LU, order, b)
    for j in range(k):
        dq[joints[j]], ddq[joints[j]] = speeds[j], accelerations[j]
    return near and regular


@compiled
def _place(legs: Legs, chain: int, angles: Array, w: Array, r: Array, x: Array, J: Array) -> None:
    """Fill axes w, points r (k, 3), end x (3) and J (k, 3) of one chain at joint angles (m)."""
    hinges = legs.hinges[chain]
    copy_rows(legs.axes[chain, :hinges], w[:hinges])
    copy_rows(legs.points[chain, :hinges], r[:hinges])
    copy(legs.places[chain], x)
    origin = (0.0, 0.0, 0.0)
    for j in range(hinges):
        angle = angles[legs.joints[chain, j]]
        c, s = np.cos(angle), np.sin(angle)
        for i in range(j + 1, hinges):
            rotate(w[j], origin, c, s, w[i])
            rotate(w[j], r[j], c, s, r[i])
        rotate(w[j], r[j], c, s, x)
    for j in range(hinges):
        cross(w[j], x[0] - r[j, 0], x[1] - r[j, 1], x[2] - r[j, 2], J[j])
