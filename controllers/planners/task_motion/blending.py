"""Targets of a stream of commands over time.

A target with a velocity or an acceleration is extrapolated by them from the arrival of its command: p + v t + ½ a t². A target
without either follows the previous one of the same task smoothly. With the interval T between the two commands it moves within
`STRETCH` T along the cubic

    x(0) as it is when the command arrives,     ẋ(0) = s₀,     x(D) = goal,     ẋ(D) = s₁
and rests at the goal. The slope s₁ is the smaller one of the last two changes of the goal per interval, 0 where their signs
differ, and s₀ the slope at which the last transition was. The target velocity goes from s₀ to s₁ evenly. So a stream of
positions along a path moves on evenly with its velocity; after a single step the target velocity is 0, and the torque steps
less than it would without a transition. The cubic is longer than the interval, so that a command that is somewhat late is not
noticed.
"""

from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np

from controllers.planners.task_motion.rotations import exponential, left_jacobian, logarithm
from controllers.planners.task_motion.targets import later, resting
from idyn.tasks import AngularMomentumTask, FrameTask, TaskStack
from idyn.tasks.forces import ContactTask
from idyn.types import Array

STRETCH = 1.25
"""Duration of a transition per interval between the commands."""

LONGEST = 0.1
"""Longest interval between commands that are a stream [s]; after a longer one a transition takes as long."""


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
    """The targets of a command over time. tasks: as commanded"""

    def __init__(self, stack: TaskStack, before: "TargetMotion | None" = None, elapsed: float = 0.0) -> None:
        """before: targets of the previous command; None: none, all targets apply at once
        elapsed: time from the previous command to this one [s]
        """
        self.stack = stack
        self._ways: list[dict[str, Transition]] = [{} for _ in stack.tasks]
        if before is None or not elapsed > 0.0:
            return
        earlier = {_identity(task): i for i, task in enumerate(before.stack.tasks)}
        for i, task in enumerate(stack.tasks):
            j = earlier.get(_identity(task))
            if j is not None and not isinstance(task, ContactTask) and _is_blended(task):
                self._ways[i] = before._next(j, task, elapsed)

    def _next(self, j: int, task: Any, elapsed: float) -> dict[str, Transition]:
        """Return the transitions to a task from the same task of this command."""
        old, now, ways = self.stack.tasks[j], self._at(j, elapsed), {}
        for name in _targets(task):
            goal, value = getattr(old, name), getattr(now, name)
            slope = self._ways[j][name].slope if name in self._ways[j] else _rate(old, name)
            ways[name] = Transition((value, _rate(now, name)), getattr(task, name), (goal, slope), elapsed)
        return ways

    def at(self, t: float) -> TaskStack:
        """Return the tasks at a time since the command arrived [s]."""
        return msgspec.structs.replace(self.stack, tasks=[self._at(i, t) for i in range(len(self.stack.tasks))])

    def _at(self, i: int, t: float) -> Any:
        task, ways = self.stack.tasks[i], self._ways[i]
        if not ways:
            return later(task, t)
        changes = {name: way.at(t) for name, way in ways.items()}
        fields: dict[str, Any] = {name: target for name, (target, _) in changes.items()}
        if isinstance(task, FrameTask):
            still = np.zeros(3)
            linear, angular = (changes[name][1] if name in changes else still for name in ("position", "rotation"))
            axes: Any = fields.get("rotation", task.rotation) if task.axes == "local" else np.eye(3)
            fields["velocity"] = np.concatenate([linear @ axes, angular @ axes])
        else:
            (name,) = changes
            fields["momentum_rate" if isinstance(task, AngularMomentumTask) else "velocity"] = changes[name][1]
        return msgspec.structs.replace(task, **fields)

    def at_rest(self, t: float, feet: Collection[str] = ()) -> TaskStack:
        """Return the tasks after the command has expired at time t [s]: motion targets rest where they are then; contact tasks
        and contact modes have ended. feet: see `resting`"""
        return resting(self.at(t), feet)


def _identity(task: Any) -> tuple[Any, ...]:
    """Return what makes a task the same as one of another command."""
    joints = getattr(task, "joints", None)
    names = task.name, getattr(task, "frame", ""), None if joints is None else tuple(joints), getattr(task, "axes", "")
    return type(task), *names, *_targets(task)


def _targets(task: Any) -> tuple[str, ...]:
    """Return the names of the given position targets."""
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
