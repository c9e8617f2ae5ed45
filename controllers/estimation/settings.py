"""Settings of the estimator."""

from controllers.config.loading import NonNegative, Positive, Settings


class EstimatorSettings(Settings, frozen=True):
    """Settings of the estimator: sensors, legs and ground.

    imu: position of the IMU in the frame of the base [m]
    imu_quat: attitude of the IMU's axes in the frame of the base, unit quaternion x, y, z, w
    gyro, accelerometer: standard deviations of their noise in each sample [rad/s], [m/s²]
    tilt, heading: standard deviations of the IMU's attitude in each sample, about horizontal axes and about the vertical [rad];
        inf: not used
    leg: standard deviation of a foot's position by the joint angles [m]
    creep: growth of a standing foot's position error in a second [m]
    ground: standard deviation of the height of the ground below a standing foot [m]; inf: the ground is not flat
    slip: speed at which a standing foot slips, and is not used, if another foot does not [m/s]
    touch, release: normal force of a foot at which it begins to touch, and below which it no longer does [weights]
    friction, damping: of each joint, dry [N·m] and viscous [N·m·s/rad], that the motor torque overcomes
    """

    imu: tuple[float, float, float] = (0.0, 0.0, 0.0)
    imu_quat: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    gyro: Positive = 0.01
    accelerometer: Positive = 0.2
    tilt: Positive = 0.02
    heading: Positive = 0.05
    leg: Positive = 0.001
    creep: Positive = 0.005
    ground: Positive = 0.003
    slip: Positive = 0.15
    touch: Positive = 0.1
    release: Positive = 0.05
    friction: NonNegative = 0.0
    damping: NonNegative = 0.0
