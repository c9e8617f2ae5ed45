"""Benchmarks of `idyn bench`: run time of a prediction over the number of contacts, and of its derivatives.

All cases are measured in turns, block by block, so that other load on the machine affects all alike.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import numpy as np

from controllers.robot.kinematics import contact_jacobian, contact_places
from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_points
from idyn.contact.ground import Ground
from idyn.differentiation.derivatives import Derivatives, derivatives
from idyn.laws import make_law
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.feasible import project
from idyn.prediction.predict import predict
from idyn.terms.dynamics import evaluate
from idyn.types import Array, Consistency, ContactSet, Guess, Prediction, Record, Selection, State
from sim_harness.doctor import DT, STATES, sway
from sim_harness.report.tables import Table
from sim_harness.run.experiment import Progress

Tick = tuple[State, ContactSet, Array]
"""State, contacts and demand of a prediction."""


def predictions(
    robot: Robot, ticks: Iterable[Tick], law: Law, options: Options, warm: bool = True
) -> Iterator[tuple[float, Prediction]]:
    """Yield (run time [s], prediction) of each tick. warm: whether the previous prediction is the guess"""
    guess: Guess | None = None
    for state, contacts, demand in ticks:
        begin = time.perf_counter()
        answer = predict(robot, state, contacts, demand, law=law, dt=DT, options=options, guess=guess)
        yield time.perf_counter() - begin, answer
        guess = answer.guess if warm else None


@contextmanager
def without_gc() -> Iterator[None]:
    """Collect garbage now, and switch the collector off within the context."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Case(Record, frozen=True):
    """A measured case."""

    law: str
    selection: Selection = Selection.OFF
    # with `PROJECT` the case has feasible demands; with `HOLD` it has raw demands, which the prediction projects
    consistency: Consistency = Consistency.PROJECT


CASES = {
    "no-slip": Case(law="no-slip"),
    "coulomb": Case(law="coulomb"),
    "exact-cone": Case(law="exact-cone"),
    "convex": Case(law="convex", selection=Selection.TORQUE),
    "contact-free": Case(law="contact-free"),
    "convex, stage I": Case(law="convex"),
    "no-slip, selected": Case(law="no-slip", selection=Selection.TORQUE),
    "coulomb, selected": Case(law="coulomb", selection=Selection.TORQUE),
    "exact-cone, selected": Case(law="exact-cone", selection=Selection.TORQUE),
    "no-slip, selected, hold": Case(law="no-slip", selection=Selection.TORQUE, consistency=Consistency.HOLD),
    "coulomb, selected, hold": Case(law="coulomb", selection=Selection.TORQUE, consistency=Consistency.HOLD),
    "convex, selected, hold": Case(law="convex", selection=Selection.TORQUE, consistency=Consistency.HOLD),
}
"""`convex` has the paper's two stages. The shipped controllers use the consistency `hold`."""


class Sample(Record, frozen=True):
    """A tick of the workload. wanted: raw demand (na); consistent: nearest demand that keeps the feet at rest (na)"""

    state: State
    contacts: ContactSet
    wanted: Array
    consistent: Array


def workload(robot: Robot, stance: Array, n: int) -> list[Sample]:
    """Return `STATES` ticks, a period of a sway of the base over the first n contact points."""
    samples = []
    for t in np.arange(STATES) / STATES:
        before, q, after = (sway(robot, stance, t + step) for step in (-DT, 0.0, DT))
        into, out_of = robot.difference(before, q) / DT, robot.difference(q, after) / DT
        contacts = _contacts(robot, q, n)
        v = (into + out_of) / 2
        J = contact_jacobian(robot, robot.terms(q, v).axes, contacts.points)
        # `sway` fixes the centres of the foot spheres; the contact points on the spheres must be at rest
        v -= np.linalg.lstsq(J, J @ v, rcond=None)[0]
        state = State(q=q, v=v)
        wanted = ((out_of - into) / DT)[robot.tree.a]
        sample = Sample(state=state, contacts=contacts, wanted=wanted, consistent=wanted)
        samples.append(msgspec.structs.replace(sample, consistent=consistent(robot, sample, wanted)))
    return samples


def consistent(robot: Robot, sample: Sample, demand: Array) -> Array:
    """Return the nearest demand that keeps the feet of a sample at rest (na)."""
    dynamics = evaluate(robot, sample.state, sample.contacts, dt=DT, ground=Ground.rigid()).dynamics
    nearest, _, _ = project(dynamics, demand, np.ones(len(sample.contacts)), np.inf, closed=True)
    return nearest


def _contacts(robot: Robot, q: Array, n: int) -> ContactSet:
    """Return contacts with gap 0 at the first n contact points."""
    points = contact_places(robot, q)[:n].copy()
    points[:, 2] -= robot.spheres.radii[:n]
    normals = np.tile([0.0, 0.0, 1.0], (n, 1))
    return contacts_from_points(robot, robot.spheres.keys[:n], points, normals, robot.spheres.mu[:n], np.zeros(n))


def bench_laws(robot_name: str, repeat: int, progress: Progress) -> dict[str, Any]:
    """Measure predictions with 1…all contact points; return medians and p99 [µs], and the unit `pin.computeAllTerms` [µs].

    repeat: number of predictions per figure
    """
    robot, stance = load_robot(robot_name)
    counts = range(1, len(robot.spheres.keys) + 1)
    loads = {n: workload(robot, stance, n) for n in counts}
    times: dict[tuple[str, int], list[float]] = {(name, n): [] for name in CASES for n in counts}
    unit: list[float] = []
    for block in range(1 - (-repeat // STATES)):
        with without_gc():
            for (name, n), spent in times.items():
                measured = _time_predictions(robot, loads[n], CASES[name])
                units = _time_unit(robot, loads[n])
                if block > 0:  # the first block warms up
                    spent.extend(measured)
                    unit.extend(units)
        progress("laws", 1)
    figures = {name: {str(n): _percentiles(times[name, n]) for n in counts} for name in CASES}
    return {"unit_us": float(np.median(unit)) * 1e6, "robot": robot.name, "laws": figures}


def _time_predictions(robot: Robot, samples: list[Sample], case: Case) -> list[float]:
    """Return the run times of the predictions of all samples except the first one [s]."""
    options = Options.paper(selection=case.selection, consistency=case.consistency, ground=Ground.rigid())
    raw = case.consistency is Consistency.HOLD
    ticks = ((sample.state, sample.contacts, sample.wanted if raw else sample.consistent) for sample in samples)
    return [seconds for seconds, _ in predictions(robot, ticks, make_law(case.law), options)][1:]


def _time_unit(robot: Robot, samples: list[Sample]) -> list[float]:
    """Return the run times of `pin.computeAllTerms` [s]."""
    spent = []
    for sample in samples:
        begin = time.perf_counter()
        robot.compute_all_terms(sample.state.q, sample.state.v)
        spent.append(time.perf_counter() - begin)
    return spent


def _percentiles(seconds: list[float]) -> dict[str, float]:
    median, p99 = 1e6 * np.percentile(seconds, (50, 99))
    return {"median_us": float(median), "p99_us": float(p99)}


def laws_table(result: dict[str, Any]) -> Table:
    """Return a table of medians in units, and p99 in µs, by number of contacts."""
    unit = result["unit_us"]
    counts = list(next(iter(result["laws"].values())))
    rows = [[f"unit {unit:.2f} µs", *(f"{n} contacts" for n in counts), "p99 µs"]]
    for name, figures in result["laws"].items():
        cells = [f"{figures[n]['median_us'] / unit:.2f}" for n in counts]
        rows.append([name, *cells, f"{figures[counts[-1]]['p99_us']:.1f}"])
    return rows


ROUNDS = 30
"""Measured rounds of each variant."""

Work = tuple[Callable[[], None], int]
"""A function to time, and the number of items that it processes."""


def fastest(variants: dict[str, Work]) -> dict[str, float]:
    """Return the least time per item [s] of each variant. Variants run in turns; the first round is a warm-up."""
    best = dict.fromkeys(variants, np.inf)
    for turn in range(1 + ROUNDS):
        for name, (work, items) in variants.items():
            with without_gc():
                begin = time.perf_counter()
                work()
                spent = (time.perf_counter() - begin) / items
            if turn > 0:
                best[name] = min(best[name], spent)
    return best


PARTS: dict[str, Callable[[Derivatives], object]] = {
    "by the demand": lambda found: found.q_ddot,
    "by the configuration": lambda found: found.q,
    "by the velocity": lambda found: found.v,
    "by friction": lambda found: found.mu,
    "by preferred forces": lambda found: found.preferred,
    "all": lambda found: (found.q_ddot, found.q, found.v, found.mu, found.preferred),
}


def bench_slopes(robot_name: str) -> dict[str, dict[str, float]]:
    """Return for a warm prediction and for each kind of derivatives the time [µs], and its ratio to the prediction.

    The settings are those of `Options()`, on all contact points. Derivatives follow their prediction, as in a loop.
    """
    robot, stance = load_robot(robot_name)
    samples, law, options = workload(robot, stance, len(robot.spheres.keys)), make_law("coulomb"), Options()

    def run(read: Callable[[Derivatives], object] | None) -> None:
        guess = None
        for each in samples:
            before = guess
            answer = predict(robot, each.state, each.contacts, each.wanted, law=law, dt=DT, options=options, guess=before)
            guess = answer.guess
            if read is not None and answer.status.ok:
                read(derivatives(robot, each.state, each.contacts, each.wanted, answer, law=law, options=options, guess=before))

    variants: dict[str, Work] = {"prediction": (partial(run, None), len(samples))}
    variants |= {name: (partial(run, read), len(samples)) for name, read in PARTS.items()}
    spent = {name: 1e6 * seconds for name, seconds in fastest(variants).items()}
    unit = spent["prediction"]
    times = {name: each - unit * (name in PARTS) for name, each in spent.items()}
    return {name: {"us": each, "predictions": each / unit} for name, each in times.items()}


def slopes_table(result: dict[str, dict[str, float]]) -> Table:
    """Return the table of times [µs] and ratios."""
    rows = [["derivatives", "µs", "predictions"]]
    return rows + [[name, f"{each['us']:.1f}", f"{each['predictions']:.2f}"] for name, each in result.items()]


def server_table(result: dict[str, Any]) -> Table:
    """Return a table of the round trips of server and echo."""
    ratio = result["p50_us"] / result["echo_p50_us"]
    return [
        ["1 kHz over ipc", "p50 µs", "p99 µs", "over 1 ms"],
        ["bare echo", f"{result['echo_p50_us']:.0f}", f"{result['echo_p99_us']:.0f}", ""],
        ["torque server", f"{result['p50_us']:.0f}", f"{result['p99_us']:.0f}", f"{result['misses']} of {result['ticks']}"],
        ["ratio", f"{ratio:.2f}", "", ""],
    ]
