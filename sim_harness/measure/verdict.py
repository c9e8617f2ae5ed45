"""The verdict about a run: how it ended, judged by the task of its controller. Every command that judges a run uses it."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
import numpy as np

from controllers.planners.trajectory import HoldSettings, TrajectorySettings, WalkSettings
from controllers.planners.two_legs.walker import TwoLegsSettings
from controllers.robot.attitude import yaw
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.status import Status
from idyn.types import Array, Record
from sim_harness.measure.fall import Posture
from sim_harness.measure.progress import LAG, progress_of
from sim_harness.measure.rise import risen
from sim_harness.measure.trace import Trace

SHORTEST = 0.05
"""A walk whose path is shorter than this by then is not judged by its progress [m, rad]."""

MOVED, WALKED = 0.1, 0.7
"""Shares of the expected motion below which a robot never moved, or did not walk its path."""

STEERED = 0.1
"""A robot that others may steer walked when its base travelled farther than this [m]."""

SAMPLE = 0.5
"""Time between the positions that measure how far a steered base travelled [s]; a multiple of the period of most gaits, so
that sway does not count."""

TOUCHING, SLID = 0.005, 0.03
"""A foot stands if its gap at the start is below the first; it slid if it moved farther than the second [m]."""

FREE = 6
"""Velocities of a body that moves freely."""

LOOKS = 100
"""Number of instants at which the places of the feet are computed."""

HELD = 0.1
"""A robot on a fixed base holds its reference if its joints end nearer to it than this [rad]."""

LEAST_MOTION = 0.02
"""A reference whose joints move less than this need not be seen in the robot [rad]."""

DRIFT = 0.1, 0.5
"""A body that nothing holds drifted when it moved or turned by more than this [m, rad]."""

WEIGHTLESS = 0.05
"""A robot floats if its contacts carry less than this share of its weight, on average over the last half of the run."""

LATCHED = re.compile(r"latched_fault: latched \((.*)\); send reset .*")
"""Refusal of all states after the server has stopped the robot; the group is why. From the first state on the server has never
controlled the robot."""


class Ending(StrEnum):
    """How a run ended."""

    STOOD = "stood"
    WALKED = "walked"
    HELD = "held"
    GOT_UP = "got up"
    LAY = "did not get up"
    NEVER_MOVED = "never moved"
    WALKED_PART = "walked part"
    SLID = "slid"
    LET_GO = "did not hold"
    DROPPED = "dropped"
    DRIFTED = "drifted"
    FELL = "fell"
    REFUSED = "refused"
    STOPPED = "stopped"
    FAILED = "simulation failed"


GOOD = (Ending.STOOD, Ending.WALKED, Ending.HELD, Ending.GOT_UP)
"""Endings of a run that did its task: the exit code is 0."""

CUT_SHORT = (Ending.FELL, Ending.LAY, Ending.REFUSED, Ending.STOPPED, Ending.FAILED)
"""Endings of a run whose figures are not comparable with those of a whole run."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended.

    text: in words, with the numbers that decided; good: whether the robot did its task
    upright: whether it was on its feet and under control to the end: no fall, refusal or stop
    at: time of what went wrong [s], None if nothing did or if it has no time
    """

    ending: Ending
    text: str
    good: bool
    upright: bool
    at: float | None = None


class Task(Record, frozen=True):
    """What a robot has to do.

    terrain: ground of the world; reference: of the controller
    law: name of the controller's contact law
    gripping: names of joints that grip the robot's boxes
    steered: whether others may command motions that the reference does not contain: planners, gamepads
    stance: configuration in which a robot stands that has to get up (nq); None: it stands from the start
    """

    terrain: Terrain
    reference: TrajectorySettings = HoldSettings()
    law: str = ""
    gripping: Sequence[str] = ()
    steered: bool = False
    stance: Array | None = None


def judge(trace: Trace, robot: Robot, task: Task, *, ticks: int, dt: float) -> Verdict:
    """Return the verdict about a run. ticks: planned number of periods; dt: period [s]"""
    fallen, lost = _fallen(trace, robot, task), _lost_control(trace)
    if fallen.any():
        at = float(trace.t[fallen.argmax()] - trace.t[0])
        if not np.isfinite(trace.q[fallen.argmax()]).all():
            return verdict(Ending.FAILED, f"simulation failed at {at:.2f} s", at)
        cause = f", {lost.text} at {lost.at:.2f} s" if lost is not None and lost.at < at else ""
        return verdict(Ending.FELL, f"fell at {at:.2f} s{cause}", at)
    if lost is not None:
        return verdict(lost.ending, f"{lost.text} at {lost.at:.2f} s", lost.at)
    if trace.status[-1] == Status.NON_FINITE or len(trace) < ticks:
        at = len(trace) * dt
        return verdict(Ending.FAILED, f"simulation failed at {at:.2f} s", at)
    seconds = len(trace) * dt
    if task.stance is not None:
        at = risen(trace, robot, task.terrain, task.stance)
        return verdict(Ending.LAY, "did not get up") if np.isnan(at) else verdict(Ending.GOT_UP, f"got up after {at:.2f} s")
    if isinstance(task.reference, WalkSettings) and robot.floating:
        return _of_walk(trace, task.reference, steered=task.steered)
    if isinstance(task.reference, TwoLegsSettings):
        return _of_steps(trace, task.reference, seconds)
    return _of_stance(trace, robot, task, seconds)


def _fallen(trace: Trace, robot: Robot, task: Task) -> Array:
    """Return in which ticks the robot has fallen, or its state is non-finite (n). One that gets up may lie and fall."""
    if task.stance is not None:
        return ~np.isfinite(trace.q).all(axis=1)
    return Posture(robot, task.terrain, trace.q[0]).fallen(trace.q)


def verdict(ending: Ending, text: str, at: float | None = None) -> Verdict:
    """Return a verdict with what follows from the ending."""
    return Verdict(ending=ending, text=text, good=ending in GOOD, upright=ending not in CUT_SHORT, at=at)


class Loss(NamedTuple):
    """Loss of control that lasted to the end of the run. at: its beginning [s]"""

    ending: Ending
    text: str
    at: float


def _lost_control(trace: Trace) -> Loss | None:
    """Return the first loss of control that lasted to the end of the run, None if the server controlled the robot."""
    losses = [loss for loss in (_of_server(trace), _of_failsafe(trace)) if loss is not None]
    return min(losses, key=lambda loss: loss.at, default=None)


def _of_server(trace: Trace) -> Loss | None:
    """Return what the server did until the end of the run instead of controlling the robot."""
    refusal, mode = trace.refusal(-1), trace.modes[trace.mode[-1]]
    if refusal:
        first, latched = _first(trace.answer == trace.answer[-1]), LATCHED.fullmatch(refusal)
        if latched and first:  # the fault may be in the answer to the state before, which the failsafe has seen then
            return Loss(Ending.STOPPED, f"was stopped by the server ({latched[1]})", float(trace.t[first - 1] - trace.t[0]))
        return Loss(Ending.REFUSED, f"was refused ({latched[1] if latched else refusal})", float(trace.t[first] - trace.t[0]))
    if mode in ("fault", "damping"):
        return Loss(Ending.STOPPED, f"was stopped by the server ({mode})", _since(trace, _same(trace, mode)))
    return None


def _of_failsafe(trace: Trace) -> Loss | None:
    mode = trace.modes[trace.mode[-1]]
    if mode not in ("failsafe:stopped", "failsafe:damping"):
        return None
    since = _since(trace, _same(trace, mode))
    return Loss(Ending.STOPPED, f"was stopped by its failsafe ({mode.partition(':')[2]})", since)


def _same(trace: Trace, mode: str) -> Array:
    return np.asarray(trace.mode == trace.modes.index(mode))


def _since(trace: Trace, holds: Array) -> float:
    """Return the time since which a condition has held until the end [s]."""
    return float(trace.t[_first(holds)] - trace.t[0])


def _first(holds: Array) -> int:
    """Return the row from which on a condition has held until the end; it holds in the last row."""
    ends = np.flatnonzero(~holds)
    return int(ends[-1]) + 1 if len(ends) else 0


def _of_steps(trace: Trace, walk: TwoLegsSettings, seconds: float) -> Verdict:
    """Return the verdict about a walk on two legs: how far the base is from its start, and how far it turned."""
    goal, heading = walk.goal(seconds - LAG), np.unwrap([yaw(q[3:7]) for q in trace.q])
    moved = float(np.linalg.norm(trace.q[-1, :2] - trace.q[0, :2]))
    turned = float(abs(heading[-1] - heading[0]))
    distance, turn = float(np.linalg.norm(goal[:2])), float(abs(goal[2]))
    text = f"{moved:.2f} m, turned {turned:.2f} rad" if turn > SHORTEST else f"{moved:.2f} m"
    if max(distance, turn) < SHORTEST:
        return verdict(Ending.STOOD, f"stood {seconds:.1f} s")
    if moved < WALKED * distance or turned < WALKED * turn:
        never = moved <= MOVED * distance and turned <= MOVED * turn
        return verdict(Ending.NEVER_MOVED if never else Ending.WALKED_PART, f"walked only {text}")
    return verdict(Ending.WALKED, f"walked {text}")


def _of_walk(trace: Trace, walk: WalkSettings, *, steered: bool) -> Verdict:
    t = trace.t - trace.t[0]
    if steered or not (walk.path.waypoints or any(walk.path.velocity)):
        stops = np.append(np.searchsorted(t, np.arange(0.0, t[-1], SAMPLE)), len(t) - 1)
        travelled = float(np.linalg.norm(np.diff(trace.q[stops, :2], axis=0), axis=1).sum())
        if travelled < STEERED:
            return verdict(Ending.STOOD, f"stood {t[-1]:.1f} s")
        return verdict(Ending.WALKED, f"walked {travelled:.2f} m so far")
    made, expected, unit, finished = progress_of(walk, t, trace.q)
    if expected < SHORTEST or (finished and made >= WALKED * expected):
        return verdict(Ending.WALKED, f"walked {made:.2f} {unit}" + ("" if finished else " so far"))
    if made < MOVED * expected:
        return verdict(Ending.NEVER_MOVED, f"never moved ({made:.2f} of {expected:.2f} {unit})")
    if made < WALKED * expected:
        return verdict(Ending.WALKED_PART, f"walked {made:.2f} of {expected:.2f} {unit}")
    return verdict(Ending.WALKED, f"walked {made:.2f} {unit} so far")


def _of_stance(trace: Trace, robot: Robot, task: Task, seconds: float) -> Verdict:
    """Judge a robot that stands on its feet, or on a fixed base, with or without something in its fingers."""
    if task.gripping and robot.description.box:
        dropped = _dropped(trace, robot, task.gripping)
        if dropped is not None:
            return verdict(Ending.DROPPED, f"dropped its box at {dropped:.2f} s", dropped)
    elif (drifted := _drifted(trace, robot)) is not None:
        return drifted
    if robot.floating and _floats(trace, robot):
        return verdict(Ending.DRIFTED, "drifted: no contact carries its weight")
    if robot.floating and not task.steered:
        foot, distance, at = _farthest_slide(trace, robot, task.terrain)
        if distance > SLID:
            return verdict(Ending.SLID, f"slid {distance:.2f} m ({foot}, from {at:.2f} s)", at)
    following = np.array([name not in task.gripping for name in robot.joint_names])
    if (missing := _missed(trace, robot, following)) is not None:
        return verdict(Ending.NEVER_MOVED, f"never moved (joint {missing})")
    if robot.floating:
        return verdict(Ending.STOOD, f"stood {seconds:.1f} s")
    name, error = _last_error(trace, robot, following)
    if error > HELD:
        return verdict(Ending.LET_GO, f"did not hold: {name} ends {error:.2f} rad off its reference")
    return verdict(Ending.HELD, f"held {'its box ' if task.gripping else ''}{seconds:.1f} s")


def _dropped(trace: Trace, robot: Robot, gripping: Sequence[str]) -> float | None:
    """Return the time at which a box has left the fingers by half its smallest edge [s], None if it never does."""
    fingers = [robot.joint_of_frame(name) for name in gripping]
    boxes = [(robot.joint_of_frame(box.frame), 0.5 * min(box.size)) for box in robot.description.box]
    rows, first = _rows(trace), None
    for row in rows:
        origins = robot.place(trace.q[row])[1]
        apart = np.array([np.linalg.norm(origins[joint] - origins[fingers].mean(axis=0)) for joint, _ in boxes])
        first = apart if first is None else first
        if (np.abs(apart - first) > [half for _, half in boxes]).any():
            return float(trace.t[row] - trace.t[0])
    return None


def _drifted(trace: Trace, robot: Robot) -> Verdict | None:
    """Return the verdict about a body that moves freely and did not stay where it was, None without one. The floating base is
    judged by its feet."""
    tree = robot.tree
    joints, counts = np.unique(tree.dof_joint[tree.u], return_counts=True)
    free = [int(joint) for joint, count in zip(joints, counts, strict=True) if count == FREE][int(robot.floating) :]
    rows = _rows(trace)
    for joint in free:
        placed = [tuple(part[joint].copy() for part in robot.place(trace.q[row])) for row in rows]
        moved = np.array([np.linalg.norm(origin - placed[0][1]) for _, origin in placed])
        turned = np.arccos([np.clip(0.5 * (np.trace(R @ placed[0][0].T) - 1.0), -1.0, 1.0) for R, _ in placed])
        away = (moved > DRIFT[0]) | (turned > DRIFT[1])
        if away.any():
            name = tree.dof_names[int(np.flatnonzero(tree.dof_joint == joint)[0])].rpartition(".")[0]
            at = float(trace.t[rows[away.argmax()]] - trace.t[0])
            text = f"drifted {moved[-1]:.2f} m and {turned[-1]:.2f} rad ({name}, from {at:.2f} s)"
            return verdict(Ending.DRIFTED, text, at)
    return None


def _floats(trace: Trace, robot: Robot) -> bool:
    """Return whether a robot neither fell nor was carried; False where the world's forces are not known."""
    forces = trace.simulated[len(trace) // 2 :, :, 0]
    known = np.isfinite(forces).any(axis=1)
    return bool(known.any() and np.nansum(forces[known], axis=1).mean() < WEIGHTLESS * robot.weight)


def _farthest_slide(trace: Trace, robot: Robot, terrain: Terrain) -> tuple[str, float, float]:
    """Return the standing foot that moved farthest over the ground, how far [m], and when it first was `SLID` away [s]."""
    rows = _rows(trace)
    first = contacts_from_geometry(robot, trace.q[rows[0]], terrain, margin=np.inf)
    standing = first.gaps < TOUCHING
    if not standing.any():
        return "", 0.0, 0.0
    places = np.array([contacts_from_geometry(robot, trace.q[row], terrain, margin=np.inf).points[standing] for row in rows])
    moved = np.linalg.norm((places - places[0])[..., :2], axis=2)
    foot = int(moved.max(axis=0).argmax())
    away = moved[:, foot] > SLID
    at = float(trace.t[rows[away.argmax()]] - trace.t[0]) if away.any() else 0.0
    return np.array(first.keys)[standing][foot], float(moved[:, foot].max()), at


def _rows(trace: Trace) -> Array:
    return np.unique(np.linspace(0, len(trace) - 1, LOOKS).astype(int))


def _missed(trace: Trace, robot: Robot, following: Array) -> str | None:
    """Return a joint whose reference moved while it did not, None without one."""
    rows = _rows(trace)
    wanted = np.ptp(trace.q_ref[rows], axis=0)
    moved = np.ptp(np.array([robot.joint_angles(q) for q in trace.q[rows]]), axis=0)
    missed = following & (wanted > LEAST_MOTION) & (moved < MOVED * wanted)
    return robot.joint_names[int(missed.argmax())] if missed.any() else None


def _last_error(trace: Trace, robot: Robot, following: Array) -> tuple[str, float]:
    """Return the joint farthest from its reference at the end, or from its first angle without one, and how far [rad]."""
    wanted = trace.q_ref[-1] if np.isfinite(trace.q_ref[-1]).all() else robot.joint_angles(trace.q[0])
    error = np.abs(robot.joint_error(robot.joint_angles(trace.q[-1]), wanted)) * following
    return robot.joint_names[int(error.argmax())], float(error.max())
