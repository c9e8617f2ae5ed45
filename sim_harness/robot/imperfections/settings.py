"""The `[robot]` table of an experiment: in what the simulated robot differs from an ideal one. All off by default."""

from typing import Annotated

import msgspec

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.contact.terrain import AnyTerrain

Ticks = Annotated[int, msgspec.Meta(ge=0)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Finite = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Signed = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
ByJoint = Finite | dict[str, Finite]
"""One value for every actuated joint, or values by joint, 0 for those left out."""

Vector3 = tuple[Signed, Signed, Signed]


class Spread(Settings, frozen=True):
    """Standard deviations of Gaussian errors, each component on its own.

    joint_position [rad], joint_speed [rad/s]: of the actuated joints
    base_position [m]: world axes; base_orientation [rad]: rotation vector, body axes
    base_velocity [m/s], base_rate [rad/s]: linear and angular velocity of the base, body axes
    """

    joint_position: Finite = 0.0
    joint_speed: Finite = 0.0
    base_position: Finite = 0.0
    base_orientation: Finite = 0.0
    base_velocity: Finite = 0.0
    base_rate: Finite = 0.0


class Offset(Settings, frozen=True):
    """Given constant errors, measured minus true; axes as in `Spread`.

    joint_position: by joint [rad]
    base_position [m], base_orientation [rad], base_velocity [m/s], base_rate [rad/s]: each (3)
    """

    joint_position: dict[str, Signed] = msgspec.field(default_factory=dict)
    base_position: Vector3 = (0.0, 0.0, 0.0)
    base_orientation: Vector3 = (0.0, 0.0, 0.0)
    base_velocity: Vector3 = (0.0, 0.0, 0.0)
    base_rate: Vector3 = (0.0, 0.0, 0.0)


class Sensing(Settings, frozen=True):
    """Measured state = true state + offset + bias + noise.

    noise: white, new in every tick; bias: drawn once for a run; offset: given
    touch_threshold: with `contacts = "binary"`, a foot touches when its mean normal force over the last step exceeds this [N]
    """

    noise: Spread = Spread()
    bias: Spread = Spread()
    offset: Offset = Offset()
    touch_threshold: Finite = 1.0


class Loss(Settings, frozen=True):
    """Messages that do not arrive.

    probability: of each message, on its own
    rate, length: of bursts that swallow every message: how many begin in a second [1/s], and how long each lasts [s]
    every: instead of a rate, one burst in each so many seconds, at a random moment of its middle half [s]
    """

    probability: Probability = 0.0
    rate: Finite = 0.0
    length: Finite = 0.0
    every: Finite = 0.0


class LinkSettings(Settings, frozen=True):
    """The way between robot and server.

    state_delay, torque_delay: ticks from a measurement to the server, and from its answer to the motors; a state keeps the time
        stamp of its measurement. The first state of a run and its torque are not delayed: the robot was held before
    lost_states, lost_torques: what goes missing on the way
    """

    state_delay: Ticks = 0
    torque_delay: Ticks = 0
    lost_states: Loss = Loss()
    lost_torques: Loss = Loss()


class DriveSettings(Settings, frozen=True):
    """The motors with their gears, in the world.

    armature: rotor inertia times gear ratio squared [kg·m²] instead of the robot file's, which the controller's model has
    viscous [N·m·s/rad], coulomb [N·m]: joint friction
    quantum: step of the torques that the motors can tell apart [N·m]; 0: none
    bandwidth: corner frequency of the first-order lag between a commanded torque and the motor's [Hz]; inf: none
    strength: share of the robot's torque limits that the motors give; inf: whatever is asked
    """

    armature: ByJoint | None = None
    viscous: ByJoint = 0.0
    coulomb: ByJoint = 0.0
    quantum: Finite = 0.0
    bandwidth: Positive = float("inf")
    strength: Positive = float("inf")


class BodySettings(Settings, frozen=True):
    """How a link of the world's robot differs from the model's.

    mass_factor: of its mass and its inertia, as if of another density
    added_mass: at its centre of mass [kg], may be negative
    com_shift: of its centre of mass, in its link frame [m] (3)
    inertia_factor: of its inertia about the centre of mass, besides
    """

    mass_factor: Positive = 1.0
    added_mass: Signed = 0.0
    com_shift: Vector3 = (0.0, 0.0, 0.0)
    inertia_factor: Positive = 1.0


class GroundSettings(Settings, frozen=True):
    """Ground that differs from the controller's.

    mu: friction coefficient of all contacts in the world; absent: the experiment's
    terrain: the world's; absent: the controller's
    """

    mu: NonNegative | None = None
    terrain: AnyTerrain | None = None


class ImperfectionSettings(Settings, frozen=True):
    """`[robot]` of an experiment. Whatever is random comes from the seed of a run; without one, from seed 0.

    trunk: the heaviest of the links that make up the base, whatever its name; links: any others by name
    """

    sensing: Sensing = Sensing()
    link: LinkSettings = LinkSettings()
    drive: DriveSettings = DriveSettings()
    trunk: BodySettings = BodySettings()
    links: dict[str, BodySettings] = msgspec.field(default_factory=dict)
    ground: GroundSettings = GroundSettings()
