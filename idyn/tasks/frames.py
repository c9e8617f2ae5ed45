"""The equations of tasks on frames and joints, as kernels, and the motion of bodies that they need."""

from math import atan2

import numpy as np

from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix
from idyn.terms.inputs import finite
from idyn.types import Array

HALF_TURN = 1e-6
"""Below this sine of the angle a rotation is none, or a half turn."""


ORTHONORMAL = 1e-6
"""Largest entry of R Rᵀ − 1 of a rotation matrix."""


@compiled
def fill_frame(
    kinematics: tuple[Array, ...],
    task: tuple[Array, ...],
    targets: tuple[Array, ...],
    out: tuple[Array, ...],
    joint: int,
    local: bool,
) -> bool:
    """Fill the equations A v̇ + drift = asked of a task on a frame. Return False for malformed targets.

    kinematics: (axes S (nv, 6), placements (njoints, 12), velocities, biases of `body_motion`, support of the tree
        (njoints, nv), origin (3))
    task: (axes and origin of the frame in the joint frame (12), stiffness and damping (12), rows (r))
    targets: (position (3), rotation by rows (9), velocity (6), acceleration (6)), each empty if there is none
    out: (A (r, nv), asked (r), drift (r)); joint: of the frame; local: whether the equations are in the frame's axes
    """
    (axes, placements, velocities, biases, support, origin), (offset, gains, rows), (A, asked, drift) = kinematics, task, out
    position, turn, speed, push = targets
    placed_at, turned_to, moving, pushed = len(position) > 0, len(turn) > 0, len(speed) > 0, len(push) > 0
    if not (finite(position) and finite(speed) and finite(push)):
        return False
    E, R, x, target = stack_array((3, 3)), stack_array((3, 3)), stack_array(3), stack_array((3, 3))
    for i in range(len(turn)):
        target[i // 3, i % 3] = turn[i]
    if turned_to and not is_rotation(target):
        return False
    rate, bias, error = stack_array(6), stack_array(6), stack_array(6)
    placed, V, a, moves = placements[joint], velocities[joint], biases[joint], support[joint]
    # pose: R = R_joint R_0, x = o + R_joint x_0 (placements hold rotations by columns); E: axes of the equations, as rows
    for i in range(3):
        x[i] = placed[9 + i]
        for c in range(3):
            x[i] += placed[3 * c + i] * offset[9 + c]
            R[i, c] = 0.0
            for k in range(3):
                R[i, c] += placed[3 * k + i] * offset[3 * k + c]
    for i in range(3):
        for c in range(3):
            E[i, c] = R[c, i] if local else (1.0 if i == c else 0.0)
    _fill_motion((V, a), x, rate, bias)
    # errors: x_target − x, log(R_target Rᵀ)
    for i in range(3):
        error[i] = position[i] - origin[i] - x[i] if placed_at else 0.0
        error[3 + i] = 0.0
    if turned_to:
        rotation_error(target, R, error[3:])
    for n in range(len(rows)):
        # row e of the linear or of the angular part
        part, e = 3 * (rows[n] // 3), E[rows[n] % 3]
        size, wanted, slope = 0.0, 0.0, 0.0
        for c in range(3):
            size += e[c] * error[part + c]
            wanted += e[c] * rate[part + c]
            slope += e[c] * bias[part + c]
        r = rows[n]
        asked[n] = (push[r] if pushed else 0.0) + gains[r] * size + gains[6 + r] * ((speed[r] if moving else 0.0) - wanted)
        drift[n] = slope
        for j in range(len(axes)):
            S = axes[j]
            if not moves[j]:
                A[n, j] = 0.0
            elif part:
                A[n, j] = e[0] * S[3] + e[1] * S[4] + e[2] * S[5]
            else:
                v0 = S[0] + S[4] * x[2] - S[5] * x[1]
                v1 = S[1] + S[5] * x[0] - S[3] * x[2]
                v2 = S[2] + S[3] * x[1] - S[4] * x[0]
                A[n, j] = e[0] * v0 + e[1] * v1 + e[2] * v2
    return True


@compiled
def _fill_motion(body: tuple[Array, Array], x: Array, rate: Array, bias: Array) -> None:
    """Fill velocity v_O + ω × x and J̇ v = a_O + α × x + ω × (v_O + ω × x) of a point of a body, each linear, then angular (6).
    body: (V, bias) at the origin"""
    V, a = body
    for c in range(3):
        i, j = (c + 1) % 3, (c + 2) % 3
        rate[c], rate[3 + c], bias[3 + c] = V[c] + V[3 + i] * x[j] - V[3 + j] * x[i], V[3 + c], a[3 + c]
    for c in range(3):
        i, j = (c + 1) % 3, (c + 2) % 3
        bias[c] = a[c] + a[3 + i] * x[j] - a[3 + j] * x[i] + V[3 + i] * rate[j] - V[3 + j] * rate[i]


@compiled
def fill_joints(
    state: tuple[Array, ...], joints: tuple[Array, Array], task: tuple[Array, ...], out: tuple[Array, Array]
) -> bool:
    """Fill the equations v̇ = asked of k joints, A of zeros. Return False for malformed targets.

    state: (angles of the actuated joints (na), v (nv)); joints: (their numbers among these (k), places of all in v (na))
    task: (stiffness and damping (2k), targets (angles, velocity, acceleration)), each (k), or empty if there is none
    out: (A (k, nv), asked (k))
    """
    (q, v), (which, places), (gains, angles, velocity, acceleration), (A, asked) = state, joints, task, out
    k = len(asked)
    if not (finite(angles) and finite(velocity) and finite(acceleration)):
        return False
    for i in range(k):
        place = places[which[i]]
        A[i, place] = 1.0
        asked[i] = gains[i] * (angles[i] - q[which[i]]) if len(angles) > 0 else 0.0
        asked[i] += gains[k + i] * ((velocity[i] if len(velocity) > 0 else 0.0) - v[place])
        asked[i] += acceleration[i] if len(acceleration) > 0 else 0.0
    return True


@entry(Matrix)
def is_rotation(R: Array) -> bool:
    """Return whether a matrix (3, 3) is a rotation: R Rᵀ = 1 and det R > 0."""
    det = 0.0
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        det += R[0, i] * (R[1, j] * R[2, k] - R[1, k] * R[2, j])
        for c in range(3):
            product = R[i, 0] * R[c, 0] + R[i, 1] * R[c, 1] + R[i, 2] * R[c, 2]
            if not abs(product - (1.0 if i == c else 0.0)) < ORTHONORMAL:
                return False
    return det > 0.0


@compiled
def rotation_error(target: Array, R: Array, out: Array) -> None:
    """Fill the rotation vector of R_target Rᵀ in the world [rad] (3), of length ≤ π. target: R_target (3, 3)"""
    D, trace = stack_array((3, 3)), -1.0
    for i in range(3):
        for c in range(3):
            D[i, c] = 0.0
            for k in range(3):
                D[i, c] += target[i, k] * R[c, k]
        trace += D[i, i]
    square = 0.0
    for c in range(3):
        i, j = (c + 1) % 3, (c + 2) % 3
        out[c] = 0.5 * (D[j, i] - D[i, j])
        square += out[c] * out[c]
    sine, cosine = np.sqrt(square), 0.5 * trace
    angle = atan2(sine, cosine)
    if sine > HALF_TURN:
        for c in range(3):
            out[c] *= angle / sine
    elif cosine < 0.0:
        # near π: column of the axis n with the longest part, from D + Dᵀ = 2 (cos + (1 − cos) n nᵀ)
        longest = 0
        for c in range(1, 3):
            if D[c, c] > D[longest, longest]:
                longest = c
        length, along = 0.0, 0.0
        for c in range(3):
            D[c, c] += 1.0
            part = D[c, longest] + D[longest, c]
            length += part * part
            along += out[c] * (D[c, longest] + D[longest, c])
        for c in range(3):
            out[c] = (angle if along >= 0.0 else -angle) * (D[c, longest] + D[longest, c]) / np.sqrt(length)


@compiled
def body_motion(motion: tuple[Array, Array], tree: tuple[Array, Array], out: tuple[Array, Array]) -> None:
    """Fill the velocity of each body, V = Σ S v, and its bias Σ Ṡ v with Ṡ = V × S, S the joint axes in the world.

    motion: (axes S (nv, 6), v (nv)); tree: (parents (njoints), joint of each degree of freedom (nv)); out: (V, biases), each
    (njoints, 6)
    """
    (axes, v), (parents, dof_joint), (velocities, biases) = motion, tree, out
    for c in range(6):
        velocities[0, c] = biases[0, c] = 0.0
    first = 0
    for joint in range(1, len(parents)):
        V, bias, above = velocities[joint], biases[joint], parents[joint]
        for c in range(6):
            V[c], bias[c] = velocities[above, c], biases[above, c]
        last = first
        while last < len(v) and dof_joint[last] == joint:
            for c in range(6):
                V[c] += axes[last, c] * v[last]
            last += 1
        for k in range(first, last):
            S, speed = axes[k], v[k]
            for c in range(3):
                i, j = (c + 1) % 3, (c + 2) % 3
                bias[c] += speed * (V[3 + i] * S[j] - V[3 + j] * S[i] + V[i] * S[3 + j] - V[j] * S[3 + i])
                bias[3 + c] += speed * (V[3 + i] * S[3 + j] - V[3 + j] * S[3 + i])
        first = last
