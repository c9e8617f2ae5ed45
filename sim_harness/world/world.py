"""A simulated world as the robot's side sees it; which ones there are: `sim_harness.world.worlds`."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from idyn.contact.terrain import Terrain
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.status import Status
from idyn.terms.inputs import check_turns
from idyn.types import Array, ContactSet, Record, State

MARGIN = 0.01
"""Contacts nearer than this to the terrain are reported and simulated [m]: what a foot of 10 m/s passes in 1 ms."""


class Push(Record, frozen=True):
    """A force from outside, constant over an interval.

    frame: any frame of the body that is pushed
    force: in the world frame [N] (3)
    point: where it acts, in the frame of the joint that carries the body (of a floating base: the base frame) [m] (3)
    start, duration: [s]; steps that the interval covers in part get their share, so the momentum is force · duration
    """

    frame: str
    force: tuple[float, float, float]
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    start: float = 0.0
    duration: float = np.inf

    def share(self, t: float, dt: float) -> float:
        """How much of the step [t, t + dt] it acts in, 0 to 1."""
        return max(min(t + dt, self.start + self.duration) - max(t, self.start), 0.0) / dt


class StepResult(Record, frozen=True):
    """What happened in one step.

    contacts: those at the beginning of the step
    impulse: on the robot, world frame [N·s] (n, 3)
    force: on the robot along n, s and t = n × s of each contact, mean over the step [N] (n, 3)
    status: how the engine ended
    iterations: of the engine
    dynamics: by how much the equation of motion was missed, ‖·‖∞ [N·s, N·m·s]
    """

    contacts: ContactSet
    impulse: Array
    force: Array
    status: Status
    iterations: int
    dynamics: float

    @property
    def normal_force(self) -> Array:
        """[N] (n)"""
        return self.force[:, 0]


class World(Protocol):
    """Owns the state (q, v), the time t [s] and the contacts of that state; read them, never write them.

    robot: the world's own instance, shared with nobody (it is also the scratch)
    terrain: its ground
    q, v: as in `State` (nq), (nv)
    contacts: from the robot's geometry and the terrain's, whatever the world itself makes of them
    """

    robot: Robot
    terrain: Terrain
    q: Array
    v: Array
    t: float
    contacts: ContactSet

    @property
    def state(self) -> State:
        """The state as one record."""
        ...

    def reset(self, q: Array, v: Array | None = None) -> None:
        """Put the robot at (q, v), at rest without v, and the clock to 0. Raises InputError for wrong shapes."""
        ...

    def step(self, tau: Array, dt: float, pushes: Sequence[Push] = ()) -> StepResult:
        """Apply the joint torques tau [N·m] (na) and the pushes for dt [s]."""
        ...


def checked_state(robot: Robot, q: Array, v: Array | None) -> State:
    """A copy of (q, v), at rest without v. Raises InputError for wrong shapes, numbers and turns that are none."""
    v = np.zeros(robot.nv) if v is None else v
    for name, value, size in (("q", q, robot.nq), ("v", v, robot.nv)):
        if value.shape != (size,) or not np.isfinite(value).all():
            raise InputError(name, f"expected {size} finite numbers, got shape {value.shape}")
    state = State(q=np.array(q, dtype=np.float64), v=np.array(v, dtype=np.float64))
    check_turns(robot, state.q)
    return state
