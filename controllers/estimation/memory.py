"""State of the estimator's kernels."""

import numpy as np

from controllers.config.numbers import Numbers
from controllers.estimation.settings import EstimatorSettings
from idyn.jit.records import ArrayRecord, Indices, Mask, Matrix, Vector
from idyn.model.robot import Robot

ATTITUDE, VELOCITY, POSITION, GYRO_BIAS, ACCELEROMETER_BIAS, FEET = 0, 3, 6, 9, 12, 15
"""First component of each part of the error."""


class EstimatorNumbers(Numbers, settings=EstimatorSettings):
    """Numbers of the settings."""


class EstimatorState(ArrayRecord):
    """State of the filter and of the force estimate; n feet.

    Filter: estimate of the IMU's motion in the world, and covariance of its error
        R: attitude (3, 3); v [m/s], p [m]: velocity and position (3); gyro_bias [rad/s], bias [m/s²] (3)
        feet: centres of the feet's spheres [m] (n, 3); P: covariance (15 + 3n, 15 + 3n), see `ATTITUDE`
        north: cosine and sine of the heading at the start, which counts as 0 (2)
        last_gyro: last rate [rad/s] (3); rolling: velocities of the centres of rolling feet [m/s] (n, 3)
        sliding: speed of each foot on the ground, by the joint speeds [m/s] (n)
    Feet
        stands: time since the touchdown of each foot [s]; −1 in the air (n); slipped: 1 for one that slipped just now (n)
        residual: filtered torques of the contact forces about the joints [N·m] (na); last_v: velocity of the last tick (nv)
        force: contact forces in the world [N] (n, 3)
    Robot
        joints, offsets [m], radii [m]: of the feet (n); support (njoints, nv) and a (na): see `idyn.model.tree`
        places: index of each actuated joint in q (na)
        weight [N]; gravity: acceleration [m/s²] (3); imu: its position in the base frame [m] (3)
    """

    R: Matrix
    v: Vector
    p: Vector
    gyro_bias: Vector
    bias: Vector
    feet: Matrix
    P: Matrix
    north: Vector
    last_gyro: Vector
    rolling: Matrix
    sliding: Vector
    stands: Vector
    slipped: Vector
    residual: Vector
    last_v: Vector
    force: Matrix
    joints: Indices
    offsets: Matrix
    radii: Vector
    support: Mask
    a: Indices
    places: Indices
    weight: float
    gravity: Vector
    imu: Vector
    settings: EstimatorNumbers

    def __init__(self, settings: EstimatorSettings, robot: Robot) -> None:
        n, m = len(robot.spheres.keys), FEET + 3 * len(robot.spheres.keys)
        sizes = {"residual": robot.na, "last_v": robot.nv, "north": 2}
        sizes |= dict.fromkeys(("v", "p", "gyro_bias", "bias", "last_gyro"), 3)
        sizes |= dict.fromkeys(("stands", "slipped", "sliding"), n)
        self.put(**{name: np.zeros(size) for name, size in sizes.items()})
        self.put(R=np.eye(3), feet=np.zeros((n, 3)), P=np.zeros((m, m)), rolling=np.zeros((n, 3)), force=np.zeros((n, 3)))
        self.put(
            joints=robot.spheres.joints.astype(np.int64),
            offsets=np.ascontiguousarray(robot.spheres.offsets),
            radii=np.ascontiguousarray(robot.spheres.radii),
            support=np.ascontiguousarray(robot.tree.support),
            a=robot.tree.a.astype(np.int64),
            places=robot.tree.q_index.astype(np.int64),
            weight=robot.weight,
            gravity=np.array(robot.bodies.gravity, np.float64),
            imu=np.array(settings.imu),
            settings=EstimatorNumbers(settings),
        )
