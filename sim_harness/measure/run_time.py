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
