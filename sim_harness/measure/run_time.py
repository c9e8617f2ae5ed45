"""Run time of predictions."""

import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Array, ContactSet, Guess, Prediction, State
from sim_harness.measure.metrics import Summary

REAL_TIME = 0.995
"""Least `pace` of a run that counts as real time."""


def slowness(summary: Summary, period: float) -> str:
    """Return a message that explains why a paced run was slower than real time, '' if it was not. period: of the ticks [s]"""
    if not summary.pace < REAL_TIME:
        return ""
    times = (
        f"p50 {summary.round_trip_p50:.0f} µs, p99 {summary.round_trip_p99:.0f} µs" if summary.round_trip_p50 else "no replies"
    )
    return (
        f"{summary.label}: this machine did not keep {1 / period:g} Hz; the world ran at {summary.pace:.2f} × real time. "
        f"Of {round(summary.seconds / period)} replies {summary.late} took longer than a period ({times}); "
        f"the longest tick took {1e3 * summary.longest_tick:.0f} ms."
    )


DT = 1e-3
"""Period of the predictions [s]."""

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
