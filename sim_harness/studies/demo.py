"""The demo: a robot walks under several laws; tables, pictures and a report of it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from controllers.config.tables import kind_of, named
from idyn.errors import ConfigError
from sim_harness.measure.metrics import Summary, table
from sim_harness.measure.pace import slowness
from sim_harness.report import plots
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


WALK_CAPTION = (
    "Contact forces on the robot: the world's, and beside them what the server predicted for the same period. "
    "Drag to turn, scroll to come nearer, right button to move."
)


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """What a demo came to. `runs`: one for each law; `chatter`: the paper's Coulomb law, the same warm-started, ours."""

    runs: list[Run]
    chatter: list[Run]

    @property
    def upright(self) -> bool:
        """Whether the robot stayed upright under every law."""
        return all(run.summary.upright for run in self.runs)

    @property
    def summaries(self) -> list[Summary]:
        return [run.summary for run in self.runs]

    def slowness(self, plan: Plan) -> list[str]:
        """A sentence for each law under which the world had to be slowed down."""
        if not plan.settings.paced:
            return []
        sentences = (slowness(summary, plan.controller.period) for summary in self.summaries)
        return [sentence for sentence in sentences if sentence]


def run_demo(plan: Plan, folder: Path, progress: Progress, watch: Watch | None = None) -> Demo:
    """Run everything and write summary.json, the pictures and report.html into `folder`, each law's data into folders there."""
    runs = [run_served(plan, law, folder / named(law), progress, watch) for law in plan.settings.laws]
    demo = Demo(runs=runs, chatter=run_chatter(progress))
    write_report(plan, demo, folder)
    return demo


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


def write_report(plan: Plan, demo: Demo, folder: Path) -> None:
    """summary.json, PNG pictures and report.html."""
    pushes = plan.settings.push
    reference = plan.controller.reference
    walk = {
        "path": (plots.path(demo.runs, reference.corners), "The base from above, and its waypoints."),
        "footfalls": (plots.footfalls(demo.runs), "Feet that carry, predicted and simulated, in the last second and a half."),
    }
    pictures = (walk if reference.walks else {}) | {
        "motion": (plots.motion(demo.runs, pushes), "All laws follow the same plan. Shaded: a push."),
        "forces": (plots.forces(demo.runs, pushes), "The server predicts the contact forces before the robot feels them."),
        "torques": (plots.torques(demo.runs, pushes), "All joints."),
        "chatter": (plots.chatter(demo.chatter), _chatter_caption(demo.chatter)),
        "round_trips": (plots.round_trips(demo.runs, plan.controller.period), "Server and robot in two processes over ipc."),
    }
    for name, (png, _) in pictures.items():
        (folder / f"{name}.png").write_bytes(png)
    summary = {"laws": demo.summaries, "chatter": [run.summary for run in demo.chatter]}
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary)))
    (folder / "report.html").write_text(_report(plan, demo, folder, pictures).html, encoding="utf-8")


def _report(plan: Plan, demo: Demo, folder: Path, pictures: dict[str, tuple[bytes, str]]) -> Report:
    settings = plan.settings
    first = demo.summaries[0]
    report = Report(
        f"idyn: {plan.controller.robot} under {len(demo.runs)} contact laws",
        f"{settings.duration:g} s each on the '{kind_of(settings.engine)}' engine at {1 / plan.controller.period:g} Hz; "
        f"the robot weighs {first.weight:.2f} N.",
    )
    report.heading("Result")
    report.table(table(demo.summaries))
    _show_walk(report, plan, folder)
    for name in ("path", "footfalls", "motion", "forces", "torques"):
        if name in pictures:
            report.picture(*pictures[name])
    report.heading("Torque chatter")
    report.table(table([run.summary for run in demo.chatter]))
    report.picture(*pictures["chatter"])
    report.heading("Timing")
    for sentence in demo.slowness(plan):
        report.paragraph(sentence)
    report.picture(*pictures["round_trips"])
    return report


def _show_walk(report: Report, plan: Plan, folder: Path) -> None:
    """The robot itself, or what it takes to see it."""
    report.heading("The robot")
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
