"""What the server says of itself, as `diagnostic_msgs/DiagnosticArray`."""

from collections.abc import Mapping
from typing import Any

from transport.printable import printable
from transport.protocol.messages.requests import Stats, Tick
from transport.ros2.conversions import Message, header

OK, WARN, ERROR, STALE = 0, 1, 2, 3
"""Levels of a status."""

LEVELS = {"ok": OK, "degraded": WARN, "hold": WARN, "damping": ERROR, "fault": ERROR}
"""Status of an answer → level."""


def diagnostics(hardware: str, stamp_ns: int, tick: Tick | None, stats: Stats | None, refusal: str) -> Message:
    """Return the status of controller, server and commands.

    hardware: name of the robot; tick, stats: None without an answer of the server; refusal: why the last command had no effect
    """
    statuses = [_controller(tick), _server(stats), _status("commands", WARN if refusal else OK, refusal or "accepted", {})]
    return {"header": header(stamp_ns), "status": [status | {"hardware_id": hardware} for status in statuses]}


def _controller(tick: Tick | None) -> Message:
    if tick is None or tick.state is None:
        return _status("controller", STALE, "no client controls the robot", {})
    return _status("controller", LEVELS.get(tick.status, WARN), tick.message or tick.status, {"status": tick.status})


def _server(stats: Stats | None) -> Message:
    if stats is None:
        return _status("server", ERROR, "no answer", {})
    values = {
        "states": stats.states,
        "torques": stats.torques,
        "late answers": stats.deadline_misses,
        "refused": sum(stats.refused.values()),
        "mean step [µs]": round(stats.step_us_mean),
    }
    return _status("server", ERROR if stats.fault else OK, stats.fault or "runs", values)


def _status(name: str, level: int, message: str, values: Mapping[str, Any]) -> Message:
    pairs = [{"key": key, "value": str(value)} for key, value in values.items()]
    return {"name": f"idyn: {name}", "level": level, "message": printable(message), "values": pairs}
