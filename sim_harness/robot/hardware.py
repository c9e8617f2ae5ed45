"""What stands between the simulated world and the messages of its robot: sensors, feet and motors."""

from idyn.model.robot import Robot
from idyn.types import Record
from sim_harness.robot.foot_sensors import FootSensors, Report
from sim_harness.robot.imperfections.actuators import Actuators
from sim_harness.robot.imperfections.sensors import Sensors
from sim_harness.robot.imperfections.settings import ImperfectionSettings


class Hardware(Record, frozen=True):
    """The parts of one run; each owns its own past."""

    sensors: Sensors
    feet: FootSensors
    actuators: Actuators

    @staticmethod
    def build(robot: Robot, dt: float, settings: ImperfectionSettings, report: Report, seed: int | None) -> "Hardware":
        """dt: of the ticks [s]. Raises ConfigError."""
        return Hardware(
            sensors=Sensors(settings.sensing, robot, seed),
            feet=FootSensors(report, settings.sensing.touch_threshold),
            actuators=Actuators(settings.drive, robot, dt),
        )

    @staticmethod
    def ideal(robot: Robot, dt: float) -> "Hardware":
        """Exact sensors that report contacts with their forces, and motors that follow every command."""
        return Hardware.build(robot, dt, ImperfectionSettings(), "message", None)
