"""New controller settings over the wire: checked, built in a thread, installed while no client controls the robot.

A client can make safety settings stricter than the server's own files, never looser.
"""

import gc
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from controllers.config.tables import merged
from controllers.controller import Controller
from idyn.errors import ConfigError, IdynError
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import Code
from transport.protocol.messages.requests import ConfigSet

COLLECT_EVERY = 16  # requests between two garbage collections; a replaced controller has 0.7 MB

Rebuild = Callable[[dict[str, Any]], Controller]
"""Build a controller from a changed snapshot, ready for its first state. Raises IdynError."""

AT_MOST = ("torque_rate", "max_tilt", "max_base_speed", "max_joint_speed")
AT_LEAST = ("damping", "first_command_guard")
"""Settings of `[safety]`: clients may only decrease those of `AT_MOST`, and only increase those of `AT_LEAST`."""


def changed(
    snapshot: dict[str, Any], changes: dict[str, Any], own: dict[str, Any], rate: float = float("inf")
) -> dict[str, Any]:
    """Return the snapshot with settings replaced by those in `changes`; all other settings stay as they are.

    own: the settings that the server started with; rate: the smallest default of `torque_rate` of a joint [N·m/s]
    Raises ProtocolError for unknown settings, and for safety settings looser than those of `own`.
    """
    try:
        settings = merged(snapshot["settings"], changes, "settings")
    except ConfigError as error:
        raise ProtocolError(Code.BAD_SCHEMA, error.path, error.message) from error
    _check_safety(settings.get("safety", {}), own.get("safety", {}), rate)
    return snapshot | {"settings": settings}


def _check_safety(wanted: Any, own: dict[str, Any], rate: float) -> None:
    """Raise ProtocolError for a safety setting looser than in `own`. Wrong types are left to the settings' own checks."""
    for key in own if isinstance(wanted, dict) else ():
        value, limit = wanted.get(key), own[key]
        if key == "torque_rate" and value is None and limit is not None and limit < float("inf"):
            _refuse_loosening(key, f"at most {limit:g}", "the default of the robot")
        limit = rate if key == "torque_rate" and limit is None else limit
        if isinstance(value, bool) or not isinstance(value, int | float):
            if key == "fallback" and value == "hold" and limit != "hold":
                _refuse_loosening(key, f"'{limit}'", f"'{value}'")
        elif key in AT_MOST and not value <= limit:
            _refuse_loosening(key, f"at most {limit:g}", f"{value:g}")
        elif key in AT_LEAST and not value >= limit:
            _refuse_loosening(key, f"at least {limit:g}", f"{value:g}")


def _refuse_loosening(key: str, expected: str, got: str) -> None:
    reason = f"expected {expected}, as in the server's file, got {got}; safety settings cannot be loosened over the wire"
    raise ProtocolError(Code.BAD_SCHEMA, f"settings.safety.{key}", reason)


class Build(msgspec.Struct):
    """A valid `config_set`, and its outcome."""

    identity: bytes  # its client
    data: bytes  # its bytes
    message: ConfigSet
    snapshot: dict[str, Any]  # of the controller to build
    controller: Controller | None = None  # the new one, None until it is built
    problem: str = ""  # why it cannot be built, '' if it can


class ControllerBuilder:
    """Builds one controller at a time: in a thread of its own or, for replays and tests, within `begin`."""

    def __init__(self, rebuild: Rebuild, *, in_thread: bool) -> None:
        self._rebuild, self._in_thread = rebuild, in_thread
        self._finished: Build | None = None
        self._requests = 0
        self.busy = False

    def begin(self, build: Build) -> None:
        """Start building. Raises ProtocolError while another request is being built. No client may control the robot.

        Controllers that were replaced before have reference cycles, and a server runs without garbage collection: it is done
        here, once in `COLLECT_EVERY` requests.
        """
        if self.busy:
            raise ProtocolError(Code.NOT_CONTROLLING, "settings", "another change of settings is being built; try again")
        self.busy = True
        self._requests += 1
        if self._requests % COLLECT_EVERY == 0:
            gc.collect()
        if self._in_thread:
            threading.Thread(target=self._build, args=(build,), name="builder", daemon=True).start()
        else:
            self._build(build)

    def take(self) -> Build | None:
        """Return the build that has finished since the last call, None without one."""
        finished, self._finished = self._finished, None
        self.busy = self.busy and finished is None
        return finished

    def _build(self, build: Build) -> None:
        try:
            build.controller = self._rebuild(build.snapshot)
        except IdynError as error:
            build.problem = str(error)
        except Exception as error:  # settings from outside must not end the server
            build.problem = f"no controller can be built from these settings ({type(error).__name__}: {error})"
        self._finished = build
