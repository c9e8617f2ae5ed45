"""An experiment with its settings changed, layer upon layer."""

from collections.abc import Iterable
from typing import Any

import msgspec

from controllers.config import load
from sim_harness.experiment import ExperimentSettings, Plan, build_plan, merged

Changes = dict[str, Any]
"""Settings of an experiment that replace its own, table by table."""

OPEN = ("controller", "engine_settings")
"""Tables of an experiment that hold only what differs from another file or from defaults: keys may be new in them."""


def plan_with(experiment: str, layers: Iterable[tuple[str, Changes]], seconds: float | None = None) -> Plan:
    """The plan of an experiment, `seconds` long instead of its own duration.

    layers: name and changes, the later ones over the earlier
    Raises ConfigError headed by the layer's name.
    """
    values = msgspec.to_builtins(load("experiments", experiment, ExperimentSettings))
    for where, changes in layers:
        own = dict(changes)
        inner = {name: own.pop(name) for name in OPEN if name in own}
        values = joined(merged(values, own, f"{where}.changes"), inner)
    if seconds is not None:
        values["duration"] = seconds
    return build_plan(msgspec.convert(values, ExperimentSettings))


def joined(base: Changes, changes: Changes) -> Changes:
    """`base` with `changes` put in, key by key; keys may be new."""
    result = dict(base)
    for key, value in changes.items():
        result[key] = joined(result.get(key, {}), value) if isinstance(value, dict) else value
    return result
