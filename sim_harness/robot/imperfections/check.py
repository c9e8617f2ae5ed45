"""Check a robot's imperfections before anything runs."""

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from sim_harness.robot.imperfections.bodies import joint_friction, world_robot
from sim_harness.robot.imperfections.sensors import Sensors
from sim_harness.robot.imperfections.settings import ImperfectionSettings


def check_imperfections(settings: ImperfectionSettings, robot: Robot, dt: float, where: str = "experiment.robot") -> None:
    """Raises ConfigError, headed by `where`, naming the first setting that makes no sense. dt: of the ticks [s]"""
    Sensors(settings.sensing, robot, None, f"{where}.sensing")
    world_robot(robot, settings, where)
    joint_friction(robot, settings, where)
    for way in ("lost_states", "lost_torques"):
        loss = getattr(settings.link, way)
        if (loss.rate > 0.0 or loss.every > 0.0) and round(loss.length / dt) < 1:
            raise ConfigError(f"{where}.link.{way}.length", f"expected a tick of {dt:g} s at least, got {loss.length:g}")
        if loss.every > 0.0 and (loss.rate > 0.0 or loss.length > 0.5 * loss.every):
            raise ConfigError(f"{where}.link.{way}.every", "expected no rate beside it, and twice the length at least")
    if settings.ground.terrain is not None:
        settings.ground.terrain.build(where=f"{where}.ground.terrain")
