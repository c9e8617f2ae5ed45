"""One run of one task controller in MuJoCo, and its figures."""

from typing import NamedTuple

import numpy as np

from controllers.robot.attitude import tilt
from idyn.contact.terrain import Flat
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.compare.tasks.own import TaskController
from sim_harness.compare.tasks.runs import DT, PRESSING, SETTLED, SWINGING, Targets, TaskRun, measured
from sim_harness.measure.fall import Posture
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.world.worlds import build_world


class TaskFigures(NamedTuple):
    """Figures of a run, from `SETTLED` until the end or the fall.

    tracking: root mean square of the position error of the trunk, or of the free foot [mm]
    tilt: root mean square of the angle between the vertical axes of trunk and world [mrad]
    force: root mean square over feet and ticks of the normal force in the world minus that of the controller [N]
    pressing: largest difference of the normal force in the world from the one that is asked for [N]; NaN if none is
    rate: mean of |dτ/dt| over joints and ticks [N·m/s]
    fell: time of the fall [s]; inf: upright to the end
    seconds: median run time of the controller [s]
    failed: number of ticks without a solution
    errors: the position errors, one per tick [mm] (n)
    """

    tracking: float
    tilt: float
    force: float
    pressing: float
    rate: float
    fell: float
    seconds: float
    failed: int
    errors: Array


class Record(NamedTuple):
    """What is recorded of a tick: position error [m], tilt [rad], difference of the normal forces [N] (contacts), difference
    from the force that is asked for [N], torques [N·m] (na), run time [s], whether there was a solution."""

    error: float
    tilt: float
    force: Array
    pressing: float
    tau: Array
    seconds: float
    ok: bool


def run_controller(robot: Robot, stance: Array, run: TaskRun, targets: Targets, controller: TaskController) -> TaskFigures:
    """Run a controller. The same noise is drawn for every controller."""
    keys = robot.spheres.keys
    mu = None if run.mu is None else np.full(len(keys), run.mu)
    world, rng, records, fell = (
        build_world(MujocoSettings(), robot, Flat(), stance, mu=mu),
        np.random.default_rng(0),
        [],
        np.inf,
    )
    posture = Posture(robot, Flat(), stance)
    for k in range(len(targets.trunk)):
        q, v = world.q, world.v
        if not posture.upright(q[None]):
            fell = k * DT
            break
        tick = controller.tick(k, *measured(robot, q, v, run.noise, rng))
        step = world.step(tick.tau, DT)
        normal = np.zeros(len(keys))
        normal[[keys.index(key) for key in step.contacts.keys]] = step.normal_force
        x = robot.frames.placement(SWINGING, q).translation if run.lifts else q[:3]
        records.append(
            Record(
                error=float(np.linalg.norm(x - (targets.foot if run.lifts else targets.trunk)[k, :3])),
                tilt=float(tilt(q[3:7])),
                force=normal - tick.normal,
                pressing=float(abs(normal[keys.index(PRESSING)] - targets.presses[k])),
                tau=tick.tau,
                seconds=tick.seconds,
                ok=tick.ok,
            )
        )
    return _figures(records, float(fell))


def _figures(records: list[Record], fell: float) -> TaskFigures:
    first = min(round(SETTLED / DT), len(records) // 2)  # of a robot that falls early, the second half of what there is
    error, tilts, force, pressing, tau, seconds, ok = (np.array(column) for column in zip(*records[first:], strict=True))
    return TaskFigures(
        tracking=1e3 * _rms(error),
        tilt=1e3 * _rms(tilts),
        force=_rms(force),
        pressing=float(pressing.max()),
        rate=float(np.abs(np.diff(tau, axis=0)).mean() / DT),
        fell=fell,
        seconds=float(np.median(seconds)),
        failed=int(np.sum(~ok)),
        errors=1e3 * error,
    )


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
