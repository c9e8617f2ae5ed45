"""`idyn plan`: a client of a running server that plans the gait of its robot."""

import argparse
import threading
import time
from typing import Any

import msgspec
import numpy as np

from controllers.command import GaitChange
from controllers.config.loading import load
from controllers.planners.gait import commanded
from controllers.planners.mpc import HORIZON, MpcPlanner, MpcSettings
from controllers.robot.load import load_robot
from sim_harness.commands.clients import address_of, end_by_signal, keys_of
from transport.robot.planner import CommandRefused, PlannerClient

WAITING = 0.2  # period of attempts while there is no robot [s]
TIMEOUT_MS = 2000  # longest time to wait for an answer of the server [ms]


def run_plan(options: argparse.Namespace) -> tuple[Any, bool]:
    endpoint, keys = address_of(options), keys_of(options)
    settings = MpcSettings() if options.config is None else load("planners", options.config, MpcSettings)
    end = end_by_signal()
    with PlannerClient(endpoint, options.name, timeout_ms=TIMEOUT_MS, keys=keys) as client:
        robot, stance = load_robot(str(client.welcome.controller["robot"]))
        if options.pattern is not None:
            gait = commanded(settings.gait, GaitChange(pattern=options.pattern), len(robot.spheres.keys))
            settings = msgspec.structs.replace(settings, gait=gait)
        planner = MpcPlanner(robot, stance, settings)
        if options.velocity is not None:
            planner.path.steer(np.array(options.velocity))
        print(f"{robot.name}: {settings.gait.pattern} at {settings.rate:g} Hz; Ctrl-C ends, the robot then stands", flush=True)
        found = _plan(client, planner, 1.0 / settings.rate, options.seconds, end)
    times = 1e3 * np.array(found.times)
    figures = {"plans": len(times), "late": found.late, "problems": found.problems}
    if len(times):
        figures |= {"median_ms": float(np.median(times)), "p99_ms": float(np.percentile(times, 99))}
        print(f"{len(times)} plans, {figures['median_ms']:.2f} ms (99 %: {figures['p99_ms']:.2f} ms); late: {found.late}")
    for problem, count in found.problems.items():
        print(f"{count} × {problem}")
    return figures, bool(len(times)) and not found.problems


class Found(msgspec.Struct):
    """times: of each plan [s]; late: number of plans that took longer than a period; problems: without a plan, by reason"""

    times: list[float] = []
    late: int = 0
    problems: dict[str, int] = {}

    def note(self, problem: str) -> None:
        """Count a problem."""
        self.problems[problem] = self.problems.get(problem, 0) + 1


def _plan(client: PlannerClient, planner: MpcPlanner, period: float, seconds: float, end: threading.Event) -> Found:
    """Send plans until the end. Times are those of the robot's clock: a simulated robot may be slow.

    A plan serves for `HORIZON` periods. If no other one is found in this time, its command expires and the robot stands.
    """
    found, asked, left, first, last = Found(), None, HORIZON, None, -np.inf
    due = time.monotonic()
    while not end.is_set():
        if client.state is None or left == 0:
            end.wait(WAITING)
            client.command(height=0.0, valid_for=WAITING)  # a server answers with the state of its robot
            due, left = time.monotonic(), HORIZON
            continue
        t = 1e-9 * client.t_robot
        first = t if first is None else first
        if t - first >= seconds:
            break
        if t > last:
            begin, last = time.perf_counter(), t
            new = planner.plan(t, client.state)
            found.times.append(time.perf_counter() - begin)
            found.late += found.times[-1] > period
            if new.problem:
                found.note(new.problem)
                left = 0 if asked is None else left - 1
            else:
                asked, left = new, HORIZON
        if asked is not None and left > 0:
            try:
                client.command(valid_for=left * period, tasks=asked.tasks, modes=asked.modes)
            except CommandRefused as error:
                found.note(str(error))
                left = 0
        due = max(due + period, time.monotonic() - period)
        end.wait(max(0.0, due - time.monotonic()))
    return found
