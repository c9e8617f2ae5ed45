"""Run times of contact models: one world with several engines  [D15 §VII, Tables I–III].

Both whole steps, with dynamics and collisions as in the paper, and the engine alone are timed.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import msgspec
import numpy as np

from controllers.config.loading import NonNegative, Positive, Settings, load
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.model.description import Description
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.compare.jobs import Progress
from sim_harness.compare.results import Options, Outcome
from sim_harness.compare.settings import Count
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution
from sim_harness.report.plots import Plot, picture
from sim_harness.report.report import Report
from sim_harness.report.tables import Table, listed
from sim_harness.studies.scenes.load import load_scene
from sim_harness.studies.scenes.world import build_scene
from sim_harness.world.world import StepResult, World, contact_jacobian
from sim_harness.world.worlds import OwnEngine, build_world

STIFFNESS, DAMPING = 40.0, 0.2
"""Stiffness [N·m/rad] and damping [N·m·s/rad] of the joints."""

LIFT, PERIOD = 0.25, 0.4
"""Largest increase of a lifted leg's joint angles, as a share of their values in the stance; duration of two steps [s]."""

RING = 0.004
"""Radius of the ring of contact points of a foot [m]."""


class RunnerSettings(Settings, frozen=True):
    """A runner: an engine with its settings."""

    title: str
    engine: OwnEngine
    mu: NonNegative | None = None  # friction coefficient of all contacts, may be inf; None: that of the world
    paper: Positive | None = None  # run time in the paper, in a unit common to all runners


class RaceSettings(Settings, frozen=True):
    """A world and the runners, which all simulate it."""

    runner: tuple[RunnerSettings, ...]
    reference: str  # title of the runner with which the others are compared
    # dt, duration: time step and length of each trial [s]
    dt: Positive
    duration: Positive
    # name of a scene; or robot: name of a robot that marches on the spot, with `points` contact points at each foot
    scene: str = ""
    robot: str = ""
    points: Count = 1
    trials: Count = 10  # number of trials of each runner; runners take turns
    lasting: Count = 1  # number of steps of one more, untimed run of each runner (the long run), which shows drift


class ComparisonSettings(Settings, frozen=True):
    """A race with its title. notes: paragraphs of the report"""

    title: str
    race: RaceSettings
    notes: tuple[str, ...] = ()


class March:
    """A marching robot and its `world`."""

    def __init__(self, robot: str, points: int, engine: Engine, dt: float) -> None:
        """points: number of contact points of each foot; several lie on a ring. dt: time step [s]"""
        given, q = load_robot(robot)
        model = given if points == 1 else Robot(_with_points(given, points), robot)
        self.world = build_world(engine, model, Flat(), q)
        self._dt, self._angles = dt, model.joint_angles(q)
        self._weight = _holding_torque(self.world)
        places = [contact.frame for contact in given.description.contact]
        support = given.tree.support[[given.joint_of_frame(frame) for frame in places]][:, given.tree.a]
        self._first = support[[0, 3]].any(axis=0) if len(places) == 4 else support[::2].any(axis=0)

    def step(self) -> StepResult:
        """Advance the world by one time step."""
        world = self.world
        phase = np.sin(2.0 * np.pi * world.t / PERIOD)
        bend = LIFT * np.where(self._first, max(phase, 0.0), max(-phase, 0.0))
        error = world.robot.joint_angles(world.q) - self._angles * (1.0 + bend)
        tau = self._weight - STIFFNESS * error - DAMPING * world.v[world.robot.tree.a]
        return world.step(tau, self._dt)


def _with_points(robot: Robot, points: int) -> Description:
    """Return the robot's description with `points` contact points in place of each one."""
    angles = 2.0 * np.pi * np.arange(points) / points
    contact = [
        msgspec.structs.replace(
            place,
            offset=(place.offset[0] + RING * float(np.cos(a)), place.offset[1] + RING * float(np.sin(a)), place.offset[2]),
            name=f"{place.name}{k}",
        )
        for place in robot.description.contact
        for k, a in enumerate(angles)
    ]
    return msgspec.structs.replace(robot.description, contact=contact)


def _holding_torque(world: World) -> Array:
    """Return the joint torques [N·m] that hold the robot at rest with equal normal forces (na)."""
    robot = world.robot
    terms = robot.terms(world.q, np.zeros(robot.nv))
    N = contact_jacobian(terms.axes, robot.tree.support, world.contacts)[2::3]
    return (terms.h - N.T @ np.full(len(N), robot.total_mass * 9.81 / len(N)))[robot.tree.a]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one run."""

    # total, engine: mean times of a whole step and of the engine in it [s]
    total: float
    engine: float
    iterations: list[int]  # number in each step
    contacts: float  # mean number of contacts
    unsolved: float  # share of steps without a solution
    moved: float  # largest displacement of a body, or of the robot's base [m]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a runner over its trials."""

    title: str
    total: float  # time of a step [µs]
    spread: float  # standard deviation of `total` over the trials, NaN for a single one [µs]
    engine: float  # time of the engine in a step [µs]
    # iterations, most: mean and largest number of iterations per step
    iterations: float
    most: int
    contacts: float  # mean number of contacts
    unsolved: float  # share of steps without a solution, in the trials
    # moved, lasting_unsolved: largest displacement [m] and share of unsolved steps in the long run
    moved: float
    lasting_unsolved: float
    # total_ratio, engine_ratio, paper_ratio: times relative to the reference
    total_ratio: float
    engine_ratio: float
    paper_ratio: float | None


class Race(msgspec.Struct, frozen=True, kw_only=True):
    """Results by title of the runner. trials: the timed runs; lasting: the long run"""

    settings: RaceSettings
    trials: dict[str, list[Trial]]
    lasting: dict[str, Trial]

    def standings(self) -> list[Standing]:
        """Return the figures of all runners, in the order of the settings."""
        papers = {runner.title: runner.paper for runner in self.settings.runner}
        base, own = self.trials[self.settings.reference], papers[self.settings.reference]
        return [
            Standing(
                title=title,
                total=1e6 * mean(t.total for t in trials),
                spread=1e6 * stdev(t.total for t in trials) if len(trials) > 1 else math.nan,
                engine=1e6 * mean(t.engine for t in trials),
                iterations=mean(i for t in trials for i in t.iterations),
                most=max(i for t in trials for i in t.iterations),
                contacts=mean(t.contacts for t in trials),
                unsolved=mean(t.unsolved for t in trials),
                moved=self.lasting[title].moved,
                lasting_unsolved=self.lasting[title].unsolved,
                total_ratio=mean(t.total for t in trials) / mean(t.total for t in base),
                engine_ratio=mean(t.engine for t in trials) / mean(t.engine for t in base),
                paper_ratio=None if (paper := papers[title]) is None or own is None else paper / own,
            )
            for title, trials in self.trials.items()
        ]

    def table(self) -> Table:
        """Return a table with one row per runner: times, ratios (ours, the paper's), iterations, failures, drift."""
        columns: dict[str, Callable[[Standing], str]] = {
            "step µs": lambda p: f"{p.total:.1f}" + ("" if math.isnan(p.spread) else f" ± {p.spread:.1f}"),
            "engine µs": lambda p: f"{p.engine:.1f}",
            "step / reference": lambda p: f"{p.total_ratio:.2f}",
            "engine / reference": lambda p: f"{p.engine_ratio:.2f}",
            "paper / reference": lambda p: "–" if p.paper_ratio is None else f"{p.paper_ratio:.2f}",
            "iterations (max)": lambda p: f"{p.iterations:.1f} ({p.most})",
            "contacts": lambda p: f"{p.contacts:.1f}",
            "unsolved %": lambda p: f"{100 * p.unsolved:.1f}",
            f"moved in {self.settings.lasting * self.settings.dt:g} s, mm": lambda p: f"{1e3 * p.moved:.3g}",
            "unsolved in this run %": lambda p: f"{100 * p.lasting_unsolved:.1f}",
        }
        return listed("contact model", ((runner.title, runner) for runner in self.standings()), columns)

    def outcomes(self) -> list[Outcome]:
        """Check for each runner with a time in the paper the claim that it takes longer than the reference."""
        return [
            Outcome(
                f"{one.title} takes longer than {self.settings.reference}",
                one.engine_ratio > 1.0,
                f"time ratio of the engine {one.engine_ratio:.2f}, of the step {one.total_ratio:.2f}; "
                f"paper {one.paper_ratio:.2f}",
                "",
            )
            for one in self.standings()
            if one.paper_ratio is not None and one.paper_ratio != 1.0
        ]

    def figure(self) -> bytes:
        """Draw three bars for each runner, relative to the reference: whole step, engine, paper."""
        ranking = self.standings()
        bars = {
            "whole step": [p.total_ratio for p in ranking],
            "engine alone": [p.engine_ratio for p in ranking],
            "paper": [np.nan if p.paper_ratio is None else p.paper_ratio for p in ranking],
        }
        ticks = {p.title.replace(" (", "\n("): k for k, p in enumerate(ranking)}
        labels = {"ylabel": "time / time of the reference"}
        return picture([Plot(bars=bars, ticks=ticks, log="y", legend=True, axes=labels)], size=(8, 4))

    def add_to(self, report: Report, name: str) -> None:
        """Add the table and the picture. name: of the comparison"""
        report.table(self.table())
        caption = "Times of a whole step and of the engine alone, relative to those of the reference; beside them the paper's."
        report.picture(self.figure(), caption, name)

    def figures(self) -> dict[str, Any]:
        """Return the figures for `summary.json`."""
        return {"race": self.standings()}


class Stopwatch:
    """An engine that applies the runner's friction coefficient, and measures the time and counts of its solutions."""

    def __init__(self, runner: RunnerSettings) -> None:
        self._runner = runner
        self.begin()

    def begin(self) -> None:
        """Reset all counts."""
        self.seconds = 0.0
        self.iterations: list[int] = []
        self.contacts: list[int] = []
        self.unsolved = 0

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        mu = self._runner.mu
        if mu is not None:
            problem = msgspec.structs.replace(problem, mu=np.full(len(problem.mu), mu))
        start = time.perf_counter()
        solution = self._runner.engine.solve(problem)
        self.seconds += time.perf_counter() - start
        self.iterations.append(solution.iterations)
        self.contacts.append(len(problem.mu))
        self.unsolved += not solution.status.ok
        return solution


def robot_of(comparison: ComparisonSettings) -> str:
    """Return the robot, the quadruped if bodies are simulated."""
    return comparison.race.robot or "quadruped"


def load_comparison(name_or_path: str) -> ComparisonSettings:
    """Read and check a race. Raises ConfigError for the first error."""
    comparison = load("experiments", name_or_path, ComparisonSettings)
    race = comparison.race
    titles = [runner.title for runner in race.runner]
    if len(set(titles)) != len(titles) or race.reference not in titles:
        expected = f"expected one of the titles {titles}, all different"
        raise ConfigError("comparison.race.reference", f"{expected}, got '{race.reference}'")
    if bool(race.scene) == bool(race.robot):
        raise ConfigError("comparison.race.scene", "expected a scene or a robot, got " + ("both" if race.scene else "neither"))
    if not race.dt <= race.duration < np.inf:
        raise ConfigError("comparison.race.duration", f"expected at least one step of {race.dt} s, got {race.duration}")
    if race.scene:
        load_scene(race.scene)
    return comparison


def run(comparison: ComparisonSettings, root: Path, _: Options, progress: Progress) -> Race:
    """Run a race; it leaves no files. Raises ConfigError."""
    return run_race(comparison.race, progress)


def run_race(settings: RaceSettings, progress: Progress) -> Race:
    """Run all trials in this process; runners take turns, so that other load on the machine affects all alike."""
    watches = {runner.title: Stopwatch(runner) for runner in settings.runner}
    lasting = {title: _trial(settings, watch, settings.lasting) for title, watch in watches.items()}
    total, done = settings.trials * len(watches), 0
    trials: dict[str, list[Trial]] = {title: [] for title in watches}
    for _ in range(settings.trials):
        for title, watch in watches.items():
            trials[title].append(_trial(settings, watch, round(settings.duration / settings.dt)))
            done += 1
            progress(done, total, title)
    return Race(settings=settings, trials=trials, lasting=lasting)


def _trial(settings: RaceSettings, watch: Stopwatch, steps: int) -> Trial:
    """Run `steps` steps from the initial state of the world."""
    step, positions = _world(settings, watch)
    before = positions()
    watch.begin()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    spent = time.perf_counter() - start
    return Trial(
        total=spent / steps,
        engine=watch.seconds / steps,
        iterations=watch.iterations,
        contacts=mean(watch.contacts),
        unsolved=watch.unsolved / steps,
        moved=float(np.linalg.norm(positions() - before, axis=1).max()),
    )


def _world(settings: RaceSettings, engine: Stopwatch) -> tuple[Callable[[], object], Callable[[], Array]]:
    """Return two functions: one steps the world, the other returns the positions of its bodies [m] (·, 3)."""
    if settings.scene:
        scene = build_scene(msgspec.structs.replace(load_scene(settings.scene), dt=settings.dt), engine)
        return scene.step, lambda: np.array(scene.bodies.place(scene.state.q)[1])
    march = March(settings.robot, settings.points, engine, settings.dt)
    return march.step, lambda: np.array(march.world.q[None, :3])
