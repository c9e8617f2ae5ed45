"""Gait of two legs: tasks of the swinging foot, the centre of mass, the trunk and the posture  [Englsberger].

Each tick
1. phases and footsteps of the commanded velocity                            `controllers.planners.two_legs.steps`
2. planned centre of pressure p_ref and DCM ξ_ref; landing place from the measured DCM ξ
3. centre of pressure p = p_ref + (1 + k/ω) (ξ − ξ_ref), inside the soles    `controllers.planners.two_legs.feet`
4. tasks: acceleration ω² (c − p) of the centre of mass, its height, pose of the swinging foot, attitude of the base, load of
   the feet, posture (`.tasks`); with commanded ones (`beside`). The contact law decides what forces realise them

Point feet are soles of size zero: p rests on the standing foot, landing places alone correct ξ, and no task asks for the motion
of the centre of mass in the plane. Edges, soles without width as of legs with five joints, are points to the side: on one of
them a task asks for p, on both for the motion of the centre of mass.
"""

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from controllers.command import Reference, Schedule, Steering
from controllers.contact.ground import Known
from controllers.planners.trajectory import MotionSettings, Trajectory, smooth_step
from controllers.planners.two_legs.feet import Pose, feet_of, nearest_inside
from controllers.planners.two_legs.steps import BalanceSettings, Steps, StepSettings, Velocity
from controllers.planners.two_legs.tasks import GaitTasks
from idyn.errors import ConfigError, InputError
from idyn.model.frames import logarithm
from idyn.model.robot import Robot
from idyn.tasks import FrameTask, PostureTask, TaskStack
from idyn.tasks.centre import centroid
from idyn.types import Array, ContactSet, Kinematics, State

Command = tuple[float, float, float, float]

TICK = 0.01  # step of integration of the commands [s]
ANKLE = 0.8  # share of the way to the edge of a sole up to which the centre of pressure corrects without the steps
TOUCHES = 5e-4  # largest gap of a foot that touches [m]

RISING, AWAY = 0.3, 0.1  # mean speed of the joints from a first posture to the stance [rad/s]; from this distance on [rad]
LOWERS = 0.1  # mean speed at which the centre of mass goes to its height [m/s]
NONE = 0.0, 0.0, 0.0  # velocity of a robot that stands


class TwoLegs(Trajectory):
    """Walks on two legs. Stores the phase of the gait."""

    def __init__(self, robot: Robot, stance: Array, settings: "TwoLegsSettings") -> None:
        """stance: level configuration (nq). Raises ConfigError for other robots."""
        self._robot, self._settings, self._stance = robot, settings, stance
        self._feet = feet_of(robot, stance)
        left, right = self._poses(robot.terms(stance, np.zeros(robot.nv)))
        width = settings.step.width or (left.place - right.place).imag
        self._ground = 0.5 * (left.height + right.height)
        self._height = float(robot.center_of_mass(stance)[2]) - self._ground - settings.balance.lower
        if not self._height > 0.0:
            raise ConfigError("reference.balance.lower", "expected less than the height of the centre of mass")
        self._omega = float(np.sqrt(robot.weight / (robot.total_mass * self._height)))
        self._flat = all(foot.flat for foot in self._feet)
        self._edges = any(foot.edge for foot in self._feet)
        self._walks = not any(foot.edge and foot.along for foot in self._feet)
        if (settings.commands or settings.march) and not self._walks:
            raise ConfigError("reference.commands", "expected none: on soles without length the robot does not walk")
        balance = settings.balance
        half = zip(*(foot.half for foot in self._feet), strict=True)
        length, side = (max(ANKLE * (min(each) - balance.margin), 0.0) for each in half)
        stands = self._flat and not settings.march
        self._steps = Steps(settings.step, width, self._omega, stands, complex(length, side))
        self._tasks = GaitTasks(robot, self._feet, self._ground + self._height, self._omega)
        self._angles, self._centroid = robot.joint_angles(stance), np.zeros(9)
        self._legs, self._rest = legs_of(robot), np.zeros(robot.na)
        self._rest.flags.writeable = False
        self._schedules = {side: self._schedule(side) for side in (None, 0, 1)}
        self.reset()

    def reset(self) -> None:
        self._velocity, self._t = [0.0, 0.0, 0.0], 0.0
        self._commanded: Sequence[float] | None = None
        self._first: Array | None = None  # angles at the first tick [rad] (na)
        self._ready = 0.0  # when the robot has gone from there to the stance [s]
        self._above: float | None = None  # height of the centre of mass then above that of its task [m]
        self._steps.reset(self._poses(self._robot.terms(self._stance, np.zeros(self._robot.nv))))

    def _schedule(self, swinging: int | None) -> Schedule:
        """Return which contact places stand while a foot swings, None: no one."""
        stands = np.ones(len(self._robot.spheres.keys), np.bool_)
        if swinging is not None:
            stands[self._feet[swinging].rows] = False
        return Schedule(stance=stands, time_to_switch=np.full(len(stands), np.inf))

    def check(self, steering: Steering, tasks: TaskStack | None = None) -> None:
        if steering.gait is not None:
            raise InputError("gait", "the gait of two legs has no other patterns")
        if steering.posed:
            raise InputError("height" if steering.height is not None else "attitude", "the gait of two legs keeps its own")
        if steering.velocity is not None and np.any(steering.velocity) and not self._walks:
            raise InputError("velocity", "expected zero: on soles without length it stands and does not walk")
        check_beside(self._robot, tasks or TaskStack())

    def steer(self, steering: Steering) -> None:
        if steering.velocity is not None:
            self._commanded = np.array(steering.velocity, np.float64).tolist()

    def _poses(self, at: Kinematics) -> tuple[Pose, Pose]:
        left, right = (foot.pose(self._robot.frames.placed(foot.frame, at)) for foot in self._feet)
        return left, right

    def _wanted(self, t: float) -> Sequence[float]:
        """Return the commanded velocity at time t [s]: forward, left [m/s], turn [rad/s]."""
        if t < max(self._settings.start, self._ready):
            return NONE
        if self._commanded is not None:
            return self._commanded
        ends = self._settings.start
        for lasts, *velocity in self._settings.commands:
            ends += lasts
            if t < ends:
                return velocity
        return NONE

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference and its tasks at time t [s], which must not decrease, for the measured state and contacts."""
        robot, settings, steps = self._robot, self._settings, self._steps
        dt, self._t = t - self._t, t
        change = settings.step.acceleration * dt
        wanted = zip(self._velocity, self._wanted(t), strict=True)
        self._velocity = [now + min(max(then - now, -change), change) for now, then in wanted]
        velocity = Velocity(complex(*self._velocity[:2]), self._velocity[2])
        at = robot.kinematics(state)
        touching = np.zeros(len(robot.spheres.keys), np.bool_)
        touching[robot.spheres.rows(contacts.keys)[contacts.gaps <= TOUCHES]] = True
        near = [bool(touching[foot.rows].any()) for foot in self._feet]
        measured, (over, speed) = self._poses(at), self._pendulum(at)
        angles, height = robot.joint_angles(at.q), float(self._centroid[2])
        if self._first is None:
            self._first = angles
            steps.reset(measured, over)
            away = float(np.abs(self._angles - angles)[self._legs].max())
            self._ready = t + away / RISING if away > AWAY else t
        elif steps.standing:
            steps.planted = list(measured)  # estimates of a base drift
        if self._above is None and t >= self._ready:
            self._above, self._ready = height - self._ground - self._height, t
        dcm = over + speed / self._omega
        outside = 0j
        if steps.standing and all(near) and self._above is not None:
            outside = dcm - nearest_inside(dcm, self._support(near))
        steps.advance(t, velocity, measured, steps.swinging is not None and near[steps.swinging], outside)
        p, planned = steps.reference(t, velocity._replace(plane=velocity.plane + steps.correction), dcm)
        p += (1.0 + settings.balance.gain / self._omega) * (dcm - planned)
        p = nearest_inside(p, self._support(near))
        (q, v, a), above = (np.where(self._legs, angles, self._angles), self._rest, self._rest), None
        if self._above is None:  # straight knees cannot follow a height: first all joints go to the stance
            way, share = self._angles - self._first, smooth_step(t, self._ready)
            q, v, a = self._first + share[0] * way, share[1] * way, share[2] * way
        else:
            along, rate, change = smooth_step(t - self._ready, max(abs(self._above) / LOWERS, 1e-3))
            above = (1.0 - along) * self._above, -rate * self._above, -change * self._above
        schedule = self._schedules[steps.swinging]
        tasks = self._tasks.stack(steps, touching, self._omega**2 * (over - p), p, above, measured)
        return Reference(q=q, v=v, a=a, schedule=schedule, base=np.array(self._velocity), tasks=tasks)

    def _pendulum(self, at: Kinematics) -> tuple[complex, complex]:
        """Return place and velocity of the pendulum [m, m/s].

        On soles, where a task asks for its motion, it moves as the centre of mass; on points and edges as a pendulum with the
        robot's angular momentum about the ground, which swinging legs do not change.
        """
        robot, out = self._robot, self._centroid
        if robot.weighs_base:
            centroid(at.M.T, at.v, at.placements[1], out)
        else:
            com = robot.frames.centroidal(at.q, at.v)
            out[:3], out[3:6], out[6:] = com.position, com.velocity, com.angular
        x, y, _, forward, left, _, about_x, about_y, _ = out.tolist()
        velocity = complex(forward, left)
        if not self._flat or self._edges:
            velocity += complex(about_y, -about_x) / (robot.total_mass * self._height)
        return complex(x, y), velocity

    def _support(self, near: list[bool]) -> list[complex]:
        """Return the corners of the soles that carry the robot."""
        steps, margin = self._steps, self._settings.balance.margin
        carry = [side != steps.swinging and near[side] for side in (0, 1)]
        if not any(carry):
            carry = [side != steps.swinging for side in (0, 1)]
        soles = zip(self._feet, steps.planted, carry, strict=True)
        return [corner for foot, pose, carries in soles if carries for corner in foot.corners(pose, margin)]


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
