"""The bodies of a scene as one robot with several trees, with springs, friction and stops of the joints.

Pinocchio expresses the velocity of a free body in the body frame, which turns during a step: an error of (ω dt)²/2 on a
straight path. Here a step uses the axes that the body has at its beginning: `terms` returns h for these, `after` rotates v⁺.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

import numpy as np
from scipy.spatial.transform import Rotation

from idyn.model.description import Description
from idyn.model.robot import Robot
from idyn.types import Array, Record, State
from sim_harness.studies.scenes.polyhedra import hull_of
from sim_harness.studies.scenes.scene_settings import BodySettings, JointSettings, SceneSettings, Shape
from sim_harness.world.world import generalised_force

COLOURS = ("0.30 0.47 0.66", "0.95 0.56 0.17", "0.46 0.72 0.70", "0.35 0.63 0.31", "0.93 0.79 0.28", "0.69 0.48 0.63")
FIXED = "0.62 0.65 0.69"

URDF_TYPES = {"slide": "prismatic", "hinge": "continuous"}


class Pose(Record, frozen=True):
    """Rotation (3, 3) and position [m] (3)."""

    rotation: Array
    position: Array

    def seen_from(self, frame: "Pose") -> "Pose":
        """Return the pose relative to a frame."""
        back = frame.rotation.T
        return Pose(rotation=back @ self.rotation, position=back @ (self.position - frame.position))


WORLD = Pose(rotation=np.eye(3), position=np.zeros(3))


def body_pose(body: BodySettings) -> Pose:
    """Return the pose of a body at the reference configuration."""
    return Pose(rotation=Rotation.from_euler("xyz", body.turn).as_matrix(), position=np.array(body.position))


def anchor(body: BodySettings, joint: JointSettings) -> Array:
    """Return the anchor of a joint [m] (3)."""
    return np.array(body.position if joint.anchor is None else joint.anchor)


def link_pose(body: BodySettings) -> Pose:
    """Return the pose of the body's link at the reference configuration."""
    if isinstance(body.joint, str):
        return body_pose(body)
    return Pose(rotation=np.eye(3), position=anchor(body, body.joint[-1]))


def joint_name(body: BodySettings, index: int = 0) -> str:
    """Return the name of a joint of a body; index: of a slide or hinge."""
    return f"{body.name}.{index}"


def mass_of(body: BodySettings) -> float:
    """Return the mass [kg]; 1 for a fixed body without mass and density, where it has no effect."""
    if body.mass is not None:
        return body.mass
    return 1.0 if body.density is None else body.density * volume(body.shape)


def volume(shape: Shape) -> float:
    """Return the volume [m³]."""
    if shape.box is not None:
        return float(np.prod(shape.box))
    if shape.sphere is not None:
        return float(4 / 3 * np.pi * shape.sphere**3)
    if shape.hull is not None:
        return hull_of(shape.hull).volume
    assert shape.cylinder is not None
    return float(np.pi * shape.cylinder[0] ** 2 * shape.cylinder[1])


def tensor(shape: Shape) -> Array:
    """Return the inertia of a solid of 1 kg about its centre [m²] (3, 3)."""
    return np.diag(inertia(shape)) if shape.hull is None else hull_of(shape.hull).tensor


def inertia(shape: Shape) -> Array:
    """Return the moments of inertia of a solid of 1 kg about its axes [m²] (3)."""
    if shape.hull is not None:
        return np.diag(hull_of(shape.hull).tensor).copy()
    if shape.box is not None:
        x, y, z = np.square(shape.box)
        return np.array([y + z, x + z, x + y]) / 12
    if shape.sphere is not None:
        return np.full(3, 0.4 * shape.sphere**2)
    assert shape.cylinder is not None
    radius, length = shape.cylinder
    across = (3 * radius**2 + length**2) / 12
    return np.array([across, across, radius**2 / 2])


def urdf_of(bodies: Sequence[BodySettings]) -> str:
    """Return the URDF text. Links have the names of the bodies."""
    robot = Xml.Element("robot", name="scene")
    Xml.SubElement(robot, "link", name="world")
    frames = {"": WORLD} | {body.name: link_pose(body) for body in bodies}
    for i, body in enumerate(bodies):
        colour = FIXED if body.joint == "fixed" and not body.parent else COLOURS[i % len(COLOURS)]
        _add_link(robot, body, colour)
        _add_joints(robot, body, frames[body.parent])
    return Xml.tostring(robot, encoding="unicode")


def _add_link(robot: Xml.Element, body: BodySettings, colour: str) -> None:
    link = Xml.SubElement(robot, "link", name=body.name)
    inertial = Xml.SubElement(link, "inertial")
    place = body_pose(body).seen_from(link_pose(body))
    Xml.SubElement(inertial, "mass", value=repr(float(mass_of(body))))
    rotational = mass_of(body) * tensor(body.shape) if body.inertia is None else np.diag(body.inertia)
    moments = {f"i{'xyz'[i]}{'xyz'[j]}": repr(float(rotational[i, j])) for i in range(3) for j in range(i, 3)}
    Xml.SubElement(inertial, "inertia", moments)
    _add_origin(inertial, Pose(rotation=place.rotation, position=place.position + place.rotation @ body.mass_centre))
    if body.shape.hull is not None:
        return  # URDF has no polyhedra
    visual = Xml.SubElement(link, "visual")
    _add_origin(visual, place)
    geometry = Xml.SubElement(visual, "geometry")
    shape = body.shape
    if shape.box is not None:
        Xml.SubElement(geometry, "box", size=_text(shape.box))
    elif shape.sphere is not None:
        Xml.SubElement(geometry, "sphere", radius=repr(float(shape.sphere)))
    elif shape.cylinder is not None:
        radius, length = map(float, shape.cylinder)
        Xml.SubElement(geometry, "cylinder", radius=repr(radius), length=repr(length))
    material = Xml.SubElement(visual, "material", name=body.name)
    Xml.SubElement(material, "color", rgba=f"{colour} 1")


def _add_joints(robot: Xml.Element, body: BodySettings, parent: Pose) -> None:
    """Add the joints from the parent to the body, with massless links between them."""
    above = body.parent or "world"
    if body.joint == "free":
        _add_joint(robot, joint_name(body), "floating", (above, body.name), WORLD)  # its configuration is its pose
        return
    if body.joint == "fixed":
        _add_joint(robot, joint_name(body), "fixed", (above, body.name), link_pose(body).seen_from(parent))
        return
    for k, joint in enumerate(body.joint):
        below = body.name if k == len(body.joint) - 1 else f"{body.name} after {k}"
        if below != body.name:
            Xml.SubElement(robot, "link", name=below)
        frame = Pose(rotation=np.eye(3), position=anchor(body, joint))
        element = _add_joint(robot, joint_name(body, k), URDF_TYPES[joint.kind], (above, below), frame.seen_from(parent))
        Xml.SubElement(element, "axis", xyz=_text(np.array(joint.axis) / np.linalg.norm(joint.axis)))
        if joint.kind == "slide":
            Xml.SubElement(element, "limit", lower="0", upper="0", effort="0", velocity="0")  # all zero: no limits
        above, parent = below, frame


def _add_joint(robot: Xml.Element, name: str, kind: str, ends: tuple[str, str], place: Pose) -> Xml.Element:
    joint = Xml.SubElement(robot, "joint", name=name, type=kind)
    Xml.SubElement(joint, "parent", link=ends[0])
    Xml.SubElement(joint, "child", link=ends[1])
    _add_origin(joint, place)
    return joint


def _add_origin(element: Xml.Element, place: Pose) -> None:
    angles = Rotation.from_matrix(place.rotation).as_euler("xyz")
    Xml.SubElement(element, "origin", xyz=_text(place.position), rpy=_text(angles))


def _text(values: Sequence[float] | Array) -> str:
    return " ".join(repr(float(value)) for value in values)


class JointEffects(Record, frozen=True):
    """Springs, friction and stops of all degrees of freedom (nv each); 0 without spring or friction."""

    stiffness: Array  # spring stiffness [N/m, N·m/rad]
    rest: Array  # rest position of the spring [m, rad]
    viscous: Array  # viscous friction [N·s/m, N·m·s/rad]
    coulomb: Array  # Coulomb friction [N, N·m]
    low: Array  # positions of the lower stops, −inf without [m, rad]
    high: Array  # positions of the upper stops, inf without [m, rad]
    stop_compliance: Array  # compliance of the stops, 0 for rigid stops [m/N, rad/(N·m)]
    stop_dissipation: Array  # damping over stiffness of the stops [s]


class SceneModel:
    """The bodies of a scene (nb), in the order of its settings.

    robot: all bodies; free bodies have floating joints
    joints: joint of the robot that carries each body, 0 for the world (nb)
    rotations: orientation of the bodies in the frames of these joints (nb, 3, 3)
    offsets: centres of the bodies in the frames of these joints [m] (nb, 3)
    masses: [kg] (nb), 0 for bodies fixed to the world
    loose: true for free bodies and bodies fixed to a free body (nb)
    gravity: [m/s²] (3)
    effects: springs, friction and stops of the joints
    free: indices in v of the linear velocities of free bodies (k, 3)
    free_positions: indices in q of the positions of free bodies (k, 3)
    dofs: indices in v and q of slides and hinges, by name
    reference: configuration with all slides and hinges at 0 (nq)
    start: first state
    """

    def __init__(self, settings: SceneSettings) -> None:
        """settings: from `load_scene`. Raises ConfigError or ModelError for invalid bodies."""
        self.settings = settings
        bodies = settings.body
        self.robot = robot = Robot(Description(urdf=urdf_of(bodies), base="fixed"), "scene")
        self.names = tuple(body.name for body in bodies)
        self.joints = np.array([robot.joint_of_frame(name) for name in self.names], dtype=np.int64)
        self.masses = np.array([mass_of(body) if joint else 0.0 for body, joint in zip(bodies, self.joints, strict=True)])
        self.loose = np.array([is_loose(settings, body) for body in bodies])
        self._mass_offsets = np.array([body.mass_centre for body in bodies])
        slope = 0.0 if settings.ground is None else settings.ground.slope
        self.gravity = settings.gravity * np.array([-np.sin(slope), 0.0, -np.cos(slope)])
        self.dofs = _dofs(robot, bodies)
        firsts = sorted(_first(robot, body) for body in bodies if body.joint == "free")
        self.free = np.array(firsts, dtype=np.int64).reshape(-1, 1) + np.arange(3)
        self.free_positions = robot.tree.unit_spans[:, :1] - 3 + np.arange(3)
        self.effects = _effects(robot, bodies, self.dofs)
        self.reference = _reference(robot, bodies)
        self.rotations, self.offsets = self._place_in_joints(bodies)
        self.start = self._start(bodies)

    def place(self, q: Array) -> tuple[Array, Array]:
        """Return rotations (nb, 3, 3) and centres [m] (nb, 3) of the bodies in the world."""
        rotations, origins = self.robot.place(q)
        turns = rotations[self.joints]
        return turns @ self.rotations, origins[self.joints] + np.einsum("bij,bj->bi", turns, self.offsets)

    def mass_centres(self, q: Array) -> Array:
        """Return the centres of mass of the bodies in the world [m] (nb, 3)."""
        rotations, centres = self.place(q)
        return centres + np.einsum("bij,bj->bi", rotations, self._mass_offsets)

    def terms(self, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return M (nv, nv), h (nv) with the scene's gravity, and the joint axes (nv, 6) as in `DynamicsTerms`.

        M v̇ = Jᵀf − h, where v̇ of free bodies is the derivative along axes that are fixed in space.
        """
        terms = self.robot.terms(q, v)
        h, other = terms.h.copy(), self.gravity - self.robot.bodies.gravity
        if other.any():
            centres = self.mass_centres(q)
            for body in np.flatnonzero(self.masses):
                h -= self.force_at(terms.axes, int(body), centres[body], self.masses[body] * other)
        # body-frame derivative = space-fixed derivative − ω × v
        M, omega_cross_v = terms.M.copy(), np.zeros(len(v))
        omega_cross_v[self.free] = np.cross(v[self.free + 3], v[self.free])
        return M, h - M @ omega_cross_v, terms.axes.copy()

    def moved(self, q: Array, shift: Array) -> Array:
        """Return the configuration after the displacement `shift` along the axes at q (nq). Free bodies move straight."""
        moved = self.robot.integrate(q, shift)
        if len(self.free):
            straight = self.free_positions
            moved[straight] = q[straight] + self._turns(q).apply(shift[self.free])
        return moved

    def _turns(self, q: Array) -> Rotation:
        return Rotation.from_quat(q[self.free_positions[:, :1] + np.arange(3, 7)])

    def after(self, q: Array, v_plus: Array, drift: Array, dt: float) -> State:
        """Return the state after a step, see `Bodies.after`."""
        moved, v = self.moved(q, dt * drift), v_plus.copy()
        if len(self.free):
            v[self.free] = self._turns(moved).inv().apply(self._turns(q).apply(v_plus[self.free]))
        return State(q=moved, v=v)

    def along_axes_at(self, q: Array, moved: Array, J: Array) -> Array:
        """Return J for velocities along the axes at q, see `Bodies.along_axes_at`."""
        if len(self.free):
            for free, turn in zip(self.free, (self._turns(moved).inv() * self._turns(q)).as_matrix(), strict=True):
                J[:, free] = J[:, free] @ turn
        return J

    def before(self, q: Array, after: State) -> Array:
        """Return the velocity of the state `after` along the axes at an earlier configuration q (nv)."""
        v = after.v.copy()
        if len(self.free):
            v[self.free] = (self._turns(q).inv() * self._turns(after.q)).apply(after.v[self.free])
        return v

    def force_at(self, axes: Array, body: int, point: Array, force: Array) -> Array:
        """Return the generalised force of a force [N] at a point [m] of a body, both in world axes (nv)."""
        return generalised_force(axes, self.robot.tree.support, int(self.joints[body]), point, force)

    def motions(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Return velocities of the centres [m/s] (nb, 3) and angular velocities [rad/s] (nb, 3), world axes."""
        centres, tree = self.place(q)[1], self.robot.tree
        twists = (tree.support @ (self.robot.terms(q, v).axes * v[:, None]))[self.joints]
        return twists[:, :3] + np.cross(twists[:, 3:], centres), twists[:, 3:]

    def energy(self, q: Array, v: Array) -> float:
        """Return the sum of kinetic energy, potential energy of gravity and spring energy [J]."""
        M, _, _ = self.terms(q, v)
        height = float(self.masses @ (self.mass_centres(q) @ self.gravity))
        stretch = self.stretch(q)
        return float(0.5 * v @ M @ v) - height + float(0.5 * self.effects.stiffness @ stretch**2)

    def stretch(self, q: Array) -> Array:
        """Return the stretch of the joint springs, 0 without spring [m, rad] (nv)."""
        out = np.zeros(self.robot.nv)
        for dof, position in self.dofs.values():
            out[dof] = q[position] - self.effects.rest[dof]
        return out

    def _place_in_joints(self, bodies: Sequence[BodySettings]) -> tuple[Array, Array]:
        rotations, origins = self.robot.place(self.reference)
        back = rotations[self.joints].transpose(0, 2, 1)
        poses = [body_pose(body) for body in bodies]
        turns = back @ np.array([pose.rotation for pose in poses])
        away = np.array([pose.position for pose in poses]) - origins[self.joints]
        return turns, np.einsum("bij,bj->bi", back, away)

    def _start(self, bodies: Sequence[BodySettings]) -> State:
        q, v = self.reference.copy(), np.zeros(self.robot.nv)
        for body in bodies:
            if body.joint == "free":
                first = _first(self.robot, body)
                back = body_pose(body).rotation.T  # Pinocchio's velocities are in the body frame
                v[first : first + 3], v[first + 3 : first + 6] = back @ body.velocity, back @ body.spin
            for k, joint in enumerate(body.joints):
                dof, position = self.dofs[joint_name(body, k)]
                q[position], v[dof] = joint.start, joint.speed
        return State(q=q, v=v)


def is_loose(settings: SceneSettings, body: BodySettings) -> bool:
    """Return true for a free body or a body fixed to a free body."""
    if body.joint == "fixed" and body.parent:
        return is_loose(settings, next(each for each in settings.body if each.name == body.parent))
    return body.joint == "free"


def _first(robot: Robot, body: BodySettings) -> int:
    return robot.tree.dof_names.index(f"{joint_name(body)}.0")


def _dofs(robot: Robot, bodies: Sequence[BodySettings]) -> dict[str, tuple[int, int]]:
    names = [joint_name(body, k) for body in bodies for k in range(len(body.joints))]
    dofs = [robot.tree.dof_names.index(name) for name in names]
    place = dict(zip(robot.tree.a.tolist(), robot.tree.q_index.tolist(), strict=True))
    return {name: (dof, place[dof]) for name, dof in zip(names, dofs, strict=True)}


def _effects(robot: Robot, bodies: Sequence[BodySettings], dofs: dict[str, tuple[int, int]]) -> JointEffects:
    columns = np.zeros((8, robot.nv))
    columns[4], columns[5] = -np.inf, np.inf
    for body in bodies:
        for k, joint in enumerate(body.joints):
            stop = (-np.inf, np.inf) if joint.stop is None else joint.stop
            values = joint.stiffness, joint.rest, joint.damping, joint.coulomb, *stop
            columns[:, dofs[joint_name(body, k)][0]] = *values, 1.0 / joint.stop_stiffness, joint.stop_dissipation
    return JointEffects(**dict(zip(JointEffects.__struct_fields__, columns, strict=True)))


def _reference(robot: Robot, bodies: Sequence[BodySettings]) -> Array:
    step, turn = np.zeros(robot.nv), np.zeros(robot.nv)
    for body in bodies:
        if body.joint == "free":
            first = _first(robot, body)
            step[first : first + 3] = body.position
            turn[first + 3 : first + 6] = Rotation.from_euler("xyz", body.turn).as_rotvec()
    return robot.integrate(robot.integrate(robot.neutral(), step), turn)
