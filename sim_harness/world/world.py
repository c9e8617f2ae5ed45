"""The interface of a simulated world, and the result of a step; the worlds are listed in `sim_harness.world.worlds`."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from idyn.contact.terrain import Terrain
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.status import Status
from idyn.terms.inputs import check_turns
from idyn.types import Array, ContactSet, Record, State
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.world.jacobian import world_impulses

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


class Touching(Record, frozen=True):
    """The contacts of an instant (n).

    contacts: first and second joint and all that an engine needs
    pairs: of scenes, indices of the two bodies, the second `GROUND` for the ground (n, 2)
    stiffness [N/m], dissipation [s]: of scenes, inf and 0 where neither surface has any (n)
    """

    contacts: ContactSet
    pairs: Array | None = None
    stiffness: Array | None = None
    dissipation: Array | None = None


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


class Taken(NamedTuple):
    """Where in a step an engine's world takes forces, 0 at its beginning, 1 at its end: M and h at this configuration, springs,
    dampers, and along which Jacobians rows and contacts press."""

    bodies: float
    springs: float
    dampers: float
    rows: float
    contacts: float = 0.0


class Step(StepResult, frozen=True):
    """A step with what was asked and answered.

    problem: what the engine was asked, before joints were put into it; solution: its answer
    taken: where in the step forces are taken
    seconds: of this machine, that the engine took [s]
    """

    touching: Touching
    problem: ForwardProblem
    solution: ForwardSolution
    taken: Taken
    seconds: float


def step_of(problem: ForwardProblem, solution: ForwardSolution, touching: Touching, taken: Taken, seconds: float) -> Step:
    c, p, force = touching.contacts, solution.p, np.empty_like(solution.p)
    force[:, 0], force[:, 1:] = p[:, 2], p[:, :2]
    force /= problem.dt
    return Step(
        contacts=c,
        impulse=world_impulses(p, c.tangents, c.normals),
        force=force,
        status=solution.status,
        iterations=solution.iterations,
        dynamics=solution.dynamics,
        touching=touching,
        problem=problem,
        solution=solution,
        taken=taken,
        seconds=seconds,
    )


class World(Protocol):
    """Owns the state (q, v), the time t [s] and the contacts of that state; read them, never write them.

    robot: the world's own instance, not shared (it is also the scratch)
    terrain: its ground
    q, v: as in `State` (nq), (nv)
    """

    robot: Robot
    terrain: Terrain
    state: State
    q: Array
    v: Array
    t: float

    @property
    def contacts(self) -> ContactSet:
        """From the geometry of robot and terrain, whatever the world itself makes of them."""
        ...

    def reset(self, q: Array, v: Array | None = None) -> None:
        """Put the bodies at (q, v), at rest without v, and the clock to 0. Raises InputError for what they cannot be at."""
        ...

    def step(self, tau: Array | None = None, dt: float | None = None, pushes: Sequence[Push] = ()) -> StepResult:
        """Apply the joint torques tau [N·m] (na), none without, and the pushes for dt [s], without for the scene's own."""
        ...


def checked_state(robot: Robot, q: Array, v: Array | None) -> State:
    """A copy of (q, v), at rest without v. Raises InputError for wrong shapes, values that are not
    finite and quaternions that are not of unit length."""
    v = np.zeros(robot.nv) if v is None else v
    for name, value, size in (("q", q, robot.nq), ("v", v, robot.nv)):
        if value.shape != (size,) or not np.isfinite(value).all():
            raise InputError(name, f"expected {size} finite numbers, got shape {value.shape}")
    state = State(q=np.array(q, dtype=np.float64), v=np.array(v, dtype=np.float64))
    check_turns(robot, state.q)
    return state
