"""What the world saw of a run: what left its place, what carried the robot, which feet slipped; and why a status was not ok."""

from collections.abc import Iterator

import numpy as np

from controllers.robot.kinematics import STANDS
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.model.so3 import yaw
from idyn.types import Array
from sim_harness.measure.trace import Trace
from sim_harness.world.world import contact_jacobian

TOUCHING, LOADED, SLID = 0.005, 0.02, 0.03
"""A foot stands if its gap at the start is below the first [m]. It bears load above the second, a share of the weight. It slid,
or slipped between two steps, if it moved farther than the third under load [m]."""

FREE = 6  # velocities of a body that moves freely
LOOKS = 100  # number of instants at which the places of the feet are computed

DRIFT = 0.1, 0.5
"""A body drifted when it is farther from its place than this, horizontally or vertically [m], and spun when it turned by more
[rad]: a stance that sways under a push stays within a few centimetres and a tenth of a radian."""

SHARE = 0.3  # further error of a commanded motion, as a share of it: a walk is good from 70 % of its path on

WEIGHTLESS, CARRIED = 0.05, 0.2
"""A robot hangs, or floats, if its contacts carry less than the first share of its weight on average over the last half of the
run; it hangs, too, if bodies that are no feet carry more than the second: a knee that brushes the ground carries less."""

STRIDE = 5  # slips are measured in every tick with an index divisible by this; each needs a Jacobian
Departure = tuple[str, float]  # what left its place, in words, and since when [s]


def rows_of(trace: Trace) -> Array:
    """Return the rows in which the places of the feet are computed."""
    return np.unique(np.linspace(0, len(trace) - 1, LOOKS).astype(int))


def normal_forces_of(trace: Trace) -> tuple[Array, Array]:
    """Return the normal force of each contact, and that at the contact place itself [N] (n, c): 0 in the air, NaN where only
    sensed forces could tell."""
    forces, beside = trace.simulated[..., 0], trace.beside if trace.beside.size else np.full(trace.simulated.shape[:2], np.nan)
    forces = np.where(np.isnan(forces) & np.isfinite(beside), 0.0, forces)
    return forces, forces - np.nan_to_num(beside)


def spun(trace: Trace, commanded: float = 0.0) -> Departure | None:
    """Return how far a floating base turned about the vertical beside the commanded turn [rad], None if it followed it."""
    heading = np.unwrap([yaw(q[3:7]) for q in trace.q])
    off = heading - heading[0] - commanded * np.linspace(0.0, 1.0, len(heading))
    beside = f" beside the commanded {commanded:.2f} rad" if commanded else ""
    return _base(trace, np.abs(off) > DRIFT[1] + SHARE * abs(commanded), f"spun {off[-1]:.2f} rad{beside}")


def strayed(trace: Trace, reach: float = 0.0) -> Departure | None:
    """Return how far a floating base is from its place at the end, None if it is there. reach: of its reference [m]"""
    moved = trace.q[:, :3] - trace.q[0, :3]
    aside = np.linalg.norm(moved[:, :2], axis=1)
    away = np.maximum(aside, np.abs(moved[:, 2])) > DRIFT[0] + reach
    return _base(trace, away, f"drifted {aside[-1]:.2f} m and {abs(moved[-1, 2]):.2f} m in height")


def _base(trace: Trace, away: Array, text: str) -> Departure | None:
    first = trace.since(away)
    return None if first == len(trace) else (f"{text} (base, from {trace.time(first):.2f} s)", trace.time(first))


def carried(trace: Trace, robot: Robot, terrain: Terrain) -> tuple[float, float] | None:
    """Return the shares of the weight that feet and other bodies of a robot carry, means over the last half; None where the
    world's forces are not known. Feet: contact places that are as low as the lowest one in the first state."""
    n, half = len(robot.spheres.keys), len(trace) // 2
    forces, own = (each[half:, :n] for each in normal_forces_of(trace))
    known = np.isfinite(forces).any(axis=1)
    if not known.any() or not robot.bodies.gravity.any():
        return None
    gaps = contacts_from_geometry(robot, trace.q[0], terrain, margin=np.inf).gaps[:n]
    total, feet = (np.nansum(each[known], axis=1).mean() for each in (forces, own[:, gaps <= gaps.min() + STANDS]))
    return float(feet / robot.weight), float((total - feet) / robot.weight)


def drifted(trace: Trace, robot: Robot) -> Departure | None:
    """Return which body left its place that moves freely or, as the root of a fixed robot, without a motor; None without one.
    The floating base has checks of its own."""
    tree = robot.tree
    joints, counts = np.unique(tree.dof_joint[tree.u], return_counts=True)
    free = [int(joint) for joint, count in zip(joints, counts, strict=True) if count == FREE][int(robot.floating) :]
    free += [int(joint) for joint in joints if not robot.floating and not robot.tree.parents[joint] and joint not in free]
    rows = rows_of(trace)
    for joint in free:
        placed = [tuple(part[joint].copy() for part in robot.place(trace.q[row])) for row in rows]
        moved = np.array([np.linalg.norm(origin - placed[0][1]) for _, origin in placed])
        turned = np.arccos([np.clip(0.5 * (np.trace(R @ placed[0][0].T) - 1.0), -1.0, 1.0) for R, _ in placed])
        away = (moved > DRIFT[0]) | (turned > DRIFT[1])
        if away.any():
            name = tree.dof_names[int(np.flatnonzero(tree.dof_joint == joint)[0])].partition(".")[0]
            at = trace.time(rows[away.argmax()])
            return f"drifted {moved[-1]:.2f} m and {turned[-1]:.2f} rad ({name}, from {at:.2f} s)", at
    return None


def slid(trace: Trace, robot: Robot, terrain: Terrain) -> Departure | None:
    """Return which standing foot moved farthest over the ground while it bore load, None if all stayed."""
    rows = rows_of(trace)
    first = contacts_from_geometry(robot, trace.q[rows[0]], terrain, margin=np.inf)
    standing = first.gaps < TOUCHING
    if not standing.any():
        return None
    places = np.array([contacts_from_geometry(robot, trace.q[row], terrain, margin=np.inf).points[standing] for row in rows])
    loaded = ~(normal_forces_of(trace)[1][rows][:, standing] <= LOADED * robot.weight)  # where it is not known, too
    steps = np.diff(places[..., :2], axis=0) * (loaded[1:] & loaded[:-1])[..., None]
    moved = np.linalg.norm(steps.cumsum(axis=0), axis=2)
    foot = int(moved.max(axis=0).argmax())
    away, name = moved[:, foot] > SLID, np.array(first.keys)[standing][foot]
    at = trace.time(rows[away.argmax() + 1])
    return (f"slid {moved[:, foot].max():.2f} m ({name}, from {at:.2f} s)", at) if away.any() else None


def slips(trace: Trace, robot: Robot, terrain: Terrain, until: int) -> Iterator[str]:
    """Yield which feet slipped, when first, how far, and the friction |f_t| / f_N used then beside the available one: the
    world's, or that of the controller's model in a log. until: number of rows that count"""
    rows = list(range(0, until, STRIDE))
    loaded = normal_forces_of(trace)[1][rows] > LOADED * robot.weight
    moved, mu = np.zeros((2, *loaded.shape))
    for i, row in enumerate(rows):
        if loaded[i].any():
            contacts = contacts_from_geometry(robot, trace.q[row], terrain, margin=np.inf)
            J = contact_jacobian(robot.terms(trace.q[row], trace.v[row]).axes, robot.tree.support, contacts)
            speeds = np.linalg.norm((J @ trace.v[row]).reshape(-1, 3)[:, :2], axis=1)
            moved[i] = np.where(loaded[i], moved[i - 1] + speeds * (trace.t[row] - trace.t[max(row - STRIDE, 0)]), 0.0)
            mu[i] = contacts.mu
    mu = np.where(np.isfinite(trace.mu[rows]), trace.mu[rows], mu) if trace.mu.size else mu
    crossed = (moved > SLID) & (np.roll(moved, 1, axis=0) <= SLID)
    for foot in np.flatnonzero(crossed.any(axis=0)):
        i, times = int(crossed[:, foot].argmax()), int(crossed[:, foot].sum())
        normal, *tangential = trace.simulated[rows[i], foot]
        used, at = np.hypot(*tangential) / normal, trace.time(rows[i])
        text = f"{trace.places[foot]} slipped {times} time{'' if times == 1 else 's'}, up to {moved[:, foot].max():.2f} m"
        yield f"{text}, first at {at:.2f} s with friction {used:.2g} of {mu[i, foot]:.2g}"


def reasons(trace: Trace, until: int) -> Iterator[str]:
    """Yield why the status was `degraded` or `hold`, in how many ticks and since when, most frequent first. until: as above"""
    counts = np.bincount(trace.reason[:until], minlength=len(trace.reasons))
    for k in np.argsort(-counts, kind="stable"):
        status, _, message = trace.reasons[k].partition(": ")
        if counts[k] and status in ("degraded", "hold"):
            at = trace.time(int((trace.reason == k).argmax()))
            yield f"{status} in {counts[k]} tick{'' if counts[k] == 1 else 's'}, first at {at:.2f} s: {message}"
