"""Gait of two legs: tasks of the swinging foot, the centre of mass, the trunk and the posture  [Englsberger].

Each tick
1. phases and footsteps of the commanded velocity                            `controllers.planners.two_legs.steps`
2. planned centre of pressure p_ref and DCM ξ_ref; landing place from the measured DCM ξ
3. centre of pressure p = p_ref + (1 + k/ω) (ξ − ξ_ref), inside the soles    `controllers.planners.two_legs.feet`
4. tasks: acceleration ω² (c − p) of the centre of mass, its height, pose of the swinging foot, attitude of the base, load of
   the feet, posture; with commanded ones (`.beside`). The contact law decides what forces realise them

Point feet are soles of size zero: p rests on the standing foot, landing places alone correct ξ, and no task asks for the motion
of the centre of mass in the plane.
"""

from collections.abc import Iterator
from itertools import compress
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from controllers.command import Reference, Schedule, Steering
from controllers.contact.ground import Known
from controllers.planners.trajectory import MotionSettings, Trajectory
from controllers.planners.two_legs.feet import Foot, Pose, Swing, about_z, feet_of, nearest_inside
from controllers.planners.two_legs.steps import BalanceSettings, Steps, StepSettings
from idyn.errors import ConfigError, InputError
from idyn.model.frames import Centroidal, logarithm
from idyn.model.robot import Robot
from idyn.tasks import ComTask, ForceTask, FrameTask, PostureTask, TaskStack
from idyn.tasks.forces import ContactTask
from idyn.tasks.motion import MotionTask
from idyn.types import Array, ContactSet, Kinematics, State

Command = tuple[float, float, float, float]

TICK = 0.01  # step of integration of the commands [s]
ANKLE = 0.8  # share of the way to the edge of a sole up to which the centre of pressure corrects without the steps
TOUCHES = 5e-4  # largest gap of a foot that touches [m]

BASE = "root_joint"

SWING, HEIGHT, TRUNK = 900.0, 100.0, 100.0  # stiffness of feet, height and attitude [1/s²], critically damped


class TwoLegs(Trajectory):
    """Walks on two legs. Stores the phase of the gait."""

    def __init__(self, robot: Robot, stance: Array, settings: "TwoLegsSettings") -> None:
        """stance: level configuration (nq). Raises ConfigError for other robots."""
        self._robot, self._settings, self._stance = robot, settings, stance
        self._feet = feet_of(robot, stance)
        poses = self._poses(stance)
        aside = float(poses[0].position[1] - poses[1].position[1])
        width = settings.step.width or aside
        self._ground = float(np.mean([pose.position[2] for pose in poses]))
        self._height = float(robot.center_of_mass(stance)[2]) - self._ground - settings.balance.lower
        if not self._height > 0.0:
            raise ConfigError("reference.balance.lower", "expected less than the height of the centre of mass")
        self._omega = float(np.sqrt(robot.weight / (robot.total_mass * self._height)))
        self._flat = all(foot.flat for foot in self._feet)
        balance = settings.balance
        inner = np.maximum(np.min([foot.half for foot in self._feet], axis=0) - balance.margin, 0.0)
        stands = self._flat and not settings.march
        self._steps = Steps(settings.step, width, self._omega, stands, ANKLE * inner)
        self._angles = robot.joint_angles(stance)
        self._legs = np.flatnonzero(legs_of(robot))
        self.reset()

    def reset(self) -> None:
        self._velocity, self._t = np.zeros(3), 0.0
        self._commanded: Array | None = None
        self._steps.reset(self._poses(self._stance))

    def check(self, steering: Steering, tasks: TaskStack | None = None) -> None:
        if steering.gait is not None:
            raise InputError("gait", "the gait of two legs has no other patterns")
        if steering.posed:
            raise InputError("height" if steering.height is not None else "attitude", "the gait of two legs keeps its own")
        check_beside(self._robot, tasks or TaskStack())

    def steer(self, steering: Steering) -> None:
        if steering.velocity is not None:
            self._commanded = np.array(steering.velocity, np.float64)

    def _poses(self, q: Array) -> tuple[Pose, Pose]:
        left, right = (foot.pose(self._robot, q) for foot in self._feet)
        return left, right

    def _wanted(self, t: float) -> Array:
        """Return the commanded velocity at time t [s] (3)."""
        if t < self._settings.start:
            return np.zeros(3)
        if self._commanded is not None:
            return self._commanded
        ends = self._settings.start
        for lasts, *velocity in self._settings.commands:
            ends += lasts
            if t < ends:
                return np.array(velocity)
        return np.zeros(3)

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference and its tasks at time t [s], which must not decrease, for the measured state and contacts."""
        robot, settings, steps = self._robot, self._settings, self._steps
        dt, self._t = t - self._t, t
        change = settings.step.acceleration * dt
        self._velocity = self._velocity + np.clip(self._wanted(t) - self._velocity, -change, change)
        touching = np.zeros(len(robot.spheres.keys), np.bool_)
        touching[robot.spheres.rows(contacts.keys)[contacts.gaps <= TOUCHES]] = True
        near = [bool(touching[foot.rows].any()) for foot in self._feet]
        measured = self._poses(state.q)
        com = robot.frames.centroidal(state.q, state.v)
        dcm = com.position[:2] + self._speed(com) / self._omega
        steps.advance(t, self._velocity, measured, steps.swinging is not None and near[steps.swinging])
        p, planned = steps.reference(t, self._velocity + steps.correction, dcm)
        p = p + (1.0 + settings.balance.gain / self._omega) * (dcm - planned)
        p = nearest_inside(p, self._support(near))
        stands = np.ones(len(robot.spheres.keys), np.bool_)
        if steps.swinging is not None:
            stands[self._feet[steps.swinging].rows] = False
        posture = self._angles.copy()
        posture[self._legs] = robot.joint_angles(state.q)[self._legs]
        zero, schedule = np.zeros(robot.na), Schedule(stance=stands, time_to_switch=np.full(len(stands), np.inf))
        tasks = self._task_stack(touching, self._omega**2 * (com.position[:2] - p), p)
        return Reference(q=posture, v=zero, a=zero, schedule=schedule, base=self._velocity.copy(), tasks=tasks)

    def _task_stack(self, touching: Array, push: Array, pressure: Array) -> TaskStack:
        """Return the tasks, without the posture.

        touching: which contact places touch (n)
        push: acceleration of the centre of mass in the plane [m/s²] (2); pressure: centre of pressure [m] (2)
        """
        flat, steps, (yaw, rate, change) = self._flat, self._steps, self._heading()
        tasks: list[MotionTask | ContactTask] = [
            FrameTask(
                frame=BASE,
                name="trunk",
                rotation=about_z(yaw),
                velocity=[0.0, 0.0, 0.0, 0.0, 0.0, rate],
                acceleration=[0.0, 0.0, 0.0, 0.0, 0.0, change],
                stiffness=TRUNK,
                mask=(False, False, False, True, True, flat or steps.swinging is None),
                level=1,
            )
        ]
        if touching.any():  # else nothing moves the centre of mass
            position, acceleration = [0.0, 0.0, self._ground + self._height], [*push, 0.0]
            stiffness, mask = [0.0, 0.0, HEIGHT], (flat, flat, True)
            tasks.append(ComTask(position=position, acceleration=acceleration, stiffness=stiffness, mask=mask))
        for side, foot in enumerate(self._feet):
            if side == steps.swinging and steps.swing is not None:
                tasks.append(_swing(foot, steps.swing))
            elif not touching[foot.rows].any():
                tasks.append(_landing(foot, steps.planted[side]))
        return TaskStack(tasks=tasks if steps.swinging is not None else [*tasks, *self._load(touching, pressure)])

    def _load(self, touching: Array, pressure: Array) -> list[ForceTask]:
        """Return the load of the foot that carries less: its share follows the centre of pressure on the way between their
        centres.

        The acceleration of the centre of mass fixes the sum of both loads, so that a second task would contradict it.
        """
        robot = self._robot
        one, other = (pose.position[:2] for pose in self._steps.planted)
        way = other - one
        share = min(max(float(way @ (pressure - one)) / float(way @ way), 0.0), 1.0)
        foot, part = (self._feet[1], share) if share < 0.5 else (self._feet[0], 1.0 - share)
        keys = [robot.spheres.keys[row] for row in foot.rows if touching[row]]
        return [ForceTask(contacts=keys, normal=part * robot.weight, level=3, name=f"load {foot.frame}")] if keys else []

    def _speed(self, com: Centroidal) -> Array:
        """Return the velocity of the pendulum [m/s] (2).

        On soles, where a task asks for its motion, it is that of the centre of mass; on point feet that of a pendulum with the
        robot's angular momentum about the ground, which swinging legs do not change.
        """
        if self._flat:
            return com.velocity[:2]
        return com.velocity[:2] + com.angular[1::-1] * [1.0, -1.0] / (com.mass * self._height)

    def _support(self, near: list[bool]) -> Array:
        """Return the corners of the soles that carry the robot (n, 2)."""
        steps, margin = self._steps, self._settings.balance.margin
        carry = [side != steps.swinging and near[side] for side in (0, 1)]
        if not any(carry):
            carry = [side != steps.swinging for side in (0, 1)]
        soles = zip(self._feet, steps.planted, carry, strict=True)
        return np.concatenate([foot.corners(pose, margin) for foot, pose, carries in soles if carries])

    def _heading(self) -> tuple[float, float, float]:
        """Return the heading of the trunk, the mean of those of the feet, with its derivatives."""
        steps = self._steps
        if steps.swing is None or steps.swinging is None:
            return 0.5 * (steps.planted[0].yaw + steps.planted[1].yaw), 0.0, 0.0
        swing, stands = steps.swing, steps.planted[1 - steps.swinging]
        return 0.5 * (stands.yaw + float(swing.x[3])), 0.5 * float(swing.v[3]), 0.5 * float(swing.a[3])


def _swing(foot: Foot, swing: Swing) -> FrameTask:
    x, v, a = swing.x, swing.v, swing.a
    R = about_z(float(x[3])) @ foot.level
    lever = R @ foot.centre - [0.0, 0.0, foot.radius]  # from the frame to the ground below the foot
    up, w, dw = np.array([0.0, 0.0, 1.0]), float(v[3]), float(a[3])
    turning = w * np.cross(up, lever)
    return FrameTask(
        frame=foot.frame,
        name="swing",
        position=x[:3] - lever,
        rotation=R if foot.flat else None,
        velocity=[*(v[:3] - turning), 0.0, 0.0, w],
        acceleration=[*(a[:3] - dw * np.cross(up, lever) - w * np.cross(up, turning)), 0.0, 0.0, dw],
        stiffness=SWING,
    )


LOWERING = 0.05  # speed at which a foot that is to stand but does not touch goes down [m/s]


def _landing(foot: Foot, planted: Pose) -> FrameTask:
    """Return the task of a foot that is to stand but does not touch: the sole parallel to the ground, going down."""
    return FrameTask(
        frame=foot.frame,
        name=f"landing {foot.frame}",
        rotation=about_z(planted.yaw) @ foot.level if foot.flat else None,
        velocity=[0.0, 0.0, -LOWERING, 0.0, 0.0, 0.0],
        stiffness=SWING,
        damping=2.0 * float(np.sqrt(SWING)),
        mask=(True, True, True, foot.flat, foot.flat, foot.flat),
        level=2,
    )


LEVEL, LEAST, FARTHEST, USUAL, FAST, LEVER = 4, 1e-3, 1e6, 100.0, 10.0, 0.2
"""Level of commanded tasks; least w; in w: largest distance [m], stiffness [1/s²], speed [rad/s], lever of angles [m]."""


def beside(robot: Robot, at: Kinematics, own: TaskStack, sent: TaskStack, posture: PostureTask) -> TaskStack:
    """Return the tasks of a gait with commanded ones beside them.

    at: measured state; own, posture: tasks of the gait; sent: commanded ones, as `check_beside` accepts them
    """
    moved: Array = np.any([_moves(robot, task) for task in sent.tasks], axis=0)
    far = max(float(np.abs(at.v[robot.tree.a] * moved).max() / FAST) ** 4, *(_far(robot, at.q, task) for task in sent.tasks))
    heaviest = max(float(np.max(task.weight)) for task in sent.tasks)
    rows = ~legs_of(robot) & (~moved | (far > LEAST))
    fields = {name: getattr(posture, name)[rows] for name in ("angles", "velocity", "acceleration")}
    fields |= {"name": "posture", "level": LEVEL, "weight": heaviest * np.where(moved, far, 1.0)[rows]}
    kept = replace(posture, joints=tuple(compress(robot.joint_names, rows)), **fields)
    return replace(own, tasks=[*own.tasks, *(replace(task, level=LEVEL) for task in sent.tasks), kept])


def legs_of(robot: Robot) -> Array:
    """Return which actuated joints move contact places (na)."""
    feet = [robot.joint_of_frame(place.frame) for place in robot.description.contact]
    return np.any(robot.tree.support[feet], axis=0)[robot.tree.a]


def _moves(robot: Robot, task: Any) -> Array:
    """Return which actuated joints move what a task is about (na)."""
    if isinstance(task, FrameTask):
        return robot.tree.support[robot.joint_of_frame(task.frame)][robot.tree.a]
    return np.isin(robot.joint_names, getattr(task, "joints", None) or robot.joint_names)


def _far(robot: Robot, q: Array, task: Any) -> float:
    """Return w of a task; 0 for other tasks than those of frames."""
    if not isinstance(task, FrameTask):
        return 0.0
    place, turn = robot.frames.placement(task.frame, q), task.rotation
    off = np.zeros(3) if task.position is None else task.position - place.translation
    turned = np.zeros(3) if turn is None else LEVER * logarithm(turn @ place.rotation.T)
    axes = place.rotation if task.axes == "local" else np.eye(3)
    error = np.concatenate([off @ axes, turned @ axes]).clip(-FARTHEST, FARTHEST) * (True if task.mask is None else task.mask)
    return float(error @ error * max(1.0, np.max(task.stiffness) / USUAL))


def check_beside(robot: Robot, stack: TaskStack) -> None:
    """Raise InputError, which names all of them, for commanded tasks that contradict a gait."""
    found = [("modes", "expected none: the gait decides which feet stand")] if stack.modes else []
    found += [(f"tasks[{i}].{field}", why) for i, task in enumerate(stack.tasks) for field, why in _problems(robot, task)]
    if found:
        (first, problem), *more = found
        raise InputError(first, "; ".join([problem, *(f"{field}: {why}" for field, why in more)]))


def _problems(robot: Robot, task: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a commanded task that contradict a gait, and why."""
    if type(task) not in (FrameTask, PostureTask):
        yield "kind", "the gait decides how the centre of mass and the angular momentum move, and how the feet are loaded"
        return
    moves, frame = _moves(robot, task), isinstance(task, FrameTask)
    legs, targets = moves & legs_of(robot), ("position", "rotation") if frame else ("angles",)
    if legs.any() or not moves.any():
        what, got = ("frame", task.frame) if frame else ("joints", ", ".join(compress(robot.joint_names, legs)))
        yield what, f"the gait decides how the base and the legs move: expected {what} above them, got {got}"
    if all(getattr(task, name) is None for name in targets):
        yield targets[0], f"expected {' or '.join(targets)} beside a gait"
    for gain, most in ("stiffness", 1e3), ("damping", 100.0):
        if not (getattr(task, gain) or 0.0) <= most:
            yield gain, f"expected at most {most:g} beside a gait, got {getattr(task, gain):g}"
    if task.level:
        yield "level", f"expected 0: the tasks of the gait are above all others, which share one level, got {task.level}"
    if task.name.split(" ")[0] in ("trunk", "swing", "landing", "load", "posture", "reference"):
        yield "name", f"expected another name than those of the tasks of the gait, got '{task.name}'"


class TwoLegsSettings(MotionSettings, frozen=True, tag="two-legs"):
    """Steps of a robot on two legs, with soles or point feet. A commanded velocity replaces `commands`."""

    # velocities one after another, then the robot stops: duration [s], forward, left [m/s], turn [rad/s] (n, 4)
    commands: tuple[Command, ...] = ()
    march: bool = False  # whether the robot steps in place where it could stand. Point feet always step
    step: StepSettings = StepSettings()  # timing and size of the steps
    balance: BalanceSettings = BalanceSettings()  # feedback of the divergent component of motion
    walks: ClassVar[bool] = True
    grounds: ClassVar[tuple[Known, ...]] = ("flat", "standing")

    def goal(self, seconds: float) -> Array:
        """Return where a robot that starts at the origin is after a time [s] without any lag: x, y [m], turn [rad] (3)."""
        pose, ends = np.zeros(3), self.start
        for lasts, *velocity in self.commands:
            left, ends = min(lasts, seconds - ends), ends + lasts
            for _ in range(max(round(left / TICK), 0)):
                c, s, u = np.cos(pose[2]), np.sin(pose[2]), velocity
                pose += TICK * np.array([c * u[0] - s * u[1], s * u[0] + c * u[1], u[2]])
        return pose

    def build(self, robot: Robot, stance: Array, period: float) -> Trajectory:
        self._check(robot, floating=True)
        return TwoLegs(robot, stance, self)
