"""The simulated robot: a state that an engine moves on, step by step. Noise-free and deterministic.

A step is semi-implicit: the engine finds v⁺ from the dynamics and the contacts at q, then q⁺ = q ⊕ v⁺ dt.
Modelling error: first order in dt. Joint limits and contact of anything but the robot's contact places, with the terrain and
with boxes of other bodies, are not simulated.
"""

from collections.abc import Sequence

import numpy as np

from idyn.contacts import contacts_from_geometry
from idyn.errors import InputError
from idyn.robot import Robot
from idyn.status import Status
from idyn.terrain import Terrain
from idyn.types import Array, ContactSet, DynamicsTerms, Record, State
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution
from sim_harness.jacobian import contact_jacobian, generalised_force, world_impulses
from sim_harness.joint_friction import JointFriction, solve_with_friction

MARGIN = 0.01
"""Contacts nearer than this to the terrain are handed to the engine [m]: what a foot of 10 m/s passes in 1 ms."""


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


class StepResult(Record, frozen=True):
    """What happened in one step.

    contacts: the contacts the engine was given, at the beginning of the step
    impulse: on the robot, world frame [N·s] (n, 3)
    force: on the robot along n, s and t = n × s of each contact, mean over the step [N] (n, 3)
    status: how the engine ended
    iterations: of the engine
    dynamics, contact: residuals, see `ForwardSolution`
    """

    contacts: ContactSet
    impulse: Array
    force: Array
    status: Status
    iterations: int
    dynamics: float
    contact: float

    @property
    def normal_force(self) -> Array:
        """[N] (n)"""
        return self.force[:, 0]


class World:
    """Owns the state (q, v), the time and the contacts of that state; read them, never write them.

    robot: the world's own instance, shared with nobody (it is also the scratch)
    mu: friction coefficients instead of the terrain's and the robot's own (one per contact place, then one per pair)
    friction: in the joints, none by default
    """

    def __init__(
        self,
        robot: Robot,
        terrain: Terrain,
        engine: Engine,
        q: Array,
        *,
        mu: Array | None = None,
        friction: JointFriction | None = None,
        margin: float = MARGIN,
    ) -> None:
        self.robot = robot
        self.terrain = terrain
        self.engine = engine
        self.margin = margin
        self._mu = mu
        self._friction = friction
        self.reset(q)

    def reset(self, q: Array, v: Array | None = None) -> None:
        """Put the robot at (q, v), at rest without v, and the clock to 0. Raises InputError for wrong shapes."""
        v = np.zeros(self.robot.nv) if v is None else v
        for name, value, size in (("q", q, self.robot.nq), ("v", v, self.robot.nv)):
            if value.shape != (size,) or not np.isfinite(value).all():
                raise InputError(name, f"expected {size} finite numbers, got shape {value.shape}")
        self.t = 0.0
        self._move(np.array(q, dtype=np.float64), np.array(v, dtype=np.float64))

    @property
    def state(self) -> State:
        return State(q=self.q, v=self.v)

    def step(self, tau: Array, dt: float, pushes: Sequence[Push] = ()) -> StepResult:
        """Apply the joint torques tau [N·m] (na) and the pushes for dt [s]."""
        contacts = self.contacts
        terms = self.robot.terms(self.q, self.v)
        force = np.zeros(self.robot.nv)
        force[self.robot.a] = tau
        for push in pushes:
            force += self._force_of(push, terms, dt)
        problem = ForwardProblem(
            M=terms.M,
            h=terms.h,
            v=self.v,
            J=contact_jacobian(terms.axes, self.robot.support, contacts),
            force=force,
            mu=contacts.mu,
            gaps=contacts.gaps,
            dt=dt,
        )
        friction = self._friction
        solution = self.engine.solve(problem) if friction is None else solve_with_friction(self.engine, problem, friction)
        self.t += dt
        self._move(self.robot.integrate(self.q, solution.v_plus * dt), solution.v_plus)
        return _result(contacts, solution, dt)

    def _force_of(self, push: Push, terms: DynamicsTerms, dt: float) -> Array:
        """Generalised force of a push, scaled by the share of the step [t, t + dt] in which it acts (nv)."""
        share = (min(self.t + dt, push.start + push.duration) - max(self.t, push.start)) / dt
        if share <= 0:
            return np.zeros(self.robot.nv)
        joint = self.robot.joint_of_frame(push.frame)
        rotations, origins = self.robot.place(self.q)
        point = origins[joint] + rotations[joint] @ np.array(push.point)
        return generalised_force(terms.axes, self.robot.support, joint, point, share * np.array(push.force))

    def _move(self, q: Array, v: Array) -> None:
        self.q, self.v = q, v
        self.contacts = contacts_from_geometry(self.robot, q, self.terrain, margin=self.margin, mu=self._mu)


def _result(contacts: ContactSet, solution: ForwardSolution, dt: float) -> StepResult:
    return StepResult(
        contacts=contacts,
        impulse=world_impulses(solution.p, contacts.tangents, contacts.normals),
        force=solution.p[:, [2, 0, 1]] / dt,
        status=solution.status,
        iterations=solution.iterations,
        dynamics=solution.dynamics,
        contact=solution.contact,
    )
