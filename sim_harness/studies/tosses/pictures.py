"""Pictures of the study: errors and energy over time, and tosses in three dimensions."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from idyn.types import Array
from sim_harness.judge.tosses import EDGE, RATE, Toss
from sim_harness.report.canvas import mpl, plt
from sim_harness.report.plots import STYLE, Line, Plot, picture, png
from sim_harness.studies.tosses.outcome import SHOWN, Outcome

CORNERS = np.array([*product((-1.0, 1.0), repeat=3)])
SIDES = np.array([(i, j) for i in range(8) for j in range(i) if np.abs(CORNERS[i] - CORNERS[j]).sum() == 2.0])
"""Pairs of corners with a common edge."""

INSTANTS = 5
"""Instants at which a block is drawn."""


def curves(outcomes: Mapping[str, Outcome]) -> bytes:
    """Draw the median errors and the median energy over time."""
    t = np.arange(1, SHOWN + 1) / RATE
    panels = []
    for what, label in (("position", "position [block widths]"), ("rotation", "rotation [°]"), ("energy", "energy [J]")):
        lines: dict[str, Line] = {name: (t, outcome.curves[what]) for name, outcome in outcomes.items()}
        if what == "energy":
            lines["measured"] = (t, next(iter(outcomes.values())).curves["measured energy"], "k--")
        axes = {"ylabel": label, "xlabel": "time [s]" if what == "energy" else ""}
        panels.append(Plot(lines=lines, legend=what == "position", axes=axes))
    return picture(panels, size=(9, 9))


def tosses_in_space(outcome: Outcome, tosses: Sequence[Toss], window: str) -> bytes:
    """Draw the best, the middle and the worst toss of an engine, measured (black) and forecast (red)."""
    chosen = best_median_worst(outcome.windows[window].position)
    with mpl.rc_context(STYLE):
        figure = plt.figure(figsize=(13, 5))
        for k, (label, number) in enumerate(chosen.items()):
            axis = figure.add_subplot(1, 3, k + 1, projection="3d")
            toss, forecast = tosses[number], outcome.forecasts[number]
            _draw(axis, toss.position, toss.rotation, "black")
            _draw(axis, forecast.position, forecast.rotation, "tab:red")
            error = outcome.windows[window].position[number]
            axis.set(title=f"{label}: {error:.3f} block widths", xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
            axis.set_aspect("equal")
            axis.locator_params(nbins=4)
        return png(figure)


def best_median_worst(errors: Array) -> dict[str, int]:
    """Return the numbers of the tosses with the smallest, the middle and the largest error (n)."""
    order = errors.argsort().tolist()
    return {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}


def _draw(axis: Any, position: Array, rotation: Array, colour: str) -> None:
    """Draw the path of a block, and its edges at `INSTANTS` instants."""
    axis.plot(*position.T, color=colour, linewidth=1.0)
    for k in np.linspace(0, len(position) - 1, INSTANTS).astype(int):
        corners = position[k] + 0.5 * EDGE * CORNERS @ rotation[k].T
        edges = np.insert(corners[SIDES], 2, np.nan, axis=1).reshape(-1, 3)  # a gap after each edge
        axis.plot(*edges.T, color=colour, linewidth=0.5)
