"""Check the imperfections of a robot before a run."""

from idyn.errors import ConfigError
from idyn.model.robot import Robot
from sim_harness.robot.imperfections.bodies import joint_friction, world_robot
from sim_harness.robot.imperfections.sensors import Sensors, SimulatedImu
from sim_harness.robot.imperfections.settings import ImperfectionSettings


def check_imperfections(settings: ImperfectionSettings, robot: Robot, dt: float, where: str = "experiment.robot") -> None:
    """Raise ConfigError at `where` for the first invalid setting; dt: period of the ticks [s]."""
    Sensors(settings.sensing, robot, None, f"{where}.sensing")
    if settings.sensing.imu is not None:
        SimulatedImu(settings.sensing.imu, robot, None, f"{where}.sensing")
    world_robot(robot, settings, where)
    joint_friction(robot, settings, where)
    for field in ("lost_states", "lost_torques"):
        loss = getattr(settings.link, field)
        if (loss.rate > 0.0 or loss.every > 0.0) and round(loss.length / dt) < 1:
            raise ConfigError(f"{where}.link.{field}.length", f"expected at least one tick of {dt:g} s, got {loss.length:g} s")
        if loss.every > 0.0 and loss.rate > 0.0:
            raise ConfigError(f"{where}.link.{field}.every", f"expected either every or rate, got both, rate = {loss.rate:g}")
        if loss.every > 0.0 and loss.length > 0.5 * loss.every:
            raise ConfigError(
                f"{where}.link.{field}.every", f"expected at least twice the length of {loss.length:g} s, got {loss.every:g} s"
            )
    if settings.ground.terrain is not None:
        settings.ground.terrain.build(where=f"{where}.ground.terrain")
