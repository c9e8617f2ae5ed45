"""The file with identified parameters: JSON, written by a fit, read to judge other tosses."""

import json
import math
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from controllers.config.loading import NonNegative, Positive, Settings, parse
from idyn.errors import ConfigError, nearest
from sim_harness.studies.tosses.entries import ENTRIES
from sim_harness.studies.tosses.flight import Flight


class Identified(Settings, frozen=True):
    """Parameters of an engine.

    values: name → value; intervals: name → low and high end of the 95 % interval
    loss: mean loss of the tosses of the fit [block widths + rad]; evaluations: of the loss
    """

    values: dict[str, Positive]
    intervals: dict[str, tuple[Positive, Positive]]
    loss: NonNegative
    evaluations: Annotated[int, msgspec.Meta(ge=0)]


class Parameters(Settings, frozen=True):
    """flight: the body; tosses: number of tosses for fits; rules: of the fits; engines: name → parameters"""

    flight: Flight
    tosses: int
    rules: str
    engines: dict[str, Identified]


def resumed(path: Path, begun: Parameters) -> Parameters:
    """Return the parameters of a file if its body, tosses and rules are those of `begun`, else `begun`: fits that are
    finished are not repeated. Raises ConfigError for a malformed file."""
    if not path.is_file():
        return begun
    found = load_parameters(path)
    same = found.tosses == begun.tosses and found.rules == begun.rules
    bodies = [(each.flight.gravity, *each.flight.centre) for each in (found, begun)]
    return found if same and np.allclose(bodies[0], bodies[1], rtol=1e-9, atol=1e-12) else begun


def save_parameters(path: Path, parameters: Parameters) -> None:
    """Write the file, and its folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(msgspec.to_builtins(parameters), indent=1) + "\n", encoding="utf-8")


def load_parameters(path: Path) -> Parameters:
    """Read the file. Raises ConfigError that names the file or the first invalid field."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError("--parameters", f"expected a JSON file with identified parameters, got {path}: {error}") from error
    found = parse(data, Parameters, path.name)
    for name, identified in found.engines.items():
        where = f"{path.name}.engines.{name}"
        if name not in ENTRIES:
            raise ConfigError(where, f"unknown engine{nearest(name, ENTRIES)}")
        if set(identified.values) != set(ENTRIES[name].parameters):
            expected, got = (", ".join(sorted(names)) or "none" for names in (ENTRIES[name].parameters, identified.values))
            raise ConfigError(f"{where}.values", f"expected {expected}, got {got}")
        for key, value in identified.values.items():
            if not math.isfinite(value):
                raise ConfigError(f"{where}.values.{key}", f"expected a finite number, got {value}")
    return found
