"""What a robot is built from."""

from typing import Annotated, Literal

import msgspec

from idyn.brief import brief
from idyn.model.shapes import Box


class ContactPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place of the robot that may touch: a sphere (radius 0: a point) fixed to a named frame.

    frame: a frame of the URDF
    offset: centre of the sphere in that frame [m]
    radius: [m], ≥ 0
    mu: friction coefficient unless a contact brings its own, ≥ 0, may be inf
    name: what its key ends in, `frame.name`; without one the key is the frame, with a number from its second place on
    """

    frame: str
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    radius: float = 0.0
    mu: float = 1.0
    name: str = ""


class Sole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flat foot: a rectangle in the xy plane of a named frame, which touches with its corners.

    frame: a frame of the URDF
    length, width: along its x and y [m]
    offset: the rectangle's centre in that frame [m]
    mu: friction coefficient of each corner, ≥ 0, may be inf
    """

    frame: str
    length: Annotated[float, msgspec.Meta(gt=0)]
    width: Annotated[float, msgspec.Meta(gt=0)]
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    mu: float = 1.0

    def corners(self) -> tuple[ContactPoint, ...]:
        """Its contact places: `frame.front_left`, `.front_right`, `.hind_left`, `.hind_right`; front is +x, left is +y."""
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


class Closure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two points that stay together, as by a ball joint: the origins of two frames of the URDF, of two bodies."""

    first: str
    second: str


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A robot before it is built.

    urdf: its text
    base: how the root link is held: by a floating base, or not at all
    contact: places that may touch the ground, and boxes of other bodies; those of flat feet: `Sole.corners`
    box: what else may be touched
    closure: where chains are closed
    actuated: joints of several degrees of freedom (URDF: planar, floating) that have a motor for each of them; all others of
        that kind have none: a floating base, free bodies that the robot touches
    unactuated: joints of one axis, or single degrees of freedom, without a motor
    tau_max: effort limits that replace the URDF's [N·m]
    armature: the inertia of a motor's rotor as its joint feels it, rotor inertia times gear ratio squared [kg·m²], of every
        actuated degree of freedom or by name; it adds to the diagonal of M and to nothing else

    A degree of freedom is named like its joint; of a joint with several `joint.0`, `joint.1`, …, in the order of Pinocchio's
    velocities, along the axes of the body that moves: planar x, y [m], turn [rad]; floating x, y, z [m], three turns [rad].
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

    def __repr__(self) -> str:
        return f"Description({', '.join(f'{name}={brief(getattr(self, name))}' for name in self.__struct_fields__)})"
