"""Table, claims and picture of a race."""

from collections.abc import Callable, Sequence

import numpy as np

from sim_harness.compare.race.run import Race, RaceSettings, Standing, standings
from sim_harness.compare.results import Outcome
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, listed


def race_table(settings: RaceSettings, places: Sequence[Standing]) -> Table:
    """One row for each runner: times, ratios with the paper's, work and failures, and how its lasting run ended."""
    columns: dict[str, Callable[[Standing], str]] = {
        "step µs": lambda p: f"{p.total:.1f} ± {p.spread:.1f}",
        "of it engine µs": lambda p: f"{p.engine:.1f}",
        "step / reference": lambda p: f"{p.total_ratio:.2f}",
        "engine / reference": lambda p: f"{p.engine_ratio:.2f}",
        "paper / reference": lambda p: "–" if p.paper_ratio is None else f"{p.paper_ratio:.2f}",
        "iterations (most)": lambda p: f"{p.iterations:.1f} ({p.most})",
        "contacts": lambda p: f"{p.contacts:.1f}",
        "unsolved %": lambda p: f"{100 * p.unsolved:.1f}",
        f"moved in {settings.lasting * settings.dt:g} s, mm": lambda p: f"{1e3 * p.moved:.3g}",
        "of these steps unsolved %": lambda p: f"{100 * p.lasting_unsolved:.1f}",
    }
    return listed("contact model", ((place.title, place) for place in places), columns)


def race_outcomes(settings: RaceSettings, race: Race) -> list[Outcome]:
    """For each runner that the paper has: whether the reference's engine is the faster one here, too."""
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
    """Three bars for each runner, as multiples of the reference: whole step, engine, paper."""
    bars = {
        "whole step": [p.total_ratio for p in places],
        "engine alone": [p.engine_ratio for p in places],
        "paper": [np.nan if p.paper_ratio is None else p.paper_ratio for p in places],
    }
    ticks = {p.title.replace(" (", "\n("): k for k, p in enumerate(places)}
    labels = {"ylabel": "time / the reference's"}
    return picture([Plot(bars=bars, ticks=ticks, log="y", legend=True, axes=labels)], size=(8, 4))
