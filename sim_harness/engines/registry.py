"""The engines by name. A new engine is one file and one row here."""

from collections.abc import Mapping
from typing import Any

from controllers.config import parse
from idyn.errors import ConfigError, nearest
from sim_harness.engines.dissipation import Dissipation
from sim_harness.engines.engine import Engine
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.penalty import Penalty

ENGINES: dict[str, type[Engine]] = {
    "lcp": PolygonLcp,
    "penalty": Penalty,
    "dissipation": Dissipation,
}


def build_engine(name: str, settings: Mapping[str, Any] | None = None, where: str = "engine") -> Engine:
    """The engine `name` with the given settings. Raises ConfigError with the path of the fault, headed by `where`."""
    if name not in ENGINES:
        raise ConfigError(where, f"no engine named '{name}'{nearest(name, ENGINES)}")
    return parse(dict(settings or {}), ENGINES[name], f"{where}.{name}")
