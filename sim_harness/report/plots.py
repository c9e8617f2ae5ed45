"""Pictures of runs, as PNG bytes: what a person wants to see first."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim_harness.measure.fall import base_tilt
from sim_harness.measure.metrics import normal_forces
from sim_harness.measure.trace import Trace
from sim_harness.robot.pushes import PushSettings
from sim_harness.run.experiment import Run

STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
}


FOOTFALL_SECONDS = 1.5
"""Length of the gait diagram [s]."""


def path(runs: Sequence[Run], waypoints: Sequence[tuple[float, float]]) -> bytes:
    """The base in the plane, one line for each run."""
    with mpl.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(7, 5))
    for run in runs:
        axis.plot(run.trace.q[:, 0], run.trace.q[:, 1], label=run.summary.label)
    if waypoints:
        axis.plot(*zip(*waypoints, strict=True), "o", color="0.6", markersize=12, fillstyle="none", zorder=0)
    axis.set_aspect("equal")
    axis.set_xlabel("x [m]")
    axis.set_ylabel("y [m]")
    axis.set_title("Where the robot goes")
    axis.legend()
    return png(figure)


def footfalls(runs: Sequence[Run]) -> bytes:
    """Which contacts carry something at the end of each run: a bar for the simulated, a line for the predicted force."""
    figure, axes = rows(len(runs))
    for axis, run in zip(axes, runs, strict=True):
        late = run.trace.t >= run.trace.t[-1] - FOOTFALL_SECONDS
        t = run.trace.t[late]
        for i in range(len(run.trace.places)):
            simulated, predicted = (force[late, i, 0] for force in (run.trace.simulated, run.trace.predicted))
            axis.fill_between(t, i - 0.3, i + 0.3, where=(simulated > 0).tolist(), color=f"C{i}", alpha=0.3, linewidth=0)
            axis.plot(t, np.where(predicted > 0, i, np.nan), color=f"C{i}", linewidth=3)
        axis.set_yticks(range(len(run.trace.places)), run.trace.places)
        axis.set_ylabel(run.summary.label)
    axes[0].set_title("Feet that carry: simulated (bars), predicted (lines)")
    return png(figure)


def motion(runs: Sequence[Run], pushes: Sequence[PushSettings]) -> bytes:
    """Base sway, height and tilt over time, one line for each run; pushes are shaded."""
    figure, axes = rows(3)
    for run in runs:
        trace = run.trace
        axes[0].plot(trace.t, trace.q[:, 1] * 1e3, label=run.summary.label)
        axes[1].plot(trace.t, trace.q[:, 2] * 1e3)
        axes[2].plot(trace.t, base_tilt(trace.q) * 1e3)
    for axis, label in zip(axes, ("base y [mm]", "base height [mm]", "tilt [mrad]"), strict=True):
        _shade(axis, pushes)
        axis.set_ylabel(label)
    axes[0].legend(ncols=len(runs), loc="upper left")
    axes[0].set_title("What the robot does under each law")
    return png(figure)


def forces(runs: Sequence[Run], pushes: Sequence[PushSettings]) -> bytes:
    """Σ f_N predicted and simulated, and their difference, one panel for each run."""
    figure, axes = rows(len(runs) + 1)
    for axis, run in zip(axes, runs, strict=False):
        predicted, simulated = normal_forces(run.trace)
        axis.plot(run.trace.t, simulated, label="simulated", color="0.6", linewidth=3)
        axis.plot(run.trace.t, predicted, label="predicted")
        axis.set_ylabel(f"{run.summary.label}\nΣ f_N [N]")
        _shade(axis, pushes)
        error = np.abs(predicted - simulated)
        axes[-1].semilogy(run.trace.t, np.maximum(error, 1e-16), label=run.summary.label)
    axes[0].legend(ncols=2, loc="upper left")
    axes[0].set_title("Predicted and simulated contact forces")
    axes[-1].set_ylabel("|error| [N]")
    axes[-1].legend(ncols=len(runs), loc="upper left")
    return png(figure)


def torques(runs: Sequence[Run], pushes: Sequence[PushSettings]) -> bytes:
    """All joint torques, one panel for each run."""
    figure, axes = rows(len(runs))
    for axis, run in zip(axes, runs, strict=True):
        axis.plot(run.trace.t, run.trace.tau, linewidth=0.8)
        axis.set_ylabel(f"{run.summary.label}\nτ [N·m]")
        _shade(axis, pushes)
    axes[0].set_title("Joint torques")
    return png(figure)


def chatter(runs: Sequence[Run]) -> bytes:
    """The torques of one joint, and the mean |dτ/dt| of all, with and without selection."""
    figure, axes = rows(2)
    for run in runs:
        tau, t = run.trace.tau, run.trace.t
        joint = int(np.argmax(np.abs(np.diff(runs[0].trace.tau, axis=0)).sum(axis=0)))
        axes[0].plot(t, tau[:, joint], label=run.summary.label, linewidth=0.9)
        rate = np.abs(np.diff(tau, axis=0)).mean(axis=1) / np.diff(t)
        axes[1].semilogy(t[1:], np.maximum(rate, 1e-6), label=run.summary.label, linewidth=0.9)
    axes[0].set_ylabel("τ of the worst joint [N·m]")
    axes[1].set_ylabel("mean |dτ/dt| [N·m/s]")
    axes[0].set_title("Torque chatter of the Coulomb law, with and without selection")
    axes[0].legend(loc="upper left")
    return png(figure)


def round_trips(runs: Sequence[Run], period: float) -> bytes:
    """Distribution of the round trips: share of ticks slower than a time [µs]."""
    figure, axes = rows(1)
    for run in runs:
        times = np.sort(_timed(run.trace)) * 1e6
        axes[0].loglog(times, 1 - np.arange(len(times)) / len(times), label=run.summary.label)
    axes[0].axvline(period * 1e6, color="0.4", linestyle="--", linewidth=1)
    axes[0].set_xlabel("round trip [µs] (dashed: the period)")
    axes[0].set_ylabel("share of ticks that are slower")
    axes[0].set_title("From state to torque")
    axes[0].legend()
    return png(figure)


def _timed(trace: Trace) -> np.ndarray:
    return trace.round_trip[np.isfinite(trace.round_trip)]


def rows(count: int) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels over a common time axis."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(count, 1, figsize=(9, 1.2 + 2.1 * count), sharex=True, squeeze=False)
    panels = list(axes[:, 0])
    panels[-1].set_xlabel("time [s]")
    return figure, panels


def _shade(axis: Axes, pushes: Sequence[PushSettings]) -> None:
    for push in pushes:
        axis.axvspan(push.start, push.start + push.duration, color="tab:red", alpha=0.15, linewidth=0)


def png(figure: Figure) -> bytes:
    """The figure as a file; it is closed."""
    buffer = io.BytesIO()
    figure.tight_layout()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return buffer.getvalue()
