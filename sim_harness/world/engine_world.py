"""The world of our engines: a robot or a scene that one of them moves on, step by step. Noise-free and deterministic.

A step is semi-implicit: the engine finds v⁺ from the dynamics and the contacts at q, then q⁺ = q ⊕ v⁺ dt,
or as the engine says that q drifts; springs and dampers of joints are those at its end. Modelling error: first order in dt.
"""

import time
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from idyn.types import Array, ContactSet, State
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution, Integrator, Yielding
from sim_harness.engines.sap.motion import SCHEMES
from sim_harness.world.bodies import Bodies, Elsewhere, forward_problem
from sim_harness.world.compliant_rows import taking_compliance
from sim_harness.world.joints import solve_with_friction
from sim_harness.world.world import Push, Step, Taken, Touching, step_of

B = TypeVar("B", bound=Bodies)


class EngineWorld(Generic[B]):
    """A `World` with one of `sim_harness.engines`."""

    def __init__(self, bodies: B, engine: Engine) -> None:
        self.bodies, self.robot, self.terrain = bodies, bodies.robot, bodies.terrain
        self.engine = taking_compliance(engine)
        self._integrates, self._taken = isinstance(engine, Integrator), taken_by(engine)
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
        self._move(self.bodies.after(self.q, solution.v_plus, solution.course, dt))
        return step_of(problem, solution, touching, self._taken, seconds)

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
            system=Elsewhere(bodies=bodies, q=q, touching=touching),
        )

    def _solve(self, problem: ForwardProblem) -> ForwardSolution:
        problem, friction = self.bodies.in_joints(problem, self.q, self._integrates)
        return self.engine.solve(problem) if friction is None else solve_with_friction(self.engine, problem, friction)


def taken_by(engine: Engine) -> Taken:
    """Where in a step an engine takes forces."""
    pressing = (engine.rows_at, engine.contacts_at) if isinstance(engine, Yielding) else (0.0, 0.0)
    if not isinstance(engine, Integrator):
        return Taken(0.0, 1.0, 1.0, *pressing)
    share = SCHEMES[engine.scheme].theta
    return Taken(share, share, share, *pressing)
