"""Worlds by engine: the project's engines share one world class, MuJoCo has its own.

A step is semi-implicit: the engine computes v⁺ at q, then q⁺ = q ⊕ v⁺ dt, or q ⊕ drift dt. It is of first order in dt.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, TypeVar, get_args

import numpy as np

from controllers.config.tables import kind_of
from idyn.contact.terrain import Terrain
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, State
from sim_harness.engines.dissipation import Dissipation
from sim_harness.engines.engine import CompliantEngine, Engine, ForceTimes, ForwardProblem, ForwardSolution, Integrator
from sim_harness.engines.first_order import FirstOrder
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.engines.no_slip import NoSlip
from sim_harness.engines.penalty import Penalty
from sim_harness.engines.sap import Sap
from sim_harness.engines.viscous import Viscous
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.shapes import Shape
from sim_harness.world.bodies import Bodies, JointFriction, MovedBodies, RobotBodies, forward_problem, solve_with_friction
from sim_harness.world.world import Push, Step, Touching, World, step_of

B = TypeVar("B", bound=Bodies)


class EngineWorld(Generic[B]):
    """A `World` with one of `sim_harness.engines`."""

    def __init__(self, bodies: B, engine: Engine) -> None:
        self.bodies, self.robot, self.terrain = bodies, bodies.robot, bodies.terrain
        self.engine = engine
        self._integrates = isinstance(engine, Integrator)
        self._force_times = engine.force_times if isinstance(engine, CompliantEngine) else ForceTimes()
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
            stiffness=touching.stiffness if soft else None,
            dissipation=touching.dissipation if soft else None,
            system=MovedBodies(bodies=bodies, q=q),
        )

    def _solve(self, problem: ForwardProblem) -> ForwardSolution:
        problem, friction = self.bodies.with_joints(problem, self.q, self._integrates)
        return self.engine.solve(problem) if friction is None else solve_with_friction(self.engine, problem, friction)


OwnEngine = PolygonLcp | Penalty | Dissipation | NoSlip | Viscous | Sap | FirstOrder | Newton
AnyEngine = OwnEngine | MujocoSettings  # `[engine]` of an experiment

ENGINES: dict[str, type[Engine]] = {str(kind_of(each)): each for each in get_args(OwnEngine)}


def check_engine(engine: AnyEngine) -> None:
    """Raise ConfigError when the package of the engine is not installed."""
    if isinstance(engine, MujocoSettings):
        import sim_harness.mujoco.door  # noqa: F401, PLC0415 - raises ConfigError without MuJoCo


def build_world(
    engine: Engine | MujocoSettings,
    robot: Robot,
    terrain: Terrain,
    q: Array,
    *,
    mu: Array | None = None,
    friction: JointFriction | None = None,
    hulls: Sequence[Shape] = (),
    file: Path | None = None,
) -> World:
    """Return the world of an engine with the robot at rest at q.

    mu, friction, hulls: see `RobotBodies`; file: MJCF or URDF whose own world MuJoCo simulates, on flat ground
    Raises InputError for a wrong mu or state, ConfigError for a robot that MuJoCo does not support, ModelError for such a file.
    """
    places = len(robot.contact_names)
    if mu is not None and not (isinstance(mu, np.ndarray) and mu.shape == (places,) and np.all(mu >= 0.0)):
        raise InputError("mu", f"expected {places} friction coefficients ≥ 0, got {mu}")
    bodies = RobotBodies(robot, terrain, q, mu, friction, hulls)
    if not isinstance(engine, MujocoSettings):
        return EngineWorld(bodies, engine)
    if file is not None:
        from sim_harness.mujoco.file_world import file_world  # noqa: PLC0415 - an optional package

        return file_world(bodies, file, -float(terrain.query(np.zeros((1, 3)))[0][0]))[0]
    from sim_harness.mujoco.mujoco_world import robot_world  # noqa: PLC0415 - an optional package

    return robot_world(bodies, engine)
