"""The verdict about a run: how it ended, judged by the task of its controller. Every command that judges a run uses it."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
import numpy as np

from controllers.planners.trajectory import HoldSettings, OscillationSettings, TrajectorySettings, WalkSettings
from controllers.planners.two_legs.walker import TwoLegsSettings
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.model.so3 import yaw
from idyn.status import Status
from idyn.types import Array, Record
from sim_harness.measure import seen
from sim_harness.measure.fall import LAG, Posture, progress_of, risen
from sim_harness.measure.trace import Trace

SHORTEST = 0.05  # a walk whose path is shorter than this by then is not judged by its progress [m, rad]
MOVED, WALKED = 0.1, 0.7  # shares of the expected motion below which a robot never moved, or did not walk its path
STEERED = 0.1  # a robot that others may steer walked when its base travelled farther than this [m]

SAMPLE = 0.5
"""Time between the positions that measure how far a steered base travelled [s]; a multiple of the period of most gaits, so
that sway does not count."""

HELD = {"rad": 0.1, "m": 0.01}  # a robot on a fixed base holds its reference if its joints end nearer to it than this
LEAST_MOTION = 0.02  # a reference whose joints move less than this need not be seen in the robot [rad]

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
    SPUN = "spun"
    HUNG = "hung"
    FELL = "fell"
    REFUSED = "refused"
    STOPPED = "stopped"
    FAILED = "simulation failed"


GOOD = (Ending.STOOD, Ending.WALKED, Ending.HELD, Ending.GOT_UP)  # endings of a run that did its task: the exit code is 0

CUT_SHORT = (Ending.FELL, Ending.LAY, Ending.REFUSED, Ending.STOPPED, Ending.FAILED)
"""Endings of a run whose figures are not comparable with those of a whole run."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    ending: Ending
    text: str  # in words, with the numbers that decided
    good: bool  # whether the robot did its task
    upright: bool  # whether it was on its feet and under control to the end: no fall, refusal or stop
    at: float | None = None  # time of what went wrong [s], None if nothing did or if it has no time
    noted: tuple[str, ...] = ()  # what else happened until then: slips of a walk, reasons of a status that is not ok

    @property
    def whole(self) -> str:
        """Return the text and what was noted, a line each."""
        return ".\n  ".join((self.text, *self.noted))


class Task(Record, frozen=True):
    """What a robot has to do."""

    terrain: Terrain  # ground of the world
    reference: TrajectorySettings = HoldSettings()  # of the controller
    law: str = ""  # name of the controller's contact law
    gripping: Sequence[str] = ()  # names of joints that grip the robot's boxes
    steered: bool = False  # whether others may command motions that the reference does not contain: planners, gamepads
    stance: Array | None = None  # configuration in which a robot stands that has to get up (nq); None: it stands from the start


def judge(trace: Trace, robot: Robot, task: Task, *, ticks: int, dt: float, cut: bool = False) -> Verdict:
    """Return the verdict about a run. ticks: planned number of periods; dt: period [s]; cut: whether its log ends early"""
    found = _ended(trace, robot, task, ticks=ticks, dt=dt)
    if cut and found.ending is Ending.WALKED:
        found = msgspec.structs.replace(found, text=f"{found.text} so far")
    end = np.inf if found.at is None or found.upright else found.at - 0.5 * dt
    until, walks = int(np.searchsorted(trace.t - trace.t[0], end)), robot.floating and (task.reference.walks or task.steered)
    slipped = seen.slips(trace, robot, task.terrain, until) if walks else ()
    return msgspec.structs.replace(found, noted=(*slipped, *seen.reasons(trace, until)))


def _ended(trace: Trace, robot: Robot, task: Task, *, ticks: int, dt: float) -> Verdict:
    fallen, losses = _fallen(trace, robot, task), filter(None, (_of_refusal(trace), _of_mode(trace)))
    lost = min(losses, key=lambda loss: loss.at, default=None)
    if fallen.any():
        at = trace.time(int(fallen.argmax()))
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
    if robot.floating and (hung := _hung(trace, robot, task)) is not None:
        return hung
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


def _of_refusal(trace: Trace) -> Loss | None:
    refusal = trace.refusal(-1)
    if not refusal:
        return None
    first, latched = trace.since(trace.answer == trace.answer[-1]), LATCHED.fullmatch(refusal)
    if latched and first:  # the fault may be in the answer to the state before, which the failsafe has seen then
        return Loss(Ending.STOPPED, f"was stopped by the server ({latched[1]})", trace.time(first - 1))
    return Loss(Ending.REFUSED, f"was refused ({latched[1] if latched else refusal})", trace.time(first))


def _of_mode(trace: Trace) -> Loss | None:
    mode, since = trace.modes[trace.mode[-1]], trace.time(trace.since(trace.mode == trace.mode[-1]))
    if mode in ("fault", "damping"):
        return Loss(Ending.STOPPED, f"was stopped by the server ({trace.reasons[trace.reason[-1]]})", since)
    if mode in ("failsafe:stopped", "failsafe:damping"):
        return Loss(Ending.STOPPED, f"was stopped by its failsafe ({mode.partition(':')[2]})", since)
    return None


def _hung(trace: Trace, robot: Robot, task: Task) -> Verdict | None:
    """Return the verdict about a robot that its feet do not carry, None for one that they do or where that is not known."""
    shares = seen.carried(trace, robot, task.terrain)
    if shares is None or (sum(shares) >= seen.WEIGHTLESS and shares[1] <= seen.CARRIED):
        return None
    if sum(shares) < seen.WEIGHTLESS:
        return _left(trace) or verdict(Ending.HUNG, "hung: no contact carries its weight")
    return verdict(Ending.HUNG, f"hung: bodies that are no feet carry {shares[1]:.0%} of its weight")


def _left(trace: Trace, reach: float = 0.0) -> Verdict | None:
    """Return the verdict about a base that nobody commanded to move and that is not where it was, None if it is there."""
    for ending, found in ((Ending.SPUN, seen.spun(trace)), (Ending.DRIFTED, seen.strayed(trace, reach))):
        if found is not None:
            return verdict(ending, *found)
    return None


def _of_steps(trace: Trace, walk: TwoLegsSettings, seconds: float) -> Verdict:
    """Return the verdict about a walk on two legs: how far the base came, and how far it is from its goal and turned off."""
    ends = max(seconds - LAG, 0.0)
    goals = np.array([walk.goal(t) for t in (*np.arange(0.0, ends, SAMPLE), ends)])
    goal, heading = goals[-1], np.unwrap([yaw(q[3:7]) for q in trace.q])
    reach, turn = float(np.linalg.norm(goals[:, :2], axis=1).max()), float(abs(goal[2]))
    if max(reach, float(np.abs(goals[:, 2]).max())) < SHORTEST:
        return _left(trace) or verdict(Ending.STOOD, f"stood {seconds:.1f} s")
    if (turned_off := seen.spun(trace, float(goal[2]))) is not None:
        return verdict(Ending.SPUN, *turned_off)
    c, s = np.cos(heading[0]), np.sin(heading[0])
    places = (trace.q[:, :2] - trace.q[0, :2]) @ np.array([[c, -s], [s, c]])  # along and across the first heading
    farthest = goals[np.linalg.norm(goals[:, :2], axis=1).argmax(), :2]
    moved = float((places @ farthest).max() / reach) if reach > 0.0 else float(np.linalg.norm(places[-1]))
    turned, off = float((heading[-1] - heading[0]) * np.sign(goal[2])), float(np.linalg.norm(places[-1] - goal[:2]))
    text = f"{moved:.2f} m, turned {turned:.2f} rad" if turn > SHORTEST else f"{moved:.2f} m"
    if moved < WALKED * reach or turned < WALKED * turn:
        never = moved <= MOVED * reach and turned <= MOVED * turn
        return verdict(Ending.NEVER_MOVED if never else Ending.WALKED_PART, f"walked only {text}")
    if off > seen.DRIFT[0] + seen.SHARE * reach:
        return verdict(Ending.DRIFTED, f"drifted {off:.2f} m from its path (walked {text})")
    return verdict(Ending.WALKED, f"walked {text}")


def _of_walk(trace: Trace, walk: WalkSettings, *, steered: bool) -> Verdict:
    t, stood = trace.t - trace.t[0], f"stood {trace.t[-1] - trace.t[0]:.1f} s"
    if steered:
        stops = np.append(np.searchsorted(t, np.arange(0.0, t[-1], SAMPLE)), len(t) - 1)
        travelled = float(np.linalg.norm(np.diff(trace.q[stops, :2], axis=0), axis=1).sum())
        return verdict(Ending.STOOD, stood) if travelled < STEERED else verdict(Ending.WALKED, f"walked {travelled:.2f} m")
    path = walk.path
    if not (path.waypoints or any(path.velocity)):
        return _left(trace) or verdict(Ending.STOOD, stood)
    made, expected, unit, off = progress_of(walk, t, trace.q)
    lasts = 0.0 if path.waypoints else min(max(t[-1] - LAG - walk.start, 0.0), path.duration)
    if not path.waypoints and (turned_off := seen.spun(trace, path.velocity[2] * lasts)) is not None:
        return verdict(Ending.SPUN, *turned_off)
    if expected >= SHORTEST and made < MOVED * expected:
        return verdict(Ending.NEVER_MOVED, f"never moved ({made:.2f} of {expected:.2f} {unit})")
    if expected >= SHORTEST and made < WALKED * expected:
        return verdict(Ending.WALKED_PART, f"walked {made:.2f} of {expected:.2f} {unit}")
    speed = path.speed if path.waypoints else float(np.hypot(*path.velocity[:2]))
    due = expected if path.waypoints else speed * lasts
    if off > seen.DRIFT[0] + speed * LAG + seen.SHARE * due:
        return verdict(Ending.DRIFTED, f"drifted {off:.2f} m from its path (walked {made:.2f} {unit})")
    return verdict(Ending.WALKED, f"walked {made:.2f} {unit}")


def _of_stance(trace: Trace, robot: Robot, task: Task, seconds: float) -> Verdict:
    if task.gripping and robot.description.box:
        dropped = _dropped(trace, robot, task.gripping)
        if dropped is not None:
            return verdict(Ending.DROPPED, f"dropped its box at {dropped:.2f} s", dropped)
    elif (away := seen.drifted(trace, robot)) is not None:
        return verdict(Ending.DRIFTED, *away)
    if robot.floating and not task.steered:
        turned, foot = seen.spun(trace), seen.slid(trace, robot, task.terrain)
        if turned is None and foot is not None:
            return verdict(Ending.SLID, *foot)
        reach = task.reference.amplitude if isinstance(task.reference, OscillationSettings) else 0.0
        if (left := _left(trace, reach)) is not None:
            return left
    following = np.array([name not in task.gripping for name in robot.joint_names])
    if (missing := _missed(trace, robot, following)) is not None:
        return verdict(Ending.NEVER_MOVED, f"never moved (joint {missing})")
    if robot.floating:
        return verdict(Ending.STOOD, f"stood {seconds:.1f} s")
    name, error, unit = _last_error(trace, robot, following)
    if error > HELD[unit]:
        return verdict(Ending.LET_GO, f"did not hold: {name} ends {error:.2f} {unit} off its reference")
    return verdict(Ending.HELD, f"held {'its box ' if task.gripping else ''}{seconds:.1f} s")


def _dropped(trace: Trace, robot: Robot, gripping: Sequence[str]) -> float | None:
    """Return the time at which a box has left the fingers by half its smallest edge [s], None if it never does."""
    fingers = [robot.joint_of_frame(name) for name in gripping]
    boxes = [(robot.joint_of_frame(box.frame), 0.5 * min(box.size)) for box in robot.description.box]
    rows, first = seen.rows_of(trace), None
    for row in rows:
        origins = robot.place(trace.q[row])[1]
        apart = np.array([np.linalg.norm(origins[joint] - origins[fingers].mean(axis=0)) for joint, _ in boxes])
        first = apart if first is None else first
        if (np.abs(apart - first) > [half for _, half in boxes]).any():
            return trace.time(row)
    return None


def _missed(trace: Trace, robot: Robot, following: Array) -> str | None:
    """Return a joint whose reference moved while it did not, None without one."""
    rows = seen.rows_of(trace)
    wanted = np.ptp(trace.q_ref[rows], axis=0)
    moved = np.ptp(np.array([robot.joint_angles(q) for q in trace.q[rows]]), axis=0)
    missed = following & (wanted > LEAST_MOTION) & (moved < MOVED * wanted)
    return robot.joint_names[int(missed.argmax())] if missed.any() else None


def _last_error(trace: Trace, robot: Robot, following: Array) -> tuple[str, float, str]:
    """Return the joint farthest from its reference at the end, as a share of `HELD`, or from its first angle without one; how
    far, and its unit: rad, or m of a joint that slides."""
    wanted = trace.q_ref[-1] if np.isfinite(trace.q_ref[-1]).all() else robot.joint_angles(trace.q[0])
    error = np.abs(robot.joint_error(robot.joint_angles(trace.q[-1]), wanted)) * following
    turns: Array = np.any(robot.terms(trace.q[0], np.zeros(robot.nv)).axes[robot.tree.a, 3:], axis=1)
    worst = int((error / np.where(turns, HELD["rad"], HELD["m"])).argmax())
    return robot.joint_names[worst], float(error[worst]), "rad" if turns[worst] else "m"
