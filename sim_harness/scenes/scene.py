"""A scene as the bodies of a world: contacts, external forces, constraint rows of closures, joint stops and elastic blocks."""

from collections.abc import Sequence
from itertools import permutations
from typing import Protocol

import msgspec
import numpy as np
from scipy.spatial.transform import Rotation

from idyn.contact.terrain import Flat
from idyn.types import Array, State
from sim_harness.engines.bilateral import check_rows
from sim_harness.engines.engine import ForwardProblem, Rows, Springs
from sim_harness.scenes.contacts import Geometry
from sim_harness.scenes.scene_model import SceneModel, joint_name
from sim_harness.scenes.scene_settings import (
    BodySettings,
    ClosureSettings,
    ElasticSettings,
    ForceSettings,
    JointSettings,
    SceneSettings,
    Shape,
)
from sim_harness.world.bodies import Bodies, JointFriction, with_springs
from sim_harness.world.elements import Elastic, elastic_body, element_rows
from sim_harness.world.world import Push, Step, Touching, World, checked_state, relative_jacobian


def grid_of(block: ElasticSettings) -> tuple[Array, Array]:
    """Return the rest positions of the particles [m] (n, 3) and the corners of the tetrahedra (k, 4).

    Particles are numbered along z first, then y, then x. Each cell has six tetrahedra, one for each order of the axes in a path
    of edges from its lowest to its highest corner.
    """
    counts = np.array(block.cells) + 1
    steps = np.stack(np.meshgrid(*(np.arange(count) for count in counts), indexing="ij"), axis=-1).reshape(-1, 3)
    low = steps[(steps < counts - 1).all(axis=1)]
    stride = np.array([counts[1] * counts[2], counts[2], 1])
    paths = np.array(
        [np.cumsum([np.zeros(3, int), *np.eye(3, dtype=int)[list(order)]], axis=0) for order in permutations(range(3))]
    )
    nodes = ((low[:, None, None] + paths[None]) @ stride).reshape(-1, 4)
    return np.array(block.corner) + steps * np.array(block.size) / block.cells, nodes


def elastic_of(block: ElasticSettings) -> Elastic:
    """Return the tetrahedra of a block with their material."""
    points, nodes = grid_of(block)
    return elastic_body(points, nodes, block.young, block.poisson, block.energy)


def particles_of(block: ElasticSettings) -> list[BodySettings]:
    """Return the particles of a block; each corner has a quarter of its tetrahedra's mass.

    If `block.held`, the particles with the lowest x are fixed.
    """
    points, nodes = grid_of(block)
    masses = np.zeros(len(points))
    np.add.at(masses, nodes, block.density * elastic_of(block).volumes[:, None] / 4)
    slides = tuple(JointSettings(kind="slide", axis=(x, y, z)) for x, y, z in np.eye(3).tolist())
    held = block.held & (points[:, 0] == points[:, 0].min())
    return [
        BodySettings(
            name=f"{block.name}-{i}",
            shape=Shape(sphere=block.radius),
            mass=float(masses[i]),
            material=block.material,
            position=tuple(points[i].tolist()),
            joint="fixed" if held[i] else slides,
            touches=block.touches,
        )
        for i in range(len(points))
    ]


class ElasticBlock:
    """Constraint rows of an elastic block in a scene."""

    def __init__(self, model: SceneModel, settings: ElasticSettings) -> None:
        self._model, self._elastic, self._dissipation = model, elastic_of(settings), settings.dissipation
        names = [body.name for body in particles_of(settings)]
        self._bodies = np.array([model.names.index(name) for name in names])
        moving = [i for i, name in enumerate(names) if joint_name(model.settings.body[self._bodies[i]]) in model.dofs]
        bodies = [model.settings.body[self._bodies[i]] for i in moving]
        self._columns = (3 * np.array(moving, dtype=np.int64)[:, None] + np.arange(3)).ravel()
        self._dofs = np.array([model.dofs[joint_name(body, k)][0] for body in bodies for k in range(3)], dtype=np.int64)

    def rows(self, q: Array) -> tuple[Array, Array, Array, Array]:
        """Return G (m, nv), g, compliance and dissipation (m) at q."""
        along, g, compliance = element_rows(self._elastic, self._model.place(q)[1][self._bodies])
        G = np.zeros((len(g), self._model.robot.nv))
        G[:, self._dofs] = along[:, self._columns]
        return G, g, compliance, np.full(len(g), self._dissipation)


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
        self._elastic = [ElasticBlock(model, block) for block in model.settings.elastic]

    def rows(self, q: Array, axes: Array) -> Rows | None:
        """Return the rows of closures, then stops, then elastic blocks; None without rows."""
        parts: list[Part] = []
        for settings, closure in zip(self._model.settings.closure, self.closures, strict=True):
            G, g = closure.rows(q, axes)
            parts.append((G, g, np.full(len(g), 1.0 / settings.stiffness), np.full(len(g), settings.dissipation)))
        stops = self._stops(q)
        parts += [*stops, *(block.rows(q) for block in self._elastic)]
        if not parts:
            return None
        G, g, compliance, dissipation = (np.concatenate(column) for column in zip(*parts, strict=True))
        first = sum(len(part[1]) for part in parts[: len(self.closures)])
        one_sided = (np.arange(len(g)) >= first) & (np.arange(len(g)) < first + len(stops))
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
    """Return true when a closure or stop of the scene has finite stiffness, or the scene has elastic blocks."""
    joints = [joint for body in settings.body for joint in body.joints]
    soft = [joint.stop_stiffness for joint in joints if joint.stop is not None]
    soft += [closure.stiffness for closure in settings.closure]
    return bool(settings.elastic) or any(np.isfinite(soft))


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
