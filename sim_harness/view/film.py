"""A run as a film: where the bodies were and what pressed on them, so many times a second."""

import numpy as np
from scipy.spatial.transform import Rotation

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Record
from sim_harness.measure.trace import Trace

RATE = 50.0
"""Frames in each simulated second."""

ABROAD = 1e3
"""A configuration with a coordinate beyond this, or with none, is that of a world that has burst: it is not shown [m, rad]."""


class Film(Record, frozen=True):
    """f frames, c contact places and pairs, world frame. A contact that was not there has force 0.

    t: time [s] (f)
    poses: of all joints' frames, position [m] then quaternion xyzw; that of joint 0 is the world (f, njoints, 7)
    points: where the places touch, or would [m] (f, c, 3)
    world, predicted: force on the robot in the tick that begins then [N] (f, c, 3)
    known: whether the run knows the world's forces: a log of a robot without force sensors does not
    mode: what kind of torque it had, as in `Trace` (f)
    """

    t: Array
    poses: Array
    points: Array
    world: Array
    predicted: Array
    known: bool
    mode: Array


def film_of(robot: Robot, terrain: Terrain, trace: Trace, rate: float = RATE) -> Film:
    """The film of a trace, with `rate` frames for each second where the trace has as many rows; it ends where the world does.

    Raises InputError for a trace that is in no world at all.
    """
    count = int(np.argmin(np.append([shown(q) for q in trace.q], False)))
    if not count:
        raise InputError("trace.q", "expected a first configuration of finite numbers")
    rows = frames(trace.t[:count], rate)
    parts = [frame_of(robot, terrain, trace.q[row], trace.simulated[row], trace.predicted[row]) for row in rows]
    poses, points, world, predicted = (np.array(part) for part in zip(*parts, strict=True))
    return Film(
        t=trace.t[rows],
        poses=poses,
        points=points,
        world=world,
        predicted=predicted,
        known=bool(np.isfinite(trace.simulated).any()),
        mode=trace.mode[rows],
    )


def frame_of(robot: Robot, terrain: Terrain, q: Array, simulated: Array, predicted: Array) -> tuple[Array, Array, Array, Array]:
    """One frame's poses, points, and forces of the world and predicted, as in `Film`.

    simulated, predicted: along n, t1, t2 of each contact, as in `Trace` (c, 3)
    """
    poses = poses_of(robot, q)
    contacts = contacts_from_geometry(robot, q, terrain, margin=np.inf)
    return poses, contacts.points, world_forces(contacts, simulated), world_forces(contacts, predicted)


def frames(t: Array, rate: float) -> Array:
    """The first row at or after each multiple of 1/rate, and the last."""
    count = int((t[-1] - t[0]) * rate) + 1
    due = t[0] + np.arange(count) / rate
    return np.unique(np.append(np.searchsorted(t, due - 1e-9), len(t) - 1))


def shown(q: Array) -> bool:
    """Whether a configuration can be looked at."""
    return bool(np.abs(q).max() < ABROAD)


def poses_of(robot: Robot, q: Array) -> Array:
    """Position and quaternion xyzw of all joints' frames in the world (njoints, 7)."""
    rotations, origins = robot.place(q)
    return np.hstack([origins, Rotation.from_matrix(rotations).as_quat()])


def world_forces(contacts: ContactSet, forces: Array) -> Array:
    """Forces along n, s and t = n × s of each contact, in world axes; NaN is none [N] (c, 3)."""
    n, s = contacts.normals, contacts.tangents
    f = np.nan_to_num(forces)
    return f[:, :1] * n + f[:, 1:2] * s + f[:, 2:] * np.cross(n, s)
