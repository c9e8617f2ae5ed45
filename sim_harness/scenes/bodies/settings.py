"""Scenes: `configs/experiments/*.toml` with bodies in them instead of a server.

Everything is given in world axes at the reference configuration, in which all slides and hinges are at 0.
"""

from typing import Annotated, Literal

import msgspec

from controllers.config.loading import NonNegative, Positive, Settings, load
from controllers.config.tables import Choice
from sim_harness.world.elements import Energy

Vector = tuple[float, float, float]
Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Shape(Settings, frozen=True):
    """What a body looks like and touches with; its centre is the body's.

    box: lengths of the edges [m]; sphere: radius [m]; cylinder: radius and length along z [m]; hull: the corners of a convex
    body, counted from its centre of mass [m]; exactly one of them
    """

    box: tuple[Positive, Positive, Positive] | None = None
    sphere: Positive | None = None
    cylinder: tuple[Positive, Positive] | None = None
    hull: tuple[Vector, ...] | None = None


class Material(Settings, frozen=True):
    """What a surface is made of.

    mu: friction coefficient, may be inf; where two surfaces touch, that of the more slippery one counts
    stiffness: of a place of contact [N/m]; that of two surfaces is that of two springs in series; inf: none of its own
    dissipation: the damping of such a spring over its stiffness [s]; of two surfaces the mean by their compliances

    Where both stiffnesses are inf, the engine has its own.
    """

    mu: NonNegative = 1.0
    stiffness: Positive = float("inf")
    dissipation: NonNegative = 0.0


class JointSettings(Settings, frozen=True):
    """One degree of freedom between a body and its parent.

    axis: of the slide or the hinge; need not be of unit length
    anchor: a point on the axis [m]; absent: the body's centre
    start, speed: at the beginning [m or rad], [m/s or rad/s]
    stiffness, rest: of a spring [N/m or N·m/rad], where it is relaxed [m or rad]
    damping, coulomb: viscous [N·s/m or N·m·s/rad] and dry friction [N or N·m]
    stop: how far it goes [m or rad]
    stop_stiffness, stop_dissipation: of the stop [N/m or N·m/rad], inf for a rigid one; its damping over that [s]
    """

    kind: Literal["slide", "hinge"]
    axis: Vector
    anchor: Vector | None = None
    start: float = 0.0
    speed: float = 0.0
    stiffness: NonNegative = 0.0
    rest: float = 0.0
    damping: NonNegative = 0.0
    coulomb: NonNegative = 0.0
    stop: tuple[float, float] | None = None
    stop_stiffness: Positive = float("inf")
    stop_dissipation: NonNegative = 0.0


class BodySettings(Settings, frozen=True):
    """A rigid body, solid and of one material.

    mass [kg] or density [kg/m³]: one of them, but for what is fixed to the world
    position, turn: of its centre [m] and its frame, by angles about the axes x, then y, then z of the world [rad]
    velocity, spin: of a free body at the beginning, world axes [m/s], [rad/s]
    joint: free, fixed, or the slides and hinges that lead to it from its parent
    parent: another body; empty: the world
    touches: whether it touches anything
    copies: so many of it, named name-0, name-1, …; apart: from each to the next, with its joints [m]
    chained: whether each copy hangs on the one before it, the first on `parent`
    """

    name: str
    shape: Shape
    mass: Positive | None = None
    density: Positive | None = None
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


class GroundSettings(Settings, frozen=True):
    """The plane z = 0.

    slope: angle by which it rises along x [rad]; the world's axes are the ground's, so it is gravity that leans
    """

    material: Material = Material()
    slope: Annotated[float, msgspec.Meta(gt=-1.57, lt=1.57)] = 0.0


class ClosureSettings(Settings, frozen=True):
    """Two bodies, or one and the world, held together where they are at the reference configuration.

    kind: `pin` at a point, free to turn; `weld` altogether
    bodies: the second may be empty: the world
    at: the point [m]
    stiffness: of each of its directions [N/m and N·m/rad], inf for a rigid one; dissipation: its damping over that [s]
    """

    kind: Literal["pin", "weld"]
    bodies: tuple[str, str]
    at: Vector
    stiffness: Positive = float("inf")
    dissipation: NonNegative = 0.0


class ArchSettings(Settings, frozen=True):
    """An arch of blocks between two that are fixed, cut across a catenary in the plane y = 0 whose ends stand at z = 0.

    name: of the blocks name-0, name-1, …, the first and the last of which are fixed
    blocks: how many are not; span, rise: of the catenary [m]; thickness: at the crown and at the ends [m]; width: along y [m]
    """

    name: str
    blocks: Count
    span: Positive
    rise: Positive
    thickness: tuple[Positive, Positive]
    width: Positive
    density: Positive
    material: Material = Material()


class ElasticSettings(Settings, frozen=True):
    """A block of elastic material along the world's axes: particles that move, and six tetrahedra in each of its cells.

    name: of the particles name-0, name-1, …, along z first, then y, then x
    corner: the lowest [m]; size: [m]; cells: along each axis
    young: [Pa]; poisson: ratio; energy: `Energy` of sim_harness.world.elements; dissipation: damping over stiffness [s]
    held: whether the particles of the lowest x are fixed
    touches: whether particles touch anything, as spheres of this radius [m]
    """

    name: str
    corner: Vector
    size: tuple[Positive, Positive, Positive]
    cells: tuple[Count, Count, Count]
    young: Positive
    poisson: Annotated[float, msgspec.Meta(gt=-1, lt=0.5)]
    density: Positive
    energy: Energy = "neo-hookean"
    dissipation: NonNegative = 0.0
    held: bool = False
    touches: bool = False
    radius: Positive = 0.005
    material: Material = Material()


class ForceSettings(Settings, frozen=True):
    """A force on a body, in world axes [N].

    at: where it acts, from the body's centre along the body's axes [m]; orbit: how fast that goes round the body's z [rad/s]
    start, duration: while it acts [s]; every: period with which it comes again [s]
    otherwise: the force at other times [N]
    """

    body: str
    force: Vector
    start: NonNegative = 0.0
    duration: Positive = float("inf")
    every: Positive = float("inf")
    otherwise: Vector = (0.0, 0.0, 0.0)
    at: Vector = (0.0, 0.0, 0.0)
    orbit: float = 0.0


class MeasureSettings(Settings, frozen=True):
    """A figure of a run, beside what is known of it.

    quantity: a row of `QUANTITIES`; body: whose
    known: a row of `FORMULAS`; absent: nothing is known
    within: error that is expected of every engine, as a share of the known value, or where that is 0 in the unit of the
        quantity
    """

    quantity: str
    body: str = ""
    known: str | None = None
    within: Positive | None = None


MADE_OF = frozenset({"body", "arch", "elastic"})
"""What bodies are said in."""


class SceneSettings(Settings, frozen=True):
    """A world of rigid bodies.

    about: what is to be seen, in a sentence
    engines: that claim it, with their settings where the defaults will not do
    dt, duration: [s]
    gravity: [m/s²]
    margin: surfaces nearer than this to one another are given to the engine [m]
    edge: on each edge of a face that lies on another one are so many points of contact
    shared: the stiffness of materials is that of a whole face, shared by its points
    cells: 0, or boxes touch the ground in the middle of so many by so many cells of each face, an elastic foundation
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
    elastic: tuple[ElasticSettings, ...] = ()
    closure: tuple[ClosureSettings, ...] = ()
    force: tuple[ForceSettings, ...] = ()
    measure: tuple[MeasureSettings, ...] = ()


def is_scene(name_or_path: str) -> bool:
    """Whether this experiment is a scene: it has bodies. Raises ConfigError for a name without a file, or no TOML."""
    return not MADE_OF.isdisjoint(load("experiments", name_or_path, dict))
