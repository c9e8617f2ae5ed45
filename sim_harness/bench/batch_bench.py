"""Benchmarks of batches: against a loop of single predictions, one core against all, and worlds · steps / s.

Everything is measured in turns; of each the quickest round counts, which a busy machine disturbs least.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.batch.arrays import TOUCH, Batch
from idyn.batch.predict import predict_batch
from idyn.batch.workers import cores
from idyn.contact.terrain import Flat
from idyn.laws import make_law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Array, ContactSet, Record, Selection, State
from sim_harness.bench.laws import DT, consistent, without_gc, workload
from sim_harness.run.batch import WorldBatch
from sim_harness.run.experiment import Progress
from sim_harness.world.worlds import AnyEngine, build_world

MEMBERS, DEMANDS, LOOPED = 1024, 16, 128
"""Of a batch; demands for each state where states are shared; members of one round of the loop."""

WORLDS, STEPS = 64, 10
"""Copies of a world, and steps in one call."""


class BatchCase(Record, frozen=True):
    """A law, its selection, how many demands share a state, and whether each member has a guess."""

    law: str
    selection: Selection
    demands: int
    warm: bool

    @property
    def name(self) -> str:
        law = self.law if self.selection is Selection.OFF else f"{self.law}, selected"
        return f"{law}, {'warm' if self.warm else 'cold'}, {self.demands} for each state"


CASES = [
    BatchCase(law=law, selection=selection, demands=demands, warm=warm)
    for law, selection in (("coulomb", Selection.OFF), ("coulomb", Selection.TORQUE), ("no-slip", Selection.TORQUE))
    for demands in (1, DEMANDS)
    for warm in (False, True)
]
Way = tuple[Callable[[], None], int]
"""Some work, and how many items it does."""

ENGINES = ("lcp", "sap", "newton", "first-order")


def bench_predictions(robot_name: str, rounds: int, progress: Progress) -> dict[str, Any]:
    """For each case µs of a member in a loop of `predict`, in a batch on one core, and in one on all."""
    robot, stance = load_robot(robot_name)
    figures = {}
    for case in CASES:
        figures[case.name] = _time_case(case, robot, swaying(robot, stance, case.demands), rounds)
        progress("batches", 1)
    return figures


def _time_case(case: BatchCase, robot: Robot, batch: Batch, rounds: int) -> dict[str, float]:
    law, options = make_law(case.law), Options(selection=case.selection)
    guess = predict_batch(robot, batch, law=law, dt=DT, options=options).guess if case.warm else None
    guesses = [None if guess is None else guess.member(k) for k in range(LOOPED)]

    def together(threads: int) -> None:
        predict_batch(robot, batch, law=law, dt=DT, options=options, guess=guess, threads=threads)

    def loop() -> None:
        for k, before in enumerate(guesses):
            state, contacts, demand = _member(batch, k)
            predict(robot, state, contacts, demand, law=law, dt=DT, options=options, guess=before)

    ways: dict[str, Way] = {
        "loop_us": (loop, LOOPED),
        "one_core_us": (partial(together, 1), MEMBERS),
        "all_cores_us": (partial(together, cores()), MEMBERS),
    }
    return {name: 1e6 * each for name, each in quickest(ways, rounds).items()}


def swaying(robot: Robot, stance: Array, demands: int) -> Batch:
    """MEMBERS members of the benchmarks' sway on all feet: so many demands in a row for each of its states, states in turn."""
    samples = workload(robot, stance, len(robot.spheres.keys))
    rng = np.random.default_rng(0)
    picked = [samples[k // demands % len(samples)] for k in range(MEMBERS)]
    q_ddot = np.array([sample.consistent for sample in picked])
    if demands > 1:
        noise = 0.01 * rng.normal(size=q_ddot.shape)
        q_ddot = np.array([consistent(robot, sample, sample.wanted + more) for sample, more in zip(picked, noise, strict=True)])
    touch = {name: np.array([getattr(sample.contacts, name) for sample in picked]) for name in TOUCH}
    return Batch(
        state=State(q=np.array([s.state.q for s in picked]), v=np.array([s.state.v for s in picked])),
        contacts=ContactSet(**touch, keys=robot.spheres.keys),
        q_ddot=q_ddot,
    )


def _member(batch: Batch, k: int) -> tuple[State, ContactSet, Array]:
    """What `predict` is handed of one."""
    c = batch.contacts
    contacts = ContactSet(
        bodies=c.bodies[k],
        others=c.others[k],
        points=c.points[k],
        normals=c.normals[k],
        tangents=c.tangents[k],
        mu=c.mu[k],
        gaps=c.gaps[k],
        keys=c.keys,
    )
    return State(q=batch.state.q[k], v=batch.state.v[k]), contacts, batch.q_ddot[k]


def bench_worlds(robot_name: str, rounds: int, progress: Progress) -> dict[str, Any]:
    """For each engine worlds · steps / s: of worlds one at a time, of a batch on one core, and of one on all."""
    robot, stance = load_robot(robot_name)
    figures = {}
    for name in ENGINES:
        figures[name] = _time_engine(parse(name, AnyEngine, "engine"), robot, stance, rounds)
        progress("worlds", 1)
    return figures


def _time_engine(engine: AnyEngine, robot: Robot, stance: Array, rounds: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    q = np.array([robot.integrate(stance, 0.01 * rng.normal(size=robot.nv)) for _ in range(WORLDS)])
    tau = 0.5 * rng.normal(size=(WORLDS, robot.na))
    alone = build_world(engine, robot.variant(), Flat(), stance)

    def together(batch: WorldBatch) -> None:
        batch.reset(q)
        batch.step(tau, DT, STEPS)

    def one_by_one() -> None:
        for state, torque in zip(q, tau, strict=True):
            alone.reset(state)
            for _ in range(STEPS):
                alone.step(torque, DT)

    with (
        WorldBatch(engine, robot, Flat(), q, processes=1) as one,
        WorldBatch(engine, robot, Flat(), q, processes=cores()) as every,
    ):
        ways: dict[str, Way] = {
            "single": (one_by_one, WORLDS * STEPS),
            "one_core": (partial(together, one), WORLDS * STEPS),
            "all_cores": (partial(together, every), WORLDS * STEPS),
        }
        return {way: 1.0 / each for way, each in quickest(ways, rounds).items()}


def quickest(ways: dict[str, Way], rounds: int) -> dict[str, float]:
    """Seconds per item of each, which are done in turns, after a round that warms up."""
    best = dict.fromkeys(ways, np.inf)
    for turn in range(1 + rounds):
        for name, (work, items) in ways.items():
            with without_gc():
                begin = time.perf_counter()
                work()
                spent = (time.perf_counter() - begin) / items
            if turn > 0:
                best[name] = min(best[name], spent)
    return best


def predictions_table(figures: dict[str, Any]) -> list[list[str]]:
    rows = [["µs per prediction", "loop", "batch, 1 core", f"batch, {cores()}", "loop / batch", "1 core / all"]]
    for name, f in figures.items():
        ratios = f["loop_us"] / f["all_cores_us"], f["one_core_us"] / f["all_cores_us"]
        times = (f"{f[key]:.1f}" for key in ("loop_us", "one_core_us", "all_cores_us"))
        rows.append([name, *times, *(f"{ratio:.2f}" for ratio in ratios)])
    return rows


def worlds_table(figures: dict[str, Any]) -> list[list[str]]:
    rows = [["worlds · steps / s", "one at a time", "batch, 1 core", f"batch, {cores()}", "batch / one", "all / 1 core"]]
    for name, f in figures.items():
        ratios = f["all_cores"] / f["single"], f["all_cores"] / f["one_core"]
        rows.append([name, *(f"{f[key]:.0f}" for key in ("single", "one_core", "all_cores")), *(f"{r:.2f}" for r in ratios)])
    return rows
