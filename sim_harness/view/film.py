"""Animation of a run: poses of the bodies and contact forces, at a fixed frame rate."""

import numpy as np
from scipy.spatial.transform import Rotation

from controllers.contact.ground import SlopeSettings, StairsSettings
from controllers.contact.source import ContactSettings
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Heightmap, Terrain
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Record
from sim_harness.measure.trace import Trace

LINES = 0.05  # spacing of the grid lines [m]
AROUND = 0.8  # distance to which the ground is drawn beyond the path of the robot [m]


class Ground(Record, frozen=True):
    """A height field: z[i, j] is the height at x[i], y[j] [m]. A riser of stairs has two equal x: lower and upper edge."""

    x: Array
    y: Array
    z: Array


def ground_of(contact: ContactSettings, path: Array) -> Ground:
    """Return the ground that a controller's settings describe, around a path [m] (n, 3)."""
    low = np.floor((path[:, :2].min(axis=0) - AROUND) / LINES)
    high = np.ceil((path[:, :2].max(axis=0) + AROUND) / LINES)
    x, y = (np.arange(low[i], high[i] + 1) * LINES for i in range(2))
    if isinstance(shape := contact.terrain.world, StairsSettings):
        return _stairs(shape, contact.ground, x, y)
    return Ground(x=x, y=y, z=_heights(contact, x, y))


def _heights(contact: ContactSettings, x: Array, y: Array) -> Array:
    shape = contact.terrain.world
    terrain = shape.build(contact.ground)
    if isinstance(terrain, Heightmap):
        xs, ys = np.meshgrid(x, y, indexing="ij")
        points = np.stack([xs.ravel(), ys.ravel(), np.zeros(xs.size)], axis=1)
        return terrain.height(points).reshape(xs.shape)
    if not isinstance(shape, SlopeSettings):
        return np.full((len(x), len(y)), contact.ground)
    rise, towards = np.tan(shape.angle), shape.direction
    return contact.ground + rise * (np.cos(towards) * x[:, None] + np.sin(towards) * y)


def _stairs(s: StairsSettings, ground: float, x: Array, y: Array) -> Ground:
    """Return the ground of stairs; each riser adds two lines to `x`, its lower and its upper edge."""
    risers = s.start + s.depth * np.arange(s.steps)
    inside = risers[(risers > x[0]) & (risers < x[-1])]
    plain = x[np.abs(x[:, None] - risers).min(axis=1) > 1e-9]
    steps = (plain[:, None] > risers).sum(axis=1)
    climbed = (inside[:, None] > risers + 1e-9).sum(axis=1)
    lines = np.concatenate([plain, inside, inside])
    levels = np.concatenate([steps, climbed, climbed + 1])
    order = np.lexsort((levels, lines))
    heights = ground + s.rise * levels[order]
    return Ground(x=lines[order], y=y, z=np.repeat(heights[:, None], len(y), axis=1))


RATE = 50.0  # frames per simulated second
MAX_COORDINATE = 1e3  # configurations with a larger or a non-finite coordinate are not shown: the simulation diverged [m, rad]


MAX_FRICTION = 1e3  # friction coefficient in place of larger ones, also of infinity

FRAME = ("poses", "points", "normals", "friction", "centre", "world", "predicted")
"""Fields of a film that have a row for each frame."""


class Film(Record, frozen=True):
    """An animation of f frames with c contacts, in world axes. Missing contacts have force 0."""

    t: Array  # time [s] (f)
    poses: Array  # position [m] and quaternion xyzw of each joint frame; joint 0 is the world (f, njoints, 7)
    points: Array  # contact points, or the nearest points of contacts that do not touch [m] (f, c, 3)
    normals: Array  # normals of the contacts, towards the robot (f, c, 3)
    friction: Array  # friction coefficients that the controller assumes; 0 without a cone, at most `MAX_FRICTION` (f, c)
    centre: Array  # centre of mass [m] (f, 3)
    world: Array  # simulated or measured force on the robot in the tick that begins at t [N] (f, c, 3)
    predicted: Array  # predicted force on the robot in that tick [N] (f, c, 3)
    known: bool  # whether `world` has forces; logs of robots without force sensors have none
    mode: Array  # origin of the torque, as in `Trace` (f)


def film_of(robot: Robot, terrain: Terrain, trace: Trace, rate: float = RATE, mu: float | None = None) -> Film:
    """Return the animation of a trace, until the simulation diverges.

    rate: frames per second, at most the ticks per second of the trace
    mu: friction coefficient of all contacts; None: those of robot and terrain
    Raises InputError if the first configuration cannot be shown.
    """
    count = displayed(trace.q)
    if not count:
        raise InputError("trace.q", f"expected a first configuration of finite numbers below {MAX_COORDINATE:g}")
    return film_at(robot, terrain, trace, frames(trace.t[:count], rate), mu)


def film_at(robot: Robot, terrain: Terrain, trace: Trace, rows: Array, mu: float | None = None) -> Film:
    """Return the animation with frames at given rows of a trace, at least one. mu: see `film_of`"""
    parts = [frame_of(robot, terrain, trace.q[row], (trace.simulated[row], trace.predicted[row]), mu) for row in rows]
    return Film(
        t=trace.t[rows],
        known=bool(np.isfinite(trace.simulated).any()),
        mode=trace.mode[rows],
        **{name: np.array([part[name] for part in parts]) for name in FRAME},
    )


def frame_of(
    robot: Robot, terrain: Terrain, q: Array, forces: tuple[Array, Array], mu: float | None = None
) -> dict[str, Array]:
    """Return the fields `FRAME` of one frame, as in `Film`.

    forces: simulated and predicted forces along n, t1, t2 of each contact, as in `Trace` [N] (c, 3); mu: see `film_of`
    """
    assumed = None if mu is None else np.full(len(robot.contact_names), mu)
    contacts = contacts_from_geometry(robot, q, terrain, margin=np.inf, mu=assumed)
    return {
        "poses": poses_of(robot, q),
        "points": contacts.points,
        "normals": contacts.normals,
        "friction": np.minimum(contacts.mu, MAX_FRICTION),
        "centre": robot.frames.center_of_mass(q),
        "world": world_forces(contacts, forces[0]),
        "predicted": world_forces(contacts, forces[1]),
    }


def frames(t: Array, rate: float) -> Array:
    """Return the indices of the first rows at or after each multiple of 1/rate [s], and of the last row."""
    count = int((t[-1] - t[0]) * rate) + 1
    due = t[0] + np.arange(count) / rate
    return np.unique(np.append(np.searchsorted(t, due - 1e-9), len(t) - 1))


def displayed(q: Array) -> int:
    """Return the number of configurations (n, nq) before the first that is not displayable."""
    return int(np.argmin(np.append([displayable(each) for each in q], False)))


def displayable(q: Array) -> bool:
    """Return whether all coordinates of a configuration are finite and below `MAX_COORDINATE`."""
    return bool(np.abs(q).max() < MAX_COORDINATE)


def poses_of(robot: Robot, q: Array) -> Array:
    """Return position [m] and quaternion xyzw of all joint frames in the world (njoints, 7)."""
    rotations, origins = robot.place(q)
    return np.hstack([origins, Rotation.from_matrix(rotations).as_quat()])


def world_forces(contacts: ContactSet, forces: Array) -> Array:
    """Return forces in world axes [N] (c, 3). forces: along n, s and t = n × s of each contact; NaN counts as 0 (c, 3)"""
    n, s = contacts.normals, contacts.tangents
    f = np.nan_to_num(forces)
    return f[:, :1] * n + f[:, 1:2] * s + f[:, 2:] * np.cross(n, s)
