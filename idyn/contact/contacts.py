"""Contact sets from geometry (spheres against terrain and boxes) or from measured points."""

from collections.abc import Sequence

import msgspec
import numpy as np

from idyn.contact.terrain import Planar, Plane, Terrain
from idyn.errors import FrameNotFound, InputError, nearest
from idyn.library.kernels import compiled, entry
from idyn.library.records import Cube, Indices, Matrix, Spans, Vector, written
from idyn.model.robot import Robot
from idyn.model.tree import Spheres
from idyn.types import Array, ContactSet, Kinematics

AT_SURFACE = 1e-12  # a centre nearer to a box counts as inside: the nearest point does not define a normal [m]
UNIT_TOLERANCE = 1e-6  # tolerance of the length of unit vectors. Accepted normals are normalised again


def contacts_from_geometry(
    robot: Robot, q: Array | Kinematics, terrain: Terrain, *, margin: float, mu: Array | None = None
) -> ContactSet:
    """Return the contacts of the robot's contact spheres with the terrain, then with boxes, whose gaps are ≤ `margin` [m].

    The contact point is the point of the sphere nearest to the terrain or the box.

    q: configuration, or `Robot.terms` at the configuration
    mu: friction coefficients, one for each contact place, then one for each pair of sphere and box; None: those of the terrain
        and the robot
    """
    return _all_contacts(robot, q, terrain, mu).within(margin)


def contacts_of_places(
    robot: Robot,
    q: Array | Kinematics,
    terrain: Terrain,
    keys: Sequence[str],
    *,
    mu: Array | None = None,
) -> ContactSet:
    """Return the contacts with these keys (of places or pairs), in this order, for contacts that are known to touch: points
    and normals come from geometry, gaps are zero.

    mu: see `contacts_from_geometry`
    Raises InputError for an unknown key.
    """
    keys = tuple(keys)
    places = robot.spheres.among(keys)
    if len(places.keys) == len(keys):
        own = None if mu is None else mu[robot.spheres.rows(keys)]
        contacts = _on_terrain(places, centres_of(robot, q, places), terrain, own)
    else:
        contacts = _all_contacts(robot, q, terrain, mu)
    return touching_ones(contacts, keys)


def touching_ones(contacts: ContactSet, keys: tuple[str, ...]) -> ContactSet:
    """Return the contacts with these keys, in this order, with gaps of zero. Raises InputError for a key that none has."""
    if keys != contacts.keys:
        for key in keys:
            if key not in contacts.keys:
                raise InputError("contacts.frame", f"no contact place or pair named '{key}'{nearest(key, contacts.keys)}")
        contacts = contacts.take(np.array([contacts.keys.index(key) for key in keys], dtype=np.int64))
    return msgspec.structs.replace(contacts, gaps=np.zeros(len(keys)))


def _all_contacts(robot: Robot, q: Array | Kinematics, terrain: Terrain, mu: Array | None) -> ContactSet:
    placements, spheres = placements_at(robot, q), robot.spheres
    if isinstance(terrain, Planar) and not robot.boxes.pair_keys:
        return _on_plane(spheres, placements, terrain, mu)
    centres = sphere_centres(placements, spheres.joints, spheres.offsets)
    ground = _on_terrain(spheres, centres, terrain, mu)
    return ground.join(_of_pairs(robot, placements, centres, mu)) if robot.boxes.pair_keys else ground


def _on_terrain(spheres: Spheres, centres: Array, terrain: Terrain, mu: Array | None) -> ContactSet:
    distances, normals = (np.ascontiguousarray(each, np.float64) for each in terrain.query(centres))
    points, tangents, gaps = np.empty(centres.shape), np.empty(centres.shape), np.empty(len(centres))
    _sphere_contacts((centres, spheres.radii, distances, normals), (points, tangents, gaps))
    return _of_spheres(spheres, (points, normals, tangents, gaps), terrain, mu)


def _on_plane(spheres: Spheres, placements: Array, terrain: Planar, mu: Array | None) -> ContactSet:
    """Return the contacts of spheres with a plane: what `_on_terrain` returns, by one kernel."""
    shape = spheres.offsets.shape
    found = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(len(spheres.radii))
    _plane_contacts((placements, spheres.offsets, spheres.radii), (spheres.joints,), terrain.plane, found)
    return _of_spheres(spheres, found, terrain, mu)


def _of_spheres(spheres: Spheres, found: tuple[Array, Array, Array, Array], terrain: Terrain, mu: Array | None) -> ContactSet:
    """found: (points (n, 3), normals (n, 3), first tangents (n, 3), gaps (n))"""
    points, normals, tangents, gaps = found
    if mu is None:
        mu = spheres.mu if terrain.friction is None else terrain.friction.at(points)
    return ContactSet(
        bodies=spheres.joints,
        others=np.zeros(len(points), dtype=np.int64),
        points=points,
        normals=normals,
        tangents=tangents,
        mu=mu[: len(points)].copy(),
        gaps=gaps,
        radii=spheres.radii,
        keys=spheres.keys,
    )


def _of_pairs(robot: Robot, placements: Array, centres: Array, mu: Array | None) -> ContactSet:
    spheres, boxes, rotations = robot.spheres, robot.boxes, placements[:, :9].reshape(-1, 3, 3).transpose(0, 2, 1)
    points, normals, gaps = pair_contacts(
        boxes.pairs,
        centres,
        spheres.radii,
        rotations[boxes.joints] @ boxes.rotations,
        sphere_centres(placements, boxes.joints, boxes.offsets),
        boxes.halves,
    )
    return ContactSet(
        bodies=spheres.joints[boxes.pairs[:, 0]],
        others=boxes.joints[boxes.pairs[:, 1]],
        points=points,
        normals=normals,
        tangents=first_tangents(normals),
        mu=boxes.pair_mu if mu is None else mu[len(centres) :],
        gaps=gaps,
        radii=spheres.radii[boxes.pairs[:, 0]],
        keys=boxes.pair_keys,
    )


def contacts_from_points(
    robot: Robot,
    keys: Sequence[str],
    points: Array,
    normals: Array,
    mu: Array,
    gaps: Array,
    tangents: Array | None = None,
    fields: Sequence[str] | None = None,
) -> ContactSet:
    """Return contacts from arrays in the world frame: contacts of places (`robot.spheres.keys`) or frames with the environment,
    and contacts of pairs of sphere and box (`robot.boxes.pair_keys`). The radius is that of the place; 0 for frames.

    keys: of places, frames or pairs (n); fields: names of the contacts in messages (n), None: `contacts[i]`; see `ContactSet`

    Raises InputError, naming the field, for malformed data, unknown or repeated keys, and `Robot.wheel_frames`.
    """
    n = len(keys)
    if fields is None:
        fields = [f"contacts[{i}]" for i in range(n)]
    for field, value, shape in (("p", points, (n, 3)), ("n", normals, (n, 3)), ("mu", mu, (n,)), ("dist", gaps, (n,))):
        if value.shape != shape:
            raise InputError(f"contacts.{field}", f"expected shape {shape}, got {value.shape}")
    for i, name in enumerate(fields):
        _check_contact(name, points[i], normals[i], mu[i], gaps[i], None if tangents is None else tangents[i])
    if len(set(keys)) != n:
        repeated = next(key for key in keys if list(keys).count(key) > 1)
        raise InputError("contacts.frame", f"expected different keys, got '{repeated}' twice")
    found = [_body_of(robot, name, key) for name, key in zip(fields, keys, strict=True)]
    joints = np.array([each[:2] for each in found], dtype=np.int64).reshape(-1, 2).T.copy()
    unit = normals / np.linalg.norm(normals, axis=1, keepdims=True) if n else normals.reshape(0, 3)
    return ContactSet(
        bodies=joints[0],
        others=joints[1],
        points=points,
        normals=unit,
        tangents=first_tangents(unit) if tangents is None else tangents,
        mu=mu,
        gaps=gaps,
        radii=np.array([each[2] for each in found], dtype=np.float64),
        keys=tuple(keys),
    )


def _check_contact(name: str, point: Array, normal: Array, mu: float, gap: float, tangent: Array | None) -> None:
    if not np.isfinite(point).all():
        raise InputError(f"{name}.p", f"expected finite coordinates, got {point}")
    if not np.isfinite(gap):
        raise InputError(f"{name}.dist", f"expected a finite gap, got {gap}")
    if not mu >= 0:
        raise InputError(f"{name}.mu", f"expected ≥ 0, got {mu}")
    length = float(np.linalg.norm(normal))
    if not abs(length - 1) <= UNIT_TOLERANCE:
        raise InputError(f"{name}.n", f"expected a unit vector, got length {length:.6g}")
    if tangent is None:
        return
    if not abs(float(np.linalg.norm(tangent)) - 1) <= UNIT_TOLERANCE or not abs(float(tangent @ normal)) <= UNIT_TOLERANCE:
        raise InputError(f"{name}.t1", f"expected a unit vector orthogonal to the normal, got {tangent}")


def _body_of(robot: Robot, name: str, key: str) -> tuple[int, int, float]:
    """Return the joints of the first and second body of the contact `key`, and the radius of its sphere [m]."""
    spheres, boxes, pair = robot.spheres, robot.boxes, key in robot.boxes.pair_keys
    if pair or key in spheres.keys:
        place, box = boxes.pairs[boxes.pair_keys.index(key)] if pair else (spheres.keys.index(key), 0)
        return int(spheres.joints[place]), int(boxes.joints[box]) if pair else 0, float(spheres.radii[place])
    if key in robot.wheel_frames:
        raise InputError(f"{name}.frame", refused_wheel(key))
    try:
        return robot.joint_of_frame(key), 0, 0.0
    except FrameNotFound as error:
        raise InputError(f"{name}.frame", str(error)) from error


def refused_wheel(frame: str) -> str:
    """Return why a frame of `Robot.wheel_frames` cannot be told as a contact."""
    why = "is on the axis of a joint that turns without limits, so it rolls with a radius that is not known"
    return f"expected a contact place of the robot, which has a radius: '{frame}' {why}"


def placements_at(robot: Robot, q: Array | Kinematics) -> Array:
    """Return the joint placements at a configuration (njoints, 12), see `Kinematics`."""
    if isinstance(q, Kinematics):
        return robot.kinematics(q).placements
    robot.place(q)
    return robot.placements


def centres_of(robot: Robot, q: Array | Kinematics, places: Spheres) -> Array:
    """Return the centres of contact spheres at configuration q [m] (n, 3)."""
    return sphere_centres(placements_at(robot, q), places.joints, places.offsets)


def sphere_centres(placements: Array, joints: Array, offsets: Array) -> Array:
    """Return positions in the world of points fixed to joints (n, 3). placements: see `Kinematics`"""
    centres = np.empty(offsets.shape)
    fill_centres((placements, offsets), (joints,), (centres,))
    return centres


def first_tangents(normals: Array) -> Array:
    """Return a unit tangent for each unit normal n (n, 3): the world's x axis, or its y axis if n is near the x axis, minus the
    part along n, normalised."""
    tangents = np.empty(normals.shape)
    _first_tangents(normals, tangents)
    return tangents


@entry((Matrix, Vector, Vector, Matrix), written((Matrix, Matrix, Vector)))
def _sphere_contacts(surface: tuple[Array, ...], contacts: tuple[Array, ...]) -> None:
    """Fill the contacts of n spheres with a surface.

    surface: (centres (n, 3) and radii (n) of the spheres, distances (n) and normals (n, 3) of the surface)
    contacts: output: (nearest points of the spheres (n, 3), first tangents (n, 3), gaps [m] (n))
    """
    (centres, radii, distances, normals), (points, tangents, gaps) = surface, contacts
    # gap = distance − r, point = centre − r n
    for i in range(len(radii)):
        gaps[i] = distances[i] - radii[i]
        for c in range(3):
            points[i, c] = centres[i, c] - radii[i] * normals[i, c]
    _first_tangents(normals, tangents)


@entry((Matrix, Matrix, Vector), (Indices,), (float,) * 4, written((Matrix, Matrix, Matrix, Vector)))
def _plane_contacts(spheres: tuple[Array, ...], joints: tuple[Array], plane: Plane, contacts: tuple[Array, ...]) -> None:
    """Fill the contacts of n spheres with a plane.

    spheres: (`Kinematics.placements`, offsets in the joint frames [m] (n, 3), radii [m] (n)); joints: tuple of that of each (n)
    contacts: output: (points, normals, first tangents, each (n, 3), gaps [m] (n))
    """
    (placements, offsets, radii), (x, y, z, offset), (points, normals, tangents, gaps) = spheres, plane, contacts
    fill_centres((placements, offsets), joints, (points,))
    for i in range(len(radii)):
        gaps[i] = points[i, 0] * x + points[i, 1] * y + points[i, 2] * z - offset - radii[i]
        normals[i, 0], normals[i, 1], normals[i, 2] = x, y, z
        for c in range(3):
            points[i, c] -= radii[i] * normals[i, c]
    _first_tangents(normals, tangents)


@entry((Matrix, Matrix), (Indices,), written((Matrix,)))
def fill_centres(places: tuple[Array, Array], joints: tuple[Array], out: tuple[Array]) -> None:
    """Fill positions of points fixed to joints, in the world: o + R offset.

    places: (`Kinematics.placements`, offsets in the joint frames [m] (n, 3))
    joints: tuple of one array, the joint of each point (n)
    out: tuple of one array, the positions [m] (n, 3)
    """
    (placements, offsets), (which,), (centres,) = places, joints, out
    for i in range(len(which)):
        placed = placements[which[i]]
        for r in range(3):
            centres[i, r] = placed[9 + r]
            for c in range(3):
                centres[i, r] += placed[3 * c + r] * offsets[i, c]


@entry(Matrix, written(Matrix))
def _first_tangents(normals: Array, tangents: Array) -> None:
    """Fill tangents (n, 3) with (e − (e · n) n)/‖…‖, e along x or y, see `first_tangents`."""
    for i in range(len(normals)):
        axis = 0 if abs(normals[i, 0]) < 0.9 else 1
        along = normals[i, axis]
        length = np.sqrt(1.0 - along * along)
        for c in range(3):
            tangents[i, c] = ((1.0 if c == axis else 0.0) - along * normals[i, c]) / length


@compiled
def sphere_against_box(centre: Array, radius: float, half: Array, normal: Array) -> float:
    """Return the gap [m] between a sphere and a box with half edges `half` (3), in the frame of the box; fill the outward
    normal (3).

    The nearest point of the box is on a face, an edge or a corner; for a sphere whose centre is inside the box, on the nearest
    face.
    """
    # outside: normal from the nearest point of the box
    squared = 0.0
    for c in range(3):
        normal[c] = centre[c] - min(max(centre[c], -half[c]), half[c])
        squared += normal[c] * normal[c]
    distance = np.sqrt(squared)
    if distance > AT_SURFACE:
        for c in range(3):
            normal[c] /= distance
        return distance - radius
    # inside: normal of the nearest face
    face = 0
    for c in range(3):
        normal[c] = 0.0
        if half[c] - abs(centre[c]) < half[face] - abs(centre[face]):
            face = c
    normal[face] = 1.0 if centre[face] >= 0.0 else -1.0
    return abs(centre[face]) - half[face] - radius


@entry(Spans, Matrix, Vector, Cube, Matrix, Matrix)
def pair_contacts(
    pairs: Array, centres: Array, radii: Array, rotations: Array, origins: Array, halves: Array
) -> tuple[Array, Array, Array]:
    """Return points of the spheres nearest to the boxes (n, 3), outward normals of the boxes (n, 3) and gaps [m] (n), in the
    world.

    pairs: (index of the sphere, index of the box) (n, 2)
    centres (·, 3), radii (·): of the spheres
    rotations (·, 3, 3), origins (·, 3), halves (·, 3): orientations, centres and half edges of the boxes
    """
    n = len(pairs)
    points, normals, gaps = np.empty((n, 3)), np.empty((n, 3)), np.empty(n)
    local, normal = np.empty(3), np.empty(3)
    for i in range(n):
        s, b = pairs[i]
        # centre in the frame of the box, Rᵀ (c − o)
        for c in range(3):
            local[c] = 0.0
            for d in range(3):
                local[c] += rotations[b, d, c] * (centres[s, d] - origins[b, d])
        gaps[i] = sphere_against_box(local, radii[s], halves[b], normal)
        # normal R n, point c − r n
        for c in range(3):
            normals[i, c] = 0.0
            for d in range(3):
                normals[i, c] += rotations[b, c, d] * normal[d]
            points[i, c] = centres[s, c] - radii[s] * normals[i, c]
    return points, normals, gaps
