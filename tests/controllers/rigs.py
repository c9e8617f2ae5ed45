"""Test rigs: controllers of shipped robots with any settings, without files."""

import numpy as np

from controllers.build import load_controller
from controllers.config.tables import merged
from controllers.controller import Controller
from idyn.types import Array, State

RIGID = {
    "ground__kind": "rigid",
    "ground__gap_noise": 0.0,
    "ground__drift": False,  # worlds of tests are time-steppers whose step is the period
    "torque_feedback__kp": 0.0,
    "torque_feedback__kd": 0.0,
}
"""The law to the letter: what it says and what the rigid world does are the same to rounding errors."""


def controller(name: str = "solo12", **changes: object) -> Controller:
    """The shipped controller with some settings replaced, as if its file said so; `table__field` reaches into a table."""
    data: dict[str, object] = {}
    for key, value in changes.items():
        table, _, field = key.rpartition("__")
        data = merged(data, {table: {field: value}} if table else {field: value})
    return load_controller(name, data)


def at_rest(c: Controller) -> State:
    return State(q=c.stance.copy(), v=np.zeros(c.robot.nv))


def nudged(c: Controller, rng: np.random.Generator, size: float = 0.02) -> State:
    """A state near the stance."""
    q = c.robot.integrate(c.stance, size * rng.normal(size=c.robot.nv))
    v: Array = size * rng.normal(size=c.robot.nv)
    return State(q=q, v=v)
