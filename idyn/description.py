"""What a robot is built from."""

from typing import Literal

import msgspec

from idyn.shapes import Box


class ContactPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place of the robot that may touch: a sphere (radius 0: a point) fixed to a named frame.

    frame: a frame of the URDF
    offset: centre of the sphere in that frame [m]
    radius: [m], ≥ 0
    mu: friction coefficient when nobody says otherwise, ≥ 0, may be inf
    """

    frame: str
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    radius: float = 0.0
    mu: float = 1.0


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A robot before it is built.

    urdf: its text
    base: how the root link is held: by a floating base, or not at all
    contact: places that may touch the ground, and boxes of other bodies
    box: what else may be touched
    unactuated: joints without a motor, besides a floating base and floating joints (free bodies that the robot touches)
    tau_max: effort limits that replace the URDF's, by joint [N·m]
    armature: the inertia of a motor's rotor as its joint feels it, rotor inertia times gear ratio squared [kg·m²], of every
        actuated joint or by joint; it adds to the diagonal of M and to nothing else
    """

    urdf: str
    base: Literal["free_flyer", "fixed"] = "free_flyer"
    contact: tuple[ContactPoint, ...] = ()
    box: tuple[Box, ...] = ()
    unactuated: tuple[str, ...] = ()
    tau_max: dict[str, float] = {}
    armature: float | dict[str, float] = 0.0
