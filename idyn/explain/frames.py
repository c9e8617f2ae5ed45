"""What a motion requires, frame by frame: the joints' forces without contact, and the wrench that the ground must supply."""

from typing import NamedTuple

import numpy as np

from idyn.errors import InputError
from idyn.explain.soles import Foot
from idyn.model.osim.coordinates import Coordinates
from idyn.model.robot import Robot
from idyn.motion.smoothing import Filter, smooth
from idyn.motion.storage import Table
from idyn.types import Array


class Motion(NamedTuple):
    """A smooth motion. time [s] (T); values: free coordinates of the model [rad or m] (T, n)

    q, v, a: of the robot's joints (T, nv)
    """

    time: Array
    values: Array
    q: Array
    v: Array
    a: Array


class Frames(NamedTuple):
    """Terms of all frames, in the robot's world. Wrenches: force [N], then moment about the world's origin [N·m].

    tau: generalised forces of the joints without contact (T, nv)
    axes: velocities at the origin by joint, linear, then angular (T, nv, 6)
    required: wrench that the ground must supply (T, 6)
    centre: centre of mass [m] (T, 3)
    points, speeds: of the soles' points [m, m/s] (T, feet, n, 3); feet: whose points they are
    """

    tau: Array
    axes: Array
    required: Array
    centre: Array
    points: Array
    speeds: Array
    feet: tuple[Foot, ...]


def motion_of(table: Table, coordinates: Coordinates, filter: Filter) -> Motion:
    """Return the smooth motion of a table of coordinates. Raises InputError for missing columns, and as `smooth`."""
    named = {_coordinate(name): column for name, column in table.columns.items()}
    columns = {
        name: np.deg2rad(column) if table.degrees and coordinates.is_angle(name) else column for name, column in named.items()
    }
    smooth_values = smooth(table.time, coordinates.take(columns), filter)
    return Motion(table.time, smooth_values.values, *coordinates.joint_motion(*smooth_values))


def _coordinate(column: str) -> str:
    """Return the coordinate of a column: `/jointset/hip_r/hip_flexion_r/value`, as in files of states, is hip_flexion_r."""
    parts = column.split("/")
    return parts[-2] if len(parts) > 2 and parts[-1] == "value" else column


def frames_of(robot: Robot, root: tuple[int, ...], feet: tuple[Foot, ...], motion: Motion) -> Frames:
    """Return the terms of all frames. root: indices of the six joints between the ground and the root body

    The root has no motor, so  J_rootᵀ w = τ_root  gives the wrench w of the ground.
    Raises InputError for another number of root joints, or where they are singular.
    """
    if len(root) != 6:
        raise InputError("model", f"expected six coordinates between the ground and its child, got {len(root)}")
    count, n = len(motion.time), len(feet[0].points)
    tau, axes = np.empty((count, robot.nv)), np.empty((count, robot.nv, 6))
    centre, required = np.empty((count, 3)), np.empty((count, 6))
    points, speeds = (np.empty((count, len(feet), n, 3)) for _ in range(2))
    for k, (q, v, a) in enumerate(zip(motion.q, motion.v, motion.a, strict=True)):
        axes[k] = robot.terms(q, v).axes
        tau[k] = robot.inverse_dynamics(q, v, a)
        centre[k] = robot.center_of_mass(q)
        for i, foot in enumerate(feet):
            place = robot.frames.placement(foot.frame, q)
            points[k, i] = place.translation + foot.points @ place.rotation.T
            twist = (robot.tree.support[foot.joint] * v) @ axes[k]
            speeds[k, i] = twist[:3] + np.cross(twist[3:], points[k, i])
        try:
            required[k] = np.linalg.solve(axes[k][list(root)], tau[k][list(root)])
        except np.linalg.LinAlgError:
            raise InputError("motion", f"the joints of the root body are singular at {motion.time[k]:g} s") from None
    return Frames(tau, axes, required, centre, points, speeds, feet)


def joint_forces(robot: Robot, frames: Frames, joints: tuple[int, ...], wrenches: Array) -> Array:
    """Return the generalised forces of the joints under contact wrenches (T, nv).

    joints: parent joint of each body with a contact; wrenches: on each of them, about the origin (T, bodies, 6)
    """
    tau = frames.tau.copy()
    for i, joint in enumerate(joints):
        tau -= robot.tree.support[joint] * np.einsum("tkw,tw->tk", frames.axes, wrenches[:, i])
    return tau
