"""Records that pass between the steps of `predict_tasks`."""

from typing import NamedTuple

from idyn.model.robot import Robot
from idyn.tasks.held import HeldMotion
from idyn.tasks.levels import Bounds, Equations, Resolution
from idyn.tasks.modes import ModeRows
from idyn.tasks.motion import Rows, Task
from idyn.tasks.stack import Mode
from idyn.types import Array, Prediction


class Asked(NamedTuple):
    """A task with its equations, and the square roots of its weights (r)."""

    task: Task
    rows: Rows
    roots: Array


class Solved(NamedTuple):
    """Motion and forces nearest to the tasks for given contact modes. directions: of sliding, as used (n, 2)"""

    modes: ModeRows
    directions: Array
    held: HeldMotion
    bounds: Bounds
    levels: list[Equations]
    resolution: Resolution

    def q_ddot(self, robot: Robot) -> Array:
        """Return the joint accelerations [rad/s²] (na)."""
        joints: Array = self.held.acceleration.at(self.resolution.x)[robot.tree.a]
        return joints


class Attempt(NamedTuple):
    """One pass: contact modes, solution of the tasks, and its prediction."""

    modes: tuple[Mode, ...]
    solved: Solved
    answer: Prediction
