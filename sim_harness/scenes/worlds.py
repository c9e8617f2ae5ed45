"""The worlds of scenes by their engines: ours, which share one, and MuJoCo, which is one of its own."""

from typing import Protocol

from idyn.types import Array, State
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.scenes.bodies.model import SceneModel
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.scenes.world import SceneWorld, Step
from sim_harness.world.worlds import AnyEngine


class Scene(Protocol):
    """Bodies that something moves; t: [s]. Read the state, never write it."""

    model: SceneModel
    t: float

    @property
    def state(self) -> State: ...

    def reset(self, q: Array, v: Array) -> None: ...

    def step(self) -> Step: ...


def build_scene(settings: SceneSettings, engine: AnyEngine) -> Scene:
    """The world of an engine, at its start. Raises ConfigError for what the engine does not have."""
    if not isinstance(engine, MujocoSettings):
        return SceneWorld(settings, engine)
    from sim_harness.mujoco.scene_world import MujocoScene  # noqa: PLC0415 - an optional package

    return MujocoScene(settings, engine)
