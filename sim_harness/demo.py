"""The demo: a robot walks with several contact laws, and slides with them; tables, pictures and a report."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from controllers.config.tables import kind_of, named
from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.measure.fall import base_tilt
from sim_harness.measure.metrics import SETTLED, Summary, normal_forces, slowness
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Axes, Line, Plot, picture, stacked
from sim_harness.report.report import Report
from sim_harness.report.tables import (
    FORCE_ERROR,
    OK,
    PACE,
    RATE,
    TORQUE,
    TRACKING,
    Table,
    legend,
    listed,
    table,
)
from sim_harness.run.experiment import Progress, Run, Watch, run_in_process, run_served
from sim_harness.run.plan import Plan, load_plan, with_controller
from sim_harness.view.page import page_of, read_run

SLIDE_SCENE = "slippery-push"  # experiment in which feet must slide
LOADED = 0.05  # feet with at least this share of the weight have a friction ratio
BEYOND = 1.05  # predicted friction above this many times the limit of the ground counts as impossible
LARGER = 1.5  # an error that is this many times the smallest one counts as wrong

MEANING = (
    "friction / limit: largest predicted friction of a loaded foot, relative to μ f_N, the most that the ground can give. "
    "friction error: mean difference of the friction of a foot to the simulated one."
)

FORESEEN = 0.1  # relative error of the sum of the normal forces up to which a prediction counts as right
FOLLOWED = 0.05  # mean tracking error of the joints up to which they count as following their reference [rad]
RESTLESS = 3.0  # the torque counts as restless when its mean rate is this many times that of the smoothest whole run
FOOTFALL_SECONDS = 1.5  # length of the gait diagram [s]

WALK_CAPTION = (
    "Contact forces on the robot: simulated, and beside them the server's prediction for the same period. "
    "The plots show the torque of each joint with its limits, forces, model mismatch and times; a click moves the time. "
    "A peak at a touchdown is the impact of the foot; its height depends on the engine. "
    "It is predicted only if the contact is known before it. Drag to rotate, scroll to zoom, right button to move."
)


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of the demo."""

    runs: list[Run]  # one for each law
    slide: list[Run]  # one for each law, with feet that slide

    @property
    def summaries(self) -> list[Summary]:
        return [run.summary for run in self.runs]

    @property
    def figures(self) -> dict[str, list[Summary]]:
        return {"laws": self.summaries, "slide": [run.summary for run in self.slide]}

    def slowness(self, plan: Plan) -> list[str]:
        """Return a message for each law with which the world ran slower than real time."""
        if not plan.settings.paced:
            return []
        sentences = (slowness(summary, plan.controller.period) for summary in self.summaries)
        return [sentence for sentence in sentences if sentence]


LAWS_COLUMNS = (TRACKING, TORQUE, RATE, FORCE_ERROR, OK, PACE)
"""Columns of the table of laws, besides the law."""


def run_demo(plan: Plan, folder: Path, progress: Progress, watch: Watch | None = None) -> Demo:
    """Run the demo; write the data of each law to a subfolder of `folder`."""
    runs = []
    for law in plan.settings.laws:
        own = folder / named(law)
        own.mkdir(parents=True, exist_ok=True)
        run = run_served(with_controller(plan, {"law": law}), named(law), progress, log=own / "log.mcap", watch=watch)
        run.save(own)
        runs.append(run)
    return Demo(runs=runs, slide=run_slide(slide_plan(), progress))


def report_of(plan: Plan, demo: Demo, folder: Path) -> Report:
    """Return the report of the demo. folder: with the data of each law"""
    settings, reference, runs = plan.settings, plan.controller.reference, demo.runs
    report = Report(
        f"idyn: {plan.controller.robot} with {len(runs)} contact laws",
        f"{settings.duration:g} s per law with the engine '{kind_of(settings.engine)}' at {1 / plan.controller.period:g} Hz; "
        f"weight of the robot: {demo.summaries[0].weight:.2f} N.",
    )
    report.heading("Result")
    report.table(laws_table(demo.summaries))
    report.paragraph(legend(LAWS_COLUMNS))
    report.heading("The robot")
    _show_walk(report, plan, folder)
    if reference.walks:
        report.picture(paths(runs, reference.corners), "The base from above, and its waypoints.", "path")
        carry = f"Loaded feet in the last {FOOTFALL_SECONDS:g} s: simulated (bars) and predicted (lines)."
        report.picture(footfalls(runs), carry, "footfalls")
    pushes = [(push.start, push.start + push.duration) for push in settings.push]
    report.picture(motion(runs, pushes), "Motion of the base; all laws follow the same reference. Shaded: a push.", "motion")
    report.picture(forces(runs, pushes), "Sum of the normal forces: simulated, and predicted by the server.", "forces")
    _add_slide(report, demo.slide)
    report.heading("Timing")
    for sentence in demo.slowness(plan):
        report.paragraph(sentence)
    report.picture(round_trips(runs, plan.controller.period), "Round trips of server and robot over ipc.", "round_trips")
    return report


def laws_table(summaries: Sequence[Summary]) -> Table:
    """Return a table with a row for each law, which ends with what the law got right and wrong."""
    heading, *rows = table(summaries, LAWS_COLUMNS)
    words = (right_and_wrong(summary, summaries) for summary in summaries)
    return [[*heading, "in words"], *([*row, sentence] for row, sentence in zip(rows, words, strict=True))]


def _show_walk(report: Report, plan: Plan, folder: Path) -> None:
    try:
        page = page_of(plan.controller.robot, [read_run(folder / named(law)) for law in plan.settings.laws])
    except ConfigError as error:
        report.paragraph(f"The 3D view is missing: {error}. With the extra installed, run: idyn view {folder}")
    else:
        report.page(page, "the robot in three dimensions", WALK_CAPTION)


def _add_slide(report: Report, runs: Sequence[Run]) -> None:
    plan = slide_plan()
    report.heading("Feet that must slide")
    report.paragraph(
        f"The robot sways on slippery ground (μ = {plan.settings.mu:g}), which all laws know, and is pushed sideways. {MEANING}"
    )
    report.table(slide_table(plan, runs))
    caption = "Friction of all feet: predicted, simulated, and the most that the ground can give. Shaded: the push."
    report.picture(friction_picture(plan, runs), caption, "friction")


Spans = Sequence[tuple[float, float]]


def over_time(runs: Sequence[Run], value: Callable[[Trace], Array]) -> dict[str, Line]:
    """Return one line over time for each run."""
    return {run.summary.label: (run.trace.t, value(run.trace)) for run in runs}


def paths(runs: Sequence[Run], waypoints: Sequence[tuple[float, float]]) -> bytes:
    """Draw the path of the base in the plane, one line for each run."""
    lines: dict[str, Line] = {run.summary.label: (run.trace.q[:, 0], run.trace.q[:, 1]) for run in runs}
    lines["waypoints"] = (*np.array(waypoints, dtype=float).reshape(-1, 2).T, "ko")
    labels = {"aspect": "equal", "xlabel": "x [m]", "ylabel": "y [m]"}
    return picture([Plot(lines=lines, legend=True, axes=labels)], size=(7, 5))


def footfalls(runs: Sequence[Run]) -> bytes:
    """Draw a gait diagram of the end of each run. Bars are intervals in which a contact is loaded."""

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
    """Draw sway, height and tilt of the base over time."""
    lines = {
        "base y [mm]": over_time(runs, lambda trace: 1e3 * trace.q[:, 1]),
        "base height [mm]": over_time(runs, lambda trace: 1e3 * trace.q[:, 2]),
        "tilt [mrad]": over_time(runs, lambda trace: 1e3 * base_tilt(trace.q)),
    }
    return stacked(lines, spans=pushes)


def forces(runs: Sequence[Run], pushes: Spans) -> bytes:
    """Draw predicted and simulated Σ f_N of each run, and their differences."""
    lines: dict[str, dict[str, Line]] = {}
    for run in runs:
        predicted, simulated = normal_forces(run.trace)
        both = {"simulated": (run.trace.t, simulated), "predicted": (run.trace.t, predicted)}
        lines[f"{run.summary.label}\nΣ f_N [N]"] = both
    lines["|error| [N]"] = over_time(runs, lambda trace: np.maximum(np.abs(np.subtract(*normal_forces(trace))), 1e-16))
    return stacked(lines, log="|error| [N]", spans=pushes)


def round_trips(runs: Sequence[Run], period: float) -> bytes:
    """Draw the share of ticks with a longer round trip, over the round trip [µs]."""
    times = {run.summary.label: 1e6 * np.sort(run.trace.round_trip[np.isfinite(run.trace.round_trip)]) for run in runs}
    lines: dict[str, Line] = {label: (x, 1 - np.arange(len(x)) / len(x)) for label, x in times.items() if len(x)}
    lines["_period"] = ([1e6 * period] * 2, [1e-4, 1.0], "k--")
    labels = {"xlabel": "round trip [µs] (dashed: the period)", "ylabel": "share of slower ticks"}
    return picture([Plot(lines=lines, log="xy", legend=True, axes=labels)])


def slide_plan() -> Plan:
    return load_plan(SLIDE_SCENE)


def run_slide(plan: Plan, progress: Progress) -> list[Run]:
    """Run the scene with each of its laws."""
    return [run_in_process(with_controller(plan, {"law": law}), str(law), progress) for law in plan.settings.laws]


def slide_table(plan: Plan, runs: Sequence[Run]) -> Table:
    """Return a table with a row for each law, which ends with what the law got right and wrong."""
    mu = _friction(plan)
    columns = {
        "verdict": lambda run: run.summary.verdict.text,
        "friction / limit": lambda run: f"{worst_share(run.trace, mu):.2f}",
        "friction error N": lambda run: f"{friction_error(run.trace):.3f}",
        "Σf_N error N": lambda run: f"{run.summary.force_error:.3f}",
        "tracking mrad": lambda run: f"{1e3 * run.summary.tracking:.2f}",
        "in words": lambda run: in_words(run, runs, mu),
    }
    return listed("law", ((run.summary.label, run) for run in runs), columns)


def in_words(run: Run, runs: Sequence[Run], mu: float) -> str:
    """Return what a law got right and wrong about the sliding feet."""
    share, normal = worst_share(run.trace, mu), run.summary.force_error
    friction = friction_error(run.trace) / min(friction_error(each.trace) for each in runs)
    right, wrong = list[str](), list[str]()
    if share > BEYOND:
        wrong.append(f"expects {share:.1f} times the friction that the ground can give")
    else:
        right.append("friction within its limit")
    errors = {"friction": friction, "normal forces": normal / min(each.summary.force_error for each in runs)}
    for what, times in errors.items():
        if times > LARGER:
            wrong.append(f"error of {what} {times:.1f} times the least")
    if not wrong:
        right.append("least errors")
    return ". ".join(f"{word}: {'; '.join(found)}" for word, found in (("right", right), ("wrong", wrong)) if found)


def worst_share(trace: Trace, mu: float) -> float:
    """Return the largest predicted ‖f_T‖/(μ f_N) of a loaded foot, over all ticks but the first."""
    forces = np.nan_to_num(trace.predicted[SETTLED:])
    normal, friction = forces[..., 0], np.hypot(forces[..., 1], forces[..., 2])
    loaded = normal > LOADED * normal.sum(axis=1, keepdims=True)
    return float((friction[loaded] / (mu * normal[loaded])).max(initial=0.0))


def friction_error(trace: Trace) -> float:
    """Return the mean difference of predicted and simulated friction of a foot [N]."""
    difference = np.nan_to_num(trace.predicted) - np.nan_to_num(trace.simulated)
    return float(np.hypot(difference[SETTLED:, :, 1], difference[SETTLED:, :, 2]).mean())


def friction_picture(plan: Plan, runs: Sequence[Run]) -> bytes:
    """Draw the friction of all feet over time, predicted and simulated, and the limit of the ground, for each law."""
    mu, lines = _friction(plan), dict[str, dict[str, Line]]()
    for run in runs:
        trace = run.trace
        predicted, simulated = (np.nansum(np.hypot(f[..., 1], f[..., 2]), axis=1) for f in (trace.predicted, trace.simulated))
        limit = mu * np.nansum(trace.simulated[..., 0], axis=1)
        both = {"predicted": (trace.t, predicted), "simulated": (trace.t, simulated), "limit": (trace.t, limit, "k--")}
        lines[f"{run.summary.label}\nΣ ‖f_T‖ [N]"] = both
    return stacked(lines, spans=[(push.start, push.start + push.duration) for push in plan.settings.push])


def _friction(plan: Plan) -> float:
    assert plan.settings.mu is not None
    return plan.settings.mu


def right_and_wrong(summary: Summary, others: Sequence[Summary]) -> str:
    """Return what went right and what went wrong in a run, as text that begins with its verdict.

    others: all runs with the same task, to compare the torque rates with
    """
    right, wrong = _judged(summary, others)
    parts = [f"{word}: {'; '.join(found)}" for word, found in (("right", right), ("wrong", wrong)) if found]
    return ". ".join(parts if summary.verdict.good else parts[::-1])


def _judged(summary: Summary, others: Sequence[Summary]) -> tuple[list[str], list[str]]:
    right, wrong = list[str](), list[str]()
    (right if summary.verdict.good else wrong).append(summary.verdict.text)
    wrong.extend(summary.verdict.noted)
    error = summary.force_error_relative
    if not math.isnan(error):
        good = error <= FORESEEN
        (right if good else wrong).append(f"contact forces {'foreseen to' if good else 'wrong by'} {100 * error:.2g} %")
    if not math.isnan(summary.tracking):
        good = summary.tracking <= FOLLOWED
        text = f"joints within {1e3 * summary.tracking:.2g} mrad" if good else f"joints {1e3 * summary.tracking:.2g} mrad off"
        (right if good else wrong).append(text)
    if summary.substituted > 0.0:
        wrong.append(f"another law answered {100 * summary.substituted:.2g} % of the ticks")
    whole = [each for each in others if each.upright and each.torque_rate > 0.0]
    smoothest = min(whole, key=lambda each: each.torque_rate, default=None)
    if smoothest is not None and summary.torque_rate > RESTLESS * smoothest.torque_rate:
        factor = summary.torque_rate / smoothest.torque_rate
        wrong.append(f"torques change {factor:.2g} times as fast as with {smoothest.label}")
    return right, wrong
