"""The ground: settings of the contact compliance model, `[ground]`, and of terrains, which the gait and the law both read."""

import math
from typing import Annotated, Literal, Self

import msgspec
import numpy as np
from msgspec.structs import replace

from controllers.config.loading import Kind, NonNegative, Positive, Settings
from idyn.contact.ground import Ground
from idyn.contact.terrain import Boxes, Flat, FrictionMap, Heightmap, Planar, Plane, Slope, Stairs, Terrain, hills
from idyn.errors import ConfigError


class StandingPlane(Planar):
    """A plane through a fixed point, level until a gait gives it its gradient. Contacts that are found in the geometry have its
    distances as gaps; those of foot switches and planned stances use its normals alone.

    gradient: of its height, world frame (2); the gait that owns the array changes it
    """

    def __init__(self, height: float = 0.0, friction: FrictionMap | None = None) -> None:
        self.friction, self.gradient, self._height = friction, np.zeros(2), height

    @property
    def plane(self) -> Plane:  # type: ignore[override]
        """Return the plane with its gradient."""
        x, y = self.gradient.tolist()
        z = 1.0 / math.sqrt(1.0 + x * x + y * y)
        return -x * z, -y * z, z, self._height * z


YIELDING, RIGID = Ground(), Ground.rigid()


class GroundSettings(Kind, frozen=True):
    """Base of the settings `[ground]`."""

    # period of the prediction [s]; 0: the control period. With a longer one gaps close earlier, and contact velocities decay as
    # with a relaxation time of the same length
    horizon: NonNegative = 0.0
    # whether the law includes J̇ v, by which the robot's own motion changes contact velocities; false: as in the paper
    drift: bool = True

    def build(self) -> Ground:
        """Return the parameters of the ground."""
        raise NotImplementedError


class YieldingSettings(GroundSettings, frozen=True, tag="yielding"):
    """Compliant ground."""

    # relaxation, memory: T_r and T_p of `idyn.contact.ground.Ground` [s]. T_r is 1.5/K_d for the default K_d of `[feedback]`
    relaxation: NonNegative = 0.025
    memory: NonNegative = YIELDING.memory
    # gap_noise, recovery_speed, touching: `noise` [m], `recovery_speed` [m/s] and `touching` [m] of `Ground`
    gap_noise: NonNegative = YIELDING.noise
    recovery_speed: NonNegative = YIELDING.recovery_speed
    touching: NonNegative = YIELDING.touching

    def build(self) -> Ground:
        given = {"noise": self.gap_noise, "recovery_speed": self.recovery_speed, "touching": self.touching}
        return Ground(**given, relaxation=self.relaxation, memory=self.memory, drift=self.drift)


class RigidSettings(GroundSettings, frozen=True, tag="rigid"):
    """Rigid ground."""

    # gap_noise, recovery_speed, touching: `noise` [m], `recovery_speed` [m/s] and `touching` [m] of
    # `idyn.contact.ground.Ground`
    gap_noise: NonNegative = RIGID.noise
    recovery_speed: NonNegative = RIGID.recovery_speed
    touching: NonNegative = RIGID.touching

    def build(self) -> Ground:
        given = {"noise": self.gap_noise, "recovery_speed": self.recovery_speed, "touching": self.touching}
        return Ground.rigid(**given, drift=self.drift)


AnyGround = YieldingSettings | RigidSettings  # type of `[ground]` in the file of a controller


MAX_LINES = 2000  # largest number of grid lines of a heightmap along each side
MAX_WORK = 2e7  # largest product of grid lines and hills of a heightmap; its generation then takes 160 MB and some seconds


Known = Literal["flat", "standing", "level", "told"]
"""What a gait knows of the ground: that it is level; what its standing feet tell; the terrain, on which only
boxes are not level; the terrain."""


class FrictionSettings(Settings, frozen=True):
    """Friction that varies over the ground and replaces the robot's: μ ~ U(low, high) on square patches."""

    low: NonNegative = 0.1
    high: NonNegative = 1.5
    patch: Positive = 0.05  # side of a patch [m]
    seed: int = 0  # of the random generator


class TerrainSettings(Kind, frozen=True):
    """Base of the settings of a terrain, for simulated worlds and for controllers that find contacts by geometry."""

    # friction of the ground; None: the friction coefficients of the robot's contact spheres
    friction: FrictionSettings | None = None

    @property
    def known(self) -> Known:
        """What a gait knows of it."""
        return "told"

    @property
    def world(self) -> "TerrainSettings":
        """The ground of a simulated world of which nothing else is said: level where the controller does not know it."""
        return FlatSettings(friction=self.friction) if self.known == "standing" else self

    def reseeded(self, seed: int) -> Self:
        """Return these settings with `seed` added to their seeds."""
        if self.friction is None:
            return self
        return replace(self, friction=replace(self.friction, seed=self.friction.seed + seed))

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        """Build the terrain. Raises ConfigError, with a path that starts with `where`.

        ground: height [m]: of flat ground; of a slope at the origin; of the floor in front of stairs; of the lowest point of a
            heightmap
        """
        raise NotImplementedError

    def _friction(self, where: str) -> FrictionMap | None:
        f = self.friction
        if f is None:
            return None
        if not f.low <= f.high < np.inf:
            raise ConfigError(f"{where}.friction", f"expected low ≤ high < inf, got {f.low} and {f.high}")
        return FrictionMap(f.low, f.high, f.patch, _seed(f.seed, f"{where}.friction"))


class FlatSettings(TerrainSettings, frozen=True, tag="flat"):
    """Horizontal plane."""

    known = "flat"

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        return Flat(ground, self._friction(where))


class SlopeSettings(TerrainSettings, frozen=True, tag="slope"):
    """Inclined plane."""

    angle: Annotated[float, msgspec.Meta(gt=-1.2, lt=1.2)] = 0.1  # inclination [rad]
    direction: float = 0.0  # from the x axis to the direction in which it rises [rad]

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        if not np.isfinite(self.direction):
            raise ConfigError(f"{where}.direction", f"expected a finite number, got {self.direction}")
        return Slope(self.angle, ground, self._friction(where), self.direction)


class StandingSettings(TerrainSettings, frozen=True, tag="standing"):
    """What the standing feet of a gait tell: a plane, and steps where feet meet some. Level without a gait."""

    known = "standing"

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        return StandingPlane(ground, self._friction(where))


class StairsSettings(TerrainSettings, frozen=True, tag="stairs"):
    """Stairs that rise along x."""

    start: float = 0.3  # x of the first riser [m]
    # depth, rise: size of a step [m]
    depth: Positive = 0.2
    rise: Positive = 0.02
    steps: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5  # number of steps

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        return Stairs(self.start, self.depth, self.rise, self.steps, ground, self._friction(where))


class Box(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A box along the axes of the world."""

    center: tuple[float, float, float] = (1.0, 0.0, 0.5)  # [m]
    size: tuple[Positive, Positive, Positive] = (0.2, 2.0, 1.0)  # [m]


class BoxesSettings(TerrainSettings, frozen=True, tag="boxes"):
    """Level ground with boxes, such as walls and tables."""

    known = "level"
    boxes: tuple[Box, ...] = (Box(),)

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        center, size = (np.array([getattr(box, name) for box in self.boxes]).reshape(-1, 3) for name in ("center", "size"))
        if not np.isfinite([center, size]).all():
            raise ConfigError(f"{where}.boxes", "expected finite numbers")
        return Boxes(np.stack([center - size / 2, center + size / 2], axis=1), ground, self._friction(where))


class HeightmapSettings(TerrainSettings, frozen=True, tag="heightmap"):
    """Hilly ground; by default that of the paper."""

    hills: Annotated[int, msgspec.Meta(ge=1, le=50_000)] = 1000  # number of Gaussian hills
    bump: Annotated[float, msgspec.Meta(gt=0, le=100.0)] = 0.03  # height of the highest point above the lowest [m]
    # variance, spread: mean variance of a hill [m²] and its relative deviation ±
    variance: Positive = 0.005
    spread: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5
    # side, resolution: side of the square and distance of its grid lines [m]
    side: Annotated[float, msgspec.Meta(gt=0, le=1000.0)] = 3.0
    resolution: Positive = 0.02
    seed: int = 0  # of the random generator

    def reseeded(self, seed: int) -> Self:
        return replace(super().reseeded(seed), seed=self.seed + seed)

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        friction = self._friction(where)
        self._check_grid(where)
        with np.errstate(all="ignore"):  # non-finite heights are reported below
            heights = hills(
                side=self.side, resolution=self.resolution, count=self.hills, height=self.bump, variance=self.variance,
                spread=self.spread, seed=_seed(self.seed, where),
            )  # fmt: skip
        if not np.isfinite(heights).all():
            got = f"bump {self.bump:g} m and variance {self.variance:g} m²"
            raise ConfigError(where, f"expected hills of finite height, got non-finite heights from {got}")
        return Heightmap(ground + heights, self.resolution, friction)

    def _check_grid(self, where: str) -> None:
        """Raise ConfigError if the grid is too coarse, or needs too much memory or time."""
        side, resolution = self.side, self.resolution
        if not resolution <= side / 4:
            raise ConfigError(f"{where}.resolution", f"expected ≤ side / 4 = {side / 4:g} m, got {resolution}")
        if side / resolution > MAX_LINES:
            raise ConfigError(f"{where}.resolution", f"expected ≥ {side / MAX_LINES:.2g} m for this side, got {resolution}")
        if side / resolution * self.hills > MAX_WORK:
            most = int(MAX_WORK * resolution / side)
            raise ConfigError(f"{where}.hills", f"expected ≤ {most} at this side and resolution, got {self.hills}")


AnyTerrain = StandingSettings | FlatSettings | SlopeSettings | StairsSettings | BoxesSettings | HeightmapSettings
"""Type of `[contact.terrain]` in a controller's file and of `[robot.ground.terrain]` in an experiment's."""


def _seed(seed: int, where: str) -> int:
    if seed < 0:
        raise ConfigError(f"{where}.seed", f"expected ≥ 0, got {seed}")
    return seed
