"""Simulated hardware between the world and the robot's messages: sensors, foot sensors and motors."""

from typing import Literal

from idyn.model.robot import Robot
from idyn.types import ContactSet, Record
from sim_harness.robot.imperfections.sensors import Actuators, Sensors, SimulatedImu
from sim_harness.robot.imperfections.settings import ImperfectionSettings
from sim_harness.world.world import StepResult
from transport.protocol.messages.state import Contact

Report = Literal["geometry", "message", "binary"]
"""'geometry': no report, the server computes the contacts; 'message': points, normals, gaps and forces, as from ideal force
sensors and a terrain map; 'binary': which feet touch, as from foot switches."""

FIRST_GAP = 1e-4
"""Largest gap of a touching foot before the first step, when no forces are known [m]."""


class FootSensors:
    """Reports the contacts and forces of a simulation step in the next state message."""

    def __init__(self, report: Report, threshold: float) -> None:
        """threshold: a foot switch closes above this mean normal force [N]"""
        self._report = report
        self._threshold = threshold
        self._measured_forces: dict[str, bytes] | None = None  # force on each contact in the last step, world axes [N] (3)
        self._closed: frozenset[str] = frozenset()

    def record(self, result: StepResult, dt: float) -> None:
        """Record the forces of a step of length dt [s]."""
        keys = result.contacts.keys
        forces = result.impulse / dt
        self._measured_forces = {key: force.tobytes() for key, force in zip(keys, forces, strict=True)}
        self._closed = frozenset(key for key, f in zip(keys, result.normal_force, strict=True) if f > self._threshold)

    def contacts(self, contacts: ContactSet) -> list[Contact] | None:
        """Return the contacts for a state message, None for the report 'geometry'. contacts: those of the world"""
        if self._report == "geometry":
            return None
        if self._report == "message":
            return self._measured(contacts)
        if self._measured_forces is None:
            closed = [key for key, gap in zip(contacts.keys, contacts.gaps, strict=True) if gap <= FIRST_GAP]
        else:
            closed = [key for key in contacts.keys if key in self._closed]
        return [Contact(frame=key) for key in closed]

    def _measured(self, c: ContactSet) -> list[Contact]:
        forces = self._measured_forces or {}
        mu, gaps = c.mu.tolist(), c.gaps.tolist()
        return [
            Contact(
                frame=key,
                p=c.points[i].tobytes(),
                n=c.normals[i].tobytes(),
                t1=c.tangents[i].tobytes(),
                mu=mu[i],
                dist=gaps[i],
                f_sensed=forces.get(key),
                sensed_valid=key in forces,
            )
            for i, key in enumerate(c.keys)
        ]


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
