"""The interface between service and controller."""

from collections.abc import Sequence
from typing import Any, Protocol

from controllers.command import Command, Inputs, Steering
from controllers.estimation.estimator import Estimator
from idyn.model.robot import Robot
from idyn.prediction.precompile import CompileTasks
from idyn.tasks import TaskStack
from idyn.types import Array, ContactSet, State
from transport.server.sessions.handshake import Host
from transport.server.settings import ServerSettings


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
