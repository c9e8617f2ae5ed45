"""Table, claims and picture of a race of engines."""

from collections.abc import Callable, Sequence

import numpy as np

from sim_harness.compare.race.run import Race, RaceSettings, Standing, standings
from sim_harness.compare.results import Outcome
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, listed


def race_table(settings: RaceSettings, places: Sequence[Standing]) -> Table:
    """Return a table with one row per runner: times, ratios beside the paper's, iterations, failures, drift of the long run."""
    columns: dict[str, Callable[[Standing], str]] = {
        "step µs": lambda p: f"{p.total:.1f} ± {p.spread:.1f}",
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
    return listed("contact model", ((place.title, place) for place in places), columns)


def race_outcomes(settings: RaceSettings, race: Race) -> list[Outcome]:
    """Check for each runner with a time in the paper whether it is slower than the reference here, too."""
    return [
        Outcome(
            f"{place.title} takes longer than {settings.reference}",
            place.engine_ratio > 1.0,
            f"engine {place.engine_ratio:.2f}, step {place.total_ratio:.2f} times as long; the paper {place.paper_ratio:.2f}",
            "",
        )
        for place in standings(settings, race)
        if place.paper_ratio is not None and place.paper_ratio != 1.0
    ]


def race_figure(places: Sequence[Standing]) -> bytes:
    """Draw three bars for each runner, relative to the reference: whole step, engine, paper."""
    bars = {
        "whole step": [p.total_ratio for p in places],
        "engine alone": [p.engine_ratio for p in places],
        "paper": [np.nan if p.paper_ratio is None else p.paper_ratio for p in places],
    }
    ticks = {p.title.replace(" (", "\n("): k for k, p in enumerate(places)}
    labels = {"ylabel": "time / time of the reference"}
    return picture([Plot(bars=bars, ticks=ticks, log="y", legend=True, axes=labels)], size=(8, 4))
