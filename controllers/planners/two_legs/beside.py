"""Commanded tasks beside the gait of two legs: their checks, and the stack of both."""

from collections.abc import Iterator
from itertools import compress
from typing import Any

import numpy as np
from msgspec.structs import replace

from controllers.robot.kinematics import feet_of
from idyn.errors import InputError
from idyn.model.frames import logarithm
from idyn.model.robot import Robot
from idyn.tasks import ForceTask, FrameTask, PostureTask, TaskStack
from idyn.types import Array, Kinematics

LEVEL, LEAST, FARTHEST, USUAL, FAST, LEVER = 4, 1e-3, 1e6, 100.0, 10.0, 0.2
"""Level of commanded tasks; least w; in w: largest distance [m], stiffness [1/s²], speed [rad/s], lever of angles [m]."""


def beside(robot: Robot, legs: Array, at: Kinematics, own: TaskStack, sent: TaskStack, posture: PostureTask) -> TaskStack:
    """Return the tasks of a gait with commanded ones beside them.

    legs: see `legs_of`; at: measured state; own, posture: tasks of the gait
    sent: commanded ones, as `check_beside` accepts them
    """
    if not sent.tasks:
        return replace(own, modes=sent.modes)
    moved: Array = np.any([_moves(robot, task) for task in sent.tasks], axis=0)
    far = max(float(np.abs(at.v[robot.tree.a] * moved).max() / FAST) ** 4, *(_far(robot, at.q, task) for task in sent.tasks))
    heaviest = max(float(np.max(task.weight)) for task in sent.tasks)
    rows = ~legs & (~moved | (far > LEAST))
    fields = {name: getattr(posture, name)[rows] for name in ("angles", "velocity", "acceleration")}
    fields |= {"name": "posture", "level": LEVEL, "weight": heaviest * np.where(moved, far, 1.0)[rows]}
    kept = replace(posture, joints=tuple(compress(robot.joint_names, rows)), **fields)
    tasks = [*own.tasks, *(replace(task, level=LEVEL) for task in sent.tasks), kept]
    return replace(own, tasks=tasks, modes=sent.modes)


def legs_of(robot: Robot, stance: Array) -> Array:
    """Return which actuated joints move feet (na). stance: configuration in which the robot stands on them (nq)"""
    return _moves_places(robot, feet_of(robot, stance))


def _moves_places(robot: Robot, rows: Array) -> Array:
    """Return which actuated joints move contact places (na). rows: their indices, −1: none"""
    return np.any(robot.tree.support[robot.spheres.joints[rows[rows >= 0]]], axis=0)[robot.tree.a]


def _moves(robot: Robot, task: Any) -> Array:
    """Return which actuated joints move what a task is about (na)."""
    if isinstance(task, FrameTask):
        return robot.tree.support[robot.joint_of_frame(task.frame)][robot.tree.a]
    if isinstance(task, ForceTask):
        return _moves_places(robot, robot.spheres.rows(task.contact_keys()))
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


def check_beside(robot: Robot, legs: Array, stack: TaskStack) -> None:
    """Raise InputError, which names all of them, for commanded tasks that contradict a gait. legs: see `legs_of`"""
    found = list[tuple[str, str]]()
    if (_moves_places(robot, robot.spheres.rows(tuple(stack.modes))) & legs).any():
        found.append(("modes", "expected none of feet: the gait decides which feet stand"))
    found += [(f"tasks[{i}].{field}", why) for i, task in enumerate(stack.tasks) for field, why in _problems(robot, legs, task)]
    if found:
        (first, problem), *more = found
        raise InputError(first, "; ".join([problem, *(f"{field}: {why}" for field, why in more)]))


def _problems(robot: Robot, legs: Array, task: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a commanded task that contradict a gait, and why."""
    moves, frame, presses = _moves(robot, task), isinstance(task, FrameTask), isinstance(task, ForceTask)
    below = moves & legs
    contradicts = bool(below.any() or not moves.any())
    if type(task) not in (FrameTask, PostureTask, ForceTask) or (presses and contradicts):
        yield "kind", "the gait decides how the centre of mass and the angular momentum move, and how the feet are loaded"
        return
    if contradicts:
        what, got = ("frame", task.frame) if frame else ("joints", ", ".join(compress(robot.joint_names, below)))
        yield what, f"the gait decides how the base and the legs move: expected {what} above them, got {got}"
    targets = ("position", "rotation") if frame else ("normal", "force") if presses else ("angles",)
    if all(getattr(task, name) is None for name in targets):
        yield targets[0], f"expected {' or '.join(targets)} beside a gait"
    for gain, most in () if presses else (("stiffness", 1e3), ("damping", 100.0)):
        if not (getattr(task, gain) or 0.0) <= most:
            yield gain, f"expected at most {most:g} beside a gait, got {getattr(task, gain):g}"
    if task.level:
        yield "level", f"expected 0: the tasks of the gait are above all others, which share one level, got {task.level}"
    if task.name.split(" ")[0] in ("trunk", "swing", "landing", "load", "posture", "reference"):
        yield "name", f"expected another name than those of the tasks of the gait, got '{task.name}'"
