"""Controllers of the comparison: the interface, and `idyn.tasks`."""

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.model.robot import Robot
from idyn.tasks import ForceTask, FrameTask, PostureTask, TaskStack, predict_tasks
from idyn.types import Array, Guess, State
from sim_harness.compare.tasks.runs import DT, PRESSING, SWINGING, Targets, TaskRun

STIFFNESS, DAMPING = 100.0, 20.0
"""Gains of all tasks [1/s²], [1/s]."""

FRICTION_MARGIN, LEAST_FORCE = 0.05, 1.0
"""Share of the friction that is not used; least normal force of a foot that stands [N]."""

LEVEL = np.eye(3)
STILL = np.zeros(3)


class TaskTick(NamedTuple):
    """What a controller returns.

    tau: joint torques [N·m] (na)
    normal: normal force of each contact place that the controller computes [N] (contacts)
    seconds: run time of the computation, from the state and the targets to the torques [s]
    ok: whether the controller found a solution
    """

    tau: Array
    normal: Array
    seconds: float
    ok: bool


class TaskController(Protocol):
    """A controller of one run."""

    def tick(self, k: int, q: Array, v: Array) -> TaskTick:
        """Return the torques for tick k in the measured state (q, v)."""
        ...

    def close(self) -> None:
        """Release what the controller holds."""
        ...


class OwnController:
    """`idyn.tasks.predict_tasks` with its default settings."""

    def __init__(self, robot: Robot, stance: Array, run: TaskRun, targets: Targets) -> None:
        self._robot, self._targets = robot, targets
        self._guess: Guess | None = None
        self._mu = None if run.mu is None else np.full(len(robot.spheres.keys), run.mu)
        self._posture = PostureTask(angles=robot.joint_angles(stance), level=1, stiffness=STIFFNESS, damping=DAMPING)

    def tick(self, k: int, q: Array, v: Array) -> TaskTick:
        robot, targets = self._robot, self._targets
        begin = perf_counter()
        contacts = contacts_from_geometry(robot, q, Flat(), margin=0.002, mu=self._mu)
        stands = targets.stands[k]
        if not stands.all():
            contacts = contacts.take(np.array([stands[robot.spheres.keys.index(key)] for key in contacts.keys]))
        answer = predict_tasks(
            robot, State(q=q, v=v), contacts, TaskStack(tasks=self._tasks(k)), law="coulomb", dt=DT, guess=self._guess
        )
        prediction = answer.prediction
        self._guess = prediction.guess
        seconds = perf_counter() - begin
        normal = np.zeros(len(stands))
        normal[[robot.spheres.keys.index(key) for key in contacts.keys]] = prediction.normal_force
        return TaskTick(prediction.tau, normal, seconds, prediction.status.ok)

    def _tasks(self, k: int) -> Sequence[FrameTask | ForceTask | PostureTask]:
        targets = self._targets
        tasks: list[FrameTask | ForceTask | PostureTask] = [_follow("root_joint", targets.trunk[k], LEVEL), self._posture]
        if not targets.stands[k].all():
            tasks.append(_follow(SWINGING, targets.foot[k], None))
        if not np.isnan(targets.presses[k]):
            tasks.append(ForceTask(contacts=PRESSING, normal=float(targets.presses[k])))
        return tasks

    def close(self) -> None:
        pass


def _follow(frame: str, target: Array, rotation: Array | None) -> FrameTask:
    """Return the task of a frame that follows a row of a curve (9)."""
    return FrameTask(
        frame=frame,
        position=target[:3],
        rotation=rotation,
        velocity=np.concatenate([target[3:6], STILL]),
        acceleration=np.concatenate([target[6:], STILL]),
        stiffness=STIFFNESS,
        damping=DAMPING,
    )
