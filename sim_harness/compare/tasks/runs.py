"""Runs of the comparison of task controllers: what the robot shall do, and in which world."""

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.model.robot import Robot
from idyn.model.so3 import tilt
from idyn.tasks import ForceTask, FrameTask, PostureTask, TaskStack, predict_tasks
from idyn.types import Array, Guess, Record, State
from sim_harness.measure.fall import Posture
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.worlds import build_world


class Curve(NamedTuple):
    """A function of n times, with its first and second derivative: each (n), or (n, 3) for a point in the world [m]."""

    x: Array
    v: Array
    a: Array

    def __add__(self, other: "Curve | Array") -> "Curve":  # type: ignore[override]
        """Return the sum of two curves, or the curve moved by a constant offset (3)."""
        if isinstance(other, Curve):
            return Curve(self.x + other.x, self.v + other.v, self.a + other.a)
        return Curve(self.x + other, self.v, self.a)

    def along(self, direction: Array) -> "Curve":
        """Return the curve of a point that moves along a direction (3) by the values of this function."""
        return Curve(*(np.multiply.outer(each, direction) for each in self))


def ramp(t: Array) -> Curve:
    """Return a polynomial of fifth degree, 0 for t ≤ 0 and 1 for t ≥ 1 s, with zero slope and curvature at both ends."""
    s = np.clip(t, 0.0, 1.0)
    return Curve(s**3 * (10.0 - 15.0 * s + 6.0 * s**2), 30.0 * s**2 * (1.0 - s) ** 2, 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s))


def circle(t: Array, radius: float, frequency: float, axes: tuple[int, int]) -> Curve:
    """Return a circle in the plane of two world axes, whose radius grows from 0 between t = 0 and 1 s."""
    w = 2.0 * np.pi * frequency
    r, turn = ramp(t), np.exp(1j * w * t)
    # z = r e^{iωt}, ż = (ṙ + iω r) e^{iωt}, z̈ = (r̈ + 2iω ṙ − ω² r) e^{iωt}
    parts = (r.x * turn, (r.v + 1j * w * r.x) * turn, (r.a + 2j * w * r.v - w**2 * r.x) * turn)
    first, second = np.eye(3)[list(axes)]
    return Curve(*(radius * (np.outer(z.real, first) + np.outer(z.imag, second)) for z in parts))


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


def run_controller(robot: Robot, stance: Array, run: TaskRun, targets: Targets, controller: TaskController) -> TaskFigures:
    """Run a controller. The same noise is drawn for every controller."""
    keys = robot.spheres.keys
    mu = None if run.mu is None else np.full(len(keys), run.mu)
    world, posture = build_world(MujocoSettings(), robot, Flat(), stance, mu=mu), Posture(robot, Flat(), stance)
    rng, samples, fell = np.random.default_rng(0), [], np.inf
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
        error = float(np.linalg.norm(x - (targets.foot if run.lifts else targets.trunk)[k, :3]))
        pressing = float(abs(normal[keys.index(PRESSING)] - targets.presses[k]))
        samples.append((error, float(tilt(q[3:7])), normal - tick.normal, pressing, tick.tau, tick.seconds, tick.ok))
    first = min(round(SETTLED / DT), len(samples) // 2)  # of a robot that falls early, the second half of what there is
    errors, tilts, force, presses, tau, seconds, ok = (np.array(column) for column in zip(*samples[first:], strict=True))
    return TaskFigures(
        tracking=1e3 * _rms(errors),
        tilt=1e3 * _rms(tilts),
        force=_rms(force),
        pressing=float(presses.max()),
        rate=float(np.abs(np.diff(tau, axis=0)).mean() / DT),
        fell=float(fell),
        seconds=float(np.median(seconds)),
        failed=int(np.sum(~ok)),
        errors=1e3 * errors,
    )


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
