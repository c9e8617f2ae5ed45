"""Description of a robot: URDF text, contact places, boxes, closures, motors, limits."""

from typing import Annotated, Literal

import msgspec

from idyn.types import brief


class ContactPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A contact place: a sphere (radius 0: a point) fixed to a named frame.

    frame: a frame of the URDF
    offset: centre of the sphere in that frame [m]
    radius: [m], ≥ 0
    mu: default friction coefficient, ≥ 0, may be inf
    name: the contact key is `frame.name`; without a name the key is the frame's name, with a number appended for further
        places of the same frame
    """

    frame: str
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    radius: float = 0.0
    mu: float = 1.0
    name: str = ""


class Sole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flat foot: a rectangle in the xy plane of a named frame, with a contact place at each corner.

    frame: a frame of the URDF
    length, width: along x and y of the frame [m], > 0
    offset: centre of the rectangle in that frame [m]
    mu: friction coefficient of each corner, ≥ 0, may be inf
    """

    frame: str
    length: Annotated[float, msgspec.Meta(gt=0)]
    width: Annotated[float, msgspec.Meta(gt=0)]
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    mu: float = 1.0

    def corners(self) -> tuple[ContactPoint, ...]:
        """Return the contact places `frame.front_left`, `.front_right`, `.hind_left`, `.hind_right`; front: +x, left: +y."""
        x, y, z = self.offset
        return tuple(
            ContactPoint(
                frame=self.frame,
                offset=(x + 0.5 * front * self.length, y + 0.5 * left * self.width, z),
                mu=self.mu,
                name=f"{'front' if front > 0 else 'hind'}_{'left' if left > 0 else 'right'}",
            )
            for front in (1, -1)
            for left in (1, -1)
        )


class Box(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A box fixed to a named frame, with edges along its axes. Contact spheres of other bodies may touch it.

    frame: a frame of the URDF
    size: lengths of the edges [m], > 0
    offset: centre in that frame [m]
    mu: friction coefficient of its contacts, ≥ 0, may be inf
    """

    frame: str
    size: tuple[float, float, float]
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    mu: float = 1.0


class Closure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Closure of a chain, like a ball joint: the origins of the frames `first` and `second` of the URDF coincide."""

    first: str
    second: str


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a robot.

    urdf: text of the URDF, also of a robot in MJCF, see `idyn.model.mjcf`
    base: `free_flyer`: floating base; `fixed`: the root link is fixed to the world
    contact: contact places, which may touch the terrain and boxes of other bodies; for flat feet see `Sole.corners`
    box: boxes that contact places of other bodies may touch
    closure: closures of closed chains
    actuated: names of the joints with several degrees of freedom (URDF: planar, floating) that have a motor for each of these;
        such joints are unactuated otherwise, as a floating base or a free body that the robot touches
    unactuated: names of joints of one axis, or of single degrees of freedom, that have no motor
    tau_max: torque limits that replace those of the URDF, by name [N·m]
    armature: rotor inertia times gear ratio squared [kg·m²], for all actuated degrees of freedom or by name; it is added to the
        diagonal of M only
    gravity: acceleration in the world [m/s²]

    The degree of freedom of a joint of one axis has the name of the joint. Those of other joints are `joint.0`, `joint.1`, …,
    in the order of Pinocchio's velocities, along the axes of the moving body: planar x, y [m], angle [rad]; floating x, y, z
    [m], three angles [rad].
    """

    urdf: str
    base: Literal["free_flyer", "fixed"] = "free_flyer"
    contact: tuple[ContactPoint, ...] = ()
    box: tuple[Box, ...] = ()
    closure: tuple[Closure, ...] = ()
    actuated: tuple[str, ...] = ()
    unactuated: tuple[str, ...] = ()
    tau_max: dict[str, float] = {}
    armature: float | dict[str, float] = 0.0
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)

    def __repr__(self) -> str:
        return f"Description({', '.join(f'{name}={brief(getattr(self, name))}' for name in self.__struct_fields__)})"
