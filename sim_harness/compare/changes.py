"""An experiment with its settings changed, layer upon layer."""

from collections.abc import Iterable
from typing import Any

import msgspec

from controllers.config import load, parse
from sim_harness.plan import ExperimentSettings, Plan, build_plan, merged

Changes = dict[str, Any]
"""Settings of an experiment that replace its own, table by table."""

OPEN = ("controller", "engine_settings", "robot")
"""Tables in which keys may be new: they hold what differs from another file or from defaults, and names."""


def plan_with(experiment: str, layers: Iterable[tuple[str, Changes]], seconds: float | None = None) -> Plan:
    """The plan of an experiment, `seconds` long instead of its own duration.

    layers: name and changes, the later ones over the earlier
    Raises ConfigError headed by the name of the layer that is wrong.
    """
    settings = load("experiments", experiment, ExperimentSettings)
    for where, changes in layers:
        own = dict(changes)
        inner = {name: own.pop(name) for name in OPEN if name in own}
        values = joined(merged(msgspec.to_builtins(settings), own, f"{where}.changes"), inner)
        settings = parse(values, ExperimentSettings, f"{where}.changes")
    if seconds is not None:
        settings = msgspec.structs.replace(settings, duration=seconds)
    return build_plan(settings)


def joined(base: Changes, changes: Changes) -> Changes:
    """`base` with `changes` put in, key by key; keys may be new."""
    result = dict(base)
    for key, value in changes.items():
        inner = result.get(key)
        result[key] = joined(inner if isinstance(inner, dict) else {}, value) if isinstance(value, dict) else value
    return result
