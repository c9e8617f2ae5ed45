"""What became of each task: asked, predicted, and what prevents it."""

import numpy as np

from idyn.types import Array, Prediction, Record


class TaskOutcome(Record, frozen=True):
    """Outcome of one task.

    name, level: of the task
    asked: right side of its rows: accelerations [m/s², rad/s²], [N·m] divided by `inertia`, or forces [N] (r)
    predicted: the same quantity as the contact law predicts it (r)
    held: the same quantity without the memory of the contact compliance model (r)
    obstacles: what prevents the task, by decreasing influence; () if it is met
    """

    name: str
    level: int
    asked: Array
    predicted: Array
    held: Array
    obstacles: tuple[str, ...]

    @property
    def missing(self) -> Array:
        """asked − predicted (r)."""
        missing: Array = self.asked - self.predicted
        return missing

    @property
    def met(self) -> bool:
        """Whether nothing prevents the task."""
        return not self.obstacles

    def __str__(self) -> str:
        if self.met:
            return f"{self.name}: met"
        missing, asked = np.abs(self.missing).max(), np.abs(self.asked).max()
        return f"{self.name}: misses {missing:.3g} of {asked:.3g}: {', '.join(self.obstacles)}"


class TaskPrediction(Record, frozen=True):
    """Result of `predict_tasks`.

    prediction: torques, forces and certificate, by the contact law
    q_ddot: demanded joint accelerations [rad/s²] (na)
    outcomes: one for each task, in order
    relaxed: limits that no motion meets together; they are violated as little as possible
    passes: number of predictions made
    """

    prediction: Prediction
    q_ddot: Array
    outcomes: tuple[TaskOutcome, ...]
    relaxed: tuple[str, ...]
    passes: int

    def __getitem__(self, name: str) -> TaskOutcome:
        for outcome in self.outcomes:
            if outcome.name == name:
                return outcome
        raise KeyError(name)

    def __str__(self) -> str:
        lines = [str(outcome) for outcome in self.outcomes]
        return "\n".join([*lines, *(f"violated: {limit}" for limit in self.relaxed)])
