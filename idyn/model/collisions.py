"""Self-collision: distances between the collision shapes of a robot, by coal through Pinocchio's geometry."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin

from idyn.errors import InputError, ModelError
from idyn.library.kernels import entry
from idyn.library.records import Cube, Indices, Mask, Matrix, Spans, Vector
from idyn.model.build import build_model
from idyn.model.robot import Robot
from idyn.types import Array, Kinematics

Pairs = list[tuple[int, int]]  # pairs of indices of shapes


class Near(NamedTuple):
    """Pairs of shapes that are near to each other."""

    links: tuple[tuple[str, str], ...]  # names of the two links of each pair (k); distances [m], negative in penetration (k)
    distances: Array
    rows: Array  # the distances change by rows · v (k, nv)


class SelfCollision:
    """Distances that a robot keeps between its links: an option of `idyn.tasks.TaskLimits`.

    Watched are all pairs of collision shapes of the URDF, except those of links that move together or that one joint connects,
    those that the SRDF disables, and those nearer than `distance` at `stance`. Meshes count as their convex hulls.

    pairs: names of the links of each watched pair of shapes

    It has buffers of its own: do not use it in several threads at the same time.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        distance: float = 0.01,
        reach: float = 0.1,
        braking: float = 10.0,
        srdf: str = "",
        folders: Sequence[str | Path] = (),
        stance: Array | None = None,
    ) -> None:
        """Read the collision shapes of the robot.

        distance: least distance of shapes [m], ≥ 0
        reach: pairs are limited from this far before the least distance [m]; links that approach each other faster than
            √(2 braking · reach) are noticed too late
        braking: deceleration that is reserved for stopping before the least distance [m/s²]
        srdf: text of an SRDF, whose `disable_collisions` are not watched
        folders: roots of the `package://` paths of meshes
        stance: a configuration; pairs that do not keep the distance there are not watched (nq)

        Raises InputError, naming the field; ModelError if the URDF has no shapes, or their files cannot be read.
        """
        for name, value in (("distance", distance), ("reach", reach), ("braking", braking)):
            if not (0.0 < value < np.inf or (name == "distance" and value == 0.0)):
                raise InputError(name, f"expected a finite number > 0, got {value!r}")
        if stance is not None and np.shape(stance) != (robot.nq,):
            raise InputError("stance", f"expected {robot.nq} numbers, got shape {np.shape(stance)}")
        self.distance, self.reach, self.braking = distance, reach, braking
        self._robot, self._model = robot, build_model(robot.description, robot.name)
        self._data, self._geometry = self._model.createData(), _geometry(self._model, robot, folders)
        self._items = list(self._geometry.geometryObjects)
        self._joints = np.array([item.parentJoint for item in self._items], np.int64)
        self._centres = np.array([item.placement.act(item.geometry.aabb_center) for item in self._items])
        self._radii = np.array([item.geometry.aabb_radius for item in self._items])
        self._watch(self._pairs(srdf))
        if stance is not None:
            near = {k for k, _ in self._measured(stance, range(len(self.pairs)), distance)}
            self._watch([(i, j) for k, (i, j) in enumerate(self._indices.tolist()) if k not in near])

    def __repr__(self) -> str:
        return f"SelfCollision({self._robot.name!r}, pairs={len(self.pairs)}, distance={self.distance:g})"

    def near(self, robot: Robot, kinematics: Kinematics) -> Near:
        """Return the pairs within reach. Raises InputError for another robot than that of the constructor."""
        if (robot.urdf_sha256, robot.nv) != (self._robot.urdf_sha256, self._robot.nv):
            raise InputError("limits.self_collision", f"expected one of {robot!r}, got {self!r}")
        most, rows = self.distance + self.reach, np.zeros((0, robot.nv))
        candidates = within(kinematics.placements, self._joints, (self._centres, self._radii), self._indices, most)
        found = self._measured(kinematics.q, candidates.tolist(), most)
        which = [k for k, _ in found]
        if which:
            ends = [[each.normal, each.getNearestPoint1(), each.getNearestPoint2()] for _, each in found]
            rows = distance_rows(kinematics.axes, robot.tree.support, self._joints[self._indices[which]], np.array(ends))
        return Near(tuple(self.pairs[k] for k in which), np.array([each.min_distance for _, each in found]), rows)

    def _measured(self, q: Array, which: Sequence[int], most: float) -> list[tuple[int, Any]]:
        geometry, shapes = self._geometry, self._shapes
        if which:
            pin.updateGeometryPlacements(self._model, self._data, geometry, shapes, q)
        return [(k, shapes.distanceResults[k]) for k in which if pin.computeDistance(geometry, shapes, k).min_distance < most]

    def _pairs(self, srdf: str) -> Pairs:
        self._geometry.addAllCollisionPairs()
        if srdf:
            try:
                pin.removeCollisionPairsFromXML(self._model, self._geometry, srdf)
            except (ValueError, RuntimeError) as error:
                raise InputError("srdf", f"cannot be read ({error})") from error
        joints, parents = self._joints, np.array(list(self._model.parents), np.int64)
        pairs = [(pair.first, pair.second) for pair in self._geometry.collisionPairs]
        return [(i, j) for i, j in pairs if parents[joints[i]] != joints[j] and parents[joints[j]] != joints[i]]

    def _watch(self, pairs: Pairs) -> None:
        self._geometry.removeAllCollisionPairs()
        for i, j in pairs:
            self._geometry.addCollisionPair(pin.CollisionPair(i, j))
        links = [self._model.frames[item.parentFrame].name for item in self._items]
        self.pairs = tuple((links[i], links[j]) for i, j in pairs)
        self._indices, self._shapes = np.array(pairs, np.int64).reshape(-1, 2), pin.GeometryData(self._geometry)


def _geometry(model: pin.Model, robot: Robot, folders: Sequence[str | Path]) -> pin.GeometryModel:
    """Return the collision shapes of a robot, with bounding spheres, and meshes as convex hulls. Raises ModelError."""
    urdf, where = robot.description.urdf, [str(folder) for folder in folders]
    try:
        geometry = pin.buildGeomFromUrdfString(model, urdf, pin.GeometryType.COLLISION, package_dirs=where)
    except ValueError as error:
        raise ModelError(f"{robot.name}: collision shapes: {str(error).splitlines()[0]}") from error
    if not geometry.ngeoms:
        raise ModelError(f"{robot.name}: the URDF has no collision shapes")
    for item in geometry.geometryObjects:
        if isinstance(item.geometry, pin.coal.BVHModelBase):
            item.geometry.buildConvexHull(True, "Qt")
            item.geometry = item.geometry.convex
        item.geometry.computeLocalAABB()
    return geometry


@entry(Matrix, Indices, (Matrix, Vector), Spans, float)
def within(placements: Array, joints: Array, spheres: tuple[Array, Array], pairs: Array, most: float) -> Array:
    """Return the indices of the pairs whose bounding spheres are nearer than `most`.

    placements (njoints, 12): see `Kinematics`; joints (shapes): of the shapes
    spheres: (centres in the frame of the joint (shapes, 3), radii (shapes)); pairs (k, 2): of shapes
    """
    (offsets, radii), count = spheres, 0
    centres, found = np.empty(offsets.shape), np.empty(len(pairs), np.int64)
    for i in range(len(joints)):
        place, x = placements[joints[i]], offsets[i]
        for c in range(3):
            centres[i, c] = place[c] * x[0] + place[3 + c] * x[1] + place[6 + c] * x[2] + place[9 + c]
    for k in range(len(pairs)):
        i, j = pairs[k]
        square = 0.0
        for c in range(3):
            square += (centres[i, c] - centres[j, c]) ** 2
        if np.sqrt(square) - radii[i] - radii[j] < most:
            found[count] = k
            count += 1
    return found[:count]


@entry(Matrix, Mask, Spans, Cube)
def distance_rows(axes: Array, support: Array, joints: Array, ends: Array) -> Array:
    """Return the rows of `Near`: n · (velocity of the second point − velocity of the first one); zero for degrees of freedom
    that move both bodies or neither.

    axes (nv, 6), support (njoints, nv): see `Kinematics` and `Tree`; joints of the bodies (k, 2)
    ends: directions n from the first body to the second one, nearest points of the first and of the second one (k, 3, 3)
    """
    rows = np.zeros((len(joints), len(axes)))
    for k in range(len(joints)):
        first, second, n = support[joints[k, 0]], support[joints[k, 1]], ends[k, 0]
        for j in range(len(axes)):
            if first[j] != second[j]:
                e, x, sign = axes[j], ends[k, 2 if second[j] else 1], 1.0 if second[j] else -1.0
                v0 = e[0] + e[4] * x[2] - e[5] * x[1]
                v1 = e[1] + e[5] * x[0] - e[3] * x[2]
                v2 = e[2] + e[3] * x[1] - e[4] * x[0]
                rows[k, j] = sign * (n[0] * v0 + n[1] * v1 + n[2] * v2)
    return rows
