"""Expand copies, chains, arches and elastic blocks of a scene into single bodies."""

import msgspec
import numpy as np
from scipy.optimize import brentq

from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.scenes.bodies.polyhedra import hull_of
from sim_harness.scenes.bodies.rows import particles_of
from sim_harness.scenes.bodies.settings import (
    ArchSettings,
    BodySettings,
    JointSettings,
    SceneSettings,
    Shape,
    Vector,
    check_finite,
)


def expanded(settings: SceneSettings) -> SceneSettings:
    """Return the scene with every body listed. Raises ConfigError for a scene without bodies or an invalid arch or block."""
    for i, arch in enumerate(settings.arch):
        check_finite(f"scene.arch[{i}]", arch, "span", "rise", "thickness", "width", "density")
        check_finite(f"scene.arch[{i}].material", arch.material, "dissipation")
    for i, block in enumerate(settings.elastic):
        check_finite(f"scene.elastic[{i}]", block, "corner", "size", "young", "density", "dissipation", "radius")
        check_finite(f"scene.elastic[{i}].material", block.material, "dissipation")
    bodies = [each for body in settings.body for each in copies_of(body)]
    bodies += [block for arch in settings.arch for block in blocks_of(arch)]
    bodies += [particle for block in settings.elastic for particle in particles_of(block)]
    if not bodies:
        raise ConfigError("scene.body", "expected at least one body")
    return msgspec.structs.replace(settings, body=tuple(bodies), arch=())


def copies_of(body: BodySettings) -> list[BodySettings]:
    """Return the copies of a body."""
    if body.copies == 1:
        return [body]
    one = msgspec.structs.replace(body, copies=1, chained=False)
    return [
        msgspec.structs.replace(
            one,
            name=f"{body.name}-{k}",
            position=moved(body.position, body.apart, k),
            joint=body.joint if isinstance(body.joint, str) else tuple(_moved(joint, body.apart, k) for joint in body.joint),
            parent=f"{body.name}-{k - 1}" if body.chained and k else body.parent,
        )
        for k in range(body.copies)
    ]


def moved(place: Vector, apart: Vector, times: int) -> Vector:
    """Return place + times · apart [m] (3)."""
    x, y, z = (a + times * step for a, step in zip(place, apart, strict=True))
    return x, y, z


def _moved(joint: JointSettings, apart: Vector, times: int) -> JointSettings:
    return joint if joint.anchor is None else msgspec.structs.replace(joint, anchor=moved(joint.anchor, apart, times))


def blocks_of(arch: ArchSettings) -> list[BodySettings]:
    """Return the blocks of an arch, equally long along the catenary z = rise − a (cosh(x/a) − 1).

    Raises ConfigError when the arch is too thick for its curvature.
    """
    half = arch.span / 2
    a = brentq(lambda a: a * (np.cosh(half / a) - 1.0) - arch.rise, half / 50.0, 50.0 * half**2 / arch.rise)
    lengths = np.linspace(-1.0, 1.0, arch.blocks + 3) * a * np.sinh(half / a)  # arc lengths from the crown
    x = a * np.arcsinh(lengths / a)
    middle = np.column_stack([x, np.zeros_like(x), arch.rise - a * (np.cosh(x / a) - 1.0)])
    across = np.column_stack([np.tanh(x / a), np.zeros_like(x), 1.0 / np.cosh(x / a)])  # outward normals
    crown, ends = arch.thickness
    reach = 0.5 * (crown + (ends - crown) * (x / half) ** 2)[:, None] * across
    if not (np.diff((middle - reach)[:, 0]) > 0.0).all():
        raise ConfigError(
            f"scene.arch '{arch.name}'.thickness",
            f"expected a thickness for which the blocks do not overlap on the inside, got {arch.thickness}",
        )
    return [
        _block(arch, k, np.array([line[i] for line in (middle - reach, middle + reach) for i in (k, k + 1)]))
        for k in range(len(x) - 1)
    ]


def _block(arch: ArchSettings, index: int, profile: Array) -> BodySettings:
    """Return one block of an arch; profile: corners in the plane y = 0 [m] (4, 3)."""
    sides = np.array([[0.0, side * arch.width / 2, 0.0] for side in (-1.0, 1.0)])
    corners = (profile[None] + sides[:, None]).reshape(-1, 3)
    centre = hull_of(tuple(map(tuple, corners.tolist()))).centre
    return BodySettings(
        name=f"{arch.name}-{index}",
        shape=Shape(hull=tuple(map(tuple, (corners - centre).tolist()))),
        density=arch.density,
        material=arch.material,
        position=tuple(centre.tolist()),
        joint="free" if 0 < index <= arch.blocks else "fixed",
    )
