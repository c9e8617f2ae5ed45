"""An experiment with its settings changed, layer upon layer."""

from collections.abc import Iterable

import msgspec

from controllers.config.loading import load, parse
from controllers.config.tables import Table, merged
from sim_harness.run.plan import ExperimentSettings, Plan, build_plan

Changes = Table
"""Settings of an experiment that replace its own, table by table."""


def plan_with(experiment: str, layers: Iterable[tuple[str, Changes]], seconds: float | None = None) -> Plan:
    """The plan of an experiment, `seconds` long instead of its own duration.

    layers: name and changes, the later ones over the earlier
    Raises ConfigError headed by the name of the layer that is wrong.
    """
    settings = load("experiments", experiment, ExperimentSettings)
    for where, changes in layers:
        settings = parse(merged(msgspec.to_builtins(settings), changes), ExperimentSettings, f"{where}.changes")
    if seconds is not None:
        settings = msgspec.structs.replace(settings, duration=seconds)
    return build_plan(settings)
