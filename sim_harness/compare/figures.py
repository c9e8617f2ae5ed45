"""Plots of one scene, one line for each controller, as PNG bytes."""

from collections.abc import Callable, Mapping

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.measure.metrics import STRIDE, normal_forces, tracking_errors
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Plot, picture

WINDOW = 0.1
"""Length of the moving mean that smooths noisy lines [s]."""


def tracking(trace: Trace, robot: Robot) -> Array:
    """Return the mean |θ − θ_des| of all joints [rad] (n)  [ZD Fig. 14]."""
    return _smooth(trace, np.abs(tracking_errors(trace, robot)).mean(axis=1))


def torque_rate(trace: Trace, robot: Robot) -> Array:
    """Return the largest |dτ/dt| of all joints [N·m/s] (n)  [ZD Figs. 6, 15]."""
    rate = np.abs(np.diff(trace.tau, axis=0)).max(axis=1) / np.diff(trace.t)
    return np.r_[np.nan, np.maximum(rate, 1e-6)]


def force_error(trace: Trace, robot: Robot) -> Array:
    """Return |Σ f_N predicted − simulated| [N] (n)."""
    predicted, simulated = normal_forces(trace)
    return np.maximum(_smooth(trace, np.abs(predicted - simulated)), 1e-12)


OVER_TIME: dict[str, tuple[str, Callable[[Trace, Robot], Array]]] = {
    "tracking": ("mean |θ − θ_des| [rad]", tracking),
    "torque-rate": ("max |dτ/dt| [N·m/s]", torque_rate),
    "forces": ("error of Σ f_N [N]", force_error),
}
"""Name of a plot over time → label of its y axis, and function of the values."""


def scene_figure(name: str, traces: Mapping[str, Trace], robot: Robot, scene: str) -> bytes:
    """Draw a plot of a scene. name: one of `settings.FIGURES`; traces: by title of the controller; scene: title of the plot"""
    if name == "path":
        return path(traces, robot, scene)
    label, value = OVER_TIME[name]
    values = {title: value(trace, robot) for title, trace in traces.items()}
    lines = {title: (traces[title].t, found) for title, found in values.items() if np.isfinite(found).any()}
    axes = {"title": scene, "ylabel": label, "xlabel": "time [s]"}
    return picture([Plot(lines=lines, width=0.9, log="y", legend=True, axes=axes)])


def path(traces: Mapping[str, Trace], robot: Robot, scene: str) -> bytes:
    """Draw the paths of the centre of mass in the plane  [ZD Fig. 17]."""
    com = {title: np.array([robot.center_of_mass(q)[:2] for q in trace.q[::STRIDE]]).T for title, trace in traces.items()}
    axes = {"title": scene, "xlabel": "x [m]", "ylabel": "y [m]", "aspect": "equal", "adjustable": "datalim"}
    lines = {title: (x, y) for title, (x, y) in com.items()}
    return picture([Plot(lines=lines, width=0.9, legend=True, axes=axes)], size=(6.5, 6.5))


def _smooth(trace: Trace, values: Array) -> Array:
    """Return the moving mean over `WINDOW`; ticks with NaN or infinity are ignored."""
    ticks = max(1, round(WINDOW / max(float(trace.t[1] - trace.t[0]), 1e-9))) if len(trace) > 1 else 1
    there = np.isfinite(values)
    ones = np.ones(min(ticks, len(values)))
    total = np.convolve(np.where(there, values, 0.0), ones, mode="same")
    count = np.convolve(there.astype(float), ones, mode="same")
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
