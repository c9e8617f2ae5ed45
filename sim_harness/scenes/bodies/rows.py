"""Constraint rows of a scene: closures, joint stops and elastic blocks."""

import numpy as np
from scipy.spatial.transform import Rotation

from idyn.types import Array
from sim_harness.engines.engine import Rows
from sim_harness.scenes.bodies.elastic import ElasticBlock
from sim_harness.scenes.bodies.model import SceneModel
from sim_harness.scenes.bodies.settings import ClosureSettings, SceneSettings
from sim_harness.world.jacobian import relative_jacobian

Part = tuple[Array, Array, Array, Array]
"""G (m, nv), g, compliance and dissipation (m) of a group of rows."""

WORLD_X, WORLD_Z = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])

WORLD = -1
"""Index that stands for the world in a closure."""


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
        parts = [self._of_closure(i, q, axes) for i in range(len(self.closures))]
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

    def _of_closure(self, index: int, q: Array, axes: Array) -> Part:
        settings, (G, g) = self._model.settings.closure[index], self.closures[index].rows(q, axes)
        return G, g, np.full(len(g), 1.0 / settings.stiffness), np.full(len(g), settings.dissipation)

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
    joints = [joint for body in settings.body if not isinstance(body.joint, str) for joint in body.joint]
    soft = [joint.stop_stiffness for joint in joints if joint.stop is not None]
    soft += [closure.stiffness for closure in settings.closure]
    return bool(settings.elastic) or any(np.isfinite(soft))
