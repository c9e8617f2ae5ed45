"""The report of pauses: a table, a sentence each, and how the robot walked through them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sim_harness.compare.study import Figures, Picture, Study, Sweep
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Panel, picture
from sim_harness.report.tables import Table, listed
from sim_harness.studies.pauses import WHO, Outcome, run_pause, walking

COLOURS = {
    "failsafe:follow": "#f4c95d",
    "failsafe:rest": "#e08e45",
    "failsafe:stopped": "#c1440e",
    "failsafe:damping": "#7d1128",
}
"""Of the robot's own side, from the mildest on; white is the server's."""

STEP = 50
"""Ticks over which a speed is taken."""

WORDS = {True: "yes", False: "no", None: "–"}


def study(experiment: str, law: str, milliseconds: Sequence[int]) -> Study:
    """Server and robot of an experiment are stopped for so long each."""
    plan = walking(experiment)
    return Study(
        "Pauses",
        "A process is stopped (SIGSTOP) in mid-trot, the server's or the robot's with its world, and continued; both talk over "
        "a real socket. A robot that stopped itself for good is reset at rest, as an operator would.",
        sweeps={"pauses": Sweep((WHO, milliseconds), lambda who, pause: run_pause(plan, law, who, pause))},
        tables=(table,),
        pictures=(
            Picture(
                "pauses",
                "Speed of the base over the world's time; colours: what the robot's own side did meanwhile.",
                walks,
            ),
        ),
        notes=lambda found: [outcome.words for outcome in found["pauses"].values()],
    )


def table(found: Figures) -> Table:
    columns: dict[str, Callable[[Outcome], str]] = {
        "for ms": lambda o: str(o.milliseconds),
        "law": lambda o: o.law,
        "upright": lambda o: WORDS[o.upright],
        "stopped itself": lambda o: WORDS[o.stopped],
        "reset": lambda o: WORDS[o.reset],
        "walked on m": lambda o: f"{o.walked:.2f}",
        "longest tick ms": lambda o: f"{1e3 * o.longest_tick:.0f}",
    }
    return listed("stopped", ((outcome.who, outcome) for outcome in found["pauses"].values()), columns)


def walks(found: Figures) -> bytes:
    """Speed of the base, one panel for each pause."""
    panels: list[Panel] = []
    for o in found["pauses"].values():
        labels = {"title": f"{o.who} stopped for {o.milliseconds} ms", "ylabel": "m/s", "xlabel": "time of the world [s]"}
        panels.append(Panel(extra=partial(_walk, o.traces), axes=labels, legend=not panels))
    return picture(panels)


def _walk(traces: Sequence[Trace], axis: Axes) -> None:
    for trace in traces:
        places, t = trace.q[::STEP, :2], trace.t[::STEP]
        axis.plot(t[1:], np.linalg.norm(np.diff(places, axis=0), axis=1) / np.diff(t), color="0.3")
        modes = np.array(trace.modes)[trace.mode]
        how: dict[str, Any] = {"alpha": 0.5, "transform": axis.get_xaxis_transform(), "lw": 0}
        for mode, colour in COLOURS.items():
            label = mode.removeprefix("failsafe:") if trace is traces[0] else ""
            axis.fill_between(trace.t, 0, 1, where=modes == mode, color=colour, label=label, **how)
