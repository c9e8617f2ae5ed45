"""`predict_tasks`: errors are the least that contacts and limits permit, level by level, and explained."""

from collections import Counter

import msgspec
import numpy as np
import pytest
from fast import fast, first_is_fast, full
from scenes import feet, near_stance
from stacks import LAWS, Program, base_task, cost, motion_of, random_tasks, solve

from controllers.robot.load import load_robot
from idyn import Flat, State, contacts_from_geometry
from idyn.tasks import (
    AngularMomentumTask,
    ComTask,
    ForceTask,
    FrameTask,
    Mode,
    PostureTask,
    SelfCollision,
    TaskLimits,
    TaskStack,
    predict_tasks,
)


@pytest.mark.parametrize("seed", fast(range(40), 0, 1, 2, 3))
def test_weighted_errors_are_the_least_within_the_limits(seed):
    robot, state, contacts, rng = near_stance("go2", seed=seed, spread=0.05)
    tasks, equations = random_tasks(robot, state, rng, float(rng.choice([0.3, 3.0, 30.0])))
    limits = TaskLimits(torque=float(rng.choice([1.0, 0.5])), joints=False, acceleration=1e9)
    rest = PostureTask(acceleration=np.zeros(robot.na), stiffness=0.0, damping=0.0, level=1)
    answer = solve(robot, state, contacts, [*tasks, rest], limits=limits)
    program = Program(robot, state.q, state.v, contacts, limits, 0.05, 4)
    found = program.solve(equations)
    assert (found is None) == bool(answer.relaxed)
    if found is None:
        return
    assert not answer.relaxed
    assert answer.prediction.status.ok
    mine, best = cost(equations, motion_of(answer, state)), found[0]
    assert mine <= best * (1 + 1e-5) + 1e-6
    if set(answer.modes.values()) == {Mode.STICK}:  # a contact that opens or slides may permit more
        outcomes = zip(tasks, answer.outcomes[:-1], strict=True)
        held = sum(float(task.weight * ((each.asked - each.held) ** 2).sum()) for task, each in outcomes)
        assert abs(held - best) <= best * 1e-5 + 1e-6
        # the joints below it: the oracle weighs them with 1e-6, and so gives up some of the first level
        first, below = [(1e3 * A, 1e3 * b) for A, b in equations], np.eye(robot.nv)[robot.tree.a]
        least = ((below @ program.solve([*first, (below, np.zeros(robot.na))])[1]) ** 2).sum()
        assert least * (1.0 - 1e-6) <= (answer["posture"].held ** 2).sum() <= least * 1.003


@pytest.mark.parametrize("seed", fast(range(40), 0, 1, 2, 3))
def test_obstacles_are_what_prevents_a_task(seed):
    """Without the limits that are named the errors are smaller; without the other limits they are the same."""
    robot, state, contacts, rng = near_stance("go2", seed=seed, spread=0.05)
    tasks, equations = random_tasks(robot, state, rng, 30.0)
    limits = TaskLimits(torque=0.6, joints=False, acceleration=1e9)
    answer = solve(robot, state, contacts, tasks, limits=limits)
    if answer.relaxed or set(answer.modes.values()) != {Mode.STICK}:
        pytest.skip("no motion meets the limits, or it opens a contact: the oracle has sticking contacts only")
    program = Program(robot, state.q, state.v, contacts, limits, 0.05, 4)
    best, _ = program.solve(equations)
    labels = {label for label, _, _ in program.rows}
    named = {obstacle for outcome in answer.outcomes for obstacle in outcome.obstacles} & labels
    free, _ = program.solve(equations, without=named)
    unlimited, _ = program.solve(equations, without=labels)
    if best > unlimited * (1 + 1e-2) + 1e-2:
        assert named
        assert free < best * (1 - 1e-6)
    assert all(not outcome.obstacles for outcome in answer.outcomes if outcome.met)
    assert all(outcome.obstacles for outcome in answer.outcomes if not outcome.met)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", fast(range(30), 0, 1))
def test_lower_levels_never_change_higher_ones(law, seed):
    robot, state, contacts, rng = near_stance("go2", seed=seed, spread=0.05, speed=0.1)
    first = [base_task(robot, state, rng.normal(size=3) * rng.choice([0.001, 0.3]), weight=[1.0, 1.0, 1.0, 0.1, 0.1, 0.1])]
    more = [
        FrameTask(frame="FR_calf", acceleration=20 * rng.normal(size=6), level=1),
        ForceTask(contacts="RL_foot", normal=float(rng.uniform(0, 200)), level=2),
        PostureTask(angles=rng.normal(size=robot.na), level=3),
    ]
    answers = [solve(robot, state, contacts, tasks, law=law) for tasks in (first, [*first, *more])]
    if answers[0].modes != answers[1].modes:
        pytest.skip("the lower levels open a contact, or make it slide")
    alone, together = (answer["root_joint"] for answer in answers)
    scale = max(1.0, np.abs(alone.asked).max())
    error, other = (((each.held - each.asked) ** 2) @ [1.0, 1.0, 1.0, 0.1, 0.1, 0.1] for each in (alone, together))
    assert abs(error - other) <= 1e-8 * max(scale**2, error)


def test_lower_levels_yield_where_limits_nearly_depend_on_each_other():
    """go2 on three feet, torques at their limits: momentum below the base's level is nearly decided by these."""
    robot, _ = load_robot("go2")
    base, legs = [-0.004, -0.003, 0.339, -0.002, 0.0, 0.001, 1.0], [0.068, 0.785, -1.434, -0.07, 0.784, -1.44]
    q = np.array([*base, *legs, 0.069, 0.789, -1.443, -0.067, 0.791, -1.44])
    q[3:7] /= np.linalg.norm(q[3:7])
    v = [0.09, 0.09, 0.03, 0.06, -0.02, -0.03, -0.07, 0.04, -0.03, -0.02, 0.08, 0.04, -0.04, 0.01, 0.03, -0.01, -0.08, -0.11]
    state, limits = State(q=q, v=np.array(v)), TaskLimits(torque=0.3, singular=0.0)
    asked, momentum = [0.54, 9.89, 2.75, 13.19, -9.51, 8.8], [1.81, 0.24, -0.63]
    first = FrameTask(frame="root_joint", position=[0.0184, 0.0445, 0.3562], rotation=np.eye(3), acceleration=asked)
    below = [ComTask(position=[0.0301, 0.0474, 0.3859], level=1, weight=0.378)]
    below.append(AngularMomentumTask(momentum=momentum, level=1, weight=0.449))
    given = robot, state, feet(robot, q)
    alone, together = (
        solve(*given, tasks, law="no-slip", limits=limits, modes={"RL_foot": Mode.OPEN}) for tasks in ([first], [first, *below])
    )
    assert not alone.relaxed
    assert not together.relaxed
    errors = [np.linalg.norm(each["root_joint"].missing) for each in (alone, together)]
    assert abs(errors[1] - errors[0]) < 1e-6 * errors[0]


ROBOTS = ["go2", "quadruped", "solo12", "g1", "arm"]
RANDOM_LAWS = ["coulomb", "no-slip", "exact-cone", "sap"]


def random_task(rng, robot, stance, contacts):
    kind, frames = rng.integers(6 if len(contacts) else 5), robot.frames
    common = {"weight": 10.0 ** rng.uniform(-3, 2), "level": int(rng.integers(4))}
    gains = common | {"stiffness": 10.0 ** rng.uniform(0, 3)}
    if kind <= 1:
        names = [name for name in frames.names if name != "universe"]
        frame = names[rng.integers(len(names))] if kind else names[0]
        pose = frames.placement(frame, stance)
        return FrameTask(
            frame=frame,
            position=pose.translation + 0.05 * rng.normal(size=3) * rng.choice([0, 1, 5]),
            rotation=pose.rotation if rng.random() < 0.5 else None,
            axes=str(rng.choice(["world", "local"])),
            acceleration=rng.normal(size=6) * rng.choice([0, 1, 30]),
            **gains,
        )
    if kind == 2:
        return ComTask(position=robot.center_of_mass(stance) + 0.03 * rng.normal(size=3), **gains)
    if kind == 3:
        return AngularMomentumTask(momentum=rng.normal(size=3), mask=[True, *(rng.random(2) < 0.5).tolist()], **gains)
    if kind == 4:
        count = int(rng.integers(1, robot.na + 1))
        joints = [str(name) for name in rng.choice(robot.joint_names, size=count, replace=False)]
        return PostureTask(joints=joints, angles=0.3 * rng.normal(size=count), **gains)
    if rng.random() < 0.5:
        return ForceTask(contacts=str(rng.choice(contacts.keys)), normal=float(rng.choice([-10, 0, 5, 50, 500])), **common)
    return ForceTask(contacts=contacts.keys, force=50 * rng.normal(size=3), **common)


def random_tick(rng, robot, stance):
    """State, contacts and tasks. One in ten states has straight legs."""
    q = robot.integrate(stance, rng.normal(size=robot.nv) * rng.choice([0, 0.02, 0.3]))
    if rng.random() < 0.1 and robot.floating:
        q = robot.with_joint_angles(q, np.zeros(robot.na))
    v = rng.normal(size=robot.nv) * rng.choice([0, 0.05, 1.0])
    if robot.floating and rng.random() < 0.7:
        q[2] -= contacts_from_geometry(robot, q, Flat(), margin=np.inf).gaps.min()
    contacts = contacts_from_geometry(robot, q, Flat(), margin=0.01)
    contacts = contacts.take(np.arange(len(contacts))[:8])
    stack = TaskStack(
        tasks=[random_task(rng, robot, stance, contacts) for _ in range(rng.integers(1, 7))],
        modes={key: str(rng.choice(["open", "slide", "stick"])) for key in contacts.keys if rng.random() < 0.3},
        limits=TaskLimits(
            friction_margin=float(rng.choice([0, 0.05, 0.5])),
            torque=float(rng.choice([np.inf, 1, 0.3, 0.05])),
            joints=bool(rng.integers(2)),
            acceleration=float(rng.choice([1e4, 100])),
        ),
    )
    return State(q=q, v=v), contacts, stack


def check(answer, law):
    prediction = answer.prediction
    assert np.isfinite(prediction.tau).all()
    assert prediction.status.certified, prediction
    assert prediction.status.ok or prediction.law != law
    for outcome in answer.outcomes:
        far = np.abs(outcome.missing).max() > 1e-3 * max(1.0, np.abs(outcome.asked).max())
        assert outcome.obstacles or not far, outcome


def sweep(name, count, seed, apart=False):
    (robot, stance), rng, statuses = load_robot(name), np.random.default_rng(seed), Counter()
    kept = SelfCollision(robot, stance=stance) if apart else None
    for _ in range(count):
        state, contacts, stack = random_tick(rng, robot, stance)
        stack = msgspec.structs.replace(stack, limits=msgspec.structs.replace(stack.limits, self_collision=kept))
        law = str(rng.choice(RANDOM_LAWS))
        answer = predict_tasks(robot, state, contacts, stack, law=law, dt=1e-3)
        check(answer, law)
        statuses[str(answer.prediction.status), answer.passes] += 1
    return statuses


@pytest.mark.parametrize("count", [25, pytest.param(60, marks=full), pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize(("name", "apart"), [("quadruped", True), *first_is_fast([(name, False) for name in ROBOTS])])
def test_every_missed_task_has_a_reason(name, apart, count):
    """apart: of links that keep apart"""
    print(name, dict(sweep(name, count, seed=count, apart=apart)))
