"""Benchmark of ticks of tasks, in units of a prediction and of the shipped controller's tick: standing, and along a trot."""

import time
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from controllers.build import load_controller
from controllers.command import Inputs, Reference
from controllers.config.loading import files
from controllers.controller import Controller
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.model.frames import exponential
from idyn.model.robot import Robot
from idyn.prediction.predict import predict
from idyn.tasks import FrameTask, PostureTask, TaskStack, predict_tasks
from idyn.types import Array, ContactSet, State
from sim_harness.doctor import DT
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.report.tables import Table
from sim_harness.studies.bench import Sample, without_gc, workload
from sim_harness.studies.tasks import PeerTicks
from sim_harness.world.worlds import build_world

SLIPPERY, SIDEWAYS = 0.1, 3.0
"""Friction coefficient of slippery ground, and acceleration that is asked of the base on it [m/s²]. Friction gives 1 m/s²."""

HANDS = {"g1": ("left_rubber_hand", "right_rubber_hand")}
"""Frames that get tasks besides base and feet, by robot."""

TROT = slice(600, 1000)
"""Ticks of a trot that are measured."""

TURNS, COLD = 10, 20
"""Measured rounds; ticks at the beginning of each that do not count: another process ran before."""

COLUMNS = ("us", "prediction_us", "tick_us", "tsid_us", "placo_us")
"""Times of a tick: of tasks, of one prediction, of the shipped controller, of TSID, of placo."""


class Tick(NamedTuple):
    """State, contacts and tasks of a tick."""

    state: State
    contacts: ContactSet
    stack: TaskStack


Figures = dict[str, dict[str, float]]
"""Kind of ticks → its share of the ticks of its run; medians and 99th percentiles [µs] of `COLUMNS` (NaN without a controller,
or without a solution of a peer), of peers that are measured."""

Peers = dict[str, Path]
"""Interpreters of environments with TSID and placo, by `tsid` and `placo`. They get the same states and targets; their contacts
hold the feet that stand."""


def bench_tasks(robot_name: str, peers: Peers) -> Figures:
    """Return the figures of a standing robot, and of its trot if there is a shipped one. {} for robots that do not stand on two
    contacts or more.

    The law is `coulomb`. The tasks hold base, two feet and two hands, if there are any (level 0), and the posture (level 1).
    Targets are set before a tick, as those of the peers.
    """
    robot, stance = load_robot(robot_name)
    keys, shipped = robot.spheres.keys, files("controllers")
    if not robot.floating or len(keys) < 2:
        return {}
    samples = workload(robot, stance, len(keys))
    held, pushed = (standing_tasks(robot, stance, HANDS.get(robot_name, ()), push) for push in (0.0, SIDEWAYS))
    runs = {
        "standing": [Tick(each.state, each.contacts, held) for each in samples],
        "standing, pushed on slippery ground": [Tick(each.state, on_slippery_ground(each), pushed) for each in samples],
    }
    found = figures((robot, stance), runs, load_controller(robot_name) if robot_name in shipped else None, peers)
    trot = f"{robot_name}-trot"
    return found | (trotting(load_controller(trot), peers) if trot in shipped else {})


def standing_tasks(robot: Robot, stance: Array, hands: tuple[str, ...], push: float) -> TaskStack:
    """Return tasks that hold the stance. push: acceleration sideways that is asked of the base besides [m/s²]"""
    pose = robot.frames.placement("root_joint", stance)
    acceleration = np.array([0.0, push, 0.0, 0.0, 0.0, 0.0])
    base = FrameTask(frame="root_joint", position=pose.translation, rotation=pose.rotation, acceleration=acceleration)
    frames = *_feet(robot)[:2], *hands
    held = [FrameTask(frame=frame, position=robot.frames.placement(frame, stance).translation) for frame in frames]
    return TaskStack(tasks=[base, *held, PostureTask(angles=robot.joint_angles(stance), level=1)])


def on_slippery_ground(sample: Sample) -> ContactSet:
    """Return the contacts of a sample with the friction coefficient SLIPPERY."""
    return msgspec.structs.replace(sample.contacts, mu=np.full(len(sample.contacts), SLIPPERY))


def trotting(controller: Controller, peers: Peers) -> Figures:
    """Return figures of a simulated trot: of its ticks with one prediction, and of those with more, with their shares."""
    robot, ticks = controller.robot, []
    world = build_world(PolygonLcp(), robot.variant(), Flat(), controller.stance)
    for k in range(TROT.stop):
        state = world.state
        near = controller.contacts(state)
        command = controller.step(state, near, Inputs(dt=DT * (k > 0)))
        world.step(command.tau, DT)
        if k >= TROT.start and command.prediction is not None and command.reference is not None:
            stand = near.take(np.array([key in command.prediction.guess.keys for key in near.keys], np.bool_))
            stand = msgspec.structs.replace(stand, gaps=np.minimum(stand.gaps, 0.0))
            ticks.append(Tick(state, stand, trot_tasks(robot, controller.stance, state, stand, command.reference)))
    return figures((robot, controller.stance), {"trot": ticks}, controller, peers)


def trot_tasks(robot: Robot, stance: Array, state: State, contacts: ContactSet, reference: Reference) -> TaskStack:
    """Return tasks of a tick of a trot: velocity, height and attitude of the base; two feet, first those in the air, where the
    reference has them; and its posture."""
    x, y, _, _, _, z, w = state.q[:7]
    yaw = 2.0 * np.arctan2(z, w)
    turn, wanted = exponential(np.array([0.0, 0.0, yaw])), np.zeros(3) if reference.base is None else reference.base
    velocity = np.concatenate([turn @ [*wanted[:2], 0.0], [0.0, 0.0, wanted[2]]])
    base = FrameTask(frame="root_joint", position=np.array([x, y, stance[2]]), rotation=turn, velocity=velocity)
    q, v, a = robot.with_joint_angles(state.q, reference.q), state.v.copy(), np.zeros(robot.nv)
    v[robot.tree.a], a[robot.tree.a] = reference.v, reference.a
    feet, frames = [], robot.frames
    for foot in sorted(_feet(robot), key=lambda foot: foot in contacts.keys)[:2]:
        J, drift = frames.jacobian(foot, q), frames.drift(foot, q, v)
        place, speed, pull = frames.placement(foot, q).translation, J @ v, J @ a + drift
        feet.append(FrameTask(frame=foot, position=place, velocity=speed, acceleration=pull))
    posture = PostureTask(angles=reference.q, velocity=reference.v, acceleration=reference.a, level=1)
    return TaskStack(tasks=[base, *feet, posture])


def _feet(robot: Robot) -> list[str]:
    return list(dict.fromkeys(place.frame for place in robot.description.contact))


def figures(at: tuple[Robot, Array], runs: dict[str, list[Tick]], controller: Controller | None, peers: Peers) -> Figures:
    """Return the figures of runs, measured in turns: of each tick its fastest round, of the ticks of a kind their median. Ticks
    with several predictions are a kind of their own. at: robot and stance"""
    robot, stance = at
    other, spent, several = robot.twin(), dict[str, Array](), dict[str, Array]()
    started = {
        (name, peer): PeerTicks(peer, python, robot, stance, ticks)
        for name, ticks in runs.items()
        for peer, python in peers.items()
    }
    for turn in range(1 + TURNS):
        for name, ticks in runs.items():
            with without_gc():
                times, several[name] = _once(robot, other, ticks, controller)
            for peer in peers:
                times[:, COLUMNS.index(f"{peer}_us")] = started[name, peer].times()
            spent[name] = times if turn <= 1 else np.minimum(spent[name], times)  # the first round is a warm-up
    for each in started.values():
        each.close()
    found: Figures = {}
    for name, all_times in spent.items():
        times, more = all_times[COLD:], several[name][COLD:]
        for kind, chosen in ((name, ~more), (f"{name}, several predictions", more)):
            if chosen.any():
                half, most = (1e6 * np.quantile(times[chosen], each, axis=0) for each in (0.5, 0.99))
                measured = [k for k, name in enumerate(COLUMNS) if name[: -len("_us")] in peers or k < len(COLUMNS) - 2]
                medians = {COLUMNS[k]: float(half[k]) for k in measured}
                found[kind] = {
                    "share": float(chosen.mean()),
                    **medians,
                    **{f"{COLUMNS[k]}_p99": float(most[k]) for k in measured},
                }
    return found


def prepared(kept: dict[tuple[str, ...], TaskStack], stack: TaskStack) -> TaskStack:
    """Return the stack of the same frames that was passed before, with the targets of this one."""
    own = kept.setdefault(tuple(task.label() for task in stack.tasks), stack)
    for mine, task in zip(own.tasks, stack.tasks, strict=True):
        for name in ("position", "rotation", "angles", "velocity", "acceleration"):
            if (target := getattr(task, name, None)) is not None:
                getattr(mine, name)[:] = target
    return own


def _once(robot: Robot, other: Robot, ticks: list[Tick], controller: Controller | None) -> tuple[Array, Array]:
    """Return the times [s] of each tick: of tasks, of the prediction, of the controller, NaN (ticks, 5); and whether it took
    several predictions (ticks). other: a twin of the robot, as predictions have other options than those of tasks

    Each runs through all ticks alone, as the peers do in their processes."""
    times, several, demands = np.full((len(ticks), len(COLUMNS)), np.nan), np.zeros(len(ticks), np.bool_), []
    kept: dict[tuple[str, ...], TaskStack] = {}
    guess = None
    for k, (state, contacts, given) in enumerate(ticks):
        stack = prepared(kept, given)
        start = time.perf_counter()
        answer = predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT, guess=guess)
        times[k, 0], several[k], guess = time.perf_counter() - start, answer.passes > 1, answer.prediction.guess
        demands.append(answer.q_ddot)
    guess = None
    for k, (state, contacts, _) in enumerate(ticks):
        start = time.perf_counter()
        single = predict(other, state, contacts, demands[k], law="coulomb", dt=DT, guess=guess)
        times[k, 1], guess = time.perf_counter() - start, single.guess
    if controller is not None:
        controller.reset()
        for k, (state, _, _) in enumerate(ticks):
            start = time.perf_counter()
            controller.step(state, controller.contacts(state), Inputs(dt=DT * (k > 0)))
            times[k, 2] = time.perf_counter() - start
    return times, several


def tasks_table(result: Figures, unit: float) -> Table:
    """Return the table of medians, 99th percentiles and ratios. unit: `pin.computeAllTerms` [µs]"""

    def cell(each: dict[str, float], key: str) -> str:
        return "–" if np.isnan(each.get(key, np.nan)) else f"{each[key]:.0f} ({each[f'{key}_p99']:.0f})"

    rows = [["ticks of tasks, µs (p99)", "tasks", "units", "of TSID's", "TSID", "placo", "prediction", "shipped tick"]]
    for name, each in result.items():
        ratio = each["us"] / each.get("tsid_us", np.nan)
        peers = [cell(each, key) for key in ("tsid_us", "placo_us", "prediction_us", "tick_us")]
        own = f"{each['us'] / unit:.1f}", "–" if np.isnan(ratio) else f"{ratio:.2f}"
        rows.append([name, cell(each, "us"), *own, *peers])
    return rows
