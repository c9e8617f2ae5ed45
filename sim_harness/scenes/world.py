"""A scene that one of our engines moves on, step by step. Deterministic.

A step is semi-implicit as that of `EngineWorld`: v⁺ from the dynamics and the contacts at q, then q⁺ = q ⊕ v⁺ dt, or as the
engine says; springs and dampers of joints are those at its end.
"""

import time

import msgspec
import numpy as np

from idyn.types import Array, DynamicsTerms, Record, State
from sim_harness.engines.bilateral import check_rows
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution, Integrator, Rows, Springs, Yielding
from sim_harness.engines.sap.motion import SCHEMES
from sim_harness.scenes.bodies.contacts import Geometry, Touching
from sim_harness.scenes.bodies.model import SceneModel
from sim_harness.scenes.bodies.rows import Constraints
from sim_harness.scenes.bodies.settings import ForceSettings, SceneSettings
from sim_harness.scenes.residuals import Taken
from sim_harness.world.compliant_rows import taking_compliance
from sim_harness.world.engine_step import forward_problem, moved_contacts
from sim_harness.world.joint_friction import JointFriction, solve_with_friction
from sim_harness.world.joint_springs import with_springs
from sim_harness.world.world import checked_state


class Step(Record, frozen=True):
    """What happened in one step, from the bodies and their joints at its beginning.

    touching: the contacts at its beginning
    problem: what the engine was asked, before joints were put into it; solution: its answer
    taken: where in the step forces are taken
    seconds: of this machine, that the engine took [s]
    """

    touching: Touching
    problem: ForwardProblem
    solution: ForwardSolution
    taken: Taken
    seconds: float


class Bodies(Record, frozen=True):
    """The scene at configurations beside q, a `System`; touching: the contacts of the step."""

    model: SceneModel
    constraints: Constraints
    q: Array
    touching: Touching

    def terms(self, shift: Array, v: Array) -> tuple[Array, Array]:
        M, h, _ = self.model.terms(self.model.robot.integrate(self.q, shift), v)
        return M, h

    def rows(self, shift: Array) -> Rows | None:
        moved = self.model.moved(self.q, shift)
        rows = self.constraints.rows(moved, self._axes(moved))
        if rows is not None:
            self.model.along_axes_at(self.q, moved, rows.G)
        return rows

    def contacts(self, shift: Array) -> tuple[Array, Array]:
        model, moved = self.model, self.model.moved(self.q, shift)
        touching, axes = self.touching, self._axes(moved)
        J, gaps = moved_contacts(model.robot, touching.contacts, self.q, moved, axes, touching.pivots)
        return model.along_axes_at(self.q, moved, J), gaps

    def _axes(self, moved: Array) -> Array:
        return self.model.robot.terms(moved, np.zeros(self.model.robot.nv)).axes


class SceneWorld:
    """A scene in the hands of an engine. It owns the state q (nq), v (nv) and the time t [s]; read them, never write them."""

    def __init__(self, settings: SceneSettings, engine: Engine) -> None:
        """settings: those of `load_scene`"""
        self.model = SceneModel(settings)
        self.engine = engine
        self._geometry = Geometry(self.model)
        self._constraints = Constraints(self.model)
        effects = self.model.effects
        self._integrates = isinstance(engine, Integrator)
        share = SCHEMES[engine.scheme].theta if isinstance(engine, Integrator) else 0.0
        pressing = (engine.rows_at, engine.contacts_at) if isinstance(engine, Yielding) else (0.0, 0.0)
        self._taken = Taken(share, share, share, *pressing) if self._integrates else Taken(0.0, 1.0, 1.0, *pressing)
        self._solver = taking_compliance(engine)
        viscous = np.zeros_like(effects.viscous) if self._integrates else effects.viscous
        self._friction = JointFriction(viscous=viscous, coulomb=effects.coulomb)
        self._rubs = bool(viscous.any() or effects.coulomb.any())
        start = self.model.start
        self.reset(start.q, start.v)

    def reset(self, q: Array, v: Array) -> None:
        """Put the bodies at (q, v) and the clock to 0. Raises InputError for no state, and where closures contradict."""
        state = checked_state(self.model.robot, q, v)
        M, _, axes = self.model.terms(state.q, state.v)
        rows = self._constraints.rows(state.q, axes)
        if rows is not None:
            check_rows(M, rows)
        self._state, self.t = state, 0.0

    @property
    def state(self) -> State:
        return self._state

    def step(self) -> Step:
        """Move on by the scene's dt."""
        dt, q = self.model.settings.dt, self._state.q
        touching = self._geometry.touching(q)
        problem = self._problem(touching)
        begin = time.perf_counter()
        solution = self._solve(problem)
        seconds = time.perf_counter() - begin
        self._state = self.model.after(q, solution.v_plus, solution.course, dt)
        self.t += dt
        return Step(touching=touching, problem=problem, solution=solution, taken=self._taken, seconds=seconds)

    def _problem(self, touching: Touching) -> ForwardProblem:
        model, (q, v) = self.model, (self._state.q, self._state.v)
        M, h, axes = model.terms(q, v)
        force = applied_force(model, q, axes, self.t + model.settings.dt / 2)
        plain = forward_problem(model.robot, DynamicsTerms(M=M, h=h, axes=axes), v, touching.contacts, force, model.settings.dt)
        soft = bool(np.isfinite(touching.stiffness).any())
        return msgspec.structs.replace(
            plain,
            rows=self._constraints.rows(q, axes),
            stiffness=touching.stiffness if soft else None,
            dissipation=touching.dissipation if soft else None,
            system=Bodies(model=model, constraints=self._constraints, q=q, touching=touching),
        )

    def _solve(self, problem: ForwardProblem) -> ForwardSolution:
        effects = self.model.effects
        if effects.stiffness.any() or effects.viscous.any():
            stretch = self.model.stretch(self._state.q)
            if self._integrates:
                springs = Springs(stiffness=effects.stiffness, damping=effects.viscous, stretch=stretch)
                problem = msgspec.structs.replace(problem, springs=springs)
            else:
                problem = with_springs(problem, effects.stiffness, stretch)
        return solve_with_friction(self._solver, problem, self._friction) if self._rubs else self._solver.solve(problem)


def applied_force(model: SceneModel, q: Array, axes: Array, t: float) -> Array:
    """Generalised force of the scene's forces at a time (nv)."""
    out = np.zeros(model.robot.nv)
    if model.settings.force:
        rotations, centres = model.place(q)
        for force in model.settings.force:
            body = model.names.index(force.body)
            point = centres[body] + rotations[body] @ where_now(force, t)
            out += model.force_at(axes, body, point, force_now(force, t))
    return out


def force_now(force: ForceSettings, t: float) -> Array:
    """[N] (3)"""
    since = t - force.start
    phase = since % force.every if np.isfinite(force.every) else since
    return np.array(force.force if since >= 0.0 and phase < force.duration else force.otherwise)


def where_now(force: ForceSettings, t: float) -> Array:
    """From the body's centre, along its axes [m] (3)."""
    (x, y, z), cos, sin = force.at, np.cos(force.orbit * t), np.sin(force.orbit * t)
    return np.array([cos * x - sin * y, sin * x + cos * y, z])
