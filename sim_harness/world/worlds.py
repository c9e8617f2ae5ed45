"""Worlds of robots and scenes by engine: the project's engines share one world class, MuJoCo has its own.

To add an engine, write a file in `sim_harness.engines` and add a member to `OwnEngine`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from controllers.config.tables import kind_of
from idyn.contact.terrain import Terrain
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.engines.dissipation import Dissipation
from sim_harness.engines.engine import Engine
from sim_harness.engines.first_order.engine import FirstOrder
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton.engine import Newton
from sim_harness.engines.no_slip import NoSlip
from sim_harness.engines.penalty import Penalty
from sim_harness.engines.sap.engine import Sap
from sim_harness.engines.viscous import Viscous
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.scenes.scene import Scene, SceneWorld
from sim_harness.shapes.shapes import Shape
from sim_harness.world.engine_world import EngineWorld
from sim_harness.world.joints import JointFriction
from sim_harness.world.robot_bodies import RobotBodies
from sim_harness.world.world import World

OwnEngine = PolygonLcp | Penalty | Dissipation | NoSlip | Viscous | Sap | FirstOrder | Newton
AnyEngine = OwnEngine | MujocoSettings
"""`[engine]` of an experiment."""

ENGINES: dict[str, type[Engine]] = {str(kind_of(each)): each for each in get_args(OwnEngine)}
NAMES = tuple(str(kind_of(each)) for each in get_args(AnyEngine))


def check_engine(engine: AnyEngine) -> None:
    """Raise ConfigError when the package of the engine is not installed."""
    if isinstance(engine, MujocoSettings):
        import sim_harness.mujoco.door  # noqa: F401, PLC0415 - raises ConfigError without MuJoCo


def build_world(
    engine: Engine | MujocoSettings,
    robot: Robot,
    terrain: Terrain,
    q: Array,
    *,
    mu: Array | None = None,
    friction: JointFriction | None = None,
    hulls: Sequence[Shape] = (),
    file: Path | None = None,
) -> World:
    """Return the world of an engine with the robot at rest at q.

    mu, friction, hulls: see `RobotBodies`; file: MJCF or URDF whose own world MuJoCo simulates, on flat ground
    Raises InputError for a wrong mu or state, ConfigError for a robot that MuJoCo does not support, ModelError for such a file.
    """
    places = len(robot.contact_names)
    if mu is not None and not (isinstance(mu, np.ndarray) and mu.shape == (places,) and np.all(mu >= 0.0)):
        raise InputError("mu", f"expected {places} friction coefficients ≥ 0, got {mu}")
    bodies = RobotBodies(robot, terrain, q, mu, friction, hulls)
    if not isinstance(engine, MujocoSettings):
        return EngineWorld(bodies, engine)
    if file is not None:
        from sim_harness.mujoco.file_world import file_world  # noqa: PLC0415 - an optional package

        return file_world(bodies, file, -float(terrain.query(np.zeros((1, 3)))[0][0]))[0]
    from sim_harness.mujoco.robot import robot_world  # noqa: PLC0415 - an optional package

    return robot_world(bodies, engine)


def build_scene(settings: SceneSettings, engine: Engine | MujocoSettings) -> SceneWorld:
    """Return the world of an engine at the scene's start. Raises ConfigError when the engine does not support the scene."""
    scene = Scene(settings)
    if not isinstance(engine, MujocoSettings):
        return EngineWorld(scene, engine)
    from sim_harness.mujoco.scene import scene_world  # noqa: PLC0415 - an optional package

    return scene_world(scene, engine)
