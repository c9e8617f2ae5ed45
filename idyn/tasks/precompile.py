"""Precompilation of the kernels of `predict_tasks`."""

import numpy as np

from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.tasks.forces import ContactTask, ForceTask
from idyn.tasks.motion import FrameTask, MotionTask, PostureTask
from idyn.tasks.predict import predict_tasks
from idyn.tasks.stack import TaskStack
from idyn.types import ContactSet, State

DT = 1e-3


def compile_task_kernels(robot: Robot, law: Law, options: Options, state: State, contacts: ContactSet) -> None:
    """Compile or load every kernel that tasks may need beside those of the law."""
    frame = robot.frames.names[-1]
    pose = robot.frames.placement(frame, state.q)
    tasks: list[MotionTask | ContactTask] = [
        FrameTask(frame=frame, position=pose.translation, rotation=pose.rotation, velocity=np.zeros(6)),
        PostureTask(angles=robot.joint_angles(state.q), level=1),
    ]
    if len(contacts):
        tasks.append(ForceTask(contacts=contacts.keys, normal=robot.weight, level=2))
    predict_tasks(robot, state, contacts, TaskStack(tasks=tasks), law=law, dt=DT, options=options)
