"""The only door to MuJoCo, which is an optional package."""

from idyn.errors import ConfigError

try:
    import mujoco
except ModuleNotFoundError as error:
    raise ConfigError("engine", "'mujoco' needs a package that is not installed: pip install 'idyn[mujoco]'") from error

__all__ = ["mujoco"]

mujoco.set_mju_user_warning(lambda _: None)  # its warnings are counted in the data and become a status; by default, a log file
