"""What an engine makes of the judged tosses."""

from collections.abc import Sequence

import numpy as np

from idyn.types import Array, Record
from sim_harness.judge.tosses import RATE, Toss
from sim_harness.studies.tosses.block import Block
from sim_harness.studies.tosses.entries import Entry
from sim_harness.studies.tosses.flight import Flight
from sim_harness.studies.tosses.forecast import Forecast
from sim_harness.studies.tosses.judge import WINDOWS, Errors, angles_of, means_of, sample_errors, window_errors
from sim_harness.studies.tosses.parameters import Identified

SHOWN = 110
"""Samples of the curves over time: 0.74 s."""


class Outcome(Record, frozen=True):
    """Figures of an engine on n tosses.

    identified: its parameters
    windows: name of the window → errors (n each)
    depth, measured_depth: deepest penetration of a corner in the forecast and in the measurement [m] (n)
    energy: mean |E − E_measured| over the energy at the first sample, above that at rest (n)
    curves: median over the tosses that last, while half of them do: "position" [block widths], "rotation" [°], "energy" [J],
        "measured energy" [J] (SHOWN each)
    forecasts: of the whole tosses
    failed: steps that the engine reported as failures, in whole tosses
    """

    identified: Identified
    windows: dict[str, Errors]
    depth: Array
    measured_depth: Array
    energy: Array
    curves: dict[str, Array]
    forecasts: list[Forecast]

    @property
    def failed(self) -> int:
        return sum(forecast.failed for forecast in self.forecasts)


def judge(entry: Entry, flight: Flight, identified: Identified, tosses: Sequence[Toss]) -> Outcome:
    """Return the figures of an engine with given parameters."""
    forecaster = entry.build(flight, identified.values)
    block = flight.block(identified.values["inertia"])
    whole = [forecaster(toss, 0, len(toss)) for toss in tosses]
    errors = [sample_errors(toss, 0, forecast) for toss, forecast in zip(tosses, whole, strict=True)]
    windows = {
        name: means_of(errors) if samples is None else window_errors(forecaster, tosses, samples)
        for name, samples in WINDOWS.items()
    }
    energies = [
        (energy_of(block, forecast.position, forecast.rotation), energy_of(block, toss.position, toss.rotation))
        for forecast, toss in zip(whole, tosses, strict=True)
    ]
    rest = block.mass * block.gravity * block.half
    return Outcome(
        identified=identified,
        windows=windows,
        depth=np.array([depth_of(block, f.position, f.rotation) for f in whole]),
        measured_depth=np.array([depth_of(block, toss.position, toss.rotation) for toss in tosses]),
        energy=np.array([np.abs(E - true).mean() / (true[0] - rest) for E, true in energies]),
        curves={
            "position": _median([position for position, _ in errors]),
            "rotation": np.degrees(_median([rotation for _, rotation in errors])),
            "energy": _median([E for E, _ in energies]),
            "measured energy": _median([true for _, true in energies]),
        },
        forecasts=whole,
    )


def energy_of(block: Block, position: Array, rotation: Array) -> Array:
    """Return kinetic and potential energy between samples, with velocities from differences [J] (N − 1).

    position: of the geometric centre [m] (N, 3); rotation: (N, 3, 3)
    """
    centres = position + rotation @ block.centre
    v = RATE * np.diff(centres, axis=0)
    relative = np.einsum("nji,njk->nik", rotation[:-1], rotation[1:])
    spin = RATE * angles_of(relative)
    height = 0.5 * (centres[1:, 2] + centres[:-1, 2])
    return 0.5 * block.mass * (v**2).sum(axis=1) + 0.5 * block.inertia * spin**2 + block.mass * block.gravity * height


def depth_of(block: Block, position: Array, rotation: Array) -> float:
    """Return the deepest penetration of a corner below the floor, ≥ 0 [m]."""
    lowest = position[:, 2] - block.half * np.abs(rotation[:, 2]).sum(axis=1)
    return float(max(0.0, -lowest.min()))


def _median(rows: Sequence[Array]) -> Array:
    """Return the median at each sample, over the rows that last so long (SHOWN); NaN where fewer than half do."""
    out = np.full(SHOWN, np.nan)
    for k in range(SHOWN):
        values = [row[k] for row in rows if len(row) > k]
        if 2 * len(values) >= len(rows):
            out[k] = np.median(values)
    return out
