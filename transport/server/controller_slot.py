"""A controller in service: conversion between the records of sessions and those of the controller."""

from controllers.command import Command
from idyn.types import Array, ContactSet
from transport.protocol.foot_switches import FootSwitches
from transport.server.served_controller import ServedController
from transport.server.sessions.session import Accepted


class ControllerSlot:
    """A controller and its last torque. last_tau: torque sent to the client [N·m] (na); None: not yet"""

    def __init__(self, controller: ServedController) -> None:
        self.controller = controller
        self.last_tau: Array | None = None

    def reset(self) -> None:
        """Reset the controller and forget the last torque."""
        self.controller.reset()
        self.last_tau = None

    def contacts(self, accepted: Accepted) -> ContactSet:
        """Return the contacts of a state: as measured, or from geometry (of all feet, or of those with a closed switch)."""
        given, state = accepted.contacts, accepted.measured.state
        if given is None:
            return self.controller.contacts(state)
        return given.on(self.controller.contacts(state, given.keys)) if isinstance(given, FootSwitches) else given

    def gate(self, accepted: Accepted, command: Command) -> tuple[Array, Array]:
        """Return the torque of a command after the torque gate [N·m] (na), and its `LimitedBy` bits (na)."""
        measured = accepted.measured
        before = self.last_tau if measured.tau_applied is None else measured.tau_applied
        return accepted.session.agreement.gate.apply(
            command.tau, measured.angles, measured.speeds, before, accepted.inputs.dt, command.limited_by
        )
