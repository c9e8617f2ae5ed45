"""What the service needs of a controller, and what it tells clients of it."""

from collections.abc import Sequence
from typing import Any, Protocol

from controllers.command import Command, Inputs
from idyn.model.robot import Robot
from idyn.prediction.precompile import Way
from idyn.types import Array, ContactSet, State
from transport.server.sessions.handshake import Host
from transport.server.settings import ServerSettings


class ServedController(Protocol):
    """The side of a controller that faces the service; `controllers.controller.Controller` has it."""

    @property
    def robot(self) -> Robot: ...

    @property
    def stance(self) -> Array:
        """The configuration that trajectories start from (nq)."""

    def contacts(self, at: Array | State, touching: Sequence[str] | None = None) -> ContactSet:
        """The contacts at a configuration or state, from geometry; or those of the places that are known to touch, in the order
        of their names."""

    def answer(self, state: State, contacts: ContactSet, inputs: Inputs) -> Command:
        """The torques of this tick."""

    def settle(self) -> None:
        """What the last answer leaves to be done once it is on its way."""

    def ways(self) -> list[Way]:
        """Pieces of work that compile all that steps may need, whatever states come; a reset follows."""
        ...

    def reset(self) -> None:
        """Forget all ticks before."""

    def snapshot(self) -> dict[str, Any]:
        """Everything the controller is built from, JSON-able: `settings`, `urdf` (text) and more."""


def build_host(controller: ServedController, settings: ServerSettings) -> Host:
    """The serving side of handshakes, with this controller behind it."""
    return Host(robot=controller.robot, settings=settings, controller=controller.snapshot()["settings"])
