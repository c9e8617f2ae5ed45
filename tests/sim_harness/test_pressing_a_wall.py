"""A foot of go2 presses against a wall while the robot stands on the other three, judged by MuJoCo."""

import numpy as np
import pytest
from fast import full

from idyn import Flat, State, contacts_from_geometry, load_robot
from idyn.model.so3 import tilt
from idyn.tasks import ForceTask, FrameTask, PostureTask, TaskStack, predict_tasks
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.studies.tasks import ramp
from sim_harness.world.worlds import build_world

DT, FOOT, PRESS = 0.001, "FL_foot", 20.0


class Corner:
    """The ground z = 0 and a wall x = `wall` [m] in front of the robot; a sphere touches the nearer of the two."""

    friction = None

    def __init__(self, wall):
        self.wall = wall

    def query(self, points):
        floor, normals = Flat().query(points)
        front = self.wall - points[:, 0]
        normals[front < floor] = -1.0, 0.0, 0.0
        return np.minimum(floor, front), normals


def press(ground, seconds=6.0):
    """Lean away from the foot, lift it by 15 cm, put it on a wall 6 cm in front of it, and press from t = 3 s on, with a force
    that grows for one second. Return, all of the last second: the normal force of the foot [N] (n), the largest tilt [rad], the
    largest component of the trunk's position error [mm], mean |dτ/dt| [N·m/s]; and whether all ticks were solved."""
    robot, stance = load_robot("go2")
    trunk, foot = stance[:3].copy(), robot.frames.placement(FOOT, stance).translation.copy()
    terrain = Corner(foot[0] + 0.06 + 0.022)  # the foot's sphere touches after 6 cm
    world = build_world(MujocoSettings(ground=ground), robot, terrain, stance)
    posture, guess = PostureTask(angles=robot.joint_angles(stance), level=1), None
    rows, torques, solved = [], [], True
    for k in range(round(seconds / DT)):
        t, q, v = k * DT, world.q, world.v
        lean = trunk + ramp(np.array(t)).x * np.array([-0.03, -0.03, 0.0])
        tasks = [FrameTask(frame="root_joint", position=lean, rotation=np.eye(3)), posture]
        contacts = contacts_from_geometry(robot, q, terrain, margin=0.002)
        if 1.0 <= t < 3.0:
            up, ahead = ramp(np.array(t - 1.0)).x, ramp(np.array(t - 2.0)).x
            tasks.append(FrameTask(frame=FOOT, position=foot + np.array([0.06 * ahead, 0.0, 0.15 * up])))
            contacts = contacts.take(np.array([key != FOOT for key in contacts.keys]))
        elif t >= 3.0 and FOOT in contacts.keys:
            tasks.append(ForceTask(contacts=FOOT, normal=max(1.0, PRESS * float(ramp(np.array(t - 3.0)).x))))
        answer = predict_tasks(robot, State(q=q, v=v), contacts, TaskStack(tasks=tasks), law="coulomb", dt=DT, guess=guess)
        guess, solved = answer.prediction.guess, solved and answer.prediction.status.ok
        step = world.step(answer.prediction.tau, DT)
        torques.append(answer.prediction.tau)
        if t >= seconds - 1.0:
            force = dict(zip(step.contacts.keys, step.normal_force, strict=True)).get(FOOT, 0.0)
            rows.append((force, tilt(q[3:7]), *(q[:3] - lean)))
    rate = np.abs(np.diff(torques[-len(rows) :], axis=0)).mean() / DT
    force, tilts, *error = np.array(rows).T
    return force, float(tilts.max()), 1e3 * np.abs(error).max(), float(rate), solved


@full
@pytest.mark.parametrize("ground", ["default", "firm", "stiff"])
def test_a_foot_presses_twenty_newtons_against_a_wall(ground):
    force, tilts, error, rate, solved = press(ground)
    assert solved
    assert np.abs(force - PRESS).max() <= 0.01 * PRESS
    assert tilts <= 1e-4
    assert error <= 0.02
    assert rate <= 1.0
