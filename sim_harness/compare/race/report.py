"""Table, claims and picture of a race of engines."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from sim_harness.compare.race.run import Race, RaceSettings, Standing, standings
from sim_harness.compare.results import Outcome
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, listed


def race_table(settings: RaceSettings, ranking: Sequence[Standing]) -> Table:
    """Return a table with one row per runner: times, ratios (our, the paper's), iterations, failures, drift in the long run."""
    columns: dict[str, Callable[[Standing], str]] = {
        "step µs": lambda p: f"{p.total:.1f}" + ("" if math.isnan(p.spread) else f" ± {p.spread:.1f}"),
        "engine µs": lambda p: f"{p.engine:.1f}",
        "step / reference": lambda p: f"{p.total_ratio:.2f}",
        "engine / reference": lambda p: f"{p.engine_ratio:.2f}",
        "paper / reference": lambda p: "–" if p.paper_ratio is None else f"{p.paper_ratio:.2f}",
        "iterations (max)": lambda p: f"{p.iterations:.1f} ({p.most})",
        "contacts": lambda p: f"{p.contacts:.1f}",
        "unsolved %": lambda p: f"{100 * p.unsolved:.1f}",
        f"moved in {settings.lasting * settings.dt:g} s, mm": lambda p: f"{1e3 * p.moved:.3g}",
        "unsolved in this run %": lambda p: f"{100 * p.lasting_unsolved:.1f}",
    }
    return listed("contact model", ((runner.title, runner) for runner in ranking), columns)


def race_outcomes(settings: RaceSettings, race: Race) -> list[Outcome]:
    """Check for each runner with a time in the paper the claim that it takes longer than the reference."""
    return [
        Outcome(
            f"{one.title} takes longer than {settings.reference}",
            one.engine_ratio > 1.0,
            f"time ratio of the engine {one.engine_ratio:.2f}, of the step {one.total_ratio:.2f}; paper {one.paper_ratio:.2f}",
            "",
        )
        for one in standings(settings, race)
        if one.paper_ratio is not None and one.paper_ratio != 1.0
    ]


def race_figure(ranking: Sequence[Standing]) -> bytes:
    """Draw three bars for each runner, relative to the reference: whole step, engine, paper."""
    bars = {
        "whole step": [p.total_ratio for p in ranking],
        "engine alone": [p.engine_ratio for p in ranking],
        "paper": [np.nan if p.paper_ratio is None else p.paper_ratio for p in ranking],
    }
    ticks = {p.title.replace(" (", "\n("): k for k, p in enumerate(ranking)}
    labels = {"ylabel": "time / time of the reference"}
    return picture([Plot(bars=bars, ticks=ticks, log="y", legend=True, axes=labels)], size=(8, 4))
