"""Targets of commanded tasks between commands: completed, blended, extrapolated by their derivatives, or at rest."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from idyn.model.frames import exponential, left_jacobian, logarithm
from idyn.tasks import AngularMomentumTask, FrameTask, PostureTask, TaskLimits, TaskStack
from idyn.tasks.forces import ContactTask
from idyn.tasks.stack import MOST_LEVELS
from idyn.types import Array, ContactSet

LAST_LEVEL = MOST_LEVELS - 1  # level of the posture below all commanded tasks


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
    down, linear = np.array([0.0, 0.0, -LOWERING, 0.0, 0.0, 0.0]), (True, True, True, False, False, False)
    return FrameTask(frame=frame, name=f"lower {frame}", velocity=down, mask=linear, stiffness=0.0, damping=YIELD)


def _at_rest(task: Any) -> Any:
    names = ("momentum", "momentum_rate") if isinstance(task, AngularMomentumTask) else ("velocity", "acceleration")
    return msgspec.structs.replace(task, **dict.fromkeys(names))


Derivatives = tuple[Any, Any, Any]  # of a target: its value, rate and second derivative, None: 0


def _derivatives(task: Any) -> dict[str, Derivatives]:
    """Return the targets of a task that move by themselves."""
    if isinstance(task, AngularMomentumTask):
        return {} if task.momentum_rate is None else {"momentum": (task.momentum, task.momentum_rate, None)}
    if isinstance(task, ContactTask) or (task.velocity is None and task.acceleration is None):
        return {}
    v, a = task.velocity, task.acceleration
    given: dict[str, Derivatives] = {"velocity": (v, a, None)}
    name = "angles" if isinstance(task, PostureTask) else "position"
    if isinstance(task, FrameTask):
        v, a = (np.zeros(6) if each is None else _in_world(task, np.asarray(each)) for each in (v, a))
        if task.rotation is not None:
            given["rotation"] = task.rotation, v[3:], a[3:]
        v, a = v[:3], a[:3]
    if getattr(task, name) is not None:
        given[name] = getattr(task, name), v, a
    return given


class Courses:
    """Targets that move by their derivatives, x + t ẋ + ½ t² ẍ; rotations are turned by t ω + ½ t² ω̇.

    own: arrays of the targets by task and name, which `move` fills
    """

    def __init__(self, given: list[dict[str, Derivatives]]) -> None:
        """given: of the targets by task and name"""
        self.own: list[dict[str, Array]] = [{} for _ in given]
        self._turns: list[tuple[Array, Derivatives]] = []
        spans, size = [], 0  # all vectors are parts of one
        for own, targets in zip(self.own, given, strict=True):
            for name, (x, v, a) in targets.items():
                if name == "rotation":
                    own[name] = np.array(x, np.float64)
                    self._turns.append((own[name], (own[name].copy(), v, a)))
                else:
                    first, size = size, size + len(next(each for each in (x, v, a) if each is not None))
                    spans.append((own, name, slice(first, size), (x, v, a)))
        self._table, self._now = np.zeros((3, size)), np.empty(size)
        for own, name, span, parts in spans:
            own[name] = self._now[span]
            for row, part in zip(self._table, parts, strict=True):
                if part is not None:
                    row[span] = part
        self._table[2] *= 0.5
        self.move(0.0)

    def move(self, t: float) -> None:
        """Fill the targets t [s] later."""
        x, v, a = self._table
        np.add(x, t * (v + t * a), out=self._now)
        for array, (R, omega, change) in self._turns:
            array[:] = exponential(t * omega + 0.5 * t * t * change) @ R


def _in_world(task: FrameTask, twist: Array) -> Array:
    """Return a velocity or acceleration (6) of a target in world axes."""
    if task.axes == "world" or task.rotation is None:
        return twist
    return np.concatenate([task.rotation @ twist[:3], task.rotation @ twist[3:]])


def complete(stack: TaskStack, contacts: ContactSet, posture: PostureTask, speed: float) -> tuple[TaskStack, str]:
    """Return the tasks for the present contacts, with a posture as the last level, and what had to be left out, in words.
    speed: largest one of a joint [rad/s]

    Contact tasks need all their contacts; modes of absent contacts have no effect.
    """
    missing = [task for task in stack.tasks if not _present(task, contacts.keys)]
    tasks = [task for task in stack.tasks if _present(task, contacts.keys)]
    modes = {key: mode for key, mode in stack.modes.items() if key in contacts.keys}
    problem = "; ".join(f"task {task.label()} was left out: its contacts do not touch" for task in missing)
    return TaskStack(tasks=[*tasks, posture], limits=_slower(stack.limits, speed), modes=modes), problem


@lru_cache(maxsize=16)
def _slower(limits: TaskLimits, speed: float) -> TaskLimits:
    return msgspec.structs.replace(limits, speed=min(limits.speed, speed))


def _present(task: Any, keys: Sequence[str]) -> bool:
    return not isinstance(task, ContactTask) or all(key in keys for key in task.contact_keys())


STRETCH = 1.25  # duration of a transition per interval between the commands
LONGEST = 0.1  # longest interval between commands that are a stream [s]; after a longer one a transition takes as long


class Transition:
    """The way of one target to the next: a cubic in the coordinates of the target.

    begin, end: first and last target, a rotation for frames, else a vector
    slope: change of the goal per time since the previous command [1/s]
    """

    def __init__(self, start: tuple[Any, Array], end: Any, last: tuple[Any, Array], interval: float) -> None:
        """start: target and its velocity when the command arrives; last: goal of the previous command and its slope"""
        self._begin, rate = start
        self._turns, T = np.ndim(end) == 2, min(interval, LONGEST)
        goal, slope = last
        self.slope = self._between(goal, end) / T
        both = np.sign(slope) + np.sign(self.slope)
        leaving = 0.5 * both * np.minimum(np.abs(slope), np.abs(self.slope))  # 0 where the signs differ
        D, d = STRETCH * T, self._between(self._begin, end)
        self._duration = D
        self._rates = rate, (leaving - rate) / D
        self._c = rate, (3.0 * d / D - 2.0 * rate - leaving) / D, (-2.0 * d / D + rate + leaving) / (D * D)

    def _between(self, one: Any, other: Any) -> Array:
        """Return the way from one target to another: the difference, or the rotation vector in the world."""
        return logarithm(np.asarray(other) @ np.asarray(one).T) if self._turns else np.asarray(other) - np.asarray(one)

    def at(self, t: float) -> tuple[Any, Array]:
        """Return the target and its velocity at a time since the command [s]."""
        s = min(t, self._duration)
        one, two, three = self._c
        x = s * (one + s * (two + s * three))
        dx = self._rates[0] + t * self._rates[1] if t < self._duration else np.zeros_like(x)
        return (exponential(x) @ self._begin, left_jacobian(x) @ dx) if self._turns else (self._begin + x, dx)


class TargetMotion:
    """The targets of a command over time. stack: as commanded"""

    def __init__(self, stack: TaskStack, before: "TargetMotion | None" = None, elapsed: float = 0.0) -> None:
        """before: targets of the previous command; None: none, all targets apply at once
        elapsed: time from the previous command to this one [s]
        """
        self.stack = stack
        self._ways: list[dict[str, Transition]] = [{} for _ in stack.tasks]
        if before is not None and elapsed > 0.0:
            before.at(elapsed)
            earlier = {_identity(task): i for i, task in enumerate(before.stack.tasks)}
            for i, task in enumerate(stack.tasks):
                j = earlier.get(_identity(task))
                if j is not None and not isinstance(task, ContactTask) and _is_blended(task):
                    self._ways[i] = before._next(j, task, elapsed)
        courses = [{} if ways else _derivatives(task) for task, ways in zip(stack.tasks, self._ways, strict=True)]
        self._courses = Courses(courses)
        self._own = self._courses.own  # arrays of the targets that move, by task and name, which `at` fills
        self._blended = [i for i, ways in enumerate(self._ways) if ways]
        for i in self._blended:
            self._own[i] = {name: np.array(value, np.float64) for name, value in self._blend(i, 0.0).items()}
        tasks = [
            msgspec.structs.replace(task, **own) if own else task for task, own in zip(stack.tasks, self._own, strict=True)
        ]
        self._now = msgspec.structs.replace(stack, tasks=tasks)

    def _next(self, j: int, task: Any, elapsed: float) -> dict[str, Transition]:
        """Return the transitions to a task from the same task of this command, whose targets are those after `elapsed`."""
        old, now, ways = self.stack.tasks[j], self._copied(j), {}
        for name in _targets(task):
            goal, value = getattr(old, name), getattr(now, name)
            slope = self._ways[j][name].slope if name in self._ways[j] else _rate(old, name)
            ways[name] = Transition((value, _rate(now, name)), getattr(task, name), (goal, slope), elapsed)
        return ways

    def _copied(self, i: int) -> Any:
        """Return a task with the present targets, which stay as they are."""
        return msgspec.structs.replace(self.stack.tasks[i], **{name: array.copy() for name, array in self._own[i].items()})

    def at(self, t: float) -> TaskStack:
        """Return the tasks at a time since the command arrived [s]: always the same ones, with the targets of this time."""
        self._courses.move(t)
        for i in self._blended:
            for name, value in self._blend(i, t).items():
                self._own[i][name][:] = value
        return self._now

    def _blend(self, i: int, t: float) -> dict[str, Any]:
        """Return the targets of a task on its way from the previous command, at a time since this one arrived [s]."""
        task, changes = self.stack.tasks[i], {name: way.at(t) for name, way in self._ways[i].items()}
        fields: dict[str, Any] = {name: target for name, (target, _) in changes.items()}
        if isinstance(task, FrameTask):
            still = np.zeros(3)
            linear, angular = (changes[name][1] if name in changes else still for name in ("position", "rotation"))
            axes: Any = fields.get("rotation", task.rotation) if task.axes == "local" else np.eye(3)
            fields["velocity"] = np.concatenate([linear @ axes, angular @ axes])
        else:
            (name,) = changes
            fields["momentum_rate" if isinstance(task, AngularMomentumTask) else "velocity"] = changes[name][1]
        return fields

    def at_rest(self, t: float, feet: Collection[str] = ()) -> TaskStack:
        """Return the tasks after the command has expired at time t [s]: motion targets rest where they are then; contact tasks
        and contact modes have ended. feet: see `resting`"""
        self.at(t)
        tasks = [self._copied(i) for i in range(len(self.stack.tasks))]
        return resting(msgspec.structs.replace(self.stack, tasks=tasks), feet)


def _identity(task: Any) -> tuple[Any, ...]:
    """Return what makes a task the same as one of another command."""
    joints = getattr(task, "joints", None)
    names = task.name, getattr(task, "frame", ""), None if joints is None else tuple(joints), getattr(task, "axes", "")
    return type(task), *names, *_targets(task)


def _targets(task: Any) -> tuple[str, ...]:
    return tuple(name for name in ("position", "rotation", "angles", "momentum") if getattr(task, name, None) is not None)


def _is_blended(task: Any) -> bool:
    """Return whether the targets of a motion task have neither velocity nor acceleration, which would say how they move."""
    if isinstance(task, AngularMomentumTask):
        return task.momentum_rate is None
    local = isinstance(task, FrameTask) and task.axes == "local" and task.rotation is None
    return task.velocity is None and task.acceleration is None and not local


def _rate(task: Any, name: str) -> Array:
    """Return the velocity of a target; of frames, in the world."""
    if isinstance(task, AngularMomentumTask):
        return np.zeros(3) if task.momentum_rate is None else np.asarray(task.momentum_rate)
    if not isinstance(task, FrameTask):
        return np.zeros(len(getattr(task, name))) if task.velocity is None else np.asarray(task.velocity)
    if task.velocity is None:
        return np.zeros(3)
    v = np.asarray(task.velocity)[:3] if name == "position" else np.asarray(task.velocity)[3:]
    return task.rotation @ v if task.axes == "local" and task.rotation is not None else v
