"""World of the project's engines: simulates a robot or a scene with one engine. Noise-free and deterministic.

A step is semi-implicit: the engine computes v⁺ from the dynamics and contacts at q, then q⁺ = q ⊕ v⁺ dt, or q ⊕ drift dt when
its solution has a `ForwardSolution.drift`. Joint springs and dampers are evaluated at the end of the step.

Modelling error: first order in dt.
"""

import time
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from idyn.types import Array, ContactSet, State
from sim_harness.engines.engine import CompliantEngine, Engine, ForwardProblem, ForwardSolution, Integrator
from sim_harness.engines.sap.motion import SCHEMES
from sim_harness.world.bodies import Bodies, MovedBodies, forward_problem
from sim_harness.world.compliant_rows import with_compliance
from sim_harness.world.joints import solve_with_friction
from sim_harness.world.world import ForceTimes, Push, Step, Touching, step_of

B = TypeVar("B", bound=Bodies)


class EngineWorld(Generic[B]):
    """A `World` with one of `sim_harness.engines`."""

    def __init__(self, bodies: B, engine: Engine) -> None:
        self.bodies, self.robot, self.terrain = bodies, bodies.robot, bodies.terrain
        self.engine = with_compliance(engine)
        self._integrates, self._force_times = isinstance(engine, Integrator), force_times_of(engine)
        self.reset(bodies.start.q, bodies.start.v)

    def reset(self, q: Array, v: Array | None = None) -> None:
        state = self.bodies.checked(q, v)
        self.t = 0.0
        self._move(state)

    def _move(self, state: State) -> None:
        self.state, self.q, self.v = state, state.q, state.v
        self._touching = self.bodies.touching(state.q)

    @property
    def contacts(self) -> ContactSet:
        return self._touching.contacts

    def step(self, tau: Array | None = None, dt: float | None = None, pushes: Sequence[Push] = ()) -> Step:
        dt = self.bodies.dt if dt is None else dt
        touching = self._touching
        problem = self._problem(touching, tau, dt, pushes)
        begin = time.perf_counter()
        solution = self._solve(problem)
        seconds = time.perf_counter() - begin
        self.t += dt
        self._move(self.bodies.after(self.q, solution.v_plus, solution.configuration_velocity, dt))
        return step_of(problem, solution, touching, self._force_times, seconds)

    def _problem(self, touching: Touching, tau: Array | None, dt: float, pushes: Sequence[Push]) -> ForwardProblem:
        bodies, q, v, contacts = self.bodies, self.q, self.v, touching.contacts
        terms = bodies.terms(q, v)
        soft = touching.stiffness is not None and bool(np.isfinite(touching.stiffness).any())
        return forward_problem(
            bodies.robot,
            terms,
            v,
            contacts,
            bodies.force(terms[2], self.state, (self.t, dt), tau, pushes),
            dt,
            rows=bodies.rows(q, terms[2]),
            bias=bodies.bias(q, v, contacts),
            stiffness=touching.stiffness if soft else None,
            dissipation=touching.dissipation if soft else None,
            system=MovedBodies(bodies=bodies, q=q, touching=touching),
        )

    def _solve(self, problem: ForwardProblem) -> ForwardSolution:
        problem, friction = self.bodies.with_joints(problem, self.q, self._integrates)
        return self.engine.solve(problem) if friction is None else solve_with_friction(self.engine, problem, friction)


def force_times_of(engine: Engine) -> ForceTimes:
    """Return the times at which an engine evaluates forces."""
    pressing = (engine.rows_at, engine.contacts_at) if isinstance(engine, CompliantEngine) else (0.0, 0.0)
    if not isinstance(engine, Integrator):
        return ForceTimes(0.0, 1.0, 1.0, *pressing)
    share = SCHEMES[engine.scheme].theta
    return ForceTimes(share, share, share, *pressing)
