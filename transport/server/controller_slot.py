"""A controller where a client sits: what is between the session's records and the controller's own."""

from controllers.command import Command
from idyn.types import Array, ContactSet
from transport.protocol.foot_switches import FootSwitches
from transport.server.served_controller import ServedController
from transport.server.sessions.session import Accepted


class ControllerSlot:
    """A controller and what its client saw of it last: last_tau [N·m] (na), None: nothing yet"""

    def __init__(self, controller: ServedController) -> None:
        self.controller = controller
        self.last_tau: Array | None = None

    def reset(self) -> None:
        self.controller.reset()
        self.last_tau = None

    def contacts(self, accepted: Accepted) -> ContactSet:
        """The contacts of a state: as measured, from geometry, or of those feet that say they touch."""
        given, state = accepted.contacts, accepted.measured.state
        if given is None:
            return self.controller.contacts(state)
        return given.on(self.controller.contacts(state, given.keys)) if isinstance(given, FootSwitches) else given

    def gate(self, accepted: Accepted, command: Command) -> tuple[Array, Array]:
        """What the last gate lets through of a command's torque [N·m], and why not all of it (na)."""
        measured = accepted.measured
        before = self.last_tau if measured.tau_applied is None else measured.tau_applied
        return accepted.session.agreement.gate.apply(
            command.tau, measured.angles, measured.speeds, before, accepted.inputs.dt, command.limited_by
        )
