"""Readings of a robot's own sensors, made from the trace of a simulated run: IMU, encoders and torques, exact or with the
errors of real parts."""

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from controllers.estimation.estimator import Measurement

IMU = np.array([-0.026, 0.0, 0.042])
GRAVITY = np.array([0.0, 0.0, -9.81])


class Errors(NamedTuple):
    """Errors of the sensors: standard deviations of white noise and of constant offsets, the latter after the underscore.

    As of a small MEMS IMU (gyro 10 mrad/s, accelerometer 0.2 m/s² with an offset of 0.05), encoders of 1 mrad with offsets of
    3 mrad, and speeds by differences."""

    gyro: float = 0.01
    gyro_offset: float = 0.01
    acceleration: float = 0.2
    acceleration_offset: float = 0.05
    attitude: float = 0.002
    angle: float = 1e-3
    angle_offset: float = 3e-3
    speed: float = 0.05


EXACT = Errors(*[0.0] * 8)


class Truth(NamedTuple):
    """What the estimate is compared with: q and v of the robot, velocity of the IMU in the world, feet that touch."""

    q: np.ndarray
    v: np.ndarray
    velocity: np.ndarray
    touching: np.ndarray


def readings(trace, every, errors=EXACT, seed=0):
    """Return the measurements of every n-th tick, and the truth."""
    rng, rows = np.random.default_rng(seed), np.arange(every, len(trace), every)
    dt, na = float(trace.t[every] - trace.t[0]), trace.tau.shape[1]
    R = Rotation.from_quat(trace.q[:, 3:7])
    velocity = R.apply(trace.v[:, :3] + np.cross(trace.v[:, 3:6], IMU))
    offsets = [size * rng.normal(size=k) for size, k in zip((errors[1], errors[3], errors[6]), (3, 3, na), strict=True)]
    found = []
    for k in rows:
        before = k - every
        middle = R[before] * Rotation.from_rotvec(0.5 * dt * trace.v[before, 3:6])
        acceleration = middle.inv().apply((velocity[k] - velocity[before]) / dt - GRAVITY)
        found.append(
            Measurement(
                t=float(trace.t[k]),
                angles=trace.q[k, 7:] + offsets[2] + errors.angle * rng.normal(size=na),
                speeds=trace.v[k, 6:] + errors.speed * rng.normal(size=na),
                torques=trace.tau[before:k].mean(axis=0),
                attitude=(R[k] * Rotation.from_rotvec(errors.attitude * rng.normal(size=3))).as_quat(),
                gyro=trace.v[k, 3:6] + offsets[0] + errors.gyro * rng.normal(size=3),
                accelerometer=acceleration + offsets[1] + errors.acceleration * rng.normal(size=3),
            )
        )
    touching = np.nan_to_num(trace.simulated[rows - 1, :, 0]) > 1.0
    return found, Truth(trace.q[rows], trace.v[rows], velocity[rows], touching)
