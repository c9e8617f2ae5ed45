"""A controller in service: conversion between the records of sessions and those of the controller."""

import msgspec
import numpy as np

from controllers.command import Command, Inputs, Mode
from controllers.monitor.safety import SafetySettings, torque_rates
from idyn.types import Array, ContactSet
from transport.protocol.foot_switches import FootSwitches
from transport.protocol.torque_gate import Gate
from transport.server.served_controller import ServedController
from transport.server.sessions.session import Accepted
from transport.server.torque_reply import Decision

RUNS = (Mode.OK, Mode.DEGRADED)
"""Modes in which the torque follows the model."""


GATED = 50
"""Ticks after a torque that the gate changed in which motors are not compared with the controller's torques."""


class ControllerSlot:
    """A controller and its last torques.

    last: last answered state with its answer; None: not yet
    last_tau: torque sent to the client [N·m] (na); None: not yet
    last_ff: its feed-forward part [N·m] (na); None: not yet, and after a torque that did not follow the model
    """

    def __init__(self, controller: ServedController) -> None:
        self.controller = controller
        safety = controller.snapshot()["settings"].get("safety", {})
        own = SafetySettings(torque_rate=safety.get("torque_rate", np.inf))
        self._rates = torque_rates(own, controller.robot.limits)
        self._ff_gate: tuple[Gate, Gate] | None = None  # the gate of the session, and the one for feed-forward torques
        self._gated = 0
        self._switches = ""  # which foot switches contradict forces and kinematics
        self.last: Decision | None = None
        self.last_tau: Array | None = None
        self.last_ff: Array | None = None

    def reset(self) -> None:
        """Reset the controller and forget the last torques."""
        self.controller.reset()
        self.last = self.last_tau = self.last_ff = None

    def contacts(self, accepted: Accepted) -> ContactSet:
        """Return the contacts of a state: as measured, or from geometry (of all feet, or of those with a closed switch)."""
        given, state = accepted.contacts, accepted.measured.state
        self._switches = ""
        if given is None:
            return self.controller.contacts(state)
        if not isinstance(given, FootSwitches):
            return given
        keys, self._switches = self.controller.believed(state, given.keys, self.inputs(accepted), given.forces)
        return given.changed(keys).on(self.controller.contacts(state, keys))

    def gate(self, accepted: Accepted, command: Command) -> tuple[Array, Array]:
        """Return the torque of a command after the torque gate [N·m] (na), and its `LimitedBy` bits (na)."""
        measured = accepted.measured
        before = self.last_tau if measured.tau_applied is None else measured.tau_applied
        tau, bits, changed = accepted.session.agreement.gate.apply(
            command.tau, measured.angles, measured.speeds, before, accepted.inputs.dt, command.limited_by
        )
        if changed or self._gated:
            self._gated = GATED if changed else self._gated - 1
        return tau, bits

    def inputs(self, accepted: Accepted) -> Inputs:
        """Return the inputs of a tick, after `contacts`. After torques that the gate changed the controller must not expect its
        own ones."""
        inputs = accepted.inputs
        if self._switches:
            inputs = msgspec.structs.replace(inputs, doubt=inputs.doubt or self._switches)
        return msgspec.structs.replace(inputs, follows=False) if self._gated else inputs

    def feed_forward(self, accepted: Accepted, command: Command) -> tuple[Array, bool]:
        """Return the feed-forward torque within the limits and rates of the torque [N·m] (na), and whether they changed it.

        The rate counts from the last feed-forward torque. A torque that stops or damps has none, at once.
        """
        own = accepted.session.agreement.gate
        if self._ff_gate is None or self._ff_gate[0] is not own:
            limits = own.limits
            rates = np.minimum(limits.dtau_max, self._rates)
            self._ff_gate = own, Gate(msgspec.structs.replace(limits, dtau_max=rates))
        runs, measured = command.mode in RUNS, accepted.measured
        tau_ff, _, changed = self._ff_gate[1].apply(
            command.tau_ff, measured.angles, measured.speeds, self.last_ff if runs else None, accepted.inputs.dt
        )
        self.last_ff = tau_ff if runs else None
        return tau_ff, changed
