"""New settings for a controller over the wire: checked, built beside the loop, put in place while no client controls.

What keeps a robot safe can be made stricter from outside than the server's own files have it, never looser.
"""

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from controllers.config.tables import merged
from idyn.errors import ConfigError, IdynError
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code
from transport.protocol.messages.requests import ConfigSet
from transport.server.served_controller import ServedController

Rebuild = Callable[[dict[str, Any]], ServedController]
"""Builds a controller from a changed snapshot, ready for its first state; raises IdynError."""

AT_MOST = ("torque_rate", "max_tilt", "max_base_speed", "max_joint_speed")
AT_LEAST = ("damping", "first_command_guard")
"""Of `[safety]`: which way is stricter."""


def changed(snapshot: dict[str, Any], changes: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The snapshot with `changes` in its settings. Raises ProtocolError for what is not there, and for safety settings looser
    than those of `own`, the settings the server began with."""
    try:
        settings = merged(snapshot["settings"], changes, "settings")
    except ConfigError as error:
        raise ProtocolError(Code.BAD_SCHEMA, error.path, error.message) from error
    _check_safety(settings.get("safety", {}), own.get("safety", {}))
    return snapshot | {"settings": settings}


def _check_safety(wanted: Any, own: dict[str, Any]) -> None:
    """Values of a wrong type are left to the settings themselves."""
    for key in own if isinstance(wanted, dict) else ():
        value, limit = wanted.get(key), own[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            if key == "fallback" and value == "hold" and limit != "hold":
                _refuse_loosening(key, f"'{limit}'", f"'{value}'")
        elif key in AT_MOST and not value <= limit:
            _refuse_loosening(key, f"at most {limit:g}", f"{value:g}")
        elif key in AT_LEAST and not value >= limit:
            _refuse_loosening(key, f"at least {limit:g}", f"{value:g}")


def _refuse_loosening(key: str, expected: str, got: str) -> None:
    reason = f"expected {expected}, as in the server's own file, got {got}: safety is not loosened over the wire"
    raise ProtocolError(Code.BAD_SCHEMA, f"settings.safety.{key}", reason)


class Order(msgspec.Struct, frozen=True):
    """A `config_set` that was found in order: whose it is, its bytes, and what is to be built."""

    identity: bytes
    request: bytes
    message: ConfigSet
    snapshot: dict[str, Any]


class Built(msgspec.Struct, frozen=True):
    """What became of an order; problem: why there is no controller, ''."""

    order: Order
    controller: ServedController | None
    problem: str = ""


class Workshop:
    """Builds one controller at a time, in a thread of its own or, for replays and tests, at once."""

    def __init__(self, rebuild: Rebuild, *, beside: bool) -> None:
        self._rebuild, self._beside = rebuild, beside
        self._built: Built | None = None
        self.busy = False

    def begin(self, order: Order) -> None:
        """Start building. Raises ProtocolError while another order is in work."""
        if self.busy:
            raise ProtocolError(Code.NOT_CONTROLLING, "settings", "another change of settings is being built; try again")
        self.busy = True
        if self._beside:
            threading.Thread(target=self._build, args=(order,), name="workshop", daemon=True).start()
        else:
            self._build(order)

    def take(self) -> Built | None:
        """What was finished since the last call."""
        built, self._built = self._built, None
        self.busy = self.busy and built is None
        return built

    def _build(self, order: Order) -> None:
        try:
            self._built = Built(order, self._rebuild(order.snapshot))
        except IdynError as error:
            self._built = Built(order, None, str(error))
        except Exception as error:  # whatever settings from outside lead to, the server goes on as it was
            self._built = Built(order, None, f"these settings make no controller ({type(error).__name__}: {error})")
