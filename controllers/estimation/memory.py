"""Settings and state of the estimator, and the kernel of its force estimate: contact forces of the feet from the torques
that motors and inertia (with armature) do not explain: r = M v̇ + h − S τ averaged over 1/`OBSERVER`, Jᵀ f = r in the rows
of the joints, with the least f."""

import numpy as np

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.config.numbers import Numbers
from idyn.library.kernels import compiled, stack_array
from idyn.library.records import ArrayRecord, Indices, Mask, Matrix, Vector
from idyn.model.robot import Robot
from idyn.solvers.linalg import backward, cholesky, copy, dot, fill_rows, forward
from idyn.types import Array


class EstimatorSettings(Settings, frozen=True):
    """Settings of the estimator: sensors, legs and ground."""

    imu: tuple[float, float, float] = (0.0, 0.0, 0.0)  # position of the IMU in the frame of the base [m]
    # attitude of the IMU's axes in the frame of the base, unit quaternion x, y, z, w
    imu_quat: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    # gyro, accelerometer: standard deviations of their noise in each sample [rad/s], [m/s²]
    gyro: Positive = 0.01
    accelerometer: Positive = 0.2
    # tilt, heading: standard deviations of the IMU's attitude in each sample, about horizontal axes and about the vertical
    # [rad]; inf: not used
    tilt: Positive = 0.02
    heading: Positive = 0.05
    leg: Positive = 0.001  # standard deviation of a foot's position by the joint angles [m]
    creep: Positive = 0.005  # growth of a standing foot's position error in a second [m]
    # standard deviation of the height of the ground below a standing foot [m]; inf: the ground is not flat
    ground: Positive = 0.003
    slip: Positive = 0.15  # speed at which a standing foot slips, and is not used, if another foot does not [m/s]
    # touch, release: normal force of a foot at which it begins to touch, and below which it no longer does [weights]
    touch: Positive = 0.1
    release: Positive = 0.05
    # friction, damping: of each joint, dry [N·m] and viscous [N·m·s/rad], that the motor torque overcomes
    friction: NonNegative = 0.0
    damping: NonNegative = 0.0


ATTITUDE, VELOCITY, POSITION, GYRO_BIAS, ACCELEROMETER_BIAS, FEET = 0, 3, 6, 9, 12, 15  # first indices of the error


class EstimatorNumbers(Numbers, settings=EstimatorSettings):
    """Numbers of the settings."""


class EstimatorState(ArrayRecord):
    """State of the filter and of the force estimate; n feet. The filter estimates the motion of the IMU in the world."""

    R: Matrix  # attitude (3, 3)
    v: Vector  # velocity [m/s] (3)
    p: Vector  # position [m] (3)
    gyro_bias: Vector  # [rad/s] (3)
    bias: Vector  # of the accelerometer [m/s²] (3)
    feet: Matrix  # centres of the spheres of the feet [m] (n, 3)
    P: Matrix  # covariance of the error (15 + 3n, 15 + 3n), see `ATTITUDE`
    north: Vector  # cosine and sine of the heading at the start, which counts as 0 (2)
    last_gyro: Vector  # last rate [rad/s] (3)
    rolling: Matrix  # velocities of the centres of rolling feet [m/s] (n, 3)
    sliding: Vector  # speed of each foot on the ground, by the joint speeds [m/s] (n)
    stands: Vector  # time since the touchdown of each foot [s]; −1 in the air (n)
    slipped: Vector  # 1 for a foot that slipped just now (n)
    residual: Vector  # filtered torques of the contact forces about the joints [N·m] (na)
    last_v: Vector  # velocity of the last tick (nv)
    force: Matrix  # contact forces in the world [N] (n, 3)
    joints: Indices  # of the feet (n)
    offsets: Matrix  # of the feet in the frames of their joints [m] (n, 3)
    radii: Vector  # [m] (n)
    support: Mask  # see `idyn.model.tree` (njoints, nv)
    a: Indices  # see `idyn.model.tree` (na)
    places: Indices  # index of each actuated joint in q (na)
    weight: float  # [N]
    gravity: Vector  # acceleration [m/s²] (3)
    imu: Vector  # position in the base frame [m] (3)
    settings: EstimatorNumbers

    def __init__(self, settings: EstimatorSettings, robot: Robot) -> None:
        n, m = len(robot.spheres.keys), FEET + 3 * len(robot.spheres.keys)
        sizes = {"residual": robot.na, "last_v": robot.nv, "north": 2}
        sizes |= dict.fromkeys(("v", "p", "gyro_bias", "bias", "last_gyro"), 3)
        sizes |= dict.fromkeys(("stands", "slipped", "sliding"), n)
        self.put(**{name: np.zeros(size) for name, size in sizes.items()})
        self.put(R=np.eye(3), feet=np.zeros((n, 3)), P=np.zeros((m, m)), rolling=np.zeros((n, 3)), force=np.zeros((n, 3)))
        spheres, tree = robot.spheres, robot.tree
        self.put(joints=spheres.joints.astype(np.int64), offsets=np.ascontiguousarray(spheres.offsets))
        self.put(radii=np.ascontiguousarray(spheres.radii), support=np.ascontiguousarray(tree.support))
        self.put(a=tree.a.astype(np.int64), places=tree.q_index.astype(np.int64), weight=robot.weight)
        self.put(gravity=np.array(robot.bodies.gravity, np.float64), imu=np.array(settings.imu))
        self.put(settings=EstimatorNumbers(settings))


RIDGE = 1e-4  # weight of ‖f‖² relative to the error of the torques [m²]: legs near their singularity would amplify errors
OBSERVER = 250.0  # bandwidth of the force estimate [1/s]
STILL = 0.05  # speed above which dry friction has its full size [rad/s]


@compiled
def place_feet(x: EstimatorState, axes: Array, placements: Array, v: Array, places: Array) -> None:
    """Fill the centres of the feet relative to the IMU, in world axes (n, 3), the velocities of rolling centres, and the speeds
    at which the feet slide.

    axes, placements, v: of `Kinematics`, with the base at the origin
    """
    moves, turn, at = stack_array(3), stack_array(3), stack_array(3)
    for i in range(len(places)):
        joint = x.joints[i]
        for r in range(3):
            at[r] = placements[joint, 9 + r]
            for c in range(3):
                at[r] += placements[joint, 3 * c + r] * x.offsets[i, c]
            places[i, r] = at[r] - dot(x.R[r], x.imu)
            moves[r] = turn[r] = 0.0
        for k in range(len(v)):
            if x.support[joint, k]:
                for r in range(3):
                    moves[r] += axes[k, r] * v[k]
                    turn[r] += axes[k, 3 + r] * v[k]
        x.rolling[i, 0], x.rolling[i, 1], x.rolling[i, 2] = turn[1] * x.radii[i], -turn[0] * x.radii[i], 0.0
        along = moves[0] + turn[1] * at[2] - turn[2] * at[1] - x.rolling[i, 0]
        across = moves[1] + turn[2] * at[0] - turn[0] * at[2] - x.rolling[i, 1]
        x.sliding[i] = np.sqrt(along * along + across * across)


@compiled
def fill_forces(
    x: EstimatorState, terms: tuple[Array, Array, Array, Array], places: Array, tau: Array, dt: float, anew: bool
) -> None:
    """Update the contact forces of the feet.

    terms: M (nv, nv), h (nv), axes (nv, 6), v (nv); places: see `place_feet`; tau: torques of the motors since the last tick
    [N·m] (na); dt: time since then [s]; anew: the robot counts as at rest
    """
    (M, h, axes, v), a, n = terms, x.a, len(places)
    share, rate = 1.0 - np.exp(-OBSERVER * dt), 0.0 if anew else 1.0 / dt
    for k in range(len(a)):
        row, speed = a[k], v[a[k]]
        friction = x.settings.damping * speed + x.settings.friction * min(max(speed / STILL, -1.0), 1.0)
        torque = h[row] - tau[k] + friction
        for j in range(len(v)):
            torque += M[row, j] * (v[j] - x.last_v[j]) * rate
        x.residual[k] = torque if anew else x.residual[k] + share * (torque - x.residual[k])
    copy(v, x.last_v)
    # least squares: (J Jᵀ + ridge) f = J r
    J, A, f = stack_array((3 * n, len(a))), stack_array((3 * n, 3 * n)), stack_array(3 * n)
    fill_rows(J, 0.0)
    for i in range(n):
        x0, x1, x2 = places[i, 0] + dot(x.R[0], x.imu), places[i, 1] + dot(x.R[1], x.imu), places[i, 2] + dot(x.R[2], x.imu)
        for k in range(len(a)):
            S = axes[a[k]]
            if x.support[x.joints[i], a[k]]:
                J[3 * i, k] = S[0] + S[4] * x2 - S[5] * x1
                J[3 * i + 1, k] = S[1] + S[5] * x0 - S[3] * x2
                J[3 * i + 2, k] = S[2] + S[3] * x1 - S[4] * x0
    for i in range(3 * n):
        f[i] = dot(J[i], x.residual)
        for j in range(i + 1):
            A[i, j] = A[j, i] = dot(J[i], J[j])
        A[i, i] += RIDGE
    cholesky(A)
    forward(A, f)
    backward(A, f)
    for i in range(n):
        for c in range(3):
            x.force[i, c] = f[3 * i + c]


@compiled
def touch(x: EstimatorState, touching: Array, probability: Array) -> None:
    """Fill which feet touch (n), 1 or 0, with hysteresis, and how likely that is (n). The corners of a sole touch together."""
    middle, width = 0.5 * (x.settings.touch + x.settings.release), 0.25 * (x.settings.touch - x.settings.release)
    for i in range(len(touching)):
        load = 0.0
        for j in range(len(touching)):
            load += x.force[j, 2] / x.weight if x.joints[j] == x.joints[i] else 0.0
        touching[i] = 1.0 if load > (x.settings.release if x.stands[i] >= 0.0 else x.settings.touch) else 0.0
        probability[i] = 1.0 / (1.0 + np.exp(-min(max((load - middle) / width, -50.0), 50.0)))


@compiled
def is_at_rest(x: EstimatorState, touching: Array, v: Array) -> bool:
    """Return whether a robot lies still: no foot touches, and neither base nor joints turn faster than `STILL`."""
    moving = 0.0
    for i in range(len(touching)):
        moving += touching[i]
    for c in range(3):
        moving += 1.0 if abs(v[3 + c]) > STILL else 0.0
    for k in range(len(x.a)):
        moving += 1.0 if abs(v[x.a[k]]) > STILL else 0.0
    return moving == 0.0
