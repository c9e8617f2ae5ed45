"""Kernels of the filter: a contact-aided extended Kalman filter with a right-invariant error
(docs/concepts/state-estimation.md).

State: attitude R, velocity v and position p of the IMU, centres d_i of the feet, biases b_g and b_a; R̂ = exp(φ) R, v̂ =
exp(φ) v + ξ_v, …:

    d/dt φ = −R̂ ζ_g,   d/dt ξ_v = g × φ − v̂ × R̂ ζ_g − R̂ ζ_a,   d/dt ξ_p = ξ_v − p̂ × R̂ ζ_g,   d/dt ξ_d = −d̂ × R̂ ζ_g
    R̂ h + p̂ − d̂ ≈ ξ_p − ξ_d                    h: place of a standing foot by the joint angles, in the axes of the IMU
A foot is a sphere of radius r that rolls: its centre moves with ω × r n.
"""

import numpy as np

from controllers.estimation.memory import ACCELEROMETER_BIAS, ATTITUDE, FEET, GYRO_BIAS, POSITION, VELOCITY, EstimatorState
from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import axpy, copy, copy_rows, dot, fill, fill_rows
from idyn.types import Array

SMALL = 1e-9  # rotation angles below this have no axis [rad]


@compiled
def fill_rotation(E: Array, turn: Array) -> None:
    """Fill exp(turn×)."""
    x, y, z = turn[0], turn[1], turn[2]
    angle = np.sqrt(x * x + y * y + z * z)
    s, c = (1.0, 0.5) if angle < SMALL else (np.sin(angle) / angle, (1.0 - np.cos(angle)) / angle**2)
    E[0, 0], E[0, 1], E[0, 2] = 1.0 - c * (y * y + z * z), c * x * y - s * z, c * x * z + s * y
    E[1, 0], E[1, 1], E[1, 2] = c * x * y + s * z, 1.0 - c * (x * x + z * z), c * y * z - s * x
    E[2, 0], E[2, 1], E[2, 2] = c * x * z - s * y, c * y * z + s * x, 1.0 - c * (x * x + y * y)


@compiled
def turn_world(E: Array, R: Array) -> None:
    """R ← E R."""
    for j in range(3):
        a, b, c = R[0, j], R[1, j], R[2, j]
        for i in range(3):
            R[i, j] = E[i, 0] * a + E[i, 1] * b + E[i, 2] * c


@compiled
def turn_body(R: Array, turn: Array) -> None:
    """R ← R exp(turn×)."""
    E = stack_array((3, 3))
    fill_rotation(E, turn)
    for i in range(3):
        a, b, c = R[i, 0], R[i, 1], R[i, 2]
        for j in range(3):
            R[i, j] = a * E[0, j] + b * E[1, j] + c * E[2, j]


@compiled
def add(P: Array, target: int, source: int, B: Array, rows: bool) -> None:
    """Add B times the source's rows of P to the target's rows; or the same for columns."""
    for j in range(len(P)):
        if rows:
            a, b, c = P[source, j], P[source + 1, j], P[source + 2, j]
            for i in range(3):
                P[target + i, j] += B[i, 0] * a + B[i, 1] * b + B[i, 2] * c
        else:
            a, b, c = P[j, source], P[j, source + 1], P[j, source + 2]
            for i in range(3):
                P[j, target + i] += B[i, 0] * a + B[i, 1] * b + B[i, 2] * c


@compiled
def fill_scaled(B: Array, factor: float) -> None:
    for i in range(3):
        for j in range(3):
            B[i, j] = factor if i == j else 0.0


@compiled
def fill_cross(B: Array, a: Array, factor: float) -> None:
    """B = factor · a×."""
    B[0, 0] = B[1, 1] = B[2, 2] = 0.0
    B[0, 1], B[0, 2], B[1, 2] = -factor * a[2], factor * a[1], -factor * a[0]
    B[1, 0], B[2, 0], B[2, 1] = factor * a[2], -factor * a[1], factor * a[0]


@compiled
def fill_turned(B: Array, R: Array, factor: float) -> None:
    """B = factor · R."""
    for i in range(3):
        for j in range(3):
            B[i, j] = factor * R[i, j]


@compiled
def fill_crossed(B: Array, a: Array, R: Array, factor: float) -> None:
    """B = factor · a× R."""
    for j in range(3):
        x, y, z = R[0, j], R[1, j], R[2, j]
        B[0, j], B[1, j] = factor * (a[1] * z - a[2] * y), factor * (a[2] * x - a[0] * z)
        B[2, j] = factor * (a[0] * y - a[1] * x)


@compiled
def put_cross(column: Array, first: int, a: Array, b: Array) -> None:
    """Write a × b from `first` on."""
    column[first] = a[1] * b[2] - a[2] * b[1]
    column[first + 1] = a[2] * b[0] - a[0] * b[2]
    column[first + 2] = a[0] * b[1] - a[1] * b[0]


Arrays = tuple[Array, ...]

GYRO_DRIFT, ACCELEROMETER_DRIFT = 1e-4, 1e-3  # growth of the standard deviations of the biases in a second [rad/s], [m/s²]
SETTLE = 0.03  # time after a touchdown in which a foot still slides, and is not used [s]

START = (1e-3, 1e-2, 1e-6, 1e-3, 0.03)
"""Standard deviations at the start: tilt [rad], velocity [m/s], position [m], gyro bias [rad/s], accelerometer bias [m/s²]."""


@compiled
def begin(x: EstimatorState, R: Array, gyro: Array) -> None:
    """Start at rest with the attitude R (3, 3), the IMU at the origin. gyro: present rate [rad/s] (3)"""
    copy_rows(R, x.R)
    copy(gyro, x.last_gyro)
    for vector in (x.v, x.p, x.gyro_bias, x.bias, x.slipped):
        fill(vector, 0.0)
    fill(x.stands, -1.0)
    tilt, velocity, position, gyro_bias, bias = START
    fill_rows(x.P, 0.0)
    for i in range(len(x.P)):
        x.P[i, i] = position**2
    for c in range(3):
        x.P[ATTITUDE + c, ATTITUDE + c] = tilt**2
        x.P[VELOCITY + c, VELOCITY + c] = velocity**2
        x.P[GYRO_BIAS + c, GYRO_BIAS + c] = gyro_bias**2
        x.P[ACCELEROMETER_BIAS + c, ACCELEROMETER_BIAS + c] = bias**2


@compiled
def predict_motion(x: EstimatorState, gyro: Array, accelerometer: Array, dt: float) -> None:
    """Move the estimate on by dt [s]. gyro: present rate [rad/s] (3); accelerometer: mean specific force over dt [m/s²] (3)"""
    rate, push = stack_array(3), stack_array(3)
    for c in range(3):
        rate[c] = (0.5 * (gyro[c] + x.last_gyro[c]) - x.gyro_bias[c]) * dt
        push[c] = accelerometer[c] - x.bias[c]
    copy(gyro, x.last_gyro)
    _move_covariance(x, dt)
    # p, v, R, feet
    half = stack_array((3, 3))
    copy_rows(x.R, half)
    for c in range(3):
        rate[c] *= 0.5
    turn_body(half, rate)  # attitude in the middle of the period
    turn_body(x.R, rate)
    turn_body(x.R, rate)
    for i in range(3):
        a = dot(half[i], push) + x.gravity[i]
        x.p[i] += dt * (x.v[i] + 0.5 * dt * a)
        x.v[i] += dt * a
    for i in range(len(x.feet)):
        axpy(dt, x.rolling[i], x.feet[i])


@compiled
def _move_covariance(x: EstimatorState, dt: float) -> None:
    """P ← Φ P Φᵀ + Q, before the estimate moves. Φ to first order, except for the position's error."""
    P, m, n = x.P, len(x.P), len(x.feet)
    B, g = stack_array((3, 3)), x.gravity
    for side in range(2):  # rows, then columns
        rows = side == 0
        # ξ_p += dt ξ_v + dt²/2 (g × φ − R ζ_a) − dt p × R ζ_g
        fill_scaled(B, dt)
        add(P, POSITION, VELOCITY, B, rows)
        fill_cross(B, g, 0.5 * dt * dt)
        add(P, POSITION, ATTITUDE, B, rows)
        fill_turned(B, x.R, -0.5 * dt * dt)
        add(P, POSITION, ACCELEROMETER_BIAS, B, rows)
        fill_crossed(B, x.p, x.R, -dt)
        add(P, POSITION, GYRO_BIAS, B, rows)
        # ξ_v += dt (g × φ − v × R ζ_g − R ζ_a)
        fill_cross(B, g, dt)
        add(P, VELOCITY, ATTITUDE, B, rows)
        fill_crossed(B, x.v, x.R, -dt)
        add(P, VELOCITY, GYRO_BIAS, B, rows)
        fill_turned(B, x.R, -dt)
        add(P, VELOCITY, ACCELEROMETER_BIAS, B, rows)
        # ξ_d −= dt d × R ζ_g
        for i in range(n):
            fill_crossed(B, x.feet[i], x.R, -dt)
            add(P, FEET + 3 * i, GYRO_BIAS, B, rows)
        # φ −= dt R ζ_g
        fill_turned(B, x.R, -dt)
        add(P, ATTITUDE, GYRO_BIAS, B, rows)
    # noise of the gyro turns all vectors about the origin; that of the accelerometer; drifts
    axis, column = stack_array(3), stack_array(m)
    for c in range(3):
        fill(column, 0.0)
        for k in range(3):
            axis[k] = 1.0 if k == c else 0.0
        column[ATTITUDE + c] = 1.0
        put_cross(column, VELOCITY, x.v, axis)
        put_cross(column, POSITION, x.p, axis)
        for i in range(n):
            put_cross(column, FEET + 3 * i, x.feet[i], axis)
        variance = (x.settings.gyro * dt) ** 2
        for i in range(m):
            if column[i] != 0.0:
                axpy(variance * column[i], column, P[i])
        P[VELOCITY + c, VELOCITY + c] += (x.settings.accelerometer * dt) ** 2
        P[GYRO_BIAS + c, GYRO_BIAS + c] += GYRO_DRIFT**2 * dt
        P[ACCELEROMETER_BIAS + c, ACCELEROMETER_BIAS + c] += ACCELEROMETER_DRIFT**2 * dt
        for i in range(n):
            P[FEET + 3 * i + c, FEET + 3 * i + c] += x.settings.creep**2 * dt


@compiled
def observe_attitude(x: EstimatorState, R: Array) -> None:
    """Use the attitude R (3, 3) that the IMU reports."""
    H, E = stack_array(len(x.P)), stack_array((3, 3))
    for c in range(3):
        noise = x.settings.heading if c == 2 else x.settings.tilt
        if noise == np.inf:
            continue
        # z = logarithm of R R̂ᵀ ≈ −φ
        for i in range(3):
            for j in range(3):
                E[i, j] = dot(R[i], x.R[j])
        i, j = (c + 1) % 3, (c + 2) % 3
        sine = 0.5 * (E[j, i] - E[i, j])
        length = 0.5 * np.sqrt((E[2, 1] - E[1, 2]) ** 2 + (E[0, 2] - E[2, 0]) ** 2 + (E[1, 0] - E[0, 1]) ** 2)
        angle = np.arctan2(length, 0.5 * (E[0, 0] + E[1, 1] + E[2, 2] - 1.0))
        fill(H, 0.0)
        H[ATTITUDE + c] = 1.0
        _observe(x, H, sine * (angle / length if length > SMALL else 1.0), noise**2)


@compiled
def observe_feet(x: EstimatorState, places: Array, touching: Array, dt: float) -> None:
    """Use the feet that touch and have settled.

    places: R̂ h, centres of the feet relative to the IMU, in world axes, for the attitude of the last `observe_attitude` (n, 3)
    touching: 1 for feet that touch (n)
    """
    H, settled, slipping = stack_array(len(x.P)), 0.0, 0.0
    for i in range(len(x.feet)):
        x.slipped[i] = 0.0
        if touching[i] > 0.0 and x.stands[i] + dt > SETTLE:
            x.slipped[i] = 1.0 if x.sliding[i] > x.settings.slip else 0.0
            settled, slipping = settled + 1.0, slipping + x.slipped[i]
    if slipping == settled:  # rather the estimate is wrong
        fill(x.slipped, 0.0)
    for i in range(len(x.feet)):
        if touching[i] == 0.0:
            x.stands[i] = -1.0
            for c in range(3):
                x.feet[i, c], x.rolling[i, c] = x.p[c] + places[i, c], 0.0
            continue
        x.stands[i] = x.stands[i] + dt if x.stands[i] >= 0.0 else 0.0
        if x.stands[i] <= SETTLE or x.slipped[i] > 0.0:
            _anchor(x, i, places[i])
            continue
        first = FEET + 3 * i
        for c in range(3):
            fill(H, 0.0)
            H[POSITION + c], H[first + c] = -1.0, 1.0
            _observe(x, H, x.p[c] + places[i, c] - x.feet[i, c], x.settings.leg**2)
        if x.settings.ground < np.inf:
            # height of the centre above the ground: r − d̂_z ≈ −(φ × d̂)_z − ξ_dz
            fill(H, 0.0)
            H[ATTITUDE], H[ATTITUDE + 1], H[first + 2] = x.feet[i, 1], -x.feet[i, 0], 1.0
            _observe(x, H, x.radii[i] - x.feet[i, 2], x.settings.ground**2)


@compiled
def observe_rest(x: EstimatorState) -> None:
    """Use that the base does not move."""
    H = stack_array(len(x.P))
    for c in range(3):
        fill(H, 0.0)
        H[VELOCITY + c] = 1.0
        _observe(x, H, -x.v[c], x.settings.leg**2)


@compiled
def _anchor(x: EstimatorState, i: int, place: Array) -> None:
    """Let a foot stand where the joint angles say."""
    first, P = FEET + 3 * i, x.P
    for c in range(3):
        x.feet[i, c] = x.p[c] + place[c]
        for j in range(len(P)):
            P[first + c, j] = P[POSITION + c, j]
    for j in range(len(P)):
        for c in range(3):
            P[j, first + c] = P[j, POSITION + c]
    for c in range(3):
        P[first + c, first + c] += x.settings.leg**2


@compiled
def _observe(x: EstimatorState, H: Array, z: float, variance: float) -> None:
    """Correct the estimate by one number z ≈ −H ξ with this variance."""
    P, m = x.P, len(x.P)
    PH, K = stack_array(m), stack_array(m)
    fill(PH, 0.0)
    for j in range(m):
        if H[j] != 0.0:
            for i in range(m):
                PH[i] += P[i, j] * H[j]
    total = dot(H, PH) + variance
    for i in range(m):
        K[i] = PH[i] / total
    for i in range(m):
        for j in range(i + 1):
            P[i, j] -= K[i] * PH[j]
            P[j, i] = P[i, j]
    # exp(K z) acts on attitude, vectors and biases
    turn = stack_array(3)
    for c in range(3):
        turn[c] = K[ATTITUDE + c] * z
        x.gyro_bias[c] += K[GYRO_BIAS + c] * z
        x.bias[c] += K[ACCELEROMETER_BIAS + c] * z
    E = stack_array((3, 3))
    fill_rotation(E, turn)
    turn_world(E, x.R)
    _shift(E, turn, K, VELOCITY, z, x.v)
    _shift(E, turn, K, POSITION, z, x.p)
    for i in range(len(x.feet)):
        _shift(E, turn, K, FEET + 3 * i, z, x.feet[i])


@compiled
def _shift(E: Array, turn: Array, K: Array, first: int, z: float, vector: Array) -> None:
    """vector ← E vector + (1 + turn×/2) K z."""
    a, b, c = vector[0], vector[1], vector[2]
    s0, s1, s2 = K[first] * z, K[first + 1] * z, K[first + 2] * z
    vector[0] = E[0, 0] * a + E[0, 1] * b + E[0, 2] * c + s0 + 0.5 * (turn[1] * s2 - turn[2] * s1)
    vector[1] = E[1, 0] * a + E[1, 1] * b + E[1, 2] * c + s1 + 0.5 * (turn[2] * s0 - turn[0] * s2)
    vector[2] = E[2, 0] * a + E[2, 1] * b + E[2, 2] * c + s2 + 0.5 * (turn[0] * s1 - turn[1] * s0)
