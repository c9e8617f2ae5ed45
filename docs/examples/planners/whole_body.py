"""A whole-body controller: go2 moves its trunk on a circle while one foot draws a circle in the air."""

import numpy as np

from idyn import Flat, Guess, Prediction, State, contacts_from_geometry, load_robot
from idyn.tasks import FrameTask, PostureTask, TaskStack, predict_tasks

robot, stance = load_robot("go2")
trunk0 = robot.frames.placement("root_joint", stance).translation
foot0 = robot.frames.placement("FL_foot", stance).translation


def circle(t: float, radius: float, axes: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, velocity and acceleration on a circle, once in two seconds; it begins at rest within two seconds"""
    w, s = np.pi, min(t / 2, 1.0)
    r, dr, ddr = s**3 * (10 - 15 * s + 6 * s * s), 15 * s**2 * (1 - s) ** 2, 15 * s * (1 - s) * (1 - 2 * s)
    e, n = np.cos(w * t) * axes[0] + np.sin(w * t) * axes[1], np.cos(w * t) * axes[1] - np.sin(w * t) * axes[0]
    return radius * r * e, radius * (dr * e + r * w * n), radius * (ddr * e + 2 * dr * w * n - r * w * w * e)


def control(t: float, q: np.ndarray, v: np.ndarray, guess: Guess | None = None) -> Prediction:
    """Joint torques (`tau`) at time t [s] for the measured state; guess: of the last tick's prediction"""
    x, y, z = np.eye(3)
    shift, up = min(t, 1.0) * np.array([-0.03, -0.03, 0.0]), 0.06 * min(max(t - 1.0, 0.0), 1.0) * z
    p, dp, ddp = circle(max(t - 2.0, 0.0), 0.01, (x, y))
    f, df, ddf = circle(max(t - 2.0, 0.0), 0.03, (x, z))
    pad = np.zeros(3)
    trunk = FrameTask(
        frame="root_joint", position=trunk0 + shift + p, rotation=np.eye(3), velocity=[*dp, *pad], acceleration=[*ddp, *pad]
    )
    foot = FrameTask(frame="FL_foot", position=foot0 + up + f, velocity=[*df, *pad], acceleration=[*ddf, *pad])
    contacts = contacts_from_geometry(robot, q, Flat(), margin=0.002)
    if t > 1.0:  # the foot swings
        contacts = contacts.take(np.array([key != "FL_foot" for key in contacts.keys]))
    posture = PostureTask(angles=robot.joint_angles(stance), level=1)
    tasks = [trunk, posture] if t <= 1.0 else [trunk, foot, posture]
    answer = predict_tasks(robot, State(q=q, v=v), contacts, TaskStack(tasks=tasks), law="coulomb", dt=0.001, guess=guess)
    return answer.prediction
