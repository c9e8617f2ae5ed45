"""Curves of a run over time: torques, normal forces, model mismatch and round trips."""

import numpy as np

from controllers.controller import Controller
from idyn.types import Array, Record
from sim_harness.measure.trace import Trace

POINTS = 1000
"""Largest number of intervals of a curve. A run with more ticks keeps the least and the largest value of each interval."""


class Panel(Record, frozen=True):
    """Curves on common axes, in one variant for each choice.

    choices: names of the joints or contacts; (''): there is no choice (m)
    lines: label → values, NaN where unknown (n, m)
    bounds: lowest and highest permitted value, ±inf: unlimited (m, 2)
    log: whether the axis of the values is logarithmic; they are positive then
    """

    title: str
    unit: str
    choices: tuple[str, ...]
    lines: dict[str, Array]
    bounds: Array
    log: bool = False


def panels_of(controller: Controller, trace: Trace) -> list[Panel]:
    """Return the panels of a run. Contacts that never carry a force are left out, and so are panels without values."""
    robot, free = controller.robot, np.array([[-np.inf, np.inf]])
    most, forces = robot.limits.tau_max, {"world": trace.simulated, "predicted": trace.predicted}
    carries = [i for i in range(len(trace.places)) if any((f[:, i, 0] > 0).any() for f in forces.values())]
    monitor, period = controller.settings.reality.degraded, 1e3 * controller.settings.period
    mismatch = trace.mismatch if len(trace.mismatch) else np.full((len(trace), 2), np.nan)
    panels = [
        Panel(
            title="torque",
            unit="N·m",
            choices=robot.joint_names,
            lines={"applied": trace.tau},
            bounds=np.stack([-most, most], axis=1),
        ),
        Panel(
            title="normal force",
            unit="N",
            choices=tuple(trace.places[i] for i in carries),
            lines={name: f[:, carries, 0] for name, f in forces.items()},
            bounds=np.repeat(free, len(carries), axis=0),
        ),
        Panel(
            title="model mismatch",
            unit="",
            choices=("",),
            lines={"motion [g]": mismatch[:, :1], "force [weights]": mismatch[:, 1:]},
            bounds=np.array([[-np.inf, monitor]]),
        ),
        Panel(
            title="time",
            unit="ms",
            choices=("",),
            lines={"round trip": 1e3 * trace.round_trip[:, None], "controller": 1e3 * trace.solve_time[:, None]},
            bounds=np.array([[-np.inf, period]]),
            log=True,
        ),
    ]
    return [panel for panel in panels if any(np.isfinite(values).any() for values in panel.lines.values())]


def intervals(count: int) -> Array:
    """Return the first rows of at most `POINTS` intervals of equal length, the last of which may be shorter."""
    return np.arange(0, count, -(-count // POINTS))


def extremes(values: Array, starts: Array) -> tuple[Array, Array]:
    """Return the least and the largest value of each column and interval; NaN where there is none."""
    known = np.isfinite(values)
    low = np.minimum.reduceat(np.where(known, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(known, values, -np.inf), starts)
    none = low > high
    return np.where(none, np.nan, low), np.where(none, np.nan, high)
