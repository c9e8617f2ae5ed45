"""Benchmark of derivatives, compared with the prediction that they belong to."""

from collections.abc import Callable
from functools import partial

from controllers.robot.load import load_robot
from idyn.differentiation.derivatives import Derivatives, derivatives
from idyn.laws import make_law
from idyn.options import Options
from idyn.prediction.predict import predict
from sim_harness.bench.batch_bench import Work, fastest
from sim_harness.bench.laws import workload
from sim_harness.measure.run_time import DT
from sim_harness.report.tables import Table

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
