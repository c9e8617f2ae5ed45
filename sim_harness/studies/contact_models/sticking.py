"""TSID's contact model below the planner, gains and limits of a controller: feet that stand stick, whatever friction allows."""

import numpy as np

from controllers.contact.source import ContactSource
from controllers.feedforward import FeedForward, Forecast, Target
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Kinematics
from sim_harness.compare.tasks.peer import Peer


class Answers:
    """What TSID computed. normal: bytes of a configuration → normal forces [N] (contacts); failed: ticks without a solution"""

    def __init__(self) -> None:
        self.normal: dict[bytes, Array] = {}
        self.failed = 0


class Sticking(FeedForward):
    """Feed-forward torque of TSID: a quadratic program for the demanded joint accelerations.

    Its constraints are the dynamics, feet that do not accelerate, forces inside the friction pyramid, and the torque limits.
    """

    def __init__(self, robot: Robot, source: ContactSource, peer: Peer, answers: Answers) -> None:
        super().__init__(robot, source)
        self._keys, self._peer, self._answers = robot.spheres.keys, peer, answers

    def forecast(self, at: Kinematics, contacts: ContactSet, target: Target) -> Forecast:
        """Return TSID's torque; without a solution its last one."""
        contacts = self._source.pick(contacts, target.schedule)
        tick = self._peer.accelerate(at.q, at.v, target.demand, np.isin(self._keys, contacts.keys).astype(float))
        self._answers.normal[at.q.tobytes()] = tick.normal
        self._answers.failed += not tick.ok
        return Forecast(tau=tick.tau, contacts=contacts, message="" if tick.ok else "TSID found no solution")
