"""A controller in service: conversion between the records of sessions and those of the controller."""

import msgspec
import numpy as np

from controllers.command import Command, Inputs, Mode
from controllers.monitor.safety import SafetySettings, torque_rates
from idyn.types import Array, ContactSet
from transport.protocol.foot_switches import FootSwitches
from transport.protocol.torque_gate import Gate, Passed, TwinGate
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
        self._gate: tuple[Gate, TwinGate] | None = None  # the gate of the session, and the one with its limits
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

    def gate(self, accepted: Accepted, command: Command) -> Passed:
        """Return the torques of a command, and their feed-forward part, within the limits.

        The rate of the feed-forward part counts from the last one. A torque that stops or damps has none, at once.
        """
        measured, own = accepted.measured, accepted.session.agreement.gate
        if self._gate is None or self._gate[0] is not own:
            self._gate = own, TwinGate(own.limits, self._rates)
        runs = command.mode in RUNS
        before = self.last_tau if measured.tau_applied is None else measured.tau_applied, self.last_ff if runs else None
        torques, at = (command.tau, command.tau_ff), (measured.angles, measured.speeds)
        passed = self._gate[1].apply(torques, at, before, accepted.inputs.dt, command.limited_by)
        if passed.changed or self._gated:
            self._gated = GATED if passed.changed else self._gated - 1
        self.last_ff = passed.tau_ff if runs else None
        return passed

    def inputs(self, accepted: Accepted) -> Inputs:
        """Return the inputs of a tick, after `contacts`. After torques that the gate changed the controller must not expect its
        own ones."""
        inputs = accepted.inputs
        if not (self._switches or self._gated):
            return inputs
        if self._switches:
            inputs = msgspec.structs.replace(inputs, doubt=inputs.doubt or self._switches)
        return msgspec.structs.replace(inputs, follows=False) if self._gated else inputs
