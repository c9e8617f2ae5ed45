"""What the simulated feet report of their contacts."""

from typing import Literal

from idyn.types import ContactSet
from sim_harness.world.world import StepResult
from transport.protocol.messages.state import Contact

Report = Literal["geometry", "message", "binary"]
"""'geometry': nothing, the server finds the contacts; 'message': what ideal force sensors and a map of the terrain would know;
'binary': which feet touch, as foot switches do."""

FIRST_GAP = 1e-4
"""Before the first step nothing has been felt: a foot touches then when it is this near to the ground [m]."""


class FootSensors:
    """Reports the contacts of one step in the next state."""

    def __init__(self, report: Report, threshold: float) -> None:
        """threshold: a switch closes above this mean normal force [N]"""
        self._report = report
        self._threshold = threshold
        self._felt: dict[str, bytes] | None = None  # force on each place in the last step, world axes [N] (3)
        self._closed: frozenset[str] = frozenset()

    def feel(self, result: StepResult, dt: float) -> None:
        """Note the forces of a step."""
        keys = result.contacts.keys
        forces = result.impulse / dt
        self._felt = {key: force.tobytes() for key, force in zip(keys, forces, strict=True)}
        self._closed = frozenset(key for key, f in zip(keys, result.normal_force, strict=True) if f > self._threshold)

    def contacts(self, contacts: ContactSet) -> list[Contact] | None:
        """The contacts of a state message; `contacts` are the world's own."""
        if self._report == "geometry":
            return None
        if self._report == "message":
            return self._measured(contacts)
        if self._felt is None:
            closed = [key for key, gap in zip(contacts.keys, contacts.gaps, strict=True) if gap <= FIRST_GAP]
        else:
            closed = [key for key in contacts.keys if key in self._closed]
        return [Contact(frame=key) for key in closed]

    def _measured(self, c: ContactSet) -> list[Contact]:
        felt = self._felt or {}
        mu, gaps = c.mu.tolist(), c.gaps.tolist()
        return [
            Contact(
                frame=key,
                p=c.points[i].tobytes(),
                n=c.normals[i].tobytes(),
                t1=c.tangents[i].tobytes(),
                mu=mu[i],
                dist=gaps[i],
                f_sensed=felt.get(key),
                sensed_valid=key in felt,
            )
            for i, key in enumerate(c.keys)
        ]
