"""A foot of go2 and a hand of g1 press against a wall of the settings while the robot stands, judged by MuJoCo."""

from typing import NamedTuple

import numpy as np
import pytest
from fast import first_is_fast, full

from controllers.config.loading import parse
from controllers.contact.ground import AnyTerrain
from idyn import State, contacts_from_geometry, load_robot
from idyn.model.description import ContactPoint
from idyn.model.so3 import tilt
from idyn.tasks import ForceTask, FrameTask, PostureTask, TaskStack, predict_tasks
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.studies.tasks import ramp
from sim_harness.world.worlds import build_world

DT = 0.001


class Press(NamedTuple):
    """A contact place that is lifted, goes ahead to a wall 6 cm in front of it, and presses; the trunk leans before that."""

    robot: str
    key: str
    force: float  # [N]
    radius: float  # of its sphere [m]
    lift: float  # [m]
    ahead: float  # where its target goes [m]
    tilt: float  # largest tilt [rad] and displacement [mm] of the trunk at the end
    off: float
    lean: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m]


FOOT = Press("go2", "FL_foot", 20.0, 0.022, 0.15, 0.06, 1e-4, 0.02, (-0.03, -0.03, 0.0))
HAND = Press("g1", "right_rubber_hand", 30.0, 0.03, 0.05, 0.07, 1e-3, 0.03)


def pressing(name, key, radius):
    """Return the robot, with a sphere at a hand that is no contact place otherwise, and its stance."""
    robot, stance = load_robot(name)
    if key not in robot.spheres.keys:
        robot = robot.variant(contact=(*robot.description.contact, ContactPoint(frame=key, radius=radius, mu=0.8)))
    return robot, stance


def press(run, ground, seconds=6.0):
    """Press from t = 3 s on, with a force that grows for one second. Return, all of the last second: the normal force of the
    place [N] (n), the largest tilt [rad], the largest component of the trunk's position error [mm], mean |dτ/dt| [N·m/s]; and
    whether all ticks were solved."""
    robot, stance = pressing(run.robot, run.key, run.radius)
    trunk, place = stance[:3].copy(), robot.frames.placement(run.key, stance).translation.copy()
    center = place + np.array([0.06 + run.radius + 0.05, 0.0, run.lift])  # the sphere touches after 6 cm
    wall = {"center": center.tolist(), "size": [0.1, 0.4, 0.2]}
    terrain = parse({"kind": "boxes", "boxes": [wall]}, AnyTerrain, "test").build()
    world = build_world(MujocoSettings(ground=ground), robot, terrain, stance)
    posture, guess = PostureTask(angles=robot.joint_angles(stance), level=1), None
    rows, torques, solved = [], [], True
    for k in range(round(seconds / DT)):
        t, q, v = k * DT, world.q, world.v
        lean = trunk + ramp(np.array(t)).x * np.array(run.lean)
        tasks = [FrameTask(frame="root_joint", position=lean, rotation=np.eye(3)), posture]
        contacts = contacts_from_geometry(robot, q, terrain, margin=0.002)
        if 1.0 <= t < 3.0:
            up, ahead = ramp(np.array(t - 1.0)).x, ramp(np.array(t - 2.0)).x
            tasks.append(FrameTask(frame=run.key, position=place + np.array([run.ahead * ahead, 0.0, run.lift * up])))
            contacts = contacts.take(np.array([key != run.key for key in contacts.keys]))
        elif t >= 3.0 and run.key in contacts.keys:
            tasks.append(ForceTask(contacts=run.key, normal=max(1.0, run.force * float(ramp(np.array(t - 3.0)).x))))
        answer = predict_tasks(robot, State(q=q, v=v), contacts, TaskStack(tasks=tasks), law="coulomb", dt=DT, guess=guess)
        guess, solved = answer.prediction.guess, solved and answer.prediction.status.ok
        step = world.step(answer.prediction.tau, DT)
        torques.append(answer.prediction.tau)
        if t >= seconds - 1.0:
            force = dict(zip(step.contacts.keys, step.normal_force, strict=True)).get(run.key, 0.0)
            rows.append((force, tilt(q[3:7]), *(q[:3] - lean)))
    rate = np.abs(np.diff(torques[-len(rows) :], axis=0)).mean() / DT
    force, tilts, *error = np.array(rows).T
    return force, float(tilts.max()), 1e3 * np.abs(error).max(), float(rate), solved


@full
@pytest.mark.parametrize("run", first_is_fast([HAND, FOOT]))
@pytest.mark.parametrize("ground", first_is_fast(["default", "firm", "stiff"]))
def test_a_place_presses_against_a_wall(run, ground):
    force, tilts, error, rate, solved = press(run, ground)
    assert solved
    assert np.abs(force - run.force).max() <= 0.01 * run.force
    assert tilts <= run.tilt
    assert error <= run.off
    assert rate <= 1.0
