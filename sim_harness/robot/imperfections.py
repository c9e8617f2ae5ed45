"""The `[robot]` table of an experiment: imperfections of the simulated robot, all off by default, and its model with them."""

from collections.abc import Mapping
from typing import Annotated
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import msgspec

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.contact.ground import AnyTerrain
from idyn.errors import ConfigError, nearest
from idyn.model.robot import Robot
from sim_harness.world.bodies import JointFriction

Ticks = Annotated[int, msgspec.Meta(ge=0)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Finite = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Signed = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
ByJoint = Finite | dict[str, Finite]  # one value for all actuated joints, or values by joint name, 0 for omitted joints

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


INERTIA = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")  # attributes of a URDF inertia


def world_robot(model: Robot, settings: ImperfectionSettings, where: str = "experiment.robot") -> Robot:
    """Return the robot of the world, the controller's model with changed inertial parameters.

    Raises ConfigError at `where` for unknown names and invalid values.
    """
    urdf = changed_urdf(model.description.urdf, settings.trunk, settings.links, where)
    if settings.drive.armature is None:
        return model.variant(urdf=urdf)
    return model.variant(urdf=urdf, armature=by_joint(settings.drive.armature, model, f"{where}.drive.armature"))


def joint_friction(robot: Robot, settings: ImperfectionSettings, where: str = "experiment.robot") -> JointFriction | None:
    """Return the joint friction of the world's robot, None without any. Raises ConfigError at `where` for unknown joints."""
    drive = settings.drive
    viscous = by_joint(drive.viscous, robot, f"{where}.drive.viscous")
    coulomb = by_joint(drive.coulomb, robot, f"{where}.drive.coulomb")
    if not any(viscous.values()) and not any(coulomb.values()):
        return None
    return JointFriction.of(robot, viscous, coulomb)


def by_joint(values: ByJoint, robot: Robot, where: str) -> dict[str, float]:
    """Return a value for every actuated joint. Raises ConfigError at `where` for other joints."""
    if not isinstance(values, dict):
        return dict.fromkeys(robot.joint_names, values)
    for name in values:
        if name not in robot.joint_names:
            raise ConfigError(f"{where}.{name}", f"unknown actuated joint{nearest(name, robot.joint_names)}")
    return {name: values.get(name, 0.0) for name in robot.joint_names}


def changed_urdf(urdf: str, trunk: BodySettings, links: Mapping[str, BodySettings], where: str) -> str:
    """Return the URDF text with changed inertial parameters; if there are no changes, the given text.

    Raises ConfigError at `where` for unknown links and links without mass.
    """
    ideal = BodySettings()
    changes = {name: body for name, body in links.items() if body != ideal}
    if trunk == ideal and not changes:
        return urdf
    robot = ElementTree.fromstring(urdf)
    inertials = {
        link.get("name", ""): inertial for link in robot.iter("link") if (inertial := link.find("inertial")) is not None
    }
    for name, body in changes.items():
        if name not in inertials:
            raise ConfigError(f"{where}.links.{name}", f"unknown link, or a link without mass{nearest(name, inertials)}")
        _change(inertials[name], body, f"{where}.links.{name}")
    if trunk != ideal:
        own = [inertials[name] for name in _base_links(robot) if name in inertials]
        if not own:
            raise ConfigError(f"{where}.trunk", "expected a base with mass, but the robot's base has none")
        _change(max(own, key=_mass), trunk, f"{where}.trunk")
    return ElementTree.tostring(robot, encoding="unicode")


def _base_links(robot: Element) -> set[str]:
    """Return the root link and all links fixed to it."""
    joints = [(joint.get("type"), _link(joint, "parent"), _link(joint, "child")) for joint in robot.findall("joint")]
    children = {child for _, _, child in joints}
    base = {name for link in robot.findall("link") if (name := link.get("name", "")) not in children}
    grown = 0
    while grown < len(base):
        grown = len(base)
        base |= {child for kind, parent, child in joints if kind == "fixed" and parent in base}
    return base


def _link(joint: Element, role: str) -> str:
    found = joint.find(role)
    return "" if found is None else found.get("link", "")


def _mass(inertial: Element) -> float:
    mass = inertial.find("mass")
    return 0.0 if mass is None else float(mass.get("value", "0"))


def _change(inertial: Element, body: BodySettings, where: str) -> None:
    """Change the parameters of an inertial element. Raises ConfigError at `where` when the new mass is not positive."""
    mass, inertia, origin = inertial.find("mass"), inertial.find("inertia"), inertial.find("origin")
    if mass is None or inertia is None:
        raise ConfigError(where, "expected a link with mass and inertia, but its URDF lacks one of them")
    value = body.mass_factor * _mass(inertial) + body.added_mass
    if not value > 0:
        raise ConfigError(f"{where}.added_mass", f"expected a resulting mass > 0, got {value:g} kg")
    mass.set("value", repr(value))
    for key in INERTIA:
        inertia.set(key, repr(body.mass_factor * body.inertia_factor * float(inertia.get(key, "0"))))
    if any(body.com_shift):
        if origin is None:
            origin = ElementTree.SubElement(inertial, "origin")
        at = [float(x) for x in origin.get("xyz", "0 0 0").split()]
        origin.set("xyz", " ".join(repr(x + shift) for x, shift in zip(at, body.com_shift, strict=True)))
