"""Tasks of the gait of two legs. They are made once; each tick writes their targets and chooses among them."""

from itertools import product
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from controllers.planners.two_legs.feet import Feet, Foot, along, heading, nearest_on_edge, point, pose_of, put
from controllers.planners.two_legs.steps import NONE, Steps
from controllers.planners.two_legs.swing import Swing
from idyn.library.kernels import compiled
from idyn.library.records import ArrayRecord, Cube, Matrix, Vector
from idyn.model.robot import Robot
from idyn.solvers.linalg import dot
from idyn.tasks import CenterOfPressureTask, ComTask, ForceTask, FrameTask, TaskLimits, TaskStack
from idyn.tasks.forces import ContactTask
from idyn.tasks.motion import MotionTask
from idyn.types import Array

BASE = "root_joint"
Angles = tuple[tuple[str, float, float], ...]

SWING, HEIGHT, TRUNK = 900.0, 100.0, 100.0  # stiffness of feet, height and attitude [1/s²], critically damped
SWIFT = 40.0  # largest acceleration of a joint, in units of g over the height of the centre of mass: none is thrown to keep it
LOWERING = 0.25
"""Speed at which a foot that is to stand but does not touch goes down [m/s]. On the ground it presses by 15 m/s² times its
mass: an estimator feels its load."""


class Targets(ArrayRecord):
    """Targets of the tasks: axes of frames as columns (3, 3); velocities and accelerations, linear, then angular (6)."""

    trunk: Matrix  # axes (3, 3)
    trunk_rates: Matrix  # velocity, acceleration (2, 6)
    centre: Matrix  # of mass: position, velocity, acceleration (3, 3)
    swing: Matrix  # axes of the foot in the air (3, 3)
    swing_at: Vector  # its origin [m] (3)
    swing_rates: Matrix  # velocity, acceleration (2, 6)
    swing_turns: Matrix  # the angular ones in its own axes (2, 6)
    landing: Cube  # axes of feet that are to stand but do not touch (2, 3, 3)
    pressed: Vector  # centre of pressure of an edge [m] (3)
    load: Vector  # normal force of the foot that carries less [N] (1)
    height: float  # of the centre of mass in the world [m]
    weight: float  # of the robot [N]
    flat: bool  # whether the feet are
    edges: bool  # whether one of them is an edge

    def __init__(self, robot: Robot, feet: tuple[Foot, Foot], height: float) -> None:
        """height: of the centre of mass in the world [m]"""
        self.put(trunk=np.eye(3), trunk_rates=np.zeros((2, 6)), centre=np.zeros((3, 3)), swing=np.eye(3), swing_at=np.zeros(3))
        self.put(swing_rates=np.zeros((2, 6)), swing_turns=np.zeros((2, 6)), landing=np.zeros((2, 3, 3)))
        self.put(pressed=np.zeros(3), load=np.zeros(1), height=height, weight=robot.weight)
        self.put(flat=all(foot.flat for foot in feet), edges=any(foot.edge for foot in feet))


class Choice(NamedTuple):
    """Which tasks a tick has."""

    swinging: int  # foot in the air, `NONE` without one
    touching: bytes  # which contact places touch, one byte each (n)
    turns: int  # heading of the trunk, too: 1; not: 0; no trunk: `NONE`
    over: int  # centre of mass in the plane, too: 1; not: 0; no centre of mass: `NONE`
    pressed: int  # foot with a centre of pressure
    loaded: int  # foot with a load
    rises: int  # no height is asked for: 1; it is: 0


@compiled
def write_targets(
    at: Targets, feet: Feet, steps: Steps, near: tuple[bool, bool], push: complex, pressure: complex, above: tuple[float, ...]
) -> tuple[int, int, int, int]:
    """Write the targets of a tick. Return `turns`, `over`, `pressed` and `loaded` of `Choice`.

    near: whether the feet touch; push: acceleration of the centre of mass in the plane [m/s²]; pressure: centre of pressure [m]
    above: how much higher than `height` the centre of mass shall be [m], with its derivatives
    """
    touches, planted, swing = near[0] or near[1], steps.planted, steps.swing
    over = pressed = loaded = NONE
    # trunk: upright, with the mean heading of the feet; in the air only the arms could turn it
    turns = NONE if steps.standing and not touches else 1 if at.flat or steps.swinging == NONE else 0
    yaw, rate, change = 0.5 * (planted[0, 3] + planted[1, 3]), 0.0, 0.0
    if steps.swinging != NONE:
        yaw, rate, change = 0.5 * (planted[1 - steps.swinging, 3] + swing.x[3]), 0.5 * swing.v[3], 0.5 * swing.a[3]
        _follow(at, feet, steps.swinging, swing)
    _turn(yaw, at.trunk)
    at.trunk_rates[0, 5], at.trunk_rates[1, 5] = rate, change
    for side in range(2):
        _level(feet.levels[side], planted[side, 3], at.landing[side])
    if touches:  # else nothing moves the centre of mass
        at.centre[0, 2], at.centre[1, 2], at.centre[2, 2] = at.height + above[0], above[1], above[2]
        put(push, at.centre[2])
        carries = near[0] and steps.swinging != 0, near[1] and steps.swinging != 1
        alone = at.edges and not (carries[0] and carries[1])
        over = 1 if at.flat and not alone else 0
        if alone and (carries[0] or carries[1]):
            # an edge has no moment about its line: an acceleration of the centre of mass away from it would throw the arms
            pressed = 0 if carries[0] else 1
            pose = pose_of(steps.measured[pressed])
            put(nearest_on_edge(feet.halves[pressed], pose, pressure), at.pressed)
            at.pressed[2] = pose.height
    if steps.swinging == NONE and not at.edges:
        # the share of the foot that carries less follows the centre of pressure on the way between their centres: the
        # acceleration of the centre of mass fixes the sum of both loads, on edges, which hinder no rolling, both
        one, way = point(planted[0]), point(planted[1]) - point(planted[0])
        share = along(way, pressure - one).real / along(way, way).real
        share = min(max(share, 0.0), 1.0)
        foot = 1 if share < 0.5 else 0
        at.load[0] = (share if foot == 1 else 1.0 - share) * at.weight
        loaded = foot if near[foot] else NONE
    return turns, over, pressed, loaded


@compiled
def _turn(yaw: float, R: Array) -> None:
    """Fill the rotation about the vertical (3, 3)."""
    turn = heading(yaw)
    R[0, 0], R[0, 1], R[1, 0], R[1, 1] = turn.real, -turn.imag, turn.imag, turn.real


@compiled
def _level(level: Array, yaw: float, R: Array) -> None:
    """Fill the attitude of a foot's frame on level ground, with a heading (3, 3)."""
    turn = heading(yaw)
    for j in range(3):
        R[0, j], R[1, j] = turn.real * level[0, j] - turn.imag * level[1, j], turn.imag * level[0, j] + turn.real * level[1, j]
        R[2, j] = level[2, j]


@compiled
def _follow(at: Targets, feet: Feet, side: int, swing: Swing) -> None:
    """Write the targets of a swinging foot's frame for position and heading of its sole.

    The frame is at x − l, l: the way from it to the ground below the foot, which turns with the sole.
    """
    R, c, level, w, dw = at.swing, feet.centres[side], feet.levels[side], swing.v[3], swing.a[3]
    _level(level, swing.x[3], R)
    l = complex(dot(R[0], c), dot(R[1], c))
    put(point(swing.x) - l, at.swing_at)
    at.swing_at[2] = swing.x[2] - (dot(R[2], c) - feet.radii[side])
    put(point(swing.v) - 1j * w * l, at.swing_rates[0])
    put(point(swing.a) - complex(-w * w, dw) * l, at.swing_rates[1])
    at.swing_rates[0, 2], at.swing_rates[1, 2] = swing.v[2], swing.a[2]
    at.swing_rates[0, 5], at.swing_rates[1, 5] = w, dw
    for k in range(3):
        at.swing_turns[0, 3 + k], at.swing_turns[1, 3 + k] = w * level[2, k], dw * level[2, k]


MOST_STACKS = 64


class GaitTasks:
    """The tasks of a gait. omega: of the pendulum [1/s]; knees: their angles, see `controllers.planners.two_legs.knees`"""

    def __init__(self, robot: Robot, feet: tuple[Foot, Foot], targets: Targets, omega: float, knees: Angles) -> None:
        whole = tuple((name, -inf, inf) for name in robot.joint_names)  # noise shakes no joint at its limit
        limits = TaskLimits(acceleration=SWIFT * omega * omega, angles=whole)
        self._limits = replace(limits, angles=whole + knees), limits  # while the robot rises, its knees may be straight
        self._robot, self._feet, self._targets, self._stacks = robot, feet, targets, dict[Choice, TaskStack]()
        # on soles the trunk is kept upright first: else it, or the arms, are thrown to move the centre of mass
        first, second = (0, 1) if targets.flat else (1, 0)
        self._trunks = [_trunk(targets, (False, False, False, True, True, turns), first) for turns in (False, True)]
        self._swings, self._landings = [_swing(foot, targets) for foot in feet], list(map(_landing, feet, targets.landing))
        position, velocity, acceleration = targets.centre
        fields: dict[str, Any] = {"position": position, "velocity": velocity, "acceleration": acceleration, "level": second}
        fields |= {"stiffness": np.array([0.0, 0.0, HEIGHT]), "damping": np.array([0.0, 0.0, 2.0 * sqrt(HEIGHT)])}
        masks = product((False, True), repeat=2)
        self._over = {(plane, asks): ComTask(mask=(plane, plane, asks), **fields) for plane, asks in masks}

    def stack(self, choice: Choice) -> TaskStack:
        """Return the tasks of a tick, without the posture. Equal choices have the same tasks."""
        found = self._stacks.get(choice)
        if found is None:
            if len(self._stacks) >= MOST_STACKS:
                self._stacks.clear()
            found = self._stacks[choice] = TaskStack(tasks=self._chosen(choice), limits=self._limits[choice.rises])
        return found

    def _chosen(self, choice: Choice) -> list[MotionTask | ContactTask]:
        touching, at = np.frombuffer(choice.touching, np.bool_), self._targets
        tasks: list[MotionTask | ContactTask] = [] if choice.turns == NONE else [self._trunks[choice.turns]]
        if choice.over != NONE:
            tasks.append(self._over[choice.over == 1, not choice.rises])
        if choice.pressed != NONE:
            keys = self._keys(choice.pressed, touching)
            tasks.append(CenterOfPressureTask(contacts=keys, point=at.pressed, level=1, name="pressure"))
        for side, foot in enumerate(self._feet):
            if side == choice.swinging:
                tasks += self._swings[side]
            elif not touching[foot.rows].any():
                tasks.append(self._landings[side])
        if choice.loaded != NONE:
            foot = self._feet[choice.loaded]
            keys = self._keys(choice.loaded, touching)
            tasks.append(ForceTask(contacts=keys, normal=at.load, level=3, name=f"load {foot.frame}"))
        return tasks

    def _keys(self, side: int, touching: Array) -> tuple[str, ...]:
        """Return the contact places of a foot that touch."""
        return tuple(self._robot.spheres.keys[row] for row in self._feet[side].rows.tolist() if touching[row])


def _trunk(at: Targets, mask: tuple[bool, ...], level: int) -> FrameTask:
    velocity, acceleration = at.trunk_rates
    fields: dict[str, Any] = {"rotation": at.trunk, "velocity": velocity, "acceleration": acceleration, "stiffness": TRUNK}
    return FrameTask(frame=BASE, name="trunk", mask=mask, level=level, **fields)


def _turns(foot: Foot) -> tuple[bool, ...]:
    """Return about which of its axes a foot in the air is turned: an edge not about its line, which its leg may not do."""
    line = int(np.abs(foot.level[foot.along]).argmax())
    return tuple(foot.flat and not (foot.edge and axis == line) for axis in range(3))


def _swing(foot: Foot, at: Targets) -> list[FrameTask]:
    """Return the tasks of the place and, below those of the trunk, of the attitude of a foot: where the ankle is at the end of
    its range, the sole tilts, not the robot."""
    (v, a), (w, dw) = at.swing_rates, at.swing_turns
    tasks = [FrameTask(frame=foot.frame, name="swing", position=at.swing_at, velocity=v, acceleration=a, stiffness=SWING)]
    if foot.flat:
        fields: dict[str, Any] = {"axes": "local", "mask": (False, False, False, *_turns(foot)), "level": 2, "stiffness": SWING}
        fields |= {"rotation": at.swing, "velocity": w, "acceleration": dw}
        tasks.append(FrameTask(frame=foot.frame, name="swing attitude", **fields))
    return tasks


def _landing(foot: Foot, R: Array) -> FrameTask:
    """Return the task of a foot that is to stand but does not touch: the sole parallel to the ground, going down. R: its
    axes"""
    velocity = np.zeros(6)
    velocity[:3] = -LOWERING * (foot.level[2] if foot.flat else np.eye(3)[2])
    return FrameTask(
        frame=foot.frame,
        name=f"landing {foot.frame}",
        rotation=R if foot.flat else None,
        velocity=velocity,
        axes="local" if foot.flat else "world",
        stiffness=SWING,
        damping=2.0 * sqrt(SWING),
        mask=(True, True, True, *_turns(foot)),
        level=2,
    )
