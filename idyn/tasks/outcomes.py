"""What became of each task: asked, predicted, and what prevents it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from idyn.tasks.problem import MET
from idyn.types import Array, Prediction, Record


class TaskOutcome(Record, frozen=True, dict=True, gc=True):
    """Outcome of one task.

    name, level: of the task
    asked: right side of its equations: accelerations [m/s², rad/s²], [N·m] divided by `inertia`, or forces [N] (r)
    predicted: the same quantity as the contact law predicts it (r)
    held: the same quantity without the memory of the contact compliance model (r)
    find_obstacles: what prevents the task, for `obstacles`
    """

    name: str
    level: int
    asked: Array
    predicted: Array
    held: Array
    find_obstacles: Callable[[], tuple[str, ...]]

    @property
    def missing(self) -> Array:
        """asked − predicted (r)."""
        missing: Array = self.asked - self.predicted
        return missing

    @cached_property
    def met(self) -> bool:
        """Whether the task is met but for the memory of the contact forces."""
        room = MET * max(1.0, float(np.abs(self.asked).max(initial=0.0)))
        return bool(np.abs(self.asked - self.held).max(initial=0.0) <= room)

    @cached_property
    def obstacles(self) -> tuple[str, ...]:
        """What prevents the task, by decreasing influence; () if it is met. Computed at the first use, in some milliseconds."""
        return () if self.met else self.find_obstacles()

    def __str__(self) -> str:
        if self.met:
            return f"{self.name}: met"
        missing, asked = np.abs(self.asked - self.held).max(), np.abs(self.asked).max()
        return f"{self.name}: misses {missing:.3g} of {asked:.3g}: {', '.join(self.obstacles)}"


class TaskPrediction(Record, frozen=True, dict=True, gc=True):
    """Result of `predict_tasks`.

    prediction: torques, forces and certificate, by the contact law
    q_ddot: demanded joint accelerations [rad/s²] (na)
    relaxed: limits that no motion meets together; they are violated as little as possible
    passes: number of predictions made
    find_outcomes: for `outcomes`
    """

    prediction: Prediction
    q_ddot: Array
    relaxed: tuple[str, ...]
    passes: int
    find_outcomes: Callable[[], tuple[TaskOutcome, ...]]

    @cached_property
    def outcomes(self) -> tuple[TaskOutcome, ...]:
        """One for each task, in order of the levels."""
        return self.find_outcomes()

    def __getitem__(self, name: str) -> TaskOutcome:
        """Return the outcome of the task with this name. Raises KeyError."""
        for outcome in self.outcomes:
            if outcome.name == name:
                return outcome
        raise KeyError(name)

    def __str__(self) -> str:
        lines = [str(outcome) for outcome in self.outcomes]
        return "\n".join([*lines, *(f"violated: {limit}" for limit in self.relaxed)])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the outcomes instead of the functions that find them."""
        raise TypeError("a TaskPrediction cannot be pickled; pickle its `prediction`")
