"""Worlds of these tests: a sliding block, a robot and the torque that holds it up; the demo's report."""

import numpy as np
import urdf

from controllers.config.tables import named
from idyn import ContactPoint, Description, Flat, Robot, load_robot
from sim_harness.demo import Demo, report_of
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.world.world import contact_jacobian
from sim_harness.world.worlds import ENGINES, build_world

BLOCK = urdf.robot("block", urdf.link("block", 2.0, (0.02, 0.03, 0.04)))
CORNERS = [(x, y, -0.05) for x in (-0.2, 0.2) for y in (-0.15, 0.15)]


WORLDS = {**ENGINES, "mujoco": MujocoSettings}


def block_world(engine, mu=0.5, terrain=None, **settings):
    """A 2 kg block, 0.4 × 0.3 × 0.1 m, at rest on the ground, a plane unless given."""
    points = [ContactPoint(frame="block", offset=corner, mu=mu) for corner in CORNERS]
    robot = Robot(Description(urdf=BLOCK, contact=points))
    q = robot.neutral()
    q[2] = 0.05
    return build_world(WORLDS[engine](**settings), robot, Flat() if terrain is None else terrain, q)


def robot_world(engine="lcp", name="quadruped", terrain=None, **settings):
    robot, q = load_robot(name)
    return build_world(WORLDS[engine](**settings), robot, Flat() if terrain is None else terrain, q)


class Stand:
    """Static torque with the weight on equal normal forces, and a soft joint PD about the configuration the world is in."""

    def __init__(self, world, kp=20.0, kd=0.1):
        robot, n = world.robot, len(world.contacts)
        self.world, self.kp, self.kd, self.angles = world, kp, kd, robot.joint_angles(world.q)
        terms = robot.terms(world.q, np.zeros(robot.nv))
        J = contact_jacobian(terms.axes, robot.tree.support, world.contacts)
        self.tau = (terms.h - J[2::3].T @ np.full(n, robot.total_mass * 9.81 / n))[robot.tree.a]

    def torque(self):
        error = self.world.robot.joint_angles(self.world.q) - self.angles
        return self.tau - self.kp * error - self.kd * self.world.v[self.world.robot.tree.a]


def quiet(*_, **__):
    """Of progress nothing is said."""


def demo_report(folder, seconds):
    """The demo's report of runs in lock-step, which do not depend on the speed of the machine; its path."""
    plan = load_plan("demo", seconds)
    runs = [run_in_process(with_controller(plan, {"law": law}), named(law), lambda *_: None) for law in plan.settings.laws]
    for run in runs:
        run.save(folder / run.summary.label)
    return report_of(plan, Demo(runs=runs, slide=runs), folder).write(folder)
