"""The only module that imports MuJoCo, an optional package. Raises ConfigError when it is not installed."""

from idyn.errors import missing_extra

try:
    import mujoco
except ModuleNotFoundError as error:
    raise missing_extra("engine", "'mujoco'", "mujoco", "mujoco") from error

__all__ = ["mujoco"]

mujoco.set_mju_user_warning(lambda _: None)  # no log file; MjData counts warnings and the world reports them in the status
