"""Settings of scenes: files of `configs/experiments/` with bodies instead of a server.

All values are in world axes at the reference configuration, in which all slides and hinges are at 0.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.config.tables import Choice
from idyn.errors import ConfigError
from sim_harness.compare.settings import Count

UNLIMITED = ("mu", "stop")
"""Fields that may be infinite, besides those whose default is."""


def check_finite(where: str, settings: msgspec.Struct) -> None:
    """Raise ConfigError for the first number in settings, and in their tables, that is not finite but should be."""
    for field in msgspec.structs.fields(settings):
        value, path = getattr(settings, field.name), f"{where}.{field.name}"
        if isinstance(value, msgspec.Struct):
            check_finite(path, value)
        elif isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            for i, each in enumerate(value):
                check_finite(f"{path}[{i}]", each)
        elif isinstance(value, float | tuple) and field.name not in UNLIMITED and field.default != np.inf:
            numbers = np.asarray(value)
            if numbers.dtype == np.float64 and not np.isfinite(numbers).all():
                expected = "a finite number" if isinstance(value, float) else "finite numbers"
                raise ConfigError(path, f"expected {expected}, got {value}")


Vector = tuple[float, float, float]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Shape(Settings, frozen=True):
    """Shape of a body for contact and display, centred at the body's centre. Exactly one field is set."""

    box: tuple[Positive, Positive, Positive] | None = None  # lengths of the edges [m]
    sphere: Positive | None = None  # radius [m]
    cylinder: tuple[Positive, Positive] | None = None  # radius and length along z [m]
    hull: tuple[Vector, ...] | None = None  # corners of a convex body relative to its centre of mass [m]


class Material(Settings, frozen=True):
    """Material of a surface.

    When both stiffnesses are inf, the engine uses its own stiffness.
    """

    mu: NonNegative = 1.0  # friction coefficient, may be inf; the smaller one of two surfaces applies
    stiffness: Positive = float("inf")  # stiffness per contact point [N/m], may be inf; two surfaces act as springs in series
    dissipation: NonNegative = 0.0  # damping over stiffness [s]; two surfaces have the mean weighted by compliance


class JointSettings(Settings, frozen=True):
    """One degree of freedom between a body and its parent."""

    kind: Literal["slide", "hinge"]  # `slide` (prismatic) or `hinge` (revolute)
    axis: Vector  # direction of the axis; need not be normalised
    anchor: Vector | None = None  # a point on the axis [m]; absent: the body's centre
    # start, speed: initial position [m or rad] and velocity [m/s or rad/s]
    start: float = 0.0
    speed: float = 0.0
    # stiffness, rest: spring stiffness [N/m or N·m/rad] and rest position [m or rad]
    stiffness: NonNegative = 0.0
    rest: float = 0.0
    damping: NonNegative = 0.0  # viscous friction [N·s/m or N·m·s/rad]
    coulomb: NonNegative = 0.0  # Coulomb friction [N or N·m]
    stop: tuple[float, float] | None = None  # lower and upper limit [m or rad]
    stop_stiffness: Positive = float("inf")  # stiffness of the stops, inf for rigid stops [N/m or N·m/rad]
    stop_dissipation: NonNegative = 0.0  # damping over stiffness of the stops [s]


class BodySettings(Settings, frozen=True):
    """A rigid body, of uniform density unless its inertia or centre of mass is given.

    name: unique name
    shape, material: shape and surface
    mass, density: one of them [kg], [kg/m³]; optional for bodies fixed to the world
    inertia: moments of inertia about the centre of mass, axes of the shape [kg·m²]; absent: uniform density
    mass_centre: centre of mass from the centre of the shape, axes of the shape [m]
    position: position of the centre of the shape [m]
    turn: orientation, angles about the world axes x, then y, then z [rad]
    velocity, spin: initial linear and angular velocity of a free body, world axes [m/s], [rad/s]
    joint: `free`, `fixed`, or the slides and hinges from the parent to the body
    parent: name of another body; empty: the world
    touches: whether the body can make contact
    copies: number of copies, named name-0, name-1, …
    apart: displacement from each copy to the next, including its joints [m]
    chained: whether each copy is the parent of the next; `parent` is the parent of the first copy
    """

    name: str
    shape: Shape
    mass: Positive | None = None
    density: Positive | None = None
    inertia: tuple[Positive, Positive, Positive] | None = None
    mass_centre: Vector = (0.0, 0.0, 0.0)
    material: Material = Material()
    position: Vector = (0.0, 0.0, 0.0)
    turn: Vector = (0.0, 0.0, 0.0)
    velocity: Vector = (0.0, 0.0, 0.0)
    spin: Vector = (0.0, 0.0, 0.0)
    joint: Literal["free", "fixed"] | tuple[JointSettings, ...] = "free"
    parent: str = ""
    touches: bool = True
    copies: Count = 1
    apart: Vector = (0.0, 0.0, 0.0)
    chained: bool = False

    @property
    def joints(self) -> tuple[JointSettings, ...]:
        """Return the slides and hinges, none for a free or fixed body."""
        return () if isinstance(self.joint, str) else self.joint

    @property
    def uniform(self) -> bool:
        """Return true for a body of uniform density."""
        return self.inertia is None and not any(self.mass_centre)


class GroundSettings(Settings, frozen=True):
    """The ground plane z = 0."""

    material: Material = Material()  # surface
    # inclination of the ground along x [rad]; the world's axes are the ground's axes, so gravity is tilted instead
    slope: Annotated[float, msgspec.Meta(gt=-1.57, lt=1.57)] = 0.0


class ClosureSettings(Settings, frozen=True):
    """A constraint that keeps two bodies, or a body and the world, at their relative pose of the reference configuration."""

    kind: Literal["pin", "weld"]  # `pin` constrains the position of a point, `weld` position and orientation
    bodies: tuple[str, str]  # names of two bodies; an empty name is the world
    at: Vector  # the point [m]
    stiffness: Positive = float("inf")  # stiffness of each direction [N/m and N·m/rad], inf for a rigid closure
    dissipation: NonNegative = 0.0  # damping over stiffness [s]


class ArchSettings(Settings, frozen=True):
    """An arch of blocks along a catenary in the plane y = 0 with both ends at z = 0. The first and last blocks are fixed."""

    name: str  # prefix of the block names name-0, name-1, …
    blocks: Count  # number of free blocks
    # span, rise: of the catenary [m]
    span: Positive
    rise: Positive
    thickness: tuple[Positive, Positive]  # at the crown and at the ends [m]
    width: Positive  # along y [m]
    density: Positive  # [kg/m³]
    material: Material = Material()  # surface


class ForceSettings(Settings, frozen=True):
    """An external force on a body, in world axes."""

    body: str  # name of the body
    force: Vector  # while it acts [N]
    # start, duration: interval in which it acts [s]
    start: NonNegative = 0.0
    duration: Positive = float("inf")
    every: Positive = float("inf")  # period of repetition [s]
    otherwise: Vector = (0.0, 0.0, 0.0)  # force at other times [N]
    at: Vector = (0.0, 0.0, 0.0)  # point of action, from the body's centre along the body's axes [m]
    orbit: float = 0.0  # angular velocity of the point about the body's z axis [rad/s]


class MeasureSettings(Settings, frozen=True):
    """A measured figure of a run and its known value."""

    quantity: str  # a row of `QUANTITIES`
    body: str = ""  # name of the body
    known: str | None = None  # a row of `FORMULAS`; absent: without known value
    within: Positive | None = None  # largest error of every engine, relative to the known value, absolute when that is 0
    engines: tuple[str, ...] = ()  # engines that the figure is measured for; empty: all


class SceneSettings(Settings, frozen=True):
    """A scene.

    about: description in one sentence
    engines: engines that must satisfy the expected errors (`within`), with settings that differ from their defaults
    dt, duration: step and duration [s]
    body, arch: the bodies
    gravity: [m/s²]
    margin: contacts with a smaller gap are given to the engine [m]
    edge: number of contact points per edge of a contact face
    shared: whether the stiffness of materials applies to a whole face and is divided among its contact points
    cells: > 0: boxes touch the ground at the centres of cells × cells cells of each face, an elastic foundation
    ground: ground plane, absent: no ground
    closure, force, measure: constraints between bodies, external forces, measured figures
    """

    about: str
    engines: tuple[Choice, ...]
    dt: Positive
    duration: Positive
    body: tuple[BodySettings, ...] = ()
    gravity: NonNegative = 9.81
    margin: Positive = 0.01
    edge: Count = 1
    shared: bool = False
    cells: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    ground: GroundSettings | None = None
    arch: tuple[ArchSettings, ...] = ()
    closure: tuple[ClosureSettings, ...] = ()
    force: tuple[ForceSettings, ...] = ()
    measure: tuple[MeasureSettings, ...] = ()
