"""Settings of the alarms."""

from math import inf

from controllers.config.loading import NonNegative, Settings
from controllers.config.numbers import Numbers


class AlarmSettings(Settings, frozen=True):
    """`[alarms]` of a controller: the threshold of each alarm, inf: off; and times until an alarm stops the robot, inf: never.

    joint_drift: difference between a joint's motion and the integral of its speed [rad]; this and the alarms about angles that
        do not change are off for robots that have a motor in a joint of several degrees of freedom
    base_drift: the same of the base [m]; attitude_drift: of its attitude [rad]
    joint_frozen: motion of a joint's reference while its measured angle does not change at all [rad]
    joint_rigid: change of a joint's torque, as a share of its limit, while its angle does not change at all and references move
    base_frozen: largest motion of a joint's reference while the base's pose does not change at all [rad]
    motor: share of the asked torque that a motor gives too little or too much [–]
    saturation: share of the time in which a joint's torque is at its limit [–]
    sunk: distance by which the base is too low over the lowest foot, as a share of its height in the stance, or of that of the
        centre of mass if that is higher; off while the reference lies, and until a robot that lay has risen by half of it [–]
    roughness: swings of the torques in 0.2 s, mean over the joints, while the reference stands [–]
    roughness_moving: the same while the reference moves
    sensor_stop: time from an alarm of a sensor until the robot stops [s]
    motor_stop: from an alarm of a motor [s]
    roughness_stop: from an alarm about roughness, saturation or height [s]; rough torques do not stop a robot that stands
    reality_stop: time for which motion or forces may differ from the prediction (`[reality]`) until the robot stops [s]
    switch_air: height above the lowest foot at which a foot switch cannot be closed [m]
    switch_held: change of a joint's distance from its reference, in the leg of a foot that does not move, at which its switch
        cannot be open [rad]
    switch_force: force at which a foot switch cannot be open, as a share of the weight [–]
    switch_unloaded: time for which a foot switch may be closed without a sensed force [s]
    motor_warm, motor_hot: temperatures of a motor above which the mode is degraded, and the robot stops [°C]
    volt_low, volt_empty: voltages below which the mode is degraded, and the robot stops [V]; 0: off
    """

    joint_drift: NonNegative = 0.04
    base_drift: NonNegative = 0.09
    attitude_drift: NonNegative = 0.09
    joint_frozen: NonNegative = 0.02
    joint_rigid: NonNegative = 0.1
    base_frozen: NonNegative = 0.06
    motor: NonNegative = 0.35
    saturation: NonNegative = 0.9
    sunk: NonNegative = 0.5
    roughness: NonNegative = 4.0
    roughness_moving: NonNegative = 20.0
    sensor_stop: NonNegative = 0.03
    motor_stop: NonNegative = 0.1
    roughness_stop: NonNegative = 1.0
    reality_stop: NonNegative = 2.0
    switch_air: NonNegative = 0.05
    switch_held: NonNegative = 0.03
    switch_force: NonNegative = 0.1
    switch_unloaded: NonNegative = 0.5
    motor_warm: NonNegative = inf
    motor_hot: NonNegative = inf
    volt_low: NonNegative = 0.0
    volt_empty: NonNegative = 0.0


class AlarmNumbers(Numbers, settings=AlarmSettings):
    """Numbers of the settings."""
