"""Run time of a prediction over the number of contacts  [ZD §8.4.2, Fig. 19].

The quadruped stands with fixed joints while its base rocks. Each foot has several contact points, "artificially increasing the
number of simultaneous contacts at each foot-ground interface". With fixed joints the demand is feasible for every number of
points. The velocity of the base decides which points press. It is about as large as the velocity that gravity adds in a period.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from controllers.config.loading import Settings, load, parse
from controllers.contact.ground import AnyGround
from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.laws import AnyLaw
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.types import Array, Consistency, ContactSet, Selection, State
from sim_harness.compare.jobs import Job, Progress, atomic_folder, digest_of, result_of, run_jobs, write_result
from sim_harness.compare.results import Options as How
from sim_harness.compare.results import Outcome
from sim_harness.compare.settings import Count, check_known
from sim_harness.report.plots import Axes, Line, Plot, picture
from sim_harness.report.report import Report
from sim_harness.report.tables import Table
from sim_harness.studies.bench import Tick, predictions, without_gc
from sim_harness.studies.controllers import CONTROLLERS

PATCH = 0.005
"""Radius of the ring of contact points at a foot [m]."""

ROCKING = 0.01
"""Amplitude of the base's velocities [m/s, rad/s]: the velocity that gravity adds in one period."""

PERIOD = 97
"""Period of the rocking [predictions]."""

WARM_UP, FEWEST, LONGEST = 5, 10, 5.0
"""Number of predictions before the measurement; least number of measured ones; time after which no further one starts [s]."""

LINEAR = 1.1
"""Largest log-log slope that counts as linear."""


class TimingSettings(Settings, frozen=True):
    """Run time over the number of contacts."""

    contacts: dict[str, tuple[Count, ...]]  # controller → numbers of contacts
    robot: str = "quadruped"
    repeat: Count = 200  # predictions per figure
    # controller → (least, largest) number of contacts between which the run time is claimed to be linear
    slope: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)


class ComparisonSettings(Settings, frozen=True):
    """A comparison of run times. notes: paragraphs of the report"""

    title: str
    timing: TimingSettings
    notes: tuple[str, ...] = ()


def load_comparison(name_or_path: str) -> ComparisonSettings:
    """Read and check a comparison of run times. Raises ConfigError for the first error."""
    comparison = load("experiments", name_or_path, ComparisonSettings)
    check_known("comparison.timing.contacts", comparison.timing.contacts, CONTROLLERS)
    check_known("comparison.timing.slope", comparison.timing.slope, comparison.timing.contacts)
    return comparison


def robot_of(comparison: ComparisonSettings) -> str:
    """Return the robot."""
    return comparison.timing.robot


class RunTime(msgspec.Struct, frozen=True, kw_only=True):
    """Run times of a law with a number of contacts [µs]."""

    contacts: int
    median: float
    p99: float
    max: float
    certified: float  # share of the predictions that the law itself solved, without a fallback


class LawTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of `result.json` of a timing task."""

    digest: str
    controller: str
    times: list[RunTime]


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Run times by controller, in the order of the settings."""

    settings: TimingSettings
    times: dict[str, list[RunTime]]

    def outcomes(self) -> list[Outcome]:
        """Check the claims that run times grow at most linearly."""
        outcomes = []
        for controller, between in self.settings.slope.items():
            measured = slope(self.times[controller], between)
            claim = f"{CONTROLLERS[controller].title} is linear in contacts between {between[0]} and {between[1]}"
            outcomes.append(Outcome(claim, measured <= LINEAR, f"log-log slope {measured:.3f}, at most {LINEAR}", ""))
        return outcomes

    def table(self) -> Table:
        """Return a table of median, p99 and max [µs], one row for each controller and number of contacts."""
        rows = [["controller", "contacts", "median µs", "p99 µs", "max µs", "slope from previous row", "without fallback %"]]
        for controller, times in self.times.items():
            for i, t in enumerate(times):
                since = f"{slope(times[i - 1 : i + 1], (0, t.contacts)):.2f}" if i else ""
                figures = [f"{x:.4g}" for x in (t.median, t.p99, t.max)]
                rows.append([CONTROLLERS[controller].title, str(t.contacts), *figures, since, f"{100 * t.certified:.1f}"])
        return rows

    def figure(self) -> bytes:
        """Draw medians over the number of contacts, on logarithmic axes; bands extend to p99."""
        lines: dict[str, Line] = {
            CONTROLLERS[controller].title: ([t.contacts for t in times], [t.median for t in times], f"C{k % 10}o-")
            for k, (controller, times) in enumerate(self.times.items())
        }
        lines["_1 ms"] = ([1, max(t.contacts for times in self.times.values() for t in times)], [1000, 1000], "k--")

        def bands(axis: Axes) -> None:
            for k, times in enumerate(self.times.values()):
                n, median, p99 = zip(*((t.contacts, t.median, t.p99) for t in times), strict=True)
                axis.fill_between(n, median, p99, color=f"C{k % 10}", alpha=0.15)

        labels = {"xlabel": "contacts", "ylabel": "run time [µs] (dashed: 1 ms)"}
        return picture([Plot(lines=lines, log="xy", legend=True, axes=labels, extra=bands)], size=(8, 5))

    def add_to(self, report: Report, name: str) -> None:
        """Add the table and the picture. name: of the comparison"""
        report.table(self.table())
        caption = "Medians of the run time of a prediction; the shaded bands extend to the 99th percentile."
        report.picture(self.figure(), caption, name)

    def figures(self) -> dict[str, Any]:
        """Return the figures for `summary.json`."""
        return {"run times": {"controllers": self.times}}


class TimingTask(Job, frozen=True, kw_only=True):
    """The measurement of one controller."""

    controller: str
    settings: TimingSettings


def timing_tasks(settings: TimingSettings, root: Path) -> list[TimingTask]:
    """Return a task for each controller; its digest covers settings, robot, code and this file."""
    robot, stance = load_robot(settings.robot)
    body = [robot.description.urdf, robot.description.base, msgspec.to_builtins(robot.description.contact), list(stance)]
    tasks = []
    for controller, counts in settings.contacts.items():
        changes = CONTROLLERS[controller].changes
        digest = digest_of([controller, changes, counts, settings.repeat, body, Path(__file__).read_text(encoding="utf-8")])
        folder = root / f"timing-{controller}-{digest[:12]}"
        tasks.append(TimingTask(controller=controller, settings=settings, digest=digest, folder=folder))
    return tasks


def run_timing(task: TimingTask) -> None:
    """Run a task and write its result."""
    settings = task.settings
    robot, stance = load_robot(settings.robot)
    times = [measure(robot, stance, task.controller, n, settings.repeat) for n in settings.contacts[task.controller]]
    with atomic_folder(task.folder) as folder:
        write_result(folder, LawTimes(digest=task.digest, controller=task.controller, times=times))


def run(comparison: ComparisonSettings, root: Path, _: How, progress: Progress) -> Timings:
    """Measure run times, one controller after the other, each in a process of its own. Raises ConfigError."""
    settings = comparison.timing
    tasks = timing_tasks(settings, root)
    run_jobs(tasks, run_timing, partial(result_of, kind=LawTimes), ("processes", 1), progress)
    found = {task.controller: result_of(task, LawTimes) for task in tasks}
    times = {controller: law.times for controller, law in found.items() if law is not None}
    return Timings(settings=settings, times=times)


def measure(robot: Robot, stance: Array, controller: str, n: int, repeat: int) -> RunTime:
    """Measure warm-started predictions with n contacts: up to `repeat` within `LONGEST` [s], at least `FEWEST`."""
    changes = CONTROLLERS[controller].changes
    law = parse(changes["law"], AnyLaw, "law").build()
    options = Options.paper(
        selection=Selection(changes["selection"]),
        consistency=Consistency.OFF,  # fixed joints are always feasible
        warm_start=changes.get("warm_start", True),
        ground=parse(changes.get("ground", "rigid"), AnyGround, "ground").build(),
    )
    ticks = _ticks(robot, stance, points_at_feet(robot, stance, n), WARM_UP + repeat)
    with without_gc():
        found = [*predictions(robot, ticks, law, options)]
    counted = 1e6 * np.array([seconds for seconds, _ in found[WARM_UP:]])
    return RunTime(
        contacts=n,
        median=float(np.median(counted)),
        p99=float(np.percentile(counted, 99)),
        max=float(counted.max()),
        certified=sum(answer.law == law.name and answer.status.ok for _, answer in found) / len(found),
    )


def _ticks(robot: Robot, stance: Array, contacts: ContactSet, most: int) -> Iterator[Tick]:
    """Yield up to `most` ticks; at least `WARM_UP` + `FEWEST`, and further ones only within the time `LONGEST`."""
    start, demand = time.perf_counter(), np.zeros(robot.na)
    for k in range(most):
        if k >= WARM_UP + FEWEST and time.perf_counter() - start > LONGEST:
            return
        yield State(q=stance, v=rocking(robot, k)), contacts, demand


def points_at_feet(robot: Robot, q: Array, n: int) -> ContactSet:
    """Return n contacts on the ground, distributed evenly over the robot's contact points; those of one point lie on a ring."""
    one = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
    feet = len(one)
    foot, turn = np.arange(n) % feet, np.arange(n) // feet
    angle = 2 * np.pi * turn / max(1, -(-n // feet))
    ring = PATCH * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(n)])
    points = one.points[foot] + (ring if n > feet else 0.0)
    points[:, 2] = 0.0
    keys = tuple(f"{one.keys[f]}.{t}" for f, t in zip(foot, turn, strict=True))
    return msgspec.structs.replace(one.take(foot), points=points, gaps=np.zeros(n), keys=keys)


def rocking(robot: Robot, k: int) -> Array:
    """Return the velocity of the k-th prediction (nv): the base moves along and about all axes, out of phase; joints rest."""
    v = np.zeros(robot.nv)
    v[robot.tree.u] = ROCKING * np.sin(2 * np.pi * k / PERIOD + np.arange(robot.nu))
    return v


def slope(times: list[RunTime], between: tuple[int, int]) -> float:
    """Return the log-log slope of the medians over the number of contacts, by least squares; NaN for fewer than two.

    between: least and largest number of contacts
    """
    low, high = between
    chosen = [t for t in times if low <= t.contacts <= high]
    if len(chosen) < 2:
        return float("nan")
    n, median = np.array([t.contacts for t in chosen]), np.array([t.median for t in chosen])
    return float(np.polyfit(np.log(n), np.log(median), 1)[0])
