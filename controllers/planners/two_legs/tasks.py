"""The tasks of a tick of the gait of two legs."""

from collections.abc import Iterator
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from controllers.planners.targets import logarithm
from controllers.planners.two_legs.feet import Foot, Pose, Swing, about_z
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.tasks import ComTask, ForceTask, FrameTask, PostureTask, TaskStack
from idyn.tasks.forces import ContactTask
from idyn.tasks.motion import MotionTask
from idyn.types import Array, Kinematics

BASE = "root_joint"

SWING, HEIGHT, TRUNK = 900.0, 100.0, 100.0
"""Stiffness of the tasks of a foot, of the height of the centre of mass, and of the attitude of the base [1/s²]; their damping
is critical."""


class Aims(NamedTuple):
    """What is asked for in a tick.

    feet, swing, swinging, planted: see `controllers.planners.two_legs.steps`
    touching: which contact places touch (n)
    push: acceleration of the centre of mass in the plane [m/s²] (2); height: of the centre of mass [m]
    heading: of the trunk [rad], with its derivatives; pressure: centre of pressure [m] (2)
    """

    feet: tuple[Foot, Foot]
    swing: Swing | None
    swinging: int | None
    planted: tuple[Pose, Pose]
    touching: Array
    push: Array
    height: float
    heading: tuple[float, float, float]
    pressure: Array


def task_stack(robot: Robot, aims: Aims) -> TaskStack:
    """Return the tasks, without the posture."""
    flat = all(foot.flat for foot in aims.feet)
    yaw, rate, change = aims.heading
    tasks: list[MotionTask | ContactTask] = [
        FrameTask(
            frame=BASE,
            name="trunk",
            rotation=about_z(yaw),
            velocity=[0.0, 0.0, 0.0, 0.0, 0.0, rate],
            acceleration=[0.0, 0.0, 0.0, 0.0, 0.0, change],
            stiffness=TRUNK,
            mask=(False, False, False, True, True, flat or aims.swinging is None),
            level=1,
        )
    ]
    if aims.touching.any():  # else nothing moves the centre of mass
        tasks.append(
            ComTask(
                position=[0.0, 0.0, aims.height],
                acceleration=[*aims.push, 0.0],
                stiffness=[0.0, 0.0, HEIGHT],
                mask=(flat, flat, True),
            )
        )
    for side, foot in enumerate(aims.feet):
        if side == aims.swinging and aims.swing is not None:
            tasks.append(_swing(foot, aims.swing))
        elif not aims.touching[foot.rows].any():
            tasks.append(_landing(foot, aims.planted[side]))
    if aims.swinging is None:
        tasks += _load(robot, aims)
    return TaskStack(tasks=tasks)


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


def _load(robot: Robot, aims: Aims) -> list[MotionTask | ContactTask]:
    """Return the load of the foot that carries less: its share follows the centre of pressure on the way between their centres.

    The acceleration of the centre of mass fixes the sum of both loads, so that a second task would contradict it.
    """
    one, other = (pose.position[:2] for pose in aims.planted)
    way = other - one
    share = min(max(float(way @ (aims.pressure - one)) / float(way @ way), 0.0), 1.0)
    foot, part = (aims.feet[1], share) if share < 0.5 else (aims.feet[0], 1.0 - share)
    keys = [robot.spheres.keys[row] for row in foot.rows if aims.touching[row]]
    return [ForceTask(contacts=keys, normal=part * robot.weight, level=3, name=f"load {foot.frame}")] if keys else []


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
