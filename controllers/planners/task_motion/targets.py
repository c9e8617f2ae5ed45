"""Targets of commanded tasks: extrapolated by their derivatives, or at rest."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np

from controllers.planners.task_motion.rotations import exponential
from idyn.tasks import AngularMomentumTask, FrameTask, PostureTask, TaskStack
from idyn.tasks.forces import ContactTask
from idyn.tasks.stack import MOST_LEVELS
from idyn.types import Array, ContactSet

LAST_LEVEL = MOST_LEVELS - 1
"""Level of the posture below all commanded tasks."""


LOWERING, YIELD = 0.4, 40.0
"""Speed at which a foot that does not touch is lowered after a command has expired [m/s], and the damping of its task [1/s]."""


def resting(stack: TaskStack, feet: Collection[str] = ()) -> TaskStack:
    """Return the tasks with their targets at rest where they are. Contact tasks and contact modes end: the robot slows down and
    stands on all feet that touch.

    feet: frames that go down until they touch, instead of their position targets
    """
    motions = [task for task in stack.tasks if not isinstance(task, ContactTask)]
    tasks = [_at_rest(task) for task in motions if not (isinstance(task, FrameTask) and task.frame in feet)]
    return msgspec.structs.replace(stack, tasks=[*tasks, *map(_lowered, sorted(feet))], modes={})


def _lowered(frame: str) -> FrameTask:
    """Return the task of a foot that goes down; where it touches, the contact stops it."""
    down, linear = [0.0, 0.0, -LOWERING, 0.0, 0.0, 0.0], (True, True, True, False, False, False)
    return FrameTask(frame=frame, name=f"lower {frame}", velocity=down, mask=linear, stiffness=0.0, damping=YIELD)


def _at_rest(task: Any) -> Any:
    names = ("momentum", "momentum_rate") if isinstance(task, AngularMomentumTask) else ("velocity", "acceleration")
    return msgspec.structs.replace(task, **dict.fromkeys(names))


def later(task: Any, t: float) -> Any:
    """Return a task with its targets t [s] later: p + v t + ½ a t², v + a t."""
    if isinstance(task, ContactTask):
        return task
    if isinstance(task, AngularMomentumTask):
        return msgspec.structs.replace(task, momentum=_sum(task.momentum, task.momentum_rate, t))
    name = "angles" if isinstance(task, PostureTask) else "position"
    position, velocity, acceleration = getattr(task, name), task.velocity, task.acceleration
    changes: dict[str, Any] = {"velocity": _sum(velocity, acceleration, t)}
    if isinstance(task, FrameTask):
        v, a = (np.zeros(6) if each is None else _in_world(task, np.asarray(each)) for each in (velocity, acceleration))
        if position is not None:
            changes["position"] = np.asarray(position) + t * v[:3] + 0.5 * t * t * a[:3]
        if task.rotation is not None:
            changes["rotation"] = exponential(t * v[3:] + 0.5 * t * t * a[3:]) @ task.rotation
    elif position is not None:
        changes[name] = _sum(_sum(position, velocity, t), acceleration, 0.5 * t * t)
    return msgspec.structs.replace(task, **changes)


def _sum(value: Any, rate: Any, t: float) -> Any:
    """Return value + t rate, where None counts as 0."""
    if rate is None:
        return value
    return t * np.asarray(rate) if value is None else np.asarray(value) + t * np.asarray(rate)


def _in_world(task: FrameTask, twist: Array) -> Array:
    """Return a velocity or acceleration (6) of a target in world axes."""
    if task.axes == "world" or task.rotation is None:
        return twist
    return np.concatenate([task.rotation @ twist[:3], task.rotation @ twist[3:]])


def complete(stack: TaskStack, contacts: ContactSet, posture: PostureTask) -> tuple[TaskStack, str]:
    """Return the tasks for the present contacts, with a posture as the last level, and what had to be left out, in words.

    Contact tasks need all their contacts; modes of absent contacts have no effect.
    """
    missing = [task for task in stack.tasks if not _present(task, contacts.keys)]
    tasks = [task for task in stack.tasks if _present(task, contacts.keys)]
    modes = {key: mode for key, mode in stack.modes.items() if key in contacts.keys}
    problem = "; ".join(f"task {task.label()} was left out: its contacts do not touch" for task in missing)
    return TaskStack(tasks=[*tasks, posture], limits=stack.limits, modes=modes), problem


def _present(task: Any, keys: Sequence[str]) -> bool:
    if not isinstance(task, ContactTask):
        return True
    own = task.contacts  # type: ignore[attr-defined]
    return all(key in keys for key in ((own,) if isinstance(own, str) else own))
