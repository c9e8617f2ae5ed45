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
    """Standard deviations of Gaussian errors with independent components."""

    joint_position: Finite = 0.0  # actuated joints [rad]
    joint_speed: Finite = 0.0  # actuated joints [rad/s]
    base_position: Finite = 0.0  # world axes [m]
    base_orientation: Finite = 0.0  # rotation vector, body axes [rad]
    base_velocity: Finite = 0.0  # linear velocity of the base, body axes [m/s]
    base_rate: Finite = 0.0  # angular velocity of the base, body axes [rad/s]


class Offset(Settings, frozen=True):
    """Constant errors, measured minus true value; axes as in `Spread`."""

    joint_position: dict[str, Signed] = msgspec.field(default_factory=dict)  # by joint name [rad]
    base_position: Vector3 = (0.0, 0.0, 0.0)  # [m] (3)
    base_orientation: Vector3 = (0.0, 0.0, 0.0)  # [rad] (3)
    base_velocity: Vector3 = (0.0, 0.0, 0.0)  # [m/s] (3)
    base_rate: Vector3 = (0.0, 0.0, 0.0)  # [rad/s] (3)


class ImuSettings(Settings, frozen=True):
    """The accelerometer of a robot that does not measure its base. Gyro and attitude have the errors `base_rate` and
    `base_orientation`.
    """

    position: Vector3 = (0.0, 0.0, 0.0)  # in the frame of the base [m] (3)
    # attitude of the IMU's axes in the frame of the base, unit quaternion x, y, z, w
    quat: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    noise: Finite = 0.0  # standard deviation of white noise [m/s²]
    bias: Finite = 0.0  # standard deviation of an error that is drawn once per run [m/s²]


class Sensing(Settings, frozen=True):
    """Measured state = true state + offset + bias + noise."""

    noise: Spread = Spread()  # white noise, drawn in every tick
    bias: Spread = Spread()  # drawn once per run
    offset: Offset = Offset()  # constant
    # with `contacts = "binary"`, a foot touches when its mean normal force over the last step exceeds this [N]
    touch_threshold: Finite = 1.0
    # the robot sends an IMU's readings instead of its base, which the server estimates; absent: it sends its base
    imu: ImuSettings | None = None


class Loss(Settings, frozen=True):
    """Lost messages."""

    probability: Probability = 0.0  # loss probability of each message, independent of the others
    rate: Finite = 0.0  # mean number of bursts per second; a burst loses all messages [1/s]
    length: Finite = 0.0  # duration of a burst [s]
    # instead of `rate`: one burst in each interval of this length; it begins at a random time in the middle half [s]
    every: Finite = 0.0


class LinkSettings(Settings, frozen=True):
    """Communication link between robot and server.

    The first state of a run and its torque are not delayed, because the robot does not move before.
    """

    state_delay: Ticks = 0  # delay from measurement to server [ticks]; a state keeps the time stamp of its measurement
    torque_delay: Ticks = 0  # delay from reply to motors [ticks]
    # lost_states, lost_torques: lost messages
    lost_states: Loss = Loss()
    lost_torques: Loss = Loss()


class DriveSettings(Settings, frozen=True):
    """Motors and gears of the simulated robot."""

    # rotor inertia times gear ratio squared [kg·m²]; absent: that of the robot file, as in the controller's model
    armature: ByJoint | None = None
    viscous: ByJoint = 0.0  # viscous joint friction [N·m·s/rad]
    coulomb: ByJoint = 0.0  # Coulomb joint friction [N·m]
    quantum: Finite = 0.0  # torque resolution [N·m]; 0: no quantisation
    # corner frequency of the first-order lag from commanded to applied torque [Hz]; inf: no lag
    bandwidth: Positive = float("inf")
    strength: Positive = float("inf")  # largest torque as a share of the robot's torque limits; inf: unlimited


class BodySettings(Settings, frozen=True):
    """Changes of a link relative to the controller's model."""

    mass_factor: Positive = 1.0  # factor of mass and inertia, as for another density
    added_mass: Signed = 0.0  # mass added at the centre of mass [kg], may be negative
    com_shift: Vector3 = (0.0, 0.0, 0.0)  # displacement of the centre of mass in the link frame [m] (3)
    inertia_factor: Positive = 1.0  # additional factor of the inertia about the centre of mass


class GroundSettings(Settings, frozen=True):
    """Properties of the world's ground that differ from those in the controller's model."""

    mu: NonNegative | None = None  # friction coefficient of all contacts; absent: that of the experiment
    terrain: AnyTerrain | None = None  # terrain of the world; absent: that of the controller


class ImperfectionSettings(Settings, frozen=True):
    """`[robot]` of an experiment. All random numbers derive from the seed of the run, default 0."""

    # sensing, link, drive: sensors, communication link, motors
    sensing: Sensing = Sensing()
    link: LinkSettings = LinkSettings()
    drive: DriveSettings = DriveSettings()
    trunk: BodySettings = BodySettings()  # changes of the heaviest link of the base
    links: dict[str, BodySettings] = msgspec.field(default_factory=dict)  # changes of other links, by name
    ground: GroundSettings = GroundSettings()  # ground of the world
    # the collision shapes of the URDF touch the ground, meshes as convex hulls, instead of the contact places that are no feet.
    # Only in MuJoCo, on flat ground
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
