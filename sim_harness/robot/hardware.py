"""Simulated hardware between the world and the robot's messages: sensors, foot sensors and motors."""

from idyn.model.robot import Robot
from idyn.types import Record
from sim_harness.robot.foot_sensors import FootSensors, Report
from sim_harness.robot.imperfections.actuators import Actuators
from sim_harness.robot.imperfections.imu import SimulatedImu
from sim_harness.robot.imperfections.sensors import Sensors
from sim_harness.robot.imperfections.settings import ImperfectionSettings


class Hardware(Record, frozen=True):
    """The hardware of one run. Its parts have internal state."""

    sensors: Sensors
    feet: FootSensors
    actuators: Actuators
    imu: SimulatedImu | None = None

    @staticmethod
    def build(robot: Robot, dt: float, settings: ImperfectionSettings, report: Report, seed: int | None) -> "Hardware":
        """Return hardware with imperfections. Raises ConfigError for settings that do not fit the robot.

        dt: period of the ticks [s]
        report: contact report of the feet
        seed: seed of the run
        """
        return Hardware(
            sensors=Sensors(settings.sensing, robot, seed),
            feet=FootSensors(report, settings.sensing.touch_threshold),
            actuators=Actuators(settings.drive, robot, dt),
            imu=None if settings.sensing.imu is None else SimulatedImu(settings.sensing.imu, robot, seed),
        )

    @staticmethod
    def ideal(robot: Robot, dt: float) -> "Hardware":
        """Return hardware with exact sensors, contact reports with forces, and motors that follow every command."""
        return Hardware.build(robot, dt, ImperfectionSettings(), "message", None)
