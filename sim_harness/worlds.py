"""The worlds by the name of their engine: ours, which share one world, and MuJoCo, which is one of its own."""

from collections.abc import Mapping
from typing import Any

from controllers.config import parse
from idyn.errors import ConfigError, nearest
from idyn.robot import Robot
from idyn.terrain import Terrain
from idyn.types import Array
from sim_harness.engine_world import EngineWorld
from sim_harness.engines.engine import Engine
from sim_harness.engines.registry import ENGINES, build_engine
from sim_harness.joint_friction import JointFriction
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.world import World

MUJOCO = "mujoco"
NAMES = (*ENGINES, MUJOCO)


def load_engine(name: str, settings: Mapping[str, Any], where: str = "engine") -> Engine | MujocoSettings:
    """What an experiment names, checked. Raises ConfigError with the path of the fault, or for a package that is missing."""
    if name not in NAMES:
        raise ConfigError(where, f"no engine named '{name}'{nearest(name, NAMES)}")
    if name != MUJOCO:
        return build_engine(name, settings, where)
    import sim_harness.mujoco.door  # noqa: F401, PLC0415 - refuses where MuJoCo is missing

    return parse(dict(settings), MujocoSettings, f"{where}.{name}")


def build_world(
    engine: Engine | MujocoSettings,
    robot: Robot,
    terrain: Terrain,
    q: Array,
    *,
    mu: Array | None = None,
    friction: JointFriction | None = None,
) -> World:
    """The world of an engine, with the robot at rest at q. `mu`, `friction`: as the worlds have them."""
    if not isinstance(engine, MujocoSettings):
        return EngineWorld(robot, terrain, engine, q, mu=mu, friction=friction)
    from sim_harness.mujoco.world import MujocoWorld  # noqa: PLC0415 - an optional package

    return MujocoWorld(robot, terrain, engine, q, mu=mu, friction=friction)
