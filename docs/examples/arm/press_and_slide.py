"""A Panda presses 20 N and slides along a line of 5 cm in MuJoCo: `python press_and_slide.py`.

A table says how much the force of the sliding contact varies, for two settings of MuJoCo's contacts and several speeds.
"""

from pathlib import Path

import numpy as np

from idyn import Flat, State, contacts_from_geometry, load_robot
from idyn.tasks import ForceTask, FrameTask, PostureTask, TaskStack, predict_tasks
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.worlds import build_world

DT, TOOL, PRESS, LENGTH = 0.001, "panda_hand", 20.0, 0.05
STARTS = 1.5
"""Time at which the tool begins to slide [s]."""

CONTACTS = {
    "default": MujocoSettings(),
    "slow friction": MujocoSettings(solreffriction=(0.2, 1.0), impratio=10.0),
}
"""MuJoCo's contacts, by name. Slow friction: a time constant of 0.2 s along the table, 0.02 s against it."""


def smooth(s: float) -> tuple[float, float, float]:
    """Return value, slope and curvature of a curve from 0 at s = 0 to 1 at s = 1; slope and curvature vanish at both ends."""
    s = min(max(s, 0.0), 1.0)
    return s**3 * (10 - 15 * s + 6 * s * s), 30 * s * s * (1 - s) ** 2, 60 * s * (1 - s) * (1 - 2 * s)


def slide(contact: MujocoSettings, seconds: float) -> tuple[np.ndarray, float]:
    """Press, and slide along the line within `seconds`.

    Return the normal forces [N] of the ticks in which the tool slides, without the first and last tenth; and the largest error
    of the tool's position along the ground [m].
    """
    robot, pose = load_robot(str(Path(__file__).parent / "panda.toml"))
    hand = robot.frames.placement(TOOL, pose)
    table = Flat(height=hand.translation[2] - 0.12)  # the tool touches it
    world = build_world(contact, robot, table, pose)
    posture = PostureTask(angles=robot.joint_angles(pose), level=1)
    guess, forces, worst = None, [], 0.0
    for k in range(round((STARTS + seconds) / DT)):
        t = k * DT
        s = (t - STARTS) / seconds
        x, dx, ddx = smooth(s)
        along = np.array([LENGTH, 0.0, 0.0])
        line = FrameTask(
            frame=TOOL,
            position=hand.translation + x * along,
            rotation=hand.rotation,
            velocity=[*(dx / seconds * along), 0.0, 0.0, 0.0],
            acceleration=[*(ddx / seconds**2 * along), 0.0, 0.0, 0.0],
            mask=[True, True, False, True, True, True],  # not the height: the force decides it
        )
        press = ForceTask(contacts=TOOL, normal=PRESS * max(0.25, smooth(t)[0]))
        contacts = contacts_from_geometry(robot, world.q, table, margin=0.002)
        tasks: list[FrameTask | ForceTask | PostureTask] = [line, posture]
        if TOOL in contacts.keys:
            tasks.append(press)
        modes = {TOOL: "slide"} if s > 0.0 and TOOL in contacts.keys else {}
        state = State(q=world.q, v=world.v)
        stack = TaskStack(tasks=tasks, modes=modes)
        answer = predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT, guess=guess)
        guess = answer.prediction.guess
        step = world.step(answer.prediction.tau, DT)
        if 0.1 < s < 0.9:
            forces.append(float(step.normal_force.sum()))
            off = robot.frames.placement(TOOL, world.q).translation - line.position
            worst = max(worst, float(np.linalg.norm(off[:2])))
    return np.array(forces), worst


def main() -> None:
    print(f"{'contact':16}{'fastest mm/s':>14}{'mean N':>9}{'least N':>9}{'most N':>9}{'off the line mm':>17}")
    for name, contact in CONTACTS.items():
        for seconds in (20.0, 5.0, 1.0, 0.5):
            forces, worst = slide(contact, seconds)
            fastest = 1e3 * smooth(0.5)[1] * LENGTH / seconds
            figures = f"{forces.mean():9.2f}{forces.min():9.2f}{forces.max():9.2f}{1e3 * worst:17.2f}"
            print(f"{name:16}{fastest:14.0f}{figures}", flush=True)


if __name__ == "__main__":
    main()
