"""The ground by its settings, and a robot's stance on it."""

from typing import Annotated, Literal

import msgspec
import numpy as np

from controllers.config import NonNegative, Settings
from controllers.kinematics import angles_for_places, contact_places
from idyn.errors import ConfigError
from idyn.heightmap import Heightmap, hills
from idyn.robot import Robot
from idyn.terrain import Flat, FrictionMap, Slope, Stairs, Terrain
from idyn.types import Array

Positive = Annotated[float, msgspec.Meta(gt=0)]

MOST_LINES = 2000
"""Of a heightmap's grid, along each side."""

MOST_WORK = 2e7
"""Lines times hills: 160 MB and some seconds while the ground is made."""

RESTING = 1e-10
"""A foot with a gap of at most this rests [m]."""


class FrictionSettings(Settings, frozen=True):
    """Friction from foothold to foothold, instead of the robot's own: μ ~ U(low, high) on square patches.

    patch: side of a patch [m]; seed: which map
    """

    low: NonNegative = 0.1
    high: NonNegative = 1.5
    patch: Positive = 0.05
    seed: int = 0


class TerrainSettings(Settings, frozen=True):
    """The ground, the same for the simulated world and for a controller that finds its contacts from geometry.

    kind: 'flat'; 'slope' and 'stairs' go up along x; 'heightmap' is hilly
    angle: of the slope [rad]
    start, depth, rise, steps: of stairs: x of the first riser, size of a step [m], their number
    hills, bump, variance, spread, side, resolution: how many Gaussian hills, highest above lowest point [m], variance of a
        hill [m²] ± its relative spread, side of the square and distance of its grid's lines [m]; the paper's by default
    seed: which hills
    friction: absent: the robot's contact places have their own
    """

    kind: Literal["flat", "slope", "stairs", "heightmap"] = "flat"
    angle: Annotated[float, msgspec.Meta(gt=-1.2, lt=1.2)] = 0.1
    start: float = 0.3
    depth: Positive = 0.2
    rise: Positive = 0.02
    steps: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    hills: Annotated[int, msgspec.Meta(ge=1, le=50_000)] = 1000
    bump: Annotated[float, msgspec.Meta(gt=0, le=100.0)] = 0.03
    variance: Positive = 0.005
    spread: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5
    side: Annotated[float, msgspec.Meta(gt=0, le=1000.0)] = 3.0
    resolution: Positive = 0.02
    seed: int = 0
    friction: FrictionSettings | None = None


def reseeded(settings: TerrainSettings, seed: int) -> TerrainSettings:
    """The settings with `seed` added to the seeds of hills and friction."""
    friction = settings.friction
    if friction is not None:
        friction = msgspec.structs.replace(friction, seed=friction.seed + seed)
    return msgspec.structs.replace(settings, seed=settings.seed + seed, friction=friction)


def make_terrain(settings: TerrainSettings, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
    """The terrain of the settings. Raises ConfigError, headed by `where`, for values that make none.

    ground: height of flat ground, of a slope at the origin, of the foot of stairs, of a heightmap's lowest point [m]
    """
    s = settings
    friction = None
    if s.friction is not None:
        if not s.friction.low <= s.friction.high < np.inf:
            raise ConfigError(f"{where}.friction", f"expected low ≤ high < inf, got {s.friction.low} and {s.friction.high}")
        friction = FrictionMap(s.friction.low, s.friction.high, s.friction.patch, _seed(s.friction.seed, f"{where}.friction"))
    if s.kind == "flat":
        return Flat(ground, friction)
    if s.kind == "slope":
        return Slope(s.angle, ground, friction)
    if s.kind == "stairs":
        return Stairs(s.start, s.depth, s.rise, s.steps, ground, friction)
    if not s.resolution <= s.side / 4:
        raise ConfigError(f"{where}.resolution", f"expected at most a quarter of the side, got {s.resolution}")
    if s.side / s.resolution > MOST_LINES:
        raise ConfigError(f"{where}.resolution", f"expected ≥ {s.side / MOST_LINES:.2g} m for this side, got {s.resolution}")
    if s.side / s.resolution * s.hills > MOST_WORK:
        most = int(MOST_WORK * s.resolution / s.side)
        raise ConfigError(f"{where}.hills", f"expected at most {most} on a grid so fine, got {s.hills}")
    with np.errstate(all="ignore"):  # what comes of it is looked at
        heights = hills(
            side=s.side, resolution=s.resolution, count=s.hills, height=s.bump, variance=s.variance, spread=s.spread,
            seed=_seed(s.seed, where),
        )  # fmt: skip
    if not np.isfinite(heights).all():
        raise ConfigError(where, f"hills of bump {s.bump:g} m and variance {s.variance:g} m² make no finite ground")
    return Heightmap(ground + heights, s.resolution, friction)


def _seed(seed: int, where: str) -> int:
    if seed < 0:
        raise ConfigError(f"{where}.seed", f"expected ≥ 0, got {seed}")
    return seed


def resting(robot: Robot, stance: Array, terrain: Terrain) -> Array:
    """The stance on the terrain (nq): every contact place straight above or below where it was, touching without penetration.

    The base keeps its attitude and goes up by what the feet do on average; joints do the rest. A robot with a fixed base stays
    as it is. Raises ConfigError when the legs do not reach.
    """
    if not robot.floating or not robot.spheres.keys:
        return stance
    places = contact_places(robot, stance)
    start = places.copy()
    for _ in range(50):
        distances, normals = terrain.query(places)
        gaps = distances - robot.spheres.radii
        if np.abs(gaps).max() < RESTING:
            break
        places[:, 2] -= gaps / np.maximum(normals[:, 2], 0.1)
    else:
        raise ConfigError("contact.terrain", "no place straight above or below a foot of the stance touches the ground")
    up = places[:, 2] - start[:, 2]
    if np.abs(up).max() < RESTING:
        return stance
    q = np.array(stance)
    q[2] += up.mean()
    angles = angles_for_places(robot, q, places)
    if angles is None:
        raise ConfigError("contact.terrain", "the legs of the stance do not reach the ground on all feet")
    return robot.with_joint_angles(q, angles)
