"""A controller in service: conversion between the records of sessions and those of the controller."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from controllers.command import Command, Inputs, Mode, Steering
from controllers.estimation.estimator import Estimator
from controllers.monitor.safety import SafetySettings, torque_rates
from idyn.model.robot import Robot
from idyn.prediction.precompile import CompileTasks
from idyn.tasks import TaskStack
from idyn.types import Array, ContactSet, State
from transport.protocol.contact_input import FootSwitches
from transport.protocol.state_input import Measured
from transport.protocol.torque_gate import Gate, Passed, TwinGate
from transport.server.sessions.handshake import Host
from transport.server.settings import ServerSettings
from transport.server.torque_reply import Decision


class ServedController(Protocol):
    """The methods that the service needs of a controller, as `controllers.controller.Controller` has them."""

    @property
    def robot(self) -> Robot:
        """The robot's model."""
        ...

    @property
    def stance(self) -> Array:
        """Configuration at the start of trajectories (nq)."""

    def estimator(self) -> Estimator | None:
        """Return a new estimator of the base; None: the base must be measured."""
        ...

    def check_steering(self, steering: Steering, tasks: TaskStack | None) -> None:
        """Raise InputError for a steering, or tasks beside it, that the controller cannot follow, with a command's field."""

    @property
    def realises_tasks(self) -> bool:
        """Whether `Inputs.tasks` has an effect."""
        ...

    def contacts(self, at: Array | State, touching: Sequence[str] | None = None) -> ContactSet:
        """Return the contacts at a configuration or state, from geometry.

        touching: names of the contact places that touch; return exactly these, in this order
        """

    def believed(
        self, state: State, closed: tuple[str, ...], inputs: Inputs, forces: dict[str, float]
    ) -> tuple[tuple[str, ...], str]:
        """Return the contact places whose foot switches count as closed, and which switches contradict, '' without any."""
        ...

    def answer(self, state: State, contacts: ContactSet, inputs: Inputs) -> Command:
        """Return the command of this tick."""

    def settle(self) -> None:
        """Do the work that can wait until the last answer has been sent: the answer does not depend on it."""

    def compile_tasks(self) -> CompileTasks:
        """Return tasks that together compile every kernel a step may need. Reset the controller after the needed ones."""
        ...

    def reset(self) -> None:
        """Forget all previous ticks."""

    def snapshot(self) -> dict[str, Any]:
        """Return everything the controller is built from, as JSON values: `settings`, `urdf` (text) and more."""


def build_host(controller: ServedController, settings: ServerSettings) -> Host:
    """Return the server's side of handshakes for this controller."""
    snapshot = controller.snapshot()["settings"]
    return Host(
        robot=controller.robot,
        settings=settings,
        controller=snapshot,
        check_steering=controller.check_steering,
        realises_tasks=controller.realises_tasks,
        estimator=controller.estimator,
    )


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
        self.last: Decision | None = None
        self.last_tau: Array | None = None
        self.last_ff: Array | None = None

    def reset(self) -> None:
        """Reset the controller and forget the last torques."""
        self.controller.reset()
        self.last = self.last_tau = self.last_ff = None

    def contacts(self, measured: Measured) -> ContactSet:
        """Return the contacts of a state: as measured, or from geometry (of all feet, or of those with a closed switch).

        Switches that contradict forces and kinematics are named in `doubt`. After torques that the gate changed the controller
        must not expect its own ones.
        """
        given, state = measured.contacts, measured.state
        if self._gated:
            measured.follows = False
        if given is None:
            return self.controller.contacts(state)
        if not isinstance(given, FootSwitches):
            return given
        keys, problem = self.controller.believed(state, given.keys, measured, given.forces)
        measured.doubt = measured.doubt or problem
        return given.changed(keys).on(self.controller.contacts(state, keys))

    def gate(self, measured: Measured, command: Command, own: Gate) -> Passed:
        """Return the torques of a command, and their feed-forward part, within the limits.

        own: gate of the session
        The rate of the feed-forward part counts from the last one. A torque that stops or damps has none, at once.
        """
        if self._gate is None or self._gate[0] is not own:
            self._gate = own, TwinGate(own.limits, self._rates)
        runs = command.mode in RUNS
        before = self.last_tau if measured.tau_applied is None else measured.tau_applied, self.last_ff if runs else None
        torques, at = (command.tau, command.tau_ff), (measured.angles, measured.speeds)
        passed = self._gate[1].apply(torques, at, before, measured.dt, command.limited_by)
        if passed.changed or self._gated:
            self._gated = GATED if passed.changed else self._gated - 1
        self.last_ff = passed.tau_ff if runs else None
        return passed
