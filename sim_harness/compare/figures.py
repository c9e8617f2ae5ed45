"""Pictures of one scene, one line for each controller, as PNG bytes."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.figure import Figure

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.measure.metrics import STRIDE, normal_forces, tracking_errors
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import png, rows

WINDOW = 0.1
"""Length of the moving mean over noisy lines [s]."""

Traces = Mapping[str, Trace]
"""By the name of the controller."""


def tracking(traces: Traces, robot: Robot, scene: str) -> bytes:
    """Mean |θ − θ_des| of all joints over time  [ZD Fig. 14]."""
    figure, (axis,) = rows(1)
    for name, trace in traces.items():
        axis.semilogy(trace.t, _smooth(trace, np.abs(tracking_errors(trace, robot)).mean(axis=1)), label=name)
    axis.set_ylabel("mean |θ − θ_des| [rad]")
    return _finish(figure, scene)


def torque_rate(traces: Traces, robot: Robot, scene: str) -> bytes:
    """Largest |dτ/dt| of all joints over time  [ZD Figs. 6, 15]."""
    figure, (axis,) = rows(1)
    for name, trace in traces.items():
        rate = np.abs(np.diff(trace.tau, axis=0)).max(axis=1) / np.diff(trace.t)
        axis.semilogy(trace.t[1:], np.maximum(rate, 1e-6), label=name, linewidth=0.8)
    axis.set_ylabel("max |dτ/dt| [N·m/s]")
    return _finish(figure, scene)


def forces(traces: Traces, robot: Robot, scene: str) -> bytes:
    """|Σ f_N predicted − simulated| over time."""
    figure, (axis,) = rows(1)
    for name, trace in traces.items():
        predicted, simulated = normal_forces(trace)
        if np.isfinite(predicted).any():
            axis.semilogy(trace.t, np.maximum(_smooth(trace, np.abs(predicted - simulated)), 1e-12), label=name)
    axis.set_ylabel("error of Σ f_N [N]")
    return _finish(figure, scene)


def path(traces: Traces, robot: Robot, scene: str) -> bytes:
    """The centre of mass in the plane  [ZD Fig. 17]."""
    figure, (axis,) = rows(1)
    figure.set_size_inches(6.5, 6.5)
    for name, trace in traces.items():
        com = np.array([robot.center_of_mass(q)[:2] for q in trace.q[::STRIDE]])
        axis.plot(com[:, 0], com[:, 1], label=name, linewidth=0.9)
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xlabel("x [m]")
    axis.set_ylabel("y [m]")
    return _finish(figure, scene)


FIGURES: dict[str, Callable[[Traces, Robot, str], bytes]] = {
    "tracking": tracking,
    "torque-rate": torque_rate,
    "forces": forces,
    "path": path,
}


def _finish(figure: Figure, scene: str) -> bytes:
    axis = figure.axes[0]
    axis.set_title(scene)
    if axis.lines:
        axis.legend(fontsize=8, ncols=2)
    return png(figure)


def _smooth(trace: Trace, values: Array) -> Array:
    """Moving mean over `WINDOW`; ticks without a number do not count."""
    ticks = max(1, round(WINDOW / max(float(trace.t[1] - trace.t[0]), 1e-9))) if len(trace) > 1 else 1
    there = np.isfinite(values)
    ones = np.ones(min(ticks, len(values)))
    total = np.convolve(np.where(there, values, 0.0), ones, mode="same")
    count = np.convolve(there.astype(float), ones, mode="same")
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
