"""Shared by the tests of the simulated world: a sliding block, the torque that holds a robot up, a short comparison."""

import numpy as np
import pytest
import urdf

from controllers.config.tables import named
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.model.description import ContactPoint, Description
from idyn.model.robot import Robot
from sim_harness.compare import jobs
from sim_harness.demo import Demo, report_of
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.world.world import contact_jacobian
from sim_harness.world.worlds import ENGINES, build_world

COMPARISON = """
title = "two laws"
experiment = "sway"
controllers = ["id-qp-mu", "pid"]
quantities = ["tracking", "torque-rate"]
figures = ["tracking", "torque-rate", "forces", "path"]
seeds = 1
[changes]
duration = 0.04
[[scene]]
name = "short"
[[check]]
claim = "PID is worse"
quantity = "tracking"
larger = ["pid"]
smaller = ["id-qp-mu"]
[paper.short]
id-qp-mu = [0.5]
pid = "fell"
"""
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


def holding_torque(world):
    """Static torque with the weight on equal normal forces; for a symmetric stance it is in balance."""
    robot = world.robot
    terms = robot.terms(world.q, np.zeros(robot.nv))
    h = terms.h.copy()
    J = contact_jacobian(terms.axes, robot.tree.support, world.contacts)
    n = len(world.contacts)
    return (h - J[2::3].T @ np.full(n, robot.total_mass * 9.81 / n))[robot.tree.a]


class Stand:
    """Feed-forward torque and a soft joint PD about the configuration the world is in."""

    def __init__(self, world, kp=20.0, kd=0.1):
        self.world, self.kp, self.kd = world, kp, kd
        self.angles = world.robot.joint_angles(world.q)
        self.tau = holding_torque(world)

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


@pytest.fixture
def make_block():
    return block_world


@pytest.fixture
def make_world():
    return robot_world


@pytest.fixture
def make_stand():
    return Stand


@pytest.fixture(scope="session")
def make_report():
    return demo_report


@pytest.fixture
def comparison(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(COMPARISON)
    return str(path)


@pytest.fixture
def here(monkeypatch):
    """Jobs run in this process; returns the names of those that ran."""
    done = []

    def execute(executor, function, tasks, count):
        for i, task in enumerate(tasks):
            function(*task)
            done.append(task[0].folder.name)
            yield i, None

    monkeypatch.setattr(jobs, "run_tasks", execute)
    return done
