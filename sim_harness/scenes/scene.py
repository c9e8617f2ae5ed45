"""A scene as the bodies of a world: contacts, constraint rows and external forces."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np

from idyn.contact.terrain import Flat
from idyn.types import Array, State
from sim_harness.engines.bilateral import check_rows
from sim_harness.engines.engine import ForwardProblem, Rows, Springs
from sim_harness.scenes.bodies.contacts import Geometry
from sim_harness.scenes.bodies.model import SceneModel
from sim_harness.scenes.bodies.rows import Constraints
from sim_harness.scenes.bodies.settings import ForceSettings, SceneSettings
from sim_harness.world.bodies import Bodies
from sim_harness.world.joints import JointFriction, with_springs
from sim_harness.world.world import Push, Step, Touching, World, checked_state


class Scene(SceneModel, Bodies):
    """The `Bodies` of a scene."""

    def __init__(self, settings: SceneSettings) -> None:
        """settings: those of `load_scene`"""
        super().__init__(settings)
        self.terrain, self.dt = Flat(), settings.dt
        self._geometry, self._constraints = Geometry(self), Constraints(self)

    def checked(self, q: Array, v: Array | None) -> State:
        """Return a copy of (q, v). Raises InputError for an invalid state or contradictory constraint rows."""
        state = checked_state(self.robot, q, v)
        M, _, axes = self.terms(state.q, state.v)
        rows = self.rows(state.q, axes)
        if rows is not None:
            check_rows(M, rows)
        return state

    def touching(self, q: Array) -> Touching:
        return self._geometry.touching(q)

    def pivots(self, q: Array, touching: Touching) -> tuple[Array, Array]:
        return self._geometry.pivots(q, touching)

    def rows(self, q: Array, axes: Array) -> Rows | None:
        return self._constraints.rows(q, axes)

    def force(
        self, axes: Array, state: State, span: tuple[float, float], tau: Array | None = None, pushes: Sequence[Push] = ()
    ) -> Array:
        """Return the generalised force of the scene's forces at the middle of the step (nv)."""
        out, t = np.zeros(self.robot.nv), span[0] + span[1] / 2
        if self.settings.force:
            rotations, centres = self.place(state.q)
            for force in self.settings.force:
                body = self.names.index(force.body)
                point = centres[body] + rotations[body] @ where_now(force, t)
                out += self.force_at(axes, body, point, force_now(force, t))
        return out

    def with_joints(self, problem: ForwardProblem, q: Array, integrates: bool) -> tuple[ForwardProblem, JointFriction | None]:
        effects = self.effects
        viscous = np.zeros_like(effects.viscous) if integrates else effects.viscous
        if integrates and (effects.stiffness.any() or effects.viscous.any()):
            springs = Springs(stiffness=effects.stiffness, damping=effects.viscous, stretch=self.stretch(q))
            problem = msgspec.structs.replace(problem, springs=springs)
        elif effects.stiffness.any():
            problem = with_springs(problem, effects.stiffness, self.stretch(q))
        has_friction = viscous.any() or effects.coulomb.any()
        return problem, JointFriction(viscous=viscous, coulomb=effects.coulomb) if has_friction else None


class SceneWorld(World, Protocol):
    """A `World` of a scene. A scene has no motors: torques and pushes have no effect."""

    bodies: Scene

    def step(self, tau: Array | None = None, dt: float | None = None, pushes: Sequence[Push] = ()) -> Step: ...


def force_now(force: ForceSettings, t: float) -> Array:
    """Return the force at time t [N] (3)."""
    since = t - force.start
    phase = since % force.every if np.isfinite(force.every) else since
    return np.array(force.force if since >= 0.0 and phase < force.duration else force.otherwise)


def where_now(force: ForceSettings, t: float) -> Array:
    """Return the point of action at time t, from the body's centre along its axes [m] (3)."""
    (x, y, z), cos, sin = force.at, np.cos(force.orbit * t), np.sin(force.orbit * t)
    return np.array([cos * x - sin * y, sin * x + cos * y, z])
