"""Contact reports of the simulated feet."""

from typing import Literal

from idyn.types import ContactSet
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
