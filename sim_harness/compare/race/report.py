"""What a race came to: table, claims and picture."""

from collections.abc import Sequence

import numpy as np

from sim_harness.compare.race.run import Race, RaceSettings, Standing, standings
from sim_harness.compare.results import Outcome
from sim_harness.report.plots import png, rows


def race_table(settings: RaceSettings, places: Sequence[Standing]) -> list[list[str]]:
    """One row for each runner: times, ratios with the paper's, work and failures, and how its lasting run ended."""
    table = [
        [
            "contact model",
            "step µs",
            "of it engine µs",
            "step / reference",
            "engine / reference",
            "paper / reference",
            "iterations (most)",
            "contacts",
            "unsolved %",
            f"moved in {settings.lasting * settings.dt:g} s, mm",
            "of these steps unsolved %",
        ]
    ]
    for p in places:
        table.append(
            [
                p.title,
                f"{p.total:.1f} ± {p.spread:.1f}",
                f"{p.engine:.1f}",
                f"{p.total_ratio:.2f}",
                f"{p.engine_ratio:.2f}",
                "–" if p.paper_ratio is None else f"{p.paper_ratio:.2f}",
                f"{p.iterations:.1f} ({p.most})",
                f"{p.contacts:.1f}",
                f"{100 * p.unsolved:.1f}",
                f"{1e3 * p.moved:.3g}",
                f"{100 * p.lasting_unsolved:.1f}",
            ]
        )
    return table


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
    figure, (axis,) = rows(1)
    figure.set_size_inches(8, 4)
    at = np.arange(len(places))
    bars = (
        ("whole step", [p.total_ratio for p in places]),
        ("engine alone", [p.engine_ratio for p in places]),
        ("paper", [np.nan if p.paper_ratio is None else p.paper_ratio for p in places]),
    )
    for k, (label, heights) in enumerate(bars):
        axis.bar(at + 0.27 * (k - 1), heights, 0.25, label=label)
    axis.set_yscale("log")
    axis.set_xticks(at, [p.title.replace(" (", "\n(") for p in places], fontsize=8)
    axis.set_ylabel("time / the reference's")
    axis.axhline(1.0, color="0.4", linewidth=1)
    axis.set_xlabel("")
    axis.legend(fontsize=8)
    return png(figure)
