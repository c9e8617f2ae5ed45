"""What a run amounts to: figures of a trace  [ZD §7–8; mathematics §10]."""

from collections.abc import Sequence

import msgspec
import numpy as np

from idyn.robot import Robot
from idyn.types import Array
from sim_harness.trace import Trace

FALLEN_TILT = 0.5
"""A base tilted further than this has fallen [rad]."""

FALLEN_HEIGHT = 0.5
"""A base lower than this share of its first height has fallen."""

SETTLED = 5
"""Ticks left out of force comparisons: in the first ones the world comes to rest."""

GRAVITY = 9.81


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One run in figures.

    label: of the run, usually the law; engine: what the world was simulated with; seconds: simulated [s]
    upright: whether it ran to its end without falling
    height: last height of the base [m]; tilt: largest of the base from upright [rad]; drift: horizontal, at the end [m]; all 0
        for a fixed base
    tracking: mean |θ − θ_ref| over the joints that do not grip and the ticks in which a reference was followed [rad]
    torque: mean |τ| [N·m]; torque_rate, torque_rate_max: mean and max |dτ/dt| [N·m/s]
    weight: m g [N]; force: mean Σ f_N of the simulator [N]
    force_error: mean |Σ f_N predicted − simulated| [N]; force_error_relative: the same over the mean simulated Σ f_N
    modes: share of the ticks in each mode of the reply or the failsafe
    round_trip_p50, round_trip_p99: state out to torque in [µs], None when nothing was timed
    late: replies that took longer than a period
    """

    label: str
    engine: str
    seconds: float
    upright: bool
    height: float
    tilt: float
    drift: float
    tracking: float
    torque: float
    torque_rate: float
    torque_rate_max: float
    weight: float
    force: float
    force_error: float
    force_error_relative: float
    modes: dict[str, float]
    round_trip_p50: float | None
    round_trip_p99: float | None
    late: int


def summarise(
    trace: Trace, robot: Robot, *, label: str, engine: str, ticks: int, dt: float, gripping: Sequence[str] = ()
) -> Summary:
    """The figures of a run that was to last `ticks` periods of `dt` [s]. gripping: names of joints without a reference."""
    base = trace.q[:, :7] if robot.base == "free_flyer" else np.zeros((len(trace), 7))
    tilt, height = base_tilt(base), base[:, 2]
    upright = len(trace) == ticks and tilt.max() < FALLEN_TILT and height.min() >= FALLEN_HEIGHT * height[0]
    angles = np.array([robot.joint_angles(q) for q in trace.q])
    following = np.array([name not in gripping for name in robot.joint_names])
    tracking = np.abs(angles - trace.reference)[:, following]
    rate = np.abs(np.diff(trace.tau, axis=0)) / dt
    predicted, simulated = normal_forces(trace)
    error = np.abs(predicted - simulated)[SETTLED:]
    error = error[np.isfinite(error)]
    force = float(simulated.mean())
    timed = trace.round_trip[np.isfinite(trace.round_trip)] * 1e6
    return Summary(
        label=label,
        engine=engine,
        seconds=len(trace) * dt,
        upright=bool(upright),
        height=float(height[-1]),
        tilt=float(tilt.max()),
        drift=float(np.linalg.norm(base[-1, :2] - base[0, :2])),
        tracking=float(np.nanmean(tracking)) if np.isfinite(tracking).any() else float("nan"),
        torque=float(np.abs(trace.tau).mean()),
        torque_rate=float(rate.mean()),
        torque_rate_max=float(rate.max()),
        weight=robot.total_mass * GRAVITY,
        force=force,
        force_error=float(error.mean()) if len(error) else float("nan"),
        force_error_relative=float(error.mean() / force) if len(error) and force > 0 else float("nan"),
        modes={mode: trace.share(mode) for mode in trace.modes},
        round_trip_p50=float(np.percentile(timed, 50)) if len(timed) else None,
        round_trip_p99=float(np.percentile(timed, 99)) if len(timed) else None,
        late=int(np.sum(timed > dt * 1e6)),
    )


def base_tilt(q: Array) -> Array:
    """Angle of a floating base from upright [rad], for configurations (n, nq)."""
    return np.arccos(np.clip(1 - 2 * (q[:, 3] ** 2 + q[:, 4] ** 2), -1.0, 1.0))


def normal_forces(trace: Trace) -> tuple[Array, Array]:
    """Σ f_N predicted (NaN in ticks without a prediction) and simulated [N] (n)."""
    predicted = np.where(
        np.isnan(trace.predicted[..., 0]).all(axis=1) & ~np.isnan(trace.simulated[..., 0]).all(axis=1),
        np.nan,
        np.nansum(trace.predicted[..., 0], axis=1),
    )
    return predicted, np.nansum(trace.simulated[..., 0], axis=1)


COLUMNS = (
    ("law", lambda s: s.label),
    ("upright", lambda s: "yes" if s.upright else "NO"),
    ("height m", lambda s: f"{s.height:.4f}"),
    ("tilt mrad", lambda s: f"{s.tilt * 1e3:.1f}"),
    ("tracking mrad", lambda s: f"{s.tracking * 1e3:.2f}"),
    ("mean |τ| N·m", lambda s: f"{s.torque:.3f}"),
    ("mean |dτ/dt| N·m/s", lambda s: f"{s.torque_rate:.3g}"),
    ("max |dτ/dt| N·m/s", lambda s: f"{s.torque_rate_max:.3g}"),
    ("Σf_N error N", lambda s: f"{s.force_error:.2e}"),
    ("ok %", lambda s: f"{100 * s.modes.get('ok', 0.0):.1f}"),
    ("round trip p50/p99 µs", lambda s: "–" if s.round_trip_p50 is None else f"{s.round_trip_p50:.0f}/{s.round_trip_p99:.0f}"),
    ("late", lambda s: str(s.late)),
)
"""The table of a report: heading and cell."""


def table(summaries: list[Summary]) -> list[list[str]]:
    """Headings and rows of the summary table."""
    return [[heading for heading, _ in COLUMNS], *([cell(s) for _, cell in COLUMNS] for s in summaries)]


def text_table(rows: list[list[str]]) -> str:
    """Rows as aligned text."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
