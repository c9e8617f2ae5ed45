"""Runs of the comparison of task controllers: what the robot shall do, and in which world."""

from typing import NamedTuple

import numpy as np

from controllers.robot.load import load_robot
from idyn.model.robot import Robot
from idyn.types import Array, Record
from sim_harness.compare.tasks.references import Curve, circle, ramp

ROBOT, SWINGING, PRESSING = "go2", "FL_foot", "FL_foot"
"""Robot; the foot that leaves the ground in runs with a free foot; the foot whose force is asked for."""

DT, BEGIN, SETTLED, SECONDS = 0.001, 1.0, 3.0, 6.0
"""Period; begin of the motion, the first second is for settling; figures are taken from `SETTLED` on; end [s]."""

LEAN = np.array([-0.03, -0.03, 0.0])
LIFT = np.array([0.0, 0.0, 0.06])
"""Shift of the trunk before a foot is lifted; height of the lifted foot [m]."""


class TaskRun(Record, frozen=True):
    """A run of all controllers.

    radius [m], frequency [Hz]: of the circle, drawn by the trunk, or by the free foot if there is one
    noise: of the measured state, in units of `measured`
    mu: friction coefficient of world and models; None: the robot's
    lifts: whether a foot leaves the ground
    presses: normal force that is asked of the foot `PRESSING` [N]; None: no force is asked for
    """

    radius: float = 0.03
    frequency: float = 0.5
    noise: float = 0.0
    mu: float | None = None
    lifts: bool = False
    presses: float | None = None


RUNS = {
    "trunk on a circle": TaskRun(),
    "with sensor noise": TaskRun(noise=1.0),
    "a free foot on a circle": TaskRun(lifts=True),
    "friction too low": TaskRun(radius=0.05, frequency=1.0, mu=0.15),
    "a foot presses 45 N": TaskRun(radius=0.0, presses=45.0),
}


class Targets(NamedTuple):
    """What is asked for in each of n ticks.

    trunk, foot: curves of the base and of the free foot in the world, x, v and a side by side (n, 9); the attitude of the base
        is asked to be level, the joints to be near the stance
    stands: which contacts touch the ground, in the order of the robot's contact places (n, contacts)
    presses: normal force of the foot `PRESSING` [N]; NaN: not asked for (n)
    """

    trunk: Array
    foot: Array
    stands: Array
    presses: Array


def stance() -> tuple[Robot, Array]:
    """Return the robot and its stance."""
    return load_robot(ROBOT)


def targets_of(run: TaskRun, robot: Robot, q: Array, seconds: float = SECONDS) -> Targets:
    """Return the targets of a run from the stance q."""
    t = DT * np.arange(round(seconds / DT))
    still, drawn = Curve(*np.zeros((3, len(t), 3))), circle(t - BEGIN, run.radius, run.frequency, (0, 2 if run.lifts else 1))
    trunk = ramp(t).along(LEAN) if run.lifts else drawn
    foot = drawn + ramp(t - BEGIN).along(LIFT) if run.lifts else still
    stands = np.ones((len(t), len(robot.spheres.keys)), dtype=bool)
    if run.lifts:
        stands[t >= BEGIN, robot.spheres.keys.index(SWINGING)] = False
    return Targets(
        trunk=np.hstack(trunk + q[:3]),
        foot=np.hstack(foot + robot.frames.placement(SWINGING, q).translation),
        stands=stands,
        presses=np.full(len(t), np.nan if run.presses is None else run.presses),
    )


def measured(robot: Robot, q: Array, v: Array, noise: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a state as sensors see it. Standard deviations for noise 1: base 0.2 mm, 1 mrad, 10 mm/s, 10 mrad/s; joints
    0.5 mrad, 50 mrad/s."""
    if noise == 0.0:
        return q, v
    shift, speed = np.full(robot.nv, 5e-4), np.full(robot.nv, 5e-2)
    shift[:3], shift[3:6], speed[:6] = 2e-4, 1e-3, 1e-2
    draws = noise * rng.normal(size=(2, robot.nv))
    return robot.integrate(q, shift * draws[0]), v + speed * draws[1]
