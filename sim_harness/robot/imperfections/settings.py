"""The `[robot]` table of an experiment: imperfections of the simulated robot. All are off by default."""

from typing import Annotated

import msgspec

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.contact.terrain import AnyTerrain

Ticks = Annotated[int, msgspec.Meta(ge=0)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Finite = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Signed = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
ByJoint = Finite | dict[str, Finite]
"""One value for all actuated joints, or values by joint name, 0 for omitted joints."""

Vector3 = tuple[Signed, Signed, Signed]


class Spread(Settings, frozen=True):
    """Standard deviations of Gaussian errors with independent components.

    joint_position: actuated joints [rad]
    joint_speed: actuated joints [rad/s]
    base_position: world axes [m]
    base_orientation: rotation vector, body axes [rad]
    base_velocity: linear velocity of the base, body axes [m/s]
    base_rate: angular velocity of the base, body axes [rad/s]
    """

    joint_position: Finite = 0.0
    joint_speed: Finite = 0.0
    base_position: Finite = 0.0
    base_orientation: Finite = 0.0
    base_velocity: Finite = 0.0
    base_rate: Finite = 0.0


class Offset(Settings, frozen=True):
    """Constant errors, measured minus true value; axes as in `Spread`.

    joint_position: by joint name [rad]
    base_position: [m] (3)
    base_orientation: [rad] (3)
    base_velocity: [m/s] (3)
    base_rate: [rad/s] (3)
    """

    joint_position: dict[str, Signed] = msgspec.field(default_factory=dict)
    base_position: Vector3 = (0.0, 0.0, 0.0)
    base_orientation: Vector3 = (0.0, 0.0, 0.0)
    base_velocity: Vector3 = (0.0, 0.0, 0.0)
    base_rate: Vector3 = (0.0, 0.0, 0.0)


class ImuSettings(Settings, frozen=True):
    """The accelerometer of a robot that does not measure its base. Gyro and attitude have the errors `base_rate` and
    `base_orientation`.

    position: in the frame of the base [m] (3)
    quat: attitude of the IMU's axes in the frame of the base, unit quaternion x, y, z, w
    noise: standard deviation of white noise [m/s²]
    bias: standard deviation of an error that is drawn once per run [m/s²]
    """

    position: Vector3 = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    noise: Finite = 0.0
    bias: Finite = 0.0


class Sensing(Settings, frozen=True):
    """Measured state = true state + offset + bias + noise.

    noise: white noise, drawn in every tick
    bias: drawn once per run
    offset: constant
    touch_threshold: with `contacts = "binary"`, a foot touches when its mean normal force over the last step exceeds this [N]
    imu: the robot sends an IMU's readings instead of its base, which the server estimates; absent: it sends its base
    """

    noise: Spread = Spread()
    bias: Spread = Spread()
    offset: Offset = Offset()
    touch_threshold: Finite = 1.0
    imu: ImuSettings | None = None


class Loss(Settings, frozen=True):
    """Lost messages.

    probability: loss probability of each message, independent of the others
    rate: mean number of bursts per second; a burst loses all messages [1/s]
    length: duration of a burst [s]
    every: instead of `rate`: one burst in each interval of this length; it begins at a random time in the middle half [s]
    """

    probability: Probability = 0.0
    rate: Finite = 0.0
    length: Finite = 0.0
    every: Finite = 0.0


class LinkSettings(Settings, frozen=True):
    """Communication link between robot and server.

    state_delay: delay from measurement to server [ticks]; a state keeps the time stamp of its measurement
    torque_delay: delay from reply to motors [ticks]
    lost_states, lost_torques: lost messages
    The first state of a run and its torque are not delayed, because the robot does not move before.
    """

    state_delay: Ticks = 0
    torque_delay: Ticks = 0
    lost_states: Loss = Loss()
    lost_torques: Loss = Loss()


class DriveSettings(Settings, frozen=True):
    """Motors and gears of the simulated robot.

    armature: rotor inertia times gear ratio squared [kg·m²]; absent: that of the robot file, as in the controller's model
    viscous: viscous joint friction [N·m·s/rad]
    coulomb: Coulomb joint friction [N·m]
    quantum: torque resolution [N·m]; 0: no quantisation
    bandwidth: corner frequency of the first-order lag from commanded to applied torque [Hz]; inf: no lag
    strength: largest torque as a share of the robot's torque limits; inf: unlimited
    """

    armature: ByJoint | None = None
    viscous: ByJoint = 0.0
    coulomb: ByJoint = 0.0
    quantum: Finite = 0.0
    bandwidth: Positive = float("inf")
    strength: Positive = float("inf")


class BodySettings(Settings, frozen=True):
    """Changes of a link relative to the controller's model.

    mass_factor: factor of mass and inertia, as for another density
    added_mass: mass added at the centre of mass [kg], may be negative
    com_shift: displacement of the centre of mass in the link frame [m] (3)
    inertia_factor: additional factor of the inertia about the centre of mass
    """

    mass_factor: Positive = 1.0
    added_mass: Signed = 0.0
    com_shift: Vector3 = (0.0, 0.0, 0.0)
    inertia_factor: Positive = 1.0


class GroundSettings(Settings, frozen=True):
    """Properties of the world's ground that differ from those in the controller's model.

    mu: friction coefficient of all contacts; absent: that of the experiment
    terrain: terrain of the world; absent: that of the controller
    """

    mu: NonNegative | None = None
    terrain: AnyTerrain | None = None


class ImperfectionSettings(Settings, frozen=True):
    """`[robot]` of an experiment. All random numbers derive from the seed of the run, default 0.

    sensing, link, drive: sensors, communication link, motors
    trunk: changes of the heaviest link of the base
    links: changes of other links, by name
    ground: ground of the world
    hulls: the collision shapes of the URDF touch the ground, meshes as convex hulls, instead of the contact places that are no
        feet. Only in MuJoCo, on flat ground
    """

    sensing: Sensing = Sensing()
    link: LinkSettings = LinkSettings()
    drive: DriveSettings = DriveSettings()
    trunk: BodySettings = BodySettings()
    links: dict[str, BodySettings] = msgspec.field(default_factory=dict)
    ground: GroundSettings = GroundSettings()
    hulls: bool = False
