"""The equations of tasks on frames and joints, as kernels."""

from idyn.library.kernels import compiled, stack_array
from idyn.model.so3 import cross, is_rotation, rotation_error
from idyn.terms.drift import Motions, point_drift
from idyn.types import Array


@compiled
def fill_frame(
    kinematics: tuple[Array, ...],
    motions: Motions,
    task: tuple[Array, ...],
    targets: tuple[Array, ...],
    out: tuple[Array, ...],
    joint: int,
    local: bool,
) -> bool:
    """Fill the equations A v̇ + drift = asked of a task on a frame. Return False if the target is no rotation.

    kinematics: (axes S (nv, 6), placements (njoints, 12), support of the tree (njoints, nv), origin (3))
    motions: of the bodies
    task: (axes and origin of the frame in the joint frame (12), stiffness and damping (12), rows (r))
    targets: (position (3), rotation by rows (9), velocity (6), acceleration (6)), each empty if there is none
    out: (A (r, nv), asked (r), drift (r)); joint: of the frame; local: whether the equations are in the frame's axes
    """
    (axes, placements, support, origin), (offset, gains, rows), (A, asked, drift) = kinematics, task, out
    position, turn, speed, push = targets
    placed_at, turned_to, moving, pushed = len(position) > 0, len(turn) > 0, len(speed) > 0, len(push) > 0
    E, R, x, target = stack_array((3, 3)), stack_array((3, 3)), stack_array(3), stack_array((3, 3))
    for i in range(len(turn)):
        target[i // 3, i % 3] = turn[i]
    if turned_to and not is_rotation(target):
        return False
    rate, bias, error = stack_array(6), stack_array(6), stack_array(6)
    placed, V, moves = placements[joint], motions.V[joint], support[joint]
    _fill_pose(placed, offset, R, x)
    # E: axes of the equations, as rows
    for i in range(3):
        for c in range(3):
            E[i, c] = R[c, i] if local else (1.0 if i == c else 0.0)
    # velocity v_O + ω × x and J̇ v, each linear, then angular
    moved, drifts = cross(V[3:], x), point_drift(motions, joint, (x[0], x[1], x[2]))
    for c in range(3):
        rate[c], rate[3 + c], bias[c], bias[3 + c] = V[c] + moved[c], V[3 + c], drifts[c], motions.A[joint, 3 + c]
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
def _fill_pose(placed: Array, offset: Array, R: Array, x: Array) -> None:
    """Fill R = R_joint R_0 and x = o + R_joint x_0 of a frame. placed: pose of its joint, the rotation by columns (12)"""
    for i in range(3):
        x[i] = placed[9 + i]
        for c in range(3):
            x[i] += placed[3 * c + i] * offset[9 + c]
            R[i, c] = 0.0
            for k in range(3):
                R[i, c] += placed[3 * k + i] * offset[3 * k + c]


@compiled
def fill_joints(
    state: tuple[Array, ...], joints: tuple[Array, Array], task: tuple[Array, ...], out: tuple[Array, Array]
) -> None:
    """Fill the equations v̇ = asked of k joints, A of zeros.

    state: (angles of the actuated joints (na), v (nv)); joints: (their numbers among these (k), places of all in v (na))
    task: (stiffness and damping (2k), targets (angles, velocity, acceleration)), each (k), or empty if there is none
    out: (A (k, nv), asked (k))
    """
    (q, v), (which, places), (gains, angles, velocity, acceleration), (A, asked) = state, joints, task, out
    k = len(asked)
    for i in range(k):
        place = places[which[i]]
        A[i, place] = 1.0
        asked[i] = gains[i] * (angles[i] - q[which[i]]) if len(angles) > 0 else 0.0
        asked[i] += gains[k + i] * ((velocity[i] if len(velocity) > 0 else 0.0) - v[place])
        asked[i] += acceleration[i] if len(acceleration) > 0 else 0.0
