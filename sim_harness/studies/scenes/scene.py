"""A scene as the bodies of a world: contacts, external forces, constraint rows of closures and joint stops."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from scipy.spatial.transform import Rotation

from idyn.contact.terrain import Flat
from idyn.errors import InputError
from idyn.solvers.linalg import cholesky
from idyn.types import Array, State
from sim_harness.engines.bilateral import factor_rows, worst_contradiction
from sim_harness.engines.engine import ForwardProblem, Rows, Springs
from sim_harness.studies.scenes.contacts import Geometry
from sim_harness.studies.scenes.scene_model import SceneModel
from sim_harness.studies.scenes.scene_settings import (
    ClosureSettings,
    ForceSettings,
    SceneSettings,
)
from sim_harness.world.bodies import Bodies, JointFriction
from sim_harness.world.world import Push, Step, Touching, World, checked_state, relative_jacobian

Part = tuple[Array, Array, Array, Array]  # G (m, nv), g, compliance and dissipation (m) of a group of rows

WORLD_X, WORLD_Z = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])

WORLD = -1  # index that stands for the world in a closure


class Closure:
    """A pin or a weld. Its rows are along world axes.

    g of a pin is the position of the point on the first body relative to the point on the second body [m] (3). g of a weld has,
    in addition, the rotation of the first body relative to the second as a rotation vector [rad] (6).
    """

    def __init__(self, model: SceneModel, settings: ClosureSettings) -> None:
        self._model = model
        self._bodies = [WORLD if not name else model.names.index(name) for name in settings.bodies]
        self._welded = settings.kind == "weld"
        poses = [self._pose(model.reference, body) for body in self._bodies]
        self._points = [rotation.T @ (np.array(settings.at) - centre) for rotation, centre in poses]
        self._turn = poses[1][0].T @ poses[0][0]

    def rows(self, q: Array, axes: Array) -> tuple[Array, Array]:
        """Return G (3 or 6, nv) and g (3 or 6) at q; axes: joint axes at q (nv, 6)."""
        poses = [self._pose(q, body) for body in self._bodies]
        ends = [rotation @ point + centre for (rotation, centre), point in zip(poses, self._points, strict=True)]
        G = self._moves(axes, self._bodies[0], ends[0]) - self._moves(axes, self._bodies[1], ends[1])
        if not self._welded:
            return G[:3], ends[0] - ends[1]
        turned = Rotation.from_matrix(poses[0][0] @ (poses[1][0] @ self._turn).T).as_rotvec()
        return G, np.concatenate([ends[0] - ends[1], turned])

    def _pose(self, q: Array, body: int) -> tuple[Array, Array]:
        if body == WORLD:
            return np.eye(3), np.zeros(3)
        rotations, centres = self._model.place(q)
        return rotations[body], centres[body]

    def _moves(self, axes: Array, body: int, point: Array) -> Array:
        """Return the Jacobian of the velocity of a point and of the angular velocity of a body (6, nv)."""
        joint, support = 0 if body == WORLD else int(self._model.joints[body]), self._model.robot.tree.support
        moves = relative_jacobian(axes, support, np.array([joint]), np.array([0]), point[None], WORLD_X, WORLD_Z)
        return np.vstack([moves, (axes[:, 3:] * support[joint][:, None]).T])


class Constraints:
    """All constraint rows of a scene."""

    def __init__(self, model: SceneModel) -> None:
        self._model = model
        self.closures = [Closure(model, closure) for closure in model.settings.closure]

    def rows(self, q: Array, axes: Array) -> Rows | None:
        """Return the rows of closures, then stops; None without rows."""
        parts: list[Part] = []
        for settings, closure in zip(self._model.settings.closure, self.closures, strict=True):
            G, g = closure.rows(q, axes)
            parts.append((G, g, np.full(len(g), 1.0 / settings.stiffness), np.full(len(g), settings.dissipation)))
        parts += self._stops(q)
        if not parts:
            return None
        G, g, compliance, dissipation = (np.concatenate(column) for column in zip(*parts, strict=True))
        one_sided = np.arange(len(g)) >= sum(len(part[1]) for part in parts[: len(self.closures)])
        if not compliance.any():
            return Rows(G=G, g=g, stops=one_sided)
        return Rows(G=G, g=g, stops=one_sided, compliance=compliance, dissipation=dissipation)

    def _stops(self, q: Array) -> list[Part]:
        """Return one row per stop: g = q − low or high − q."""
        model, out = self._model, []
        for dof, position in model.dofs.values():
            for sign, end in ((1.0, model.effects.low[dof]), (-1.0, model.effects.high[dof])):
                if np.isfinite(end):
                    row = np.zeros((1, model.robot.nv))
                    row[0, dof] = sign
                    softness, damping = model.effects.stop_compliance[dof], model.effects.stop_dissipation[dof]
                    out.append((row, np.array([sign * (q[position] - end)]), np.array([softness]), np.array([damping])))
        return out


def has_compliant_rows(settings: SceneSettings) -> bool:
    """Return true when a closure or stop of the scene has finite stiffness."""
    joints = [joint for body in settings.body for joint in body.joints]
    soft = [joint.stop_stiffness for joint in joints if joint.stop is not None]
    soft += [closure.stiffness for closure in settings.closure]
    return any(np.isfinite(soft))


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


def check_rows(M: Array, rows: Rows) -> None:
    """Raise InputError for wrong shapes, non-finite values or rigid rows that contradict each other.

    M: inertia (nv, nv), positive definite
    """
    m = len(rows.g)
    if (
        rows.G.shape != (m, len(M))
        or rows.stops.shape != (m,)
        or not np.isfinite(rows.G).all()
        or not np.isfinite(rows.g).all()
    ):
        raise InputError("rows", f"expected finite G ({m}, {len(M)}), g ({m}) and stops ({m}), got G {rows.G.shape}")
    on = np.flatnonzero(~rows.stops & ~rows.yields)
    L = M.copy()
    cholesky(L)
    row, error = worst_contradiction(factor_rows(L, rows.G[on]), rows.g[on])
    if row >= 0:
        raise InputError(
            f"rows[{on[row]}]",
            f"expected a row that is independent of or consistent with the rows before it, got one that contradicts them "
            f"by {error:.3g} m or rad",
        )


class SceneWorld(World, Protocol):
    """A `World` of a scene. A scene has no motors: torques and pushes have no effect."""

    bodies: Scene

    def step(self, tau: Array | None = None, dt: float | None = None, pushes: Sequence[Push] = ()) -> Step: ...


def with_springs(problem: ForwardProblem, stiffness: Array, stretch: Array) -> ForwardProblem:
    """Return the forward problem with implicit springs −k (x + dt v⁺).

    This is exact in every engine, because M v⁺ + dt² k v⁺ = (M + dt² k) v⁺.

    stiffness: k of all degrees of freedom [N/m, N·m/rad] (nv)
    stretch: x at the beginning of the step [m, rad] (nv)
    """
    dt = problem.dt
    return msgspec.structs.replace(
        problem,
        M=problem.M + np.diag(dt * dt * stiffness),
        force=problem.force - stiffness * (stretch + dt * problem.v),
    )


def force_now(force: ForceSettings, t: float) -> Array:
    """Return the force at time t [N] (3)."""
    since = t - force.start
    phase = since % force.every if np.isfinite(force.every) else since
    return np.array(force.force if since >= 0.0 and phase < force.duration else force.otherwise)


def where_now(force: ForceSettings, t: float) -> Array:
    """Return the point of action at time t, from the body's centre along its axes [m] (3)."""
    (x, y, z), cos, sin = force.at, np.cos(force.orbit * t), np.sin(force.orbit * t)
    return np.array([cos * x - sin * y, sin * x + cos * y, z])
