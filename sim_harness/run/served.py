"""The controller of a server that the robot is connected to, beside the one that the experiment asks for."""

from collections.abc import Iterator
from typing import Any

import msgspec

from controllers.config.loading import parse
from controllers.config.tables import KIND, Table, kind_of
from controllers.settings import ControllerSettings
from sim_harness.run.plan import Plan, with_controller

MOST = 8
"""Largest number of differing settings that are named."""


def served_controller(settings: Table) -> ControllerSettings:
    """Return the controller settings of a `welcome`. Raises ConfigError for settings of a server with other kinds or names."""
    return parse(settings, ControllerSettings, "welcome.controller")


def other_controller(plan: Plan, served: ControllerSettings) -> str:
    """Return how the server's controller differs from the one that the experiment asks for, '' if it does not.

    Any of the experiment's laws will do. The robot is compared by the server, when the session starts.
    """
    asked = [with_controller(plan, {"law": law}).controller for law in plan.settings.laws]
    nearest = next((each for each in asked if kind_of(each.law) == kind_of(served.law)), asked[0])
    found = list(_differences(msgspec.to_builtins(nearest), msgspec.to_builtins(served), ""))
    found.sort(key=lambda text: f"{KIND} = " not in text)  # kinds first
    if not found:
        return ""
    more = f", and {len(found) - MOST} more" if len(found) > MOST else ""
    return f"the server runs another controller than the experiment asks for: {', '.join(found[:MOST])}{more}"


def _differences(ours: Table, theirs: Table, path: str) -> Iterator[str]:
    """Yield settings that differ, with both values; of tables of different kinds only the kind."""
    if KIND in ours and ours[KIND] != theirs.get(KIND):
        yield f"{path}{KIND} = {theirs.get(KIND)!r} instead of {ours[KIND]!r}"
        return
    for key, own in ours.items():
        other = theirs.get(key)
        if isinstance(own, dict) and isinstance(other, dict):
            yield from _differences(own, other, f"{path}{key}.")
        elif own != other and f"{path}{key}" != "robot":
            yield f"{path}{key} = {_brief(other)} instead of {_brief(own)}"


def _brief(value: Any) -> str:
    """Return a value as text; of a table its kind."""
    return repr(value.get(KIND)) if isinstance(value, dict) else repr(value)
