"""The second scene of the demo: feet that must slide, where contact laws differ."""

from collections.abc import Sequence

import numpy as np

from idyn.types import Array
from sim_harness.measure.metrics import SETTLED
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Line, stacked
from sim_harness.report.tables import Table, listed
from sim_harness.run.experiment import Progress, Run, run_in_process
from sim_harness.run.plan import Plan, load_plan, with_controller

SCENE = "slippery-push"
"""Experiment of the scene."""

LOADED = 0.05
"""Feet with at least this share of the weight have a friction ratio."""

BEYOND = 1.05
"""Predicted friction above this many times the limit of the ground counts as impossible."""

LARGER = 1.5
"""An error that is this many times the smallest one counts as wrong."""

MEANING = (
    "friction / limit: largest predicted friction of a loaded foot, relative to μ f_N, the most that the ground can give. "
    "friction error: mean difference of the friction of a foot to the simulated one."
)


def slide_plan() -> Plan:
    return load_plan(SCENE)


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
        predicted, simulated = (_sum_of_friction(forces) for forces in (trace.predicted, trace.simulated))
        limit = mu * np.nansum(trace.simulated[..., 0], axis=1)
        both = {"predicted": (trace.t, predicted), "simulated": (trace.t, simulated), "limit": (trace.t, limit, "k--")}
        lines[f"{run.summary.label}\nΣ ‖f_T‖ [N]"] = both
    return stacked(lines, spans=[(push.start, push.start + push.duration) for push in plan.settings.push])


def _sum_of_friction(forces: Array) -> Array:
    return np.nansum(np.hypot(forces[..., 1], forces[..., 2]), axis=1)


def _friction(plan: Plan) -> float:
    assert plan.settings.mu is not None
    return plan.settings.mu
