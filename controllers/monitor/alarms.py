"""Alarms: states that contradict themselves over time, motors that do not follow, torques that oscillate. Above its
threshold a row of `ALARMS` makes the mode `degraded` after its first time, and stops the robot (mode `fault`, joint damping)
after its second."""

from math import inf
from typing import NamedTuple

import numpy as np

from controllers.command import Inputs, Mismatch
from controllers.config.loading import NonNegative, Settings
from controllers.config.numbers import Numbers
from controllers.feedback import MAX_TICKS
from controllers.monitor.reality import MismatchMonitor
from controllers.monitor.safety import Safety
from controllers.monitor.windows import REALITY, AlarmState, Watched, judge
from controllers.robot.kinematics import contact_places, feet_of
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.terms.dynamics import NO_FORCES, NOTHING
from idyn.types import Array, Kinematics


class AlarmSettings(Settings, frozen=True):
    """`[alarms]` of a controller: the threshold of each alarm, inf: off; and times until an alarm stops the robot, inf: never.

    Those of joints, but for the motors', are off for robots that have a motor in a joint of several degrees of freedom.
    """

    joint_drift: NonNegative = 0.04  # angle minus integral of the speed, forgotten over 2 s [rad]
    base_drift: NonNegative = 0.09  # position minus integral of the velocity, forgotten over 2 s [m]
    attitude_drift: NonNegative = 0.09  # attitude minus integral of the rate, forgotten over 2 s [rad]
    # motion of the reference while the angle stays the same to the last bit, for 15 ms and more [rad]
    joint_frozen: NonNegative = 0.02
    # change of the asked torque, over its limit, while the angle stays the same to the last bit, for 50 ms and more, and a
    # reference moves [–]
    joint_rigid: NonNegative = 0.1
    # largest motion of a joint's reference while the pose of the base stays the same to the last bit, for 15 ms and more [rad]
    base_frozen: NonNegative = 0.06
    # difference from 1 of the share of the asked torque that was applied (`tau_applied`, else `tau_meas`) over 30 ms, where the
    # asked torque is above 5 % of the limit [–]
    motor: NonNegative = 0.35
    saturation: NonNegative = 0.9  # share of the time at the torque limit, over 0.2 s [–]
    # distance by which the base is too low over the lowest foot, over its height in the stance, or that of the centre of mass
    # if it is higher; off while the reference lies, and until a robot that lay has risen by half of it [–]
    sunk: NonNegative = 0.5
    # swings by more than 7 % of the torque limit in 0.2 s, mean over the joints, while the reference stands [–]
    roughness: NonNegative = 4.0
    roughness_moving: NonNegative = 20.0  # the same while the reference moves [–]
    sensor_stop: NonNegative = 0.03  # time from an alarm of a sensor until the robot stops [s]
    motor_stop: NonNegative = 0.1  # from an alarm of a motor [s]
    # from an alarm about roughness, saturation or height [s]; rough torques do not stop a robot that stands
    roughness_stop: NonNegative = 1.0
    # time for which motion or forces may differ from the prediction (`[reality]`) until the robot stops [s]
    reality_stop: NonNegative = 2.0
    switch_air: NonNegative = 0.05  # height above the lowest foot, both above the controller's terrain; it counts as open [m]
    # largest change of a joint's distance from its reference, in the foot's leg, while the switch is open and the foot moves by
    # less than 2 mm; it counts as closed until it closes [rad]
    switch_held: NonNegative = 0.03
    switch_force: NonNegative = 0.1  # sensed force over the weight, of a foot that is not in the air; it counts as closed [–]
    switch_unloaded: NonNegative = 0.5  # time with a sensed force below 0.5 % of the weight [s]
    # motor_warm, motor_hot: largest temperature of a motor (`temp`): above them the mode is degraded, and the robot stops [°C]
    motor_warm: NonNegative = inf
    motor_hot: NonNegative = inf
    # volt_low, volt_empty: voltage of the supply (`volt`): below them the mode is degraded, and the robot stops; 0: off [V]
    volt_low: NonNegative = 0.0
    volt_empty: NonNegative = 0.0


class AlarmNumbers(Numbers, settings=AlarmSettings):
    """Numbers of the settings."""


class Verdict(NamedTuple):
    """An alarm above its threshold. message: for the operator; stops: whether the robot must stop"""

    message: str
    stops: bool


POWER = {"hot motor": ("motor_warm", "motor_hot"), "low voltage": ("volt_low", "volt_empty")}
"""Alarm → its settings of warning and stop."""

POWER_STOP = 0.1  # time beyond `motor_hot` or `volt_empty` until the robot stops [s]


class Power:
    """Watches temperatures and voltage of one robot. All limits are off by default: they depend on the hardware."""

    def __init__(self, settings: AlarmSettings, robot: Robot) -> None:
        self._settings, self._names = settings, robot.joint_names
        self.reset()

    def reset(self) -> None:
        self._hot = self._empty = 0.0  # times beyond the limits that stop [s]

    def judge(self, inputs: Inputs) -> Verdict | None:
        """Compare the measurements of a state with the limits. Return the most urgent alarm, None without one.

        Without a measurement of a quantity its time beyond the limit is kept.
        """
        s, found = self._settings, []
        if inputs.temperature is not None and len(inputs.temperature):
            k = int(inputs.temperature.argmax())
            hottest = float(inputs.temperature[k])
            self._hot = self._hot + inputs.dt if hottest > s.motor_hot else 0.0
            if hottest > min(s.motor_warm, s.motor_hot):
                text = f"hot motor: {self._names[k]} at {hottest:.1f} °C"
                found.append(Verdict(text, hottest > s.motor_hot and self._hot >= POWER_STOP))
        if inputs.voltage is not None:
            volt = inputs.voltage
            self._empty = self._empty + inputs.dt if volt < s.volt_empty else 0.0
            if volt < max(s.volt_low, s.volt_empty):
                found.append(Verdict(f"low voltage: {volt:.2f} V", volt < s.volt_empty and self._empty >= POWER_STOP))
        return max(found, key=lambda verdict: verdict.stops, default=None)


LOST = 1.5  # beyond this states were lost [periods]: drifts then count only as far as no speed between explains them
MAX_GAP = 4.5  # states that are further apart are not compared [periods]: between them speeds and torques are unknown


class Alarm(NamedTuple):
    """A row of the table of alarms. `AlarmSettings` says what is compared with the threshold."""

    name: str  # in messages
    threshold: str  # name of the setting
    text: str  # message; {joint}: name of the joint, {value}: the measure
    stop: str = "sensor_stop"  # name of the setting
    after: float = 0.0  # time above the threshold until the mode becomes degraded [s]
    also: str = ""  # name of a second threshold


ALARMS = (
    Alarm("joint drift", "joint_drift", "{joint} has moved {value:.3f} rad other than its speed says"),
    Alarm("base drift", "base_drift", "the base has moved {value:.3f} m other than its velocity says"),
    Alarm("attitude drift", "attitude_drift", "the base has turned {value:.3f} rad other than its rate says"),
    Alarm("frozen joint", "joint_frozen", "the angle of {joint} does not change while its reference moves by {value:.3f} rad"),
    Alarm(
        "rigid joint",
        "joint_rigid",
        "the angle of {joint} does not change while its torque changes by {value:.0%} of the limit",
    ),
    Alarm("frozen base", "base_frozen", "the pose of the base does not change while the reference moves by {value:.3f} rad"),
    Alarm("motor", "motor", "the torque of {joint} is off by {value:.0%} of what was asked", "motor_stop", 0.02),
    Alarm("saturation", "saturation", "{joint} has been at its torque limit for {value:.0%} of the time", "roughness_stop"),
    Alarm(
        "roughness",
        "roughness",
        "the torques oscillate: {value:.1f} swings per joint in 0.2 s, mean |dτ/dt| {rate:.3g} N·m/s",
        "roughness_stop",
        0.2,
        "roughness_moving",
    ),
    Alarm("reality", "", "{mismatch}, for {held:.1f} s", "reality_stop"),
    Alarm("sunk", "sunk", "the base has sunk by {value:.0%} of its height over the feet", "roughness_stop"),
)
"""All alarms, in the order of the kernel's measures (`controllers.monitor.windows.watch`). The first that stops is reported."""


OF_ANGLES = ("joint_drift", "joint_frozen", "joint_rigid")
"""Thresholds of alarms that need joints of one axis: other joints have no angle whose rate is their speed."""


class Alarms:
    """Judges the states of one robot: faults, mismatch with the prediction, and alarms.

    mismatch: with the last prediction that was compared, None before the first
    joints: angles [rad] and speeds [rad/s] of the last state (na), until the next one
    """

    def __init__(
        self, settings: AlarmSettings, robot: Robot, period: float, stance: Array, safety: Safety, monitor: MismatchMonitor
    ) -> None:
        """period: control period [s]; stance: configuration in which the robot stands (nq)"""
        self._robot, self._period = robot, period
        stops = [getattr(settings, each.stop) for each in ALARMS]
        after = np.array([each.after for each in ALARMS])
        thresholds = [getattr(settings, each.threshold) if each.threshold else 0.5 for each in ALARMS]
        if not robot.one_axis_each:
            thresholds = [np.inf if each.threshold in OF_ANGLES else t for each, t in zip(ALARMS, thresholds, strict=True)]
        limits = np.array(thresholds), after, after + np.array(stops)
        self._record = AlarmState(limits, float(settings.roughness_moving), robot.limits.tau_max, MAX_TICKS + 1)
        self._record.put(max_gap=MAX_GAP * period, lost_after=LOST * period, floating=robot.floating)
        if robot.floating and robot.spheres.keys:
            spheres, rows = robot.spheres, feet_of(robot, stance)
            feet = np.column_stack([spheres.joints[rows], spheres.offsets[rows], spheres.radii[rows]])
            lowest = float((contact_places(robot, stance)[:, 2] - spheres.radii).min())
            base, centre = float(stance[2]) - lowest, float(robot.center_of_mass(stance)[2]) - lowest
            self._record.put(feet=np.ascontiguousarray(feet, np.float64), tall=base, size=max(base, centre))
        self._power, self._safety, self._monitor = Power(settings, robot), safety, monitor
        self._watched, self.joints = Watched(), (safety.record.angles, safety.record.speeds)
        self._watched.put(last=safety.record, expected=monitor.record, alarms=self._record)
        self.reset()

    def reset(self) -> None:
        self._record.reset()
        self._power.reset()
        self.mismatch: Mismatch | None = None

    def judge(self, at: Kinematics, inputs: Inputs, reference: Array | None, *, lies: bool = False) -> Verdict | None:
        """Compare a state with the limits and with those before it. Return the most urgent alarm, None without one.

        at: as measured
        reference: angles of the last tick [rad] (na), None: unknown; lies: whether it was that of a lying robot
        Raises InputError for sensed forces of a wrong shape.
        """
        robot, asked, sensed, applied = self._robot, self._safety.last, inputs.sensed_force, inputs.tau_applied
        applied = inputs.tau_measured if applied is None else applied
        late = round(inputs.delay / self._period) if inputs.delay else 0  # [ticks]
        follows = reference is not None and asked is not None
        if reference is None or asked is None:
            reference = asked = NOTHING
        if applied is None or inputs.follows is False:
            applied = NOTHING
        forces = NO_FORCES if sensed is None else np.ascontiguousarray(sensed, np.float64)
        if forces.ndim != 2 or forces.shape[1] != 3:
            raise InputError("sensed_force", f"expected shape (n, 3), a row for each contact, got {forces.shape}")
        angles = NOTHING if robot.one_axis_each else robot.joint_angles(at.q)
        ages = 1 + late, -1 if inputs.follows is None else min(late, MAX_TICKS)
        are = (inputs.estop != "", sensed is not None, follows, lies)
        measured = at.q, at.v, angles, reference, asked, applied, forces, at.placements
        why, joint, value, compared, motion, force, degraded, found = judge(self._watched, inputs.dt, ages, are, measured)
        if why or inputs.estop:
            return Verdict(self._safety.fault(why, joint, value), True) if why else None
        if compared:
            self.mismatch = self._monitor.told(motion, None if sensed is None else force, degraded)
        power = None
        if inputs.temperature is not None or inputs.voltage is not None:
            power = self._power.judge(inputs)
            if power is not None and power.stops:
                return power
        return power if found < 0 else self._verdict(*divmod(found, 2), "" if self.mismatch is None else self.mismatch.problem)

    def _verdict(self, k: int, stops: int, mismatch: str) -> Verdict:
        """Return alarm k with its message. mismatch: that of the mismatch monitor"""
        if k == REALITY and not stops:  # it has its own message
            return Verdict(mismatch, False)
        record, alarm, names = self._record, ALARMS[k], self._robot.joint_names
        joint = names[int(record.joints[k])] if names else ""
        rate = float(record.memory.rate.mean()) if names else 0.0
        value, held = float(record.values[k]), float(record.above[k])
        text = alarm.text.format(joint=joint, value=value, rate=rate, held=held, mismatch=mismatch)
        return Verdict(f"{alarm.name}: {text}", bool(stops))
