"""The ground by its settings."""

from typing import Annotated, Self

import msgspec
import numpy as np
from msgspec.structs import replace

from controllers.config.loading import Kind, NonNegative, Positive, Settings
from idyn.contact.heightmap import Heightmap, hills
from idyn.contact.terrain import Flat, FrictionMap, Slope, Stairs, Terrain
from idyn.errors import ConfigError

MOST_LINES = 2000
"""Of a heightmap's grid, along each side."""

MOST_WORK = 2e7
"""Lines times hills: 160 MB and some seconds while the ground is made."""


class FrictionSettings(Settings, frozen=True):
    """Friction from foothold to foothold, instead of the robot's own: μ ~ U(low, high) on square patches.

    patch: side of a patch [m]; seed: which map
    """

    low: NonNegative = 0.1
    high: NonNegative = 1.5
    patch: Positive = 0.05
    seed: int = 0


class TerrainSettings(Kind, frozen=True):
    """Base of the ground, the same for the simulated world and for a controller that finds its contacts from geometry.

    friction: absent: the robot's contact places have their own
    """

    friction: FrictionSettings | None = None

    def reseeded(self, seed: int) -> Self:
        """These settings with `seed` added to their seeds."""
        if self.friction is None:
            return self
        return replace(self, friction=replace(self.friction, seed=self.friction.seed + seed))

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        """The terrain. Raises ConfigError, headed by `where`, for values that make none.

        ground: height of flat ground, of a slope at the origin, of the foot of stairs, of a heightmap's lowest point [m]
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
    """The horizontal plane."""

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        return Flat(ground, self._friction(where))


class SlopeSettings(TerrainSettings, frozen=True, tag="slope"):
    """angle: up along x [rad]"""

    angle: Annotated[float, msgspec.Meta(gt=-1.2, lt=1.2)] = 0.1

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        return Slope(self.angle, ground, self._friction(where))


class StairsSettings(TerrainSettings, frozen=True, tag="stairs"):
    """Up along x. start: x of the first riser; depth, rise: size of a step [m]; steps: their number"""

    start: float = 0.3
    depth: Positive = 0.2
    rise: Positive = 0.02
    steps: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        return Stairs(self.start, self.depth, self.rise, self.steps, ground, self._friction(where))


class HeightmapSettings(TerrainSettings, frozen=True, tag="heightmap"):
    """Hilly ground, the paper's by default.

    hills, bump, variance, spread: how many Gaussian hills, highest above lowest point [m], variance of a hill [m²] ± its
        relative spread
    side, resolution: of the square and distance of its grid's lines [m]
    seed: which hills
    """

    hills: Annotated[int, msgspec.Meta(ge=1, le=50_000)] = 1000
    bump: Annotated[float, msgspec.Meta(gt=0, le=100.0)] = 0.03
    variance: Positive = 0.005
    spread: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5
    side: Annotated[float, msgspec.Meta(gt=0, le=1000.0)] = 3.0
    resolution: Positive = 0.02
    seed: int = 0

    def reseeded(self, seed: int) -> Self:
        return replace(super().reseeded(seed), seed=self.seed + seed)

    def build(self, ground: float = 0.0, where: str = "contact.terrain") -> Terrain:
        friction = self._friction(where)
        self._check_grid(where)
        with np.errstate(all="ignore"):  # what comes of it is looked at
            heights = hills(
                side=self.side, resolution=self.resolution, count=self.hills, height=self.bump, variance=self.variance,
                spread=self.spread, seed=_seed(self.seed, where),
            )  # fmt: skip
        if not np.isfinite(heights).all():
            says = f"hills of bump {self.bump:g} m and variance {self.variance:g} m² make no finite ground"
            raise ConfigError(where, says)
        return Heightmap(ground + heights, self.resolution, friction)

    def _check_grid(self, where: str) -> None:
        """Raises ConfigError for a grid that is too coarse to be one, or takes too much memory or time."""
        side, resolution = self.side, self.resolution
        if not resolution <= side / 4:
            raise ConfigError(f"{where}.resolution", f"expected at most a quarter of the side, got {resolution}")
        if side / resolution > MOST_LINES:
            raise ConfigError(f"{where}.resolution", f"expected ≥ {side / MOST_LINES:.2g} m for this side, got {resolution}")
        if side / resolution * self.hills > MOST_WORK:
            most = int(MOST_WORK * resolution / side)
            raise ConfigError(f"{where}.hills", f"expected at most {most} on a grid so fine, got {self.hills}")


AnyTerrain = FlatSettings | SlopeSettings | StairsSettings | HeightmapSettings
"""`[contact.terrain]` of a controller, `[robot.ground.terrain]` of an experiment."""


def _seed(seed: int, where: str) -> int:
    if seed < 0:
        raise ConfigError(f"{where}.seed", f"expected ≥ 0, got {seed}")
    return seed
