"""Benchmarks of batches compared with a loop of single predictions on one core and on all, and of worlds: `idyn bench --batch`.

The variants are measured in turns. The fastest round of each counts, since other load on the machine affects it least."""

from collections.abc import Callable
from functools import partial

import numpy as np

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.batch.arrays import TOUCH, Batch
from idyn.batch.members import cores
from idyn.batch.predict import predict_batch
from idyn.contact.ground import Ground
from idyn.contact.terrain import Flat
from idyn.laws import make_law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Array, ContactSet, Selection, State
from sim_harness.doctor import DT
from sim_harness.report.tables import Table, listed
from sim_harness.studies.bench import Work, consistent, fastest, workload
from sim_harness.studies.study import Figures, Study, Sweep
from sim_harness.studies.world_batch import WorldBatch
from sim_harness.world.worlds import AnyEngine, build_world

MEMBERS, DEMANDS, LOOPED = 1024, 16, 128
"""Members of a batch; demands per state in the variant whose members share states; members in one round of the loop."""

WORLDS, STEPS = 64, 10
"""Copies of a world, and steps per call."""

LAWS = {
    "coulomb": ("coulomb", Selection.OFF),
    "coulomb, selected": ("coulomb", Selection.TORQUE),
    "no-slip, selected": ("no-slip", Selection.TORQUE),
}
GUESSES = {"cold": False, "warm": True}

Times = dict[str, float]

ENGINES = ("lcp", "sap", "newton", "first-order")


def study(robot_name: str) -> Study:
    """Return the study: run times of predictions and of steps of worlds; in a loop, in a batch on one core and on all cores."""
    robot, stance = load_robot(robot_name)
    demands = {f"{count} for each state": count for count in (1, DEMANDS)}
    return Study(
        f"Batches of {robot_name}",
        "",
        sweeps={
            "predictions": Sweep((LAWS, GUESSES, demands), partial(time_predictions, robot, stance)),
            "worlds": Sweep((ENGINES,), partial(time_worlds, robot, stance)),
        },
        tables=(predictions_table, worlds_table),
    )


def time_predictions(robot: Robot, stance: Array, law_selected: tuple[str, Selection], warm: bool, demands: int) -> Times:
    """Return times per prediction [µs] by variant. demands: number per state; warm: whether each member has a guess"""
    batch = swaying(robot, stance, demands)
    law, options = make_law(law_selected[0]), Options.paper(selection=law_selected[1], ground=Ground.rigid())
    guess = predict_batch(robot, batch, law=law, dt=DT, options=options).guess if warm else None
    guesses = [None if guess is None else guess.member(k) for k in range(LOOPED)]

    def together(threads: int) -> None:
        predict_batch(robot, batch, law=law, dt=DT, options=options, guess=guess, threads=threads)

    def loop() -> None:
        for k, before in enumerate(guesses):
            state, contacts, demand = _member(batch, k)
            predict(robot, state, contacts, demand, law=law, dt=DT, options=options, guess=before)

    variants: dict[str, Work] = {
        "loop_us": (loop, LOOPED),
        "one_core_us": (partial(together, 1), MEMBERS),
        "all_cores_us": (partial(together, cores()), MEMBERS),
    }
    return {name: 1e6 * each for name, each in fastest(variants).items()}


def swaying(robot: Robot, stance: Array, demands: int) -> Batch:
    """Return a batch of `MEMBERS` members: states of `workload` on all feet, each with `demands` demands in a row."""
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
    """Return the arguments of `predict` for one member."""
    touch = {name: getattr(batch.contacts, name)[k] for name in TOUCH}
    contacts = ContactSet(**touch, keys=batch.contacts.keys)
    return State(q=batch.state.q[k], v=batch.state.v[k]), contacts, batch.q_ddot[k]


def time_worlds(robot: Robot, stance: Array, name: str) -> Times:
    """Return worlds · steps / s of single worlds in turn, of a batch on one core, and of a batch on all cores."""
    engine: AnyEngine = parse(name, AnyEngine, "engine")
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
        variants: dict[str, Work] = {
            "single": (one_by_one, WORLDS * STEPS),
            "one_core": (partial(together, one), WORLDS * STEPS),
            "all_cores": (partial(together, every), WORLDS * STEPS),
        }
        return {name: 1.0 / each for name, each in fastest(variants).items()}


def predictions_table(found: Figures) -> Table:
    """Return the table of times per prediction [µs]."""
    columns: dict[str, Callable[[Times], str]] = {
        "loop": lambda f: f"{f['loop_us']:.1f}",
        "batch, 1 core": lambda f: f"{f['one_core_us']:.1f}",
        f"batch, {cores()}": lambda f: f"{f['all_cores_us']:.1f}",
        "loop / batch": lambda f: f"{f['loop_us'] / f['all_cores_us']:.2f}",
        "1 core / all": lambda f: f"{f['one_core_us'] / f['all_cores_us']:.2f}",
    }
    return listed("µs per prediction", ((", ".join(point), f) for point, f in found["predictions"].items()), columns)


def worlds_table(found: Figures) -> Table:
    """Return the table of worlds · steps / s."""
    columns: dict[str, Callable[[Times], str]] = {
        "one at a time": lambda f: f"{f['single']:.0f}",
        "batch, 1 core": lambda f: f"{f['one_core']:.0f}",
        f"batch, {cores()}": lambda f: f"{f['all_cores']:.0f}",
        "batch / single": lambda f: f"{f['all_cores'] / f['single']:.2f}",
        "all / 1 core": lambda f: f"{f['all_cores'] / f['one_core']:.2f}",
    }
    return listed("worlds · steps / s", found["worlds"].items(), columns)
