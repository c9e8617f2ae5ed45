"""Plans of experiments whose settings are changed in layers."""

from collections.abc import Iterable

import msgspec

from controllers.config.loading import load, parse
from controllers.config.tables import Table, merged
from sim_harness.run.plan import ExperimentSettings, Plan, build_plan

Changes = Table
"""Settings that replace those of an experiment, table by table."""


def plan_with(experiment: str, layers: Iterable[tuple[str, Changes]], seconds: float | None = None) -> Plan:
    """Return the plan of an experiment with changes.

    layers: name and changes; later layers override earlier ones; seconds: replaces the duration of the experiment
    Raises ConfigError with the name of the faulty layer.
    """
    settings = load("experiments", experiment, ExperimentSettings)
    for where, changes in layers:
        settings = parse(merged(msgspec.to_builtins(settings), changes), ExperimentSettings, f"{where}.changes")
    if seconds is not None:
        settings = msgspec.structs.replace(settings, duration=seconds)
    return build_plan(settings)
