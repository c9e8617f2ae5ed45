"""The law `mujoco` in MuJoCo beside Coulomb's law: `idyn compare mujoco-law`.

Robots stand, trot and slide on grounds of several stiffnesses, with joint feedback and torque limits; one of them with the
contacts of MuJoCo Menagerie's Go2, which have friction against turning. In each tick the force
that was predicted for each foot is compared with that of the world. Further runs show what gaps that are wrong by 10 µm cost,
and what the first of two physics steps tells of the period.
"""

import time
from functools import lru_cache, partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from controllers.build import load_controller
from controllers.command import Inputs
from controllers.controller import Controller
from idyn.contact.soft import SoftContact
from idyn.contact.terrain import Flat
from idyn.laws import LAWS, make_law
from idyn.prediction.predict import predict
from idyn.types import Array, ContactSet, State
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table
from sim_harness.studies.bench import without_gc
from sim_harness.studies.study import Figures, Picture, Study, Sweep
from sim_harness.world.world import World
from sim_harness.world.worlds import build_world

DT = 1e-3
SECONDS = {"stand": 0.2, "trot": 0.8, "slide": 0.3}
"""Task → simulated time of each run [s]; the gait begins after 0.3 s."""

TURNING = ", condim 6"
ROBOTS = ("quadruped", "solo12", "go2", "go2" + TURNING, "g1")
"""TURNING: with friction against turning."""

MENAGERIE: dict[str, Any] = {"condim": 6, "spin": 0.02, "roll": 0.01}
IMPRATIO = 100.0
"""Contacts of MuJoCo Menagerie's Go2, and its ratio of frictional to normal impedance."""

GROUNDS = {"default": (0.02, 1.0), "firm": (0.005, 1.0), "stiff": (0.002, 1.0), "direct": (-3e4, -400.0)}
"""Name → solref."""

CONES = ("elliptic", "pyramidal")
CONVERGED = 0.0
"""Tolerance of MuJoCo's solver in runs with a converged world. With 1e-14 elliptic cones are converged to 1e-8 only."""

LAWS_COMPARED = {"mujoco": ("mujoco", CONVERGED), "mujoco, world at 1e-8": ("mujoco", 1e-8), "coulomb": ("coulomb", CONVERGED)}
"""Label → (law, tolerance of the world's solver)."""

SLIPPERY, SPEED = 0.1, 0.3
"""Friction coefficient, and initial speed of the base [m/s], of the task 'slide'."""

PRESSED, WRONG = 1e-6, 1e-5
"""Depth of the lowest foot at the start [m]: at a gap of 0 ± rounding a foot may touch in the world only. Error of gaps [m]."""


class Setting(NamedTuple):
    """A world and its prediction."""

    robot: str  # may end with `TURNING`
    task: str
    ground: str = "default"
    cone: str = "elliptic"
    law: str = "mujoco"
    tolerance: float = CONVERGED
    gap: float = 0.0  # added to the gaps that the controller gets [m]
    steps: int = 1  # physics steps in a period
    integrator: str = "Euler"


def controller_of(s: Setting) -> Controller | None:
    """Return the controller; None for a robot without a gait."""
    name, contact = s.robot.removesuffix(TURNING), {"solref": GROUNDS[s.ground]}
    if s.task == "trot" and name == "g1":
        return None
    law: Any = s.law
    if s.law == "mujoco":
        law = {"kind": "mujoco", "cone": s.cone, "contact": contact, "integrator": s.integrator}
        if name != s.robot:
            law |= {"contact": contact | MENAGERIE, "impratio": IMPRATIO}
    changes: dict[str, Any] = {"law": law, "contact": {"source": "geometry"}}
    if s.task == "slide":
        changes["contact"]["mu"] = SLIPPERY
    if s.steps > 1:
        changes["ground"] = {"kind": "yielding", "horizon": DT / s.steps}
    return load_controller(f"{name}-trot" if s.task == "trot" else name, changes)


def world_of(s: Setting, controller: Controller) -> World:
    """Return the world, in which a foot has sunk in a little."""
    changes: dict[str, Any] = MENAGERIE | {"impratio": IMPRATIO} if s.robot.endswith(TURNING) else {}
    changes |= {"cone": s.cone, "solref": GROUNDS[s.ground], "tolerance": s.tolerance, "timestep": DT / s.steps}
    engine = MujocoSettings(**changes | {"integrator": s.integrator})
    robot, q = controller.robot, controller.stance.copy()
    mu = np.full(len(robot.contact_names), SLIPPERY) if s.task == "slide" else None
    world = build_world(engine, robot, Flat(), q, mu=mu)
    q[2] -= controller.contacts(q).gaps.min() + PRESSED
    v = np.zeros(robot.nv)
    v[0] = SPEED if s.task == "slide" else 0.0
    world.reset(q, v)
    return world


def force_errors(s: Setting) -> Array | None:
    """Return the first column of `errors_of`; None for a robot without a gait."""
    errors = errors_of(s)
    return None if errors is None else errors[:, 0]


def errors_of(s: Setting) -> Array | None:
    """Return for each tick the largest error of a component of a foot's force, as a share of the weight, and of a joint's
    acceleration over the period [rad/s²] (ticks, 2); None for a robot without a gait. A run ends without a prediction."""
    controller = controller_of(s)
    if controller is None:
        return None
    world, errors, a = world_of(s, controller), [], controller.robot.tree.a
    applied = None
    for k in range(round(SECONDS[s.task] / DT)):
        contacts = controller.contacts(world.state)
        contacts = msgspec.structs.replace(contacts, gaps=contacts.gaps + s.gap)
        command = controller.step(world.state, contacts, _inputs(k, applied))
        if command.prediction is None:
            break
        applied = command.tau
        felt = world.step(applied, DT)
        predicted = dict(zip(command.prediction.keys, command.prediction.force, strict=True))
        simulated = dict(zip(felt.contacts.keys, felt.impulse / DT, strict=True))
        differences = [predicted.get(key, 0.0) - simulated.get(key, 0.0) for key in predicted.keys() | simulated.keys()]
        force = max((np.abs(each).max() for each in differences), default=0.0) / controller.robot.weight
        errors.append((force, np.abs(world.state.v - command.prediction.v_plus)[a].max() / DT))
    return np.array(errors).reshape(-1, 2)


def _inputs(k: int, applied: Array | None) -> Inputs:
    return Inputs(dt=DT if k else 0.0, tau_applied=applied, follows=True)


def _other(change: dict[str, Any], ground: str, task: str) -> Array | None:
    return force_errors(Setting("quadruped", task, ground, **change))


def run(robot: str, task: str, law: tuple[str, float]) -> Array | None:
    """Return the errors of all grounds and cones together; None for a robot without a gait."""
    name, tolerance = law
    runs = [force_errors(Setting(robot, task, ground, cone, name, tolerance)) for ground in GROUNDS for cone in CONES]
    found = [errors for errors in runs if errors is not None]
    return np.concatenate(found) if found else None


@lru_cache(maxsize=1)
def _states() -> list[tuple[State, ContactSet, Array]]:
    """Return states of the quadruped that trots on the default ground, with their contacts and random demands."""
    s, rng = Setting("quadruped", "trot"), np.random.default_rng(0)
    controller = controller_of(s)
    assert controller is not None
    world, found = world_of(s, controller), []
    for k in range(400):
        contacts = controller.contacts(world.state)
        found.append((world.state, contacts, 5.0 * rng.normal(size=controller.robot.na)))
        world.step(controller.step(world.state, contacts, _inputs(k, None)).tau, DT)
    return found


def times(law: str, start: str) -> float:
    """Return the median run time of a prediction [s]. law: may end with `TURNING`; start: 'cold' or 'warm'"""
    controller = controller_of(Setting("quadruped", "trot"))
    assert controller is not None
    name, seconds, guess = law.removesuffix(TURNING), [], None
    built = LAWS[name]().build() if name == law else make_law(name, contact=SoftContact(**MENAGERIE))
    with without_gc():
        for repeat in range(4):
            for state, contacts, demand in _states():
                begin = time.perf_counter()
                answer = predict(controller.robot, state, contacts, demand, law=built, dt=DT, guess=guess)
                if repeat:
                    seconds.append(time.perf_counter() - begin)
                guess = answer.guess if start == "warm" else None
    return float(np.median(seconds))


def error_table(found: Figures) -> Table:
    """Return median, 99 % and worst error of each robot, task and law, over all grounds and cones."""
    head = ["robot", "task", *(f"{law}: {which}" for law in LAWS_COMPARED for which in ("median", "99 %", "worst"))]
    rows = []
    for robot in ROBOTS:
        for task in SECONDS:
            errors = [found["forces"][robot, task, law] for law in LAWS_COMPARED]
            if errors[0] is not None:
                rows.append([robot, task, *(cell for each in errors for cell in _cells(each))])
    return [head, *rows]


def other_table(found: Figures) -> Table:
    """Return the errors of the quadruped with wrong gaps and with two physics steps."""
    head = ["ground", "task", *(f"{what}: {which}" for what in OTHERS for which in ("median", "99 %", "worst"))]
    points = [(ground, task) for ground in GROUNDS for task in SECONDS]
    return [head, *([*point, *(cell for what in OTHERS for cell in _cells(found[what][point]))] for point in points)]


def time_table(found: Figures) -> Table:
    """Return the run times of predictions [µs]."""
    rows = [[law, *(f"{1e6 * found['times'][law, start]:.1f}" for start in ("cold", "warm"))] for law in TIMED]
    return [["law", "cold [µs]", "warm [µs]"], *rows]


def _cells(errors: Array | None) -> list[str]:
    if errors is None or not len(errors):
        return ["–"] * 3
    return [f"{value:.1e}" for value in (np.median(errors), np.percentile(errors, 99), errors.max())]


TIMED = ("coulomb", "mujoco", "mujoco" + TURNING)
OTHERS: dict[str, dict[str, Any]] = {"gaps 10 µm wrong": {"gap": WRONG}, "first of two steps": {"steps": 2}}
"""Changes to the settings of the quadruped's runs. Of two physics steps in a period, the first one was predicted."""


def curves(found: Figures) -> bytes:
    """Draw the errors of the quadruped that trots, over time, for each law."""
    lines = {}
    for law in LAWS_COMPARED:
        errors = found["forces"]["quadruped", "trot", law][: round(SECONDS["trot"] / DT)]
        lines[law] = (DT * np.arange(len(errors)), np.maximum(errors, 1e-17))
    labels = {"xlabel": "time [s]", "ylabel": "largest error of a foot's force / weight"}
    return picture([Plot(lines=lines, log="y", legend=True, axes=labels)], size=(9, 4))


def study() -> Study:
    """Return the study of the law `mujoco`."""
    sweeps = {"forces": Sweep((ROBOTS, tuple(SECONDS), LAWS_COMPARED), run)}
    for what, change in OTHERS.items():
        sweeps[what] = Sweep((tuple(GROUNDS), tuple(SECONDS)), partial(_other, change))
    sweeps["times"] = Sweep((TIMED, ("cold", "warm")), times)
    return Study(
        "MuJoCo's own contact as a law",
        f"Robots stand, trot and slide in MuJoCo for 0.2, 0.8 and 0.3 s, on grounds {', '.join(GROUNDS)}, with both cones, "
        "joint feedback and torque limits. Largest error of a component of a foot's force in a tick, as a share of the weight.",
        sweeps,
        tables=(error_table, other_table, time_table),
        pictures=(Picture("mujoco-law", "The quadruped trots on MuJoCo's default ground, elliptic cones.", curves),),
    )
