"""The demo: a robot walks under several laws; tables, pictures and a report of it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from matplotlib.axes import Axes

from controllers.config.tables import kind_of, named
from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.measure.fall import base_tilt
from sim_harness.measure.metrics import Summary, normal_forces, table
from sim_harness.measure.pace import slowness
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Line, Plot, picture, stacked
from sim_harness.report.report import Report
from sim_harness.run.experiment import Progress, Run, Watch, run_in_process, run_served
from sim_harness.run.plan import Plan, load_plan, with_controller
from sim_harness.view.page import page_of
from sim_harness.view.runs import read_scene

CHATTER_SCENE = "stand"
"""The experiment whose robot and world the chatter comparison has."""

CHATTER_SECONDS = 2.0
"""Length of each run of the chatter comparison [s]."""

UNLIMITED_RATE = 1e9
"""Torque rate limit of the chatter comparison, so that the law is seen and not the limiter [N·m/s]."""


FOOTFALL_SECONDS = 1.5
"""Length of the gait diagram [s]."""

WALK_CAPTION = (
    "Contact forces on the robot: the world's, and beside them what the server predicted for the same period. "
    "Drag to turn, scroll to come nearer, right button to move."
)


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """runs: one for each law; chatter: the paper's Coulomb law, the same warm-started, and with selection"""

    runs: list[Run]
    chatter: list[Run]

    @property
    def upright(self) -> bool:
        """Whether the robot stayed upright under every law."""
        return all(run.summary.upright for run in self.runs)

    @property
    def summaries(self) -> list[Summary]:
        return [run.summary for run in self.runs]

    @property
    def figures(self) -> dict[str, list[Summary]]:
        return {"laws": self.summaries, "chatter": [run.summary for run in self.chatter]}

    def slowness(self, plan: Plan) -> list[str]:
        """A sentence for each law under which the world had to be slowed down."""
        if not plan.settings.paced:
            return []
        sentences = (slowness(summary, plan.controller.period) for summary in self.summaries)
        return [sentence for sentence in sentences if sentence]


def run_demo(plan: Plan, folder: Path, progress: Progress, watch: Watch | None = None) -> Demo:
    """Run everything; data of each law into folders in `folder`."""
    runs = [run_served(plan, law, folder / named(law), progress, watch) for law in plan.settings.laws]
    return Demo(runs=runs, chatter=run_chatter(progress))


def run_chatter(progress: Progress) -> list[Run]:
    """A four-foot squat under the Coulomb law: cold and unselected as in the paper, warm and unselected, selected.

    The demand is made consistent tangentially only ('stick'), so that all three ask for the very same motion.
    """
    plan = load_plan(CHATTER_SCENE, CHATTER_SECONDS)
    common = {
        "law": "coulomb",
        "consistency": "stick",
        "safety": {"torque_rate": UNLIMITED_RATE},
        "reference": {"kind": "squat", "start": 0.0},
    }
    variants = {
        "as in the paper": {"selection": "off", "warm_start": False},
        "warm start": {"selection": "off", "warm_start": True},
        "warm start and selection": {"selection": "torque", "warm_start": True},
    }
    return [
        run_in_process(with_controller(plan, common | changes, label), label, progress) for label, changes in variants.items()
    ]


def report_of(plan: Plan, demo: Demo, folder: Path) -> Report:
    """folder: with the data of each law"""
    settings, reference, runs = plan.settings, plan.controller.reference, demo.runs
    report = Report(
        f"idyn: {plan.controller.robot} under {len(runs)} contact laws",
        f"{settings.duration:g} s each on the '{kind_of(settings.engine)}' engine at {1 / plan.controller.period:g} Hz; "
        f"the robot weighs {demo.summaries[0].weight:.2f} N.",
    )
    report.heading("Result")
    report.table(table(demo.summaries))
    report.heading("The robot")
    _show_walk(report, plan, folder)
    if reference.walks:
        report.picture(paths(runs, reference.corners), "The base from above, and its waypoints.", "path")
        carry = "Feet that carry in the last second and a half: bars for simulated, lines for predicted forces."
        report.picture(footfalls(runs), carry, "footfalls")
    pushes = [(push.start, push.start + push.duration) for push in settings.push]
    report.picture(motion(runs, pushes), "All laws follow the same plan. Shaded: a push.", "motion")
    report.picture(forces(runs, pushes), "The server predicts the contact forces before the robot feels them.", "forces")
    report.picture(torques(runs, pushes), "All joints.", "torques")
    report.heading("Torque chatter")
    report.table(table([run.summary for run in demo.chatter]))
    report.picture(chatter(demo.chatter), _chatter_caption(demo.chatter), "chatter")
    report.heading("Timing")
    for sentence in demo.slowness(plan):
        report.paragraph(sentence)
    report.picture(round_trips(runs, plan.controller.period), "Server and robot in two processes over ipc.", "round_trips")
    return report


def _show_walk(report: Report, plan: Plan, folder: Path) -> None:
    """The view of the robot, or why there is none."""
    try:
        page = page_of(plan.controller.robot, [read_scene(folder / named(law)) for law in plan.settings.laws])
    except ConfigError as error:
        report.paragraph(f"Not shown: {error}. Then: idyn view {folder}")
    else:
        report.page(page, "the robot in three dimensions", WALK_CAPTION)


def _chatter_caption(runs: Sequence[Run]) -> str:
    paper, ours = runs[0].summary, runs[-1].summary
    apart = float(np.abs(runs[0].trace.q - runs[-1].trace.q).max())
    return (
        f"The same motion to {apart:.1e} (rad, m). "
        f"Mean |dτ/dt| {paper.torque_rate:.3g} N·m/s as in the paper, {ours.torque_rate:.3g} N·m/s with "
        f"selection: {paper.torque_rate / ours.torque_rate:.0f} times less; largest step {paper.torque_rate_max:.3g} and "
        f"{ours.torque_rate_max:.3g} N·m/s: {paper.torque_rate_max / ours.torque_rate_max:.0f} times less."
    )


Spans = Sequence[tuple[float, float]]


def over_time(runs: Sequence[Run], value: Callable[[Trace], Array]) -> dict[str, Line]:
    """One line for each run."""
    return {run.summary.label: (run.trace.t, value(run.trace)) for run in runs}


def paths(runs: Sequence[Run], waypoints: Sequence[tuple[float, float]]) -> bytes:
    """The base in the plane, one line for each run."""
    lines: dict[str, Line] = {run.summary.label: (run.trace.q[:, 0], run.trace.q[:, 1]) for run in runs}
    lines["waypoints"] = (*np.array(waypoints, dtype=float).reshape(-1, 2).T, "ko")
    labels = {"aspect": "equal", "xlabel": "x [m]", "ylabel": "y [m]"}
    return picture([Plot(lines=lines, legend=True, axes=labels)], size=(7, 5))


def footfalls(runs: Sequence[Run]) -> bytes:
    """Which contacts carry something at the end of each run."""

    def panel(run: Run) -> Plot:
        late = run.trace.t >= run.trace.t[-1] - FOOTFALL_SECONDS
        t, simulated, predicted = (each[late] for each in (run.trace.t, run.trace.simulated, run.trace.predicted))

        def draw(axis: Axes) -> None:
            for i in range(len(run.trace.places)):
                carries = (simulated[:, i, 0] > 0).tolist()
                axis.fill_between(t, i - 0.3, i + 0.3, where=carries, color=f"C{i}", alpha=0.3, linewidth=0)
                axis.plot(t, np.where(predicted[:, i, 0] > 0, i, np.nan), color=f"C{i}", linewidth=3)
            axis.set_yticks(range(len(run.trace.places)), run.trace.places)

        return Plot(extra=draw, axes={"ylabel": run.summary.label, "xlabel": "time [s]"})

    return picture([panel(run) for run in runs])


def motion(runs: Sequence[Run], pushes: Spans) -> bytes:
    """Base sway, height and tilt."""
    lines = {
        "base y [mm]": over_time(runs, lambda trace: 1e3 * trace.q[:, 1]),
        "base height [mm]": over_time(runs, lambda trace: 1e3 * trace.q[:, 2]),
        "tilt [mrad]": over_time(runs, lambda trace: 1e3 * base_tilt(trace.q)),
    }
    return stacked(lines, spans=pushes)


def forces(runs: Sequence[Run], pushes: Spans) -> bytes:
    """Σ f_N predicted and simulated of each run, and their differences."""
    lines: dict[str, dict[str, Line]] = {}
    for run in runs:
        predicted, simulated = normal_forces(run.trace)
        both = {"simulated": (run.trace.t, simulated), "predicted": (run.trace.t, predicted)}
        lines[f"{run.summary.label}\nΣ f_N [N]"] = both
    lines["|error| [N]"] = over_time(runs, lambda trace: np.maximum(np.abs(np.subtract(*normal_forces(trace))), 1e-16))
    return stacked(lines, log="|error| [N]", spans=pushes)


def torques(runs: Sequence[Run], pushes: Spans) -> bytes:
    """All joint torques of each run."""
    return stacked({f"{run.summary.label}\nτ [N·m]": {"": (run.trace.t, run.trace.tau)} for run in runs}, spans=pushes)


def chatter(runs: Sequence[Run]) -> bytes:
    """The torques of one joint, and the mean |dτ/dt| of all, with and without selection."""

    def rate(trace: Trace) -> Array:
        return np.r_[np.nan, np.abs(np.diff(trace.tau, axis=0)).mean(axis=1) / np.diff(trace.t)]

    joint = int(np.argmax(np.abs(np.diff(runs[0].trace.tau, axis=0)).sum(axis=0)))
    torque, label = over_time(runs, lambda trace: trace.tau[:, joint]), "mean |dτ/dt| [N·m/s]"
    return stacked({"τ of the worst joint [N·m]": torque, label: over_time(runs, rate)}, log=label)


def round_trips(runs: Sequence[Run], period: float) -> bytes:
    """Share of ticks slower than a time [µs]."""
    times = {run.summary.label: 1e6 * np.sort(run.trace.round_trip[np.isfinite(run.trace.round_trip)]) for run in runs}
    lines: dict[str, Line] = {label: (x, 1 - np.arange(len(x)) / len(x)) for label, x in times.items() if len(x)}
    lines["_period"] = ([1e6 * period] * 2, [1e-4, 1.0], "k--")
    labels = {"xlabel": "round trip [µs] (dashed: the period)", "ylabel": "share of ticks that are slower"}
    return picture([Plot(lines=lines, log="xy", legend=True, axes=labels)])
