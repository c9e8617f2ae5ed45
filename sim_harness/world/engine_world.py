"""A robot that one of our engines moves on, step by step. Noise-free and deterministic.

A step is semi-implicit: the engine finds v⁺ from the dynamics and the contacts at q, then q⁺ = q ⊕ v⁺ dt,
or as the engine says that q drifts.
Modelling error: first order in dt. Joint limits and contact of anything but the robot's contact places, with the terrain and
with boxes of other bodies, are not simulated.
"""

from collections.abc import Sequence

import numpy as np

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, DynamicsTerms, State
from sim_harness.engines.engine import Engine, ForwardSolution, Integrator, Yielding
from sim_harness.world.engine_step import closed_chains, forward_problem, state_after, with_system
from sim_harness.world.jacobian import generalised_force, world_impulses
from sim_harness.world.joint_friction import JointFriction, solve_with_friction
from sim_harness.world.world import MARGIN, Push, StepResult, checked_state

NEARBY = 1e-4
"""How far off gaps are looked at to see how they bend [m or rad]: Ṅ v is then right to 1e-7 of v²."""


class EngineWorld:
    """A `World` with one of `sim_harness.engines`.

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
        self._looks_elsewhere = isinstance(engine, Integrator | Yielding)
        self.reset(q)

    def reset(self, q: Array, v: Array | None = None) -> None:
        state = checked_state(self.robot, q, v)
        self.t = 0.0
        self._move(state.q, state.v)

    @property
    def state(self) -> State:
        return State(q=self.q, v=self.v)

    def step(self, tau: Array, dt: float, pushes: Sequence[Push] = ()) -> StepResult:
        contacts, rows = self.contacts, closed_chains(self.robot, self.q)
        terms = self.robot.terms(self.q, self.v)
        force = np.zeros(self.robot.nv)
        force[self.robot.tree.a] = tau
        for push in pushes:
            force += self._force_of(push, terms, dt)
        problem = forward_problem(self.robot, terms, self.v, contacts, force, dt, self._bias, rows)
        if self._looks_elsewhere:
            problem = with_system(problem, self.robot, self.q, contacts)
        friction = self._friction
        solution = self.engine.solve(problem) if friction is None else solve_with_friction(self.engine, problem, friction)
        self.t += dt
        state = state_after(self.robot, self.q, solution, dt)
        self._move(state.q, state.v)
        return _result(contacts, solution, dt)

    def _force_of(self, push: Push, terms: DynamicsTerms, dt: float) -> Array:
        """Generalised force of a push, scaled by the share of the step [t, t + dt] in which it acts (nv)."""
        share = push.share(self.t, dt)
        if share == 0:
            return np.zeros(self.robot.nv)
        joint = self.robot.joint_of_frame(push.frame)
        rotations, origins = self.robot.place(self.q)
        point = origins[joint] + rotations[joint] @ np.array(push.point)
        return generalised_force(terms.axes, self.robot.tree.support, joint, point, share * np.array(push.force))

    def _bias(self) -> Array:
        """Ṅ v, how the gaps bend along the motion, by central differences [m/s²] (n)."""
        span = NEARBY / max(1.0, float(np.abs(self.v).max()))
        bend = -2.0 * self.contacts.gaps
        for side in (-span, span):
            q = self.robot.integrate(self.q, side * self.v)
            near = contacts_from_geometry(self.robot, q, self.terrain, margin=np.inf, mu=self._mu)
            gaps = dict(zip(near.keys, near.gaps, strict=True))
            bend += [gaps[key] for key in self.contacts.keys]
        return bend / span**2

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
    )
