"""`idyn demo`: run a server process and a robot process with every law; write a table and a report."""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from controllers.config.tables import named
from sim_harness.commands.output import live_view, new_folder, print_expected, progress_bar, publish
from sim_harness.demo import CHATTER_SECONDS, report_of, run_demo, slide_plan
from sim_harness.run.plan import load_plan


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    plan = load_plan(options.experiment, options.seconds, options.engine)
    print("starting (the first run compiles kernels for about a minute)", flush=True)
    ticks = sum(len(each.settings.laws) * each.ticks for each in (plan, slide_plan()))
    ticks += 3 * round(CHATTER_SECONDS / plan.controller.period)
    with live_view(options.view, plan.controller) as watch, progress_bar(ticks) as progress:
        folder = new_folder(Path(options.out))
        demo = run_demo(plan, folder, progress, watch)
    publish(report_of(plan, demo, folder), folder, figures=demo.figures)
    print(
        f"next: idyn view {folder}; idyn replay {folder / named(plan.settings.laws[0]) / 'log.mcap'}; "
        "idyn new ROBOT.urdf (your own robot); idyn list (robots, laws, experiments)"
    )
    return msgspec.to_builtins(demo.summaries), print_expected(plan, demo.summaries)
