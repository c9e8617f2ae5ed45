"""What became of pauses, as a page: a table, a sentence each, and how the robot walked through them."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np

from sim_harness.measure.trace import Trace
from sim_harness.report.plots import STYLE, png, rows
from sim_harness.report.report import Report
from sim_harness.studies.pauses import Outcome

COLOURS = {
    "failsafe:follow": "#f4c95d",
    "failsafe:rest": "#e08e45",
    "failsafe:stopped": "#c1440e",
    "failsafe:damping": "#7d1128",
}
"""Of the robot's own side, from the mildest on; white is the server's."""

STEP = 50
"""Ticks over which a speed is taken."""


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """First row is the headings."""
    head = ["stopped", "for ms", "law", "upright", "stopped itself", "reset", "walked on m", "longest tick ms"]
    body = [
        [o.who, str(o.milliseconds), o.law, _yes(o.upright), _yes(o.stopped), "–" if o.reset is None else _yes(o.reset),
         f"{o.walked:.2f}", f"{1e3 * o.longest_tick:.0f}"]
        for o in outcomes
    ]  # fmt: skip
    return [head, *body]


def page(outcomes: Sequence[Outcome]) -> str:
    """The whole page."""
    report = Report(
        "Pauses",
        "A process is stopped (SIGSTOP) in mid-trot, the server's or the robot's with its world, and continued; both talk over "
        "a real socket. Whoever stopped himself for good is reset at rest, as an operator would.",
    )
    report.table(table(outcomes))
    report.heading("What happened")
    for outcome in outcomes:
        report.paragraph(outcome.words)
    report.picture(
        picture(outcomes), "Speed of the base over the world's time; colours: what the robot's own side did meanwhile."
    )
    return report.html


def picture(outcomes: Sequence[Outcome]) -> bytes:
    """The walks, one below the other (PNG)."""
    with mpl.rc_context(STYLE):
        figure, axes = rows(len(outcomes))
        for axis, outcome in zip(axes, outcomes, strict=True):
            for trace in outcome.traces:
                _walk(axis, trace)
            axis.set_title(f"{outcome.who} stopped for {outcome.milliseconds} ms", loc="left")
            axis.set_ylabel("m/s")
        axes[-1].set_xlabel("time of the world [s]")
        handles = [mpl.patches.Patch(color=c, label=mode.removeprefix("failsafe:")) for mode, c in COLOURS.items()]
        axes[0].legend(handles=handles, ncols=len(handles), loc="lower right")
    return png(figure)


def _walk(axis: mpl.axes.Axes, trace: Trace) -> None:
    places, t = trace.q[::STEP, :2], trace.t[::STEP]
    axis.plot(t[1:], np.linalg.norm(np.diff(places, axis=0), axis=1) / np.diff(t), color="0.3")
    for mode, colour in COLOURS.items():
        if mode in trace.modes:
            there = trace.mode == trace.modes.index(mode)
            axis.fill_between(trace.t, 0, 1, where=there, color=colour, alpha=0.5, transform=axis.get_xaxis_transform(), lw=0)


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"
