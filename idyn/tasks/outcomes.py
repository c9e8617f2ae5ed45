"""Outcomes of tasks: asked, predicted, and what prevents them."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from idyn.tasks.stack import MODES, Mode
from idyn.types import Array, Prediction, Record

MET = 1e-6
"""Error of a task that counts as zero, relative to the larger of 1 and what is asked."""


class TaskOutcome(Record, frozen=True, kw_only=False, dict=True, gc=True):
    """Outcome of one task.

    name, level, number: of the task, in order of the levels
    values: asked, held, predicted (3, r)
    missed: largest size of `missing`; reached: whether `held` is what is asked
    changed: what the law predicts otherwise, so that `predicted` is not `held`
    find_obstacles: for `obstacles`, of the task with a number
    """

    name: str
    level: int
    values: Array
    missed: float
    reached: bool
    changed: tuple[str, ...]
    number: int
    find_obstacles: Callable[[int], tuple[str, ...]]

    @property
    def asked(self) -> Array:
        """Right side of its equations: accelerations [m/s², rad/s²], [N·m] divided by `inertia`, or forces [N] (r)."""
        return self.values[0]

    @property
    def held(self) -> Array:
        """The same without the memory of the contact compliance model, and in the contact modes of the solution (r)."""
        return self.values[1]

    @property
    def predicted(self) -> Array:
        """The same as the contact law predicts it (r)."""
        return self.values[2]

    @property
    def missing(self) -> Array:
        """asked − predicted (r)."""
        missing: Array = self.asked - self.predicted
        return missing

    @property
    def met(self) -> bool:
        """Whether the task is met, but for the memory of the contact forces."""
        return self.reached and not self.changed

    @cached_property
    def obstacles(self) -> tuple[str, ...]:
        """What prevents the task, by decreasing influence; () if it is met. Computed at the first use."""
        return self.changed if self.reached else (*self.changed, *self.find_obstacles(self.number))

    def __str__(self) -> str:
        if self.met:
            return f"{self.name}: met"
        return f"{self.name}: misses {self.missed:.3g} of {np.abs(self.asked).max():.3g}: {', '.join(self.obstacles)}"


class TaskPrediction(Record, frozen=True, dict=True, gc=True):
    """Result of `predict_tasks`.

    prediction: torques, forces and certificate, by the contact law
    q_ddot: demanded joint accelerations [rad/s²] (na)
    kinds: contact modes of the solution, numbers of `idyn.tasks.stack.MODES` (n)
    relaxed: limits that no motion meets together; they are violated as little as possible. "order of the levels", where limits
        nearly contradict each other and a weighted sum of all errors and violations was made small instead
    passes: number of predictions made
    find_outcomes: for `outcomes`
    """

    prediction: Prediction
    q_ddot: Array
    kinds: Array
    relaxed: tuple[str, ...]
    passes: int
    find_outcomes: Callable[[], tuple[TaskOutcome, ...]]

    @property
    def modes(self) -> Mapping[str, Mode]:
        """Contact modes of the solution, by key."""
        return dict(zip(self.prediction.keys, map(MODES.__getitem__, self.kinds.tolist()), strict=True))

    @cached_property
    def outcomes(self) -> tuple[TaskOutcome, ...]:
        """One for each task, in order of the levels."""
        return self.find_outcomes()

    def __getitem__(self, name: str) -> TaskOutcome:
        """Return the outcome of the task with this name. Raises KeyError unless exactly one task has it."""
        found = [outcome for outcome in self.outcomes if outcome.name == name]
        if len(found) != 1:
            raise KeyError(f"{len(found)} tasks have the name {name!r}" + "; give each task a `name`" * (len(found) > 1))
        return found[0]

    def __str__(self) -> str:
        lines = [str(outcome) for outcome in self.outcomes]
        return "\n".join([*lines, *(f"violated: {limit}" for limit in self.relaxed)])

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be pickled: the functions that find outcomes belong to the robot of this process."""
        raise TypeError("a TaskPrediction cannot be pickled; pickle its `prediction`")
