"""`predict_tasks`: tasks are met where contacts and limits permit it; else their errors are the least, and explained."""

from collections import Counter
from itertools import pairwise

import msgspec
import numpy as np
import pytest
import qpsolvers
from fast import every, every_row, fast, first_is_fast, full
from scenes import feet, near_stance

from controllers.robot.load import load_robot
from idyn import Flat, Ground, InputError, Options, State, Status, contacts_from_geometry, predict
from idyn.tasks import (
    AngularMomentumTask,
    CenterOfPressureTask,
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

DT = 1e-3
LAWS = ["coulomb", "exact-cone"]
NO_JOINT_LIMITS = TaskLimits(joints=False, acceleration=1e9)


def solve(robot, state, contacts, tasks, law="coulomb", also=None, **stack):
    return predict_tasks(robot, state, contacts, TaskStack(tasks=tasks, **stack), law=law, dt=DT, **(also or {}))


def base_task(robot, state, shift=(0.0, 0.0, 0.0), **fields):
    pose = robot.frames.placement("root_joint", state.q)
    return FrameTask(frame="root_joint", position=pose.translation + shift, rotation=pose.rotation, **fields)


# -- equations ---------------------------------------------------------------------------------------------------------


@every("axes", ["world", "local"])
def test_a_frame_moves_as_asked_in_the_step_that_is_predicted(axes):
    """Against velocities by Pinocchio: before, at (q, v), and after an exact short step along the acceleration."""
    robot, state, contacts, rng = near_stance("go2", seed=1, spread=0.05, speed=0.3)
    asked = rng.normal(size=6)
    swinging = contacts.take(np.array([key != "FL_foot" for key in contacts.keys]))
    task = FrameTask(frame="FL_foot", acceleration=asked, stiffness=0.0, axes=axes, mask=[True] * 3 + [False] * 3)
    answer = solve(robot, state, swinging, [task], limits=NO_JOINT_LIMITS)
    rate, step = (answer.prediction.v_plus - state.v) / DT, 1e-5
    R = robot.frames.placement("FL_foot", state.q).rotation if axes == "local" else np.eye(3)
    speeds = [
        robot.frames.velocity("FL_foot", robot.integrate(state.q, t * state.v), state.v + t * rate)[:3] for t in (-step, step)
    ]
    np.testing.assert_allclose(R.T @ (speeds[1] - speeds[0]) / (2 * step), asked[:3], atol=1e-5)


def test_centre_of_mass_and_angular_momentum_change_as_asked():
    robot, state, contacts, rng = near_stance("go2", seed=2, speed=0.2)
    pull, turn = rng.normal(size=3), rng.normal(size=3)
    tasks = [ComTask(acceleration=pull, stiffness=0.0), AngularMomentumTask(momentum_rate=turn, stiffness=0.0, damping=0.0)]
    answer = solve(robot, state, contacts, tasks, limits=NO_JOINT_LIMITS)
    rate, step, found = (answer.prediction.v_plus - state.v) / DT, 1e-5, []
    for t in (-step, step):
        momentum = robot.frames.momentum(robot.integrate(state.q, t * state.v), state.v + t * rate)
        found.append(np.concatenate([momentum.linear / robot.total_mass, momentum.angular]))
    np.testing.assert_allclose((found[1] - found[0]) / (2 * step), np.concatenate([pull, turn]), atol=1e-5)


def test_feedback_asks_for_a_spring_and_damper_and_the_shortest_turn():
    robot, state, contacts, _ = near_stance("go2")
    answer = solve(robot, state, contacts, [base_task(robot, state, (0.004, 0.0, -0.002), stiffness=50.0, damping=3.0)])
    np.testing.assert_allclose(answer["root_joint"].asked, [0.2, 0.0, -0.1, 0.0, 0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(answer["root_joint"].predicted, answer["root_joint"].asked, atol=1e-8)
    assert answer["root_joint"].met
    assert str(answer) == "root_joint: met"

    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    pose = robot.frames.placement("root_joint", state.q)
    task = FrameTask(frame="root_joint", rotation=turn @ pose.rotation, stiffness=1.0)
    asked = solve(robot, state, contacts, [task])["root_joint"].asked
    np.testing.assert_allclose(asked, [0.0, 0.0, np.pi / 2], atol=1e-12)


LISTS = {"velocity": [0.0] * 6, "stiffness": np.ones(6), "mask": [True] * 6}


@every("lists", [{}, LISTS])
def test_changes_in_place_count_and_are_checked(lists):
    """A stack that is passed again asks for what its arrays and lists say now; old answers keep what was asked of them."""
    robot, state, contacts, _ = near_stance("go2")
    numbers = {"position": np.zeros(3), "rotation": np.eye(3).T, "acceleration": np.zeros(12)[::2], **lists}
    task, posture = FrameTask(frame="root_joint", **numbers), PostureTask(angles=robot.joint_angles(state.q), level=1)
    centre = ComTask(position=np.zeros(3), mask=[True, False, False])
    other = msgspec.structs.replace(task, position=np.zeros(3))
    stack, answers, seen = TaskStack(tasks=[other, task, posture]), [], []
    changes = [(task.position, 0, 1.0), (task.rotation, slice(None), np.diag([1.0, -1.0, -1.0])), (task.acceleration, 2, -3.0)]
    changes += [(lists[name], 0, False if name == "mask" else 9.0) for name in lists]
    changes += [(posture.angles, 3, 0.5), (stack.tasks, 2, centre), (centre.mask, 1, True), (stack.tasks, slice(1), [])]

    def asked(robot, stack):
        answers.append(predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT))
        return [list(each.asked) for each in answers[-1].outcomes]

    for array, where, bad in [
        (task.position, 0, np.nan),
        (task.rotation, (0, 0), 2.0),
        (posture.angles, 0, np.inf),
        (other.position, 2, -np.inf),
    ]:
        asked(robot, stack)
        kept, array[where] = array[where], bad
        with pytest.raises(InputError, match=r"^(position|rotation|angles): expected"):
            asked(robot, stack)
        array[where] = kept
    for array, where, value in changes:
        array[where] = value
        now = asked(robot, stack)
        assert now == asked(robot.twin(), TaskStack(tasks=list(stack.tasks)))
        assert now not in seen
        seen += [now, now]
    assert [[list(each.asked) for each in answer.outcomes] for answer in answers[4:]] == seen


# -- the least errors --------------------------------------------------------------------------------------------------


def random_tasks(robot, state, rng, size):
    """Tasks that limits of friction, torque and normal force often prevent, with the same equations for the oracle."""
    tasks, equations = [], []
    for frame in ("root_joint", "FL_thigh", "RR_calf"):
        asked, weight = size * rng.normal(size=6), 10.0 ** rng.uniform(-2, 2)
        tasks.append(FrameTask(frame=frame, acceleration=asked, stiffness=0.0, damping=0.0, weight=weight))
        J, drift = robot.frames.jacobian(frame, state.q), robot.frames.drift(frame, state.q, state.v)
        equations.append((np.sqrt(weight) * J, np.sqrt(weight) * (asked - drift)))
    return tasks, equations


def cost(equations, motion):
    return float(sum(((A @ motion - b) ** 2).sum() for A, b in equations))


def motion_of(answer, state):
    """v̇ that the law predicts."""
    return (answer.prediction.v_plus - state.v) / DT


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


# -- forces ------------------------------------------------------------------------------------------------------------


@every("law", LAWS)
def test_forces_are_as_asked_where_the_motion_leaves_the_choice(law):
    robot, state, contacts, _ = near_stance("go2")
    answer = solve(robot, state, contacts, [base_task(robot, state), ForceTask(contacts="FL_foot", normal=30.0)], law=law)
    assert answer["force of FL_foot"].met
    assert abs(answer.prediction.normal_force[0] - 30.0) < 1e-3
    assert np.abs(answer["root_joint"].missing).max() < 1e-6


@every("level", [0, 1])
def test_forces_beside_and_below_the_posture_move_joints_only_as_weights_permit(level):
    """One foot has no internal forces: another load means another motion. Against dense least squares."""
    robot, state, contacts, _ = near_stance("go2")
    one, limits = contacts.take(np.array([0])), TaskLimits(torque=np.inf, joints=False, acceleration=1e9)
    posture = PostureTask(angles=robot.joint_angles(state.q), weight=1e-3)
    force = ForceTask(contacts=one.keys, normal=100.0, level=level, name="force")
    answer = solve(robot, state, one, [posture, force], law="no-slip", limits=limits)
    E, e = Program(robot, state.q, state.v, one, limits, 0.05, 4).held
    start, free = np.linalg.lstsq(E, e)[0], np.linalg.svd(E)[2][len(E) :].T
    joints, load = np.eye(len(start))[robot.tree.a], np.concatenate([np.zeros(robot.nv), one.normals[0]])[None]
    rows = np.vstack([1e-3**0.5 * joints, load / robot.total_mass]) if level == 0 else joints
    wanted = np.r_[np.zeros(robot.na), 100.0 / robot.total_mass][: len(rows)]
    best = start + free @ np.linalg.lstsq(rows @ free, wanted - rows @ start)[0]
    np.testing.assert_allclose(answer["posture"].held, joints @ best, atol=1e-8)
    np.testing.assert_allclose(answer["force"].held, load @ best, atol=1e-7)


def test_the_centre_of_pressure_of_a_sole_is_where_it_is_asked():
    robot, state, contacts, _ = near_stance("g1")
    sole = tuple(key for key in contacts.keys if key.startswith("left"))
    rows = [contacts.keys.index(key) for key in sole]
    point = contacts.points[rows].mean(axis=0) + np.array([0.01, 0.005, 0.0])
    tasks = [base_task(robot, state), CenterOfPressureTask(contacts=sole, point=point)]
    answer = solve(robot, state, contacts, tasks)
    normal = answer.prediction.normal_force[rows]
    np.testing.assert_allclose(normal @ contacts.points[rows] / normal.sum(), point, atol=1e-6)


def test_a_stack_that_is_passed_again_follows_its_contacts_and_its_arrays():
    """The same tasks with the contacts in another order, then with fewer, and with loads that change in place."""
    robot, state, contacts, _ = near_stance("go2")
    load, push = np.array([30.0]), np.array([5.0, -3.0, 60.0])
    loads = ForceTask(contacts="FL_foot", normal=load), ForceTask(contacts=("RR_foot",), force=push)
    tasks, seen = [base_task(robot, state, level=1), *loads], []
    for rows in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 0, 1], [0, 1, 3]):
        given = contacts.take(np.array(rows))
        found = solve(robot, state, given, tasks).prediction
        normal, forces = dict(zip(given.keys, found.normal_force, strict=True)), dict(zip(given.keys, found.force, strict=True))
        assert abs(normal["FL_foot"] - load[0]) < 1e-3
        np.testing.assert_allclose(forces["RR_foot"], push, atol=1e-3)
        seen.append(found.tau)
        load += 2.0
        push -= 1.0
    assert all(np.abs(one - other).max() > 0.01 for one, other in pairwise(seen))


def test_obstacles_are_those_of_their_own_tick_whatever_is_computed_before_they_are_read():
    robot, state, contacts, rng = near_stance("go2", seed=3, spread=0.05)
    slippery = msgspec.structs.replace(contacts, mu=np.full(len(contacts), 0.1))
    pushed = base_task(robot, state, acceleration=[0.0, 6.0, 0.0, 0.0, 0.0, 0.0])
    tasks = [pushed, PostureTask(angles=robot.joint_angles(state.q), level=1)]
    at_once = [outcome.obstacles for outcome in solve(robot, state, slippery, tasks).outcomes]
    late, moving = solve(robot, state, slippery, tasks), State(q=state.q, v=rng.normal(size=robot.nv))
    solve(robot, moving, contacts, tasks, limits=TaskLimits(friction_margin=0.5, torque=0.1))
    predict(robot, moving, contacts, np.ones(robot.na), law="coulomb", dt=2 * DT)
    assert [outcome.obstacles for outcome in late.outcomes] == at_once
    assert all("friction of contact FL_foot" in obstacles for obstacles in at_once)


def test_forces_and_motions_that_contacts_cannot_give_are_named():
    robot, state, contacts, _ = near_stance("go2")
    tasks = [base_task(robot, state), ForceTask(contacts=contacts.keys, normal=2 * robot.weight, level=1)]
    outcome = solve(robot, state, contacts, tasks)[f"force of {', '.join(contacts.keys)}"]
    assert outcome.obstacles == ("task root_joint",)

    nothing = contacts.take(np.zeros(len(contacts), np.bool_))
    outcome = solve(robot, state, nothing, [ComTask(acceleration=[0.0, 0.0, 1.0], stiffness=0.0)])["centre of mass"]
    assert "no contact force acts on the base this way" in outcome.obstacles
    np.testing.assert_allclose(outcome.predicted, [0.0, 0.0, -9.81], atol=1e-6)


def test_a_task_against_a_held_contact_names_it_and_is_met_when_the_contact_may_open():
    robot, state, contacts, _ = near_stance("go2")
    lift = FrameTask(frame="FL_foot", acceleration=[0.0, 0.0, 1.0, 0.0, 0.0, 0.0], mask=[True] * 3 + [False] * 3, stiffness=0.0)
    shift = base_task(robot, state, level=1)
    outcome = solve(robot, state, contacts, [lift, shift])["FL_foot"]
    assert outcome.obstacles[0] == "contact FL_foot (sticks)"
    answer = solve(robot, state, contacts, [lift, shift], modes={"FL_foot": "open"})
    assert answer["FL_foot"].met
    assert answer.prediction.normal_force[0] == 0.0
    assert answer.prediction.status.ok


def test_a_sliding_contact_has_the_friction_of_the_law():
    robot, state, contacts, _ = near_stance("go2")
    tasks = [
        FrameTask(
            frame="FL_foot",
            acceleration=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            mask=[True, True, False, False, False, False],
            stiffness=0.0,
        ),
        ForceTask(contacts="FL_foot", normal=20.0),
        base_task(robot, state, level=1),
    ]
    answer = solve(robot, state, contacts, tasks, modes={"FL_foot": "slide"})
    assert answer.prediction.status.ok
    np.testing.assert_allclose(answer.prediction.force[0], [-0.8 * 20.0, 0.0, 20.0], atol=1e-6)
    assert answer["FL_foot"].met
    assert answer["force of FL_foot"].met


@every("margin", [0.05, 0.9])
def test_closed_chains_realise_tasks(margin):
    """The five-bar legs of a quadruped: base and force as asked, also where the friction margin binds."""
    robot, state, contacts, _ = near_stance("fivebar")
    pose = robot.frames.placement("root_joint", state.q)
    base = FrameTask(
        frame="root_joint",
        position=pose.translation + np.array([0.005, 0.0, 0.01]),
        rotation=pose.rotation,
        mask=[True, False, True, False, True, False],
    )
    press = ForceTask(contacts=contacts.keys[0], normal=10.0)
    answer = solve(robot, state, contacts, [base, press], limits=TaskLimits(friction_margin=margin))
    assert answer.prediction.status.ok
    assert np.abs(answer["root_joint"].missing).max() < 1e-6
    assert abs(answer.prediction.normal_force[0] - 10.0) < 1e-3
    force = answer.prediction.force
    assert (np.hypot(force[:, 0], force[:, 1]) <= 0.8 * (1.0 - margin) * force[:, 2] + 1e-6).all()
    gaps = robot.closure_gaps(state.q)[1] @ answer.prediction.v_plus
    assert np.abs(gaps).max() < 1e-9


def test_feet_of_closed_chains_stick_after_other_forces():
    """Under the law without slip, with the memory of half the forces: chains take part in what it does to velocities."""
    robot, state, contacts, _ = near_stance("fivebar")
    tasks, limits = (
        [base_task(robot, state, acceleration=[0.0, 0.0, 30.0, 0.0, 0.0, 0.0])],
        TaskLimits(joints=False, torque=np.inf),
    )
    first = solve(robot, state, contacts, tasks, law="no-slip", limits=limits).prediction
    guess = msgspec.structs.replace(first.guess, force=0.5 * first.force)
    answer = solve(robot, state, contacts, tasks, law="no-slip", limits=limits, also={"guess": guess})
    assert answer.prediction.status.ok
    assert (answer.prediction.normal_force > 1.0).all()
    assert not any("slides" in obstacle for outcome in answer.outcomes for obstacle in outcome.obstacles)


# -- limits ------------------------------------------------------------------------------------------------------------


def test_the_least_normal_force_and_the_friction_margin_hold_when_friction_does_not_suffice():
    robot, state, contacts, _ = near_stance("go2")
    limits = TaskLimits(friction_margin=0.2, normal_force=5.0)
    asked = robot, state, contacts, [base_task(robot, state, (0.5, 0.0, 0.0))]
    answer = solve(*asked, limits=limits)
    other = solve(*asked[:3], [base_task(robot, state, (-0.5, 0.0, 0.0))], limits=limits).prediction.guess  # other limits bind
    again = solve(*asked, limits=limits, also={"guess": other, "options": Options(ground=Ground(memory=0.0))})
    force = answer.prediction.force
    np.testing.assert_allclose(again.prediction.force, force, rtol=0.0, atol=1e-6)
    assert (force[:, 2] >= 5.0 - 1e-6).all()
    assert (np.abs(force[:, 0]) <= 0.8 * 0.8 * force[:, 2] + 1e-6).all()
    assert not answer["root_joint"].met


@pytest.mark.parametrize("margin", [0.0, 0.3, 0.8])
def test_the_centre_of_pressure_stays_within_a_smaller_sole(margin):
    """The trunk of a humanoid is pulled forwards until its soles would tip."""
    robot, state, contacts, _ = near_stance("g1")
    pull = base_task(robot, state, (0.0, 0.0, 0.0), acceleration=[6.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    limits = TaskLimits(pressure_margin=margin, normal_force=0.0, torque=np.inf)
    answer = solve(robot, state, contacts, [pull], law="coulomb", limits=limits)
    assert answer.prediction.status.ok
    reached = []
    for body in np.unique(contacts.bodies):
        points, normal = contacts.points[contacts.bodies == body], answer.prediction.normal_force[contacts.bodies == body]
        centre, sole = normal @ points[:, 0] / normal.sum(), points[:, 0]
        half = (sole.max() - sole.min()) / 2
        reached.append(abs(centre - sole.mean()) / half)
    assert max(reached) <= 1.0 - margin + 1e-6
    assert max(reached) >= 1.0 - margin - 1e-3  # the pull reaches the edge


def test_the_margin_of_the_centre_of_pressure_leaves_feet_of_one_contact_alone():
    robot, state, contacts, _ = near_stance("go2")
    limits = [TaskLimits(normal_force=10.0, pressure_margin=margin) for margin in (0.0, 0.9)]
    one, other = (solve(robot, state, contacts, [base_task(robot, state)], limits=each).prediction for each in limits)
    np.testing.assert_allclose(one.normal_force, other.normal_force, atol=1e-6)


@full
def test_a_joint_stops_at_its_limit():
    """A joint is driven against its limit in steps of the predicted motion: it never passes, and its speed falls to zero."""
    robot, stance = load_robot("arm")
    q, v, k = stance.copy(), np.zeros(robot.nv), 0
    contacts = contacts_from_geometry(robot, q, Flat(), margin=0.0).take(np.zeros(0, np.int64))
    limit = robot.limits.q_max[k]
    assert np.isfinite(limit)
    for _ in range(3000):
        task = PostureTask(joints=[robot.joint_names[k]], acceleration=[50.0], stiffness=0.0, damping=0.0)
        answer = predict_tasks(robot, State(q=q, v=v), contacts, TaskStack(tasks=[task]), law="coulomb", dt=DT)
        v = answer.prediction.v_plus
        q = robot.integrate(q, DT * v)
        assert robot.joint_angles(q)[k] <= limit + 1e-9
        assert v[robot.tree.a[k]] <= robot.limits.v_max[k] + 1e-9
    assert limit - robot.joint_angles(q)[k] < 1e-3
    assert abs(v[robot.tree.a[k]]) < 0.05
    assert answer[robot.joint_names[k]].obstacles == (f"motion limit of {robot.joint_names[k]}",)


def test_a_torque_at_its_limit_does_not_exceed_it():
    """A program meets its limits up to rounding, which no answer reports as an excess."""
    robot, state, contacts, rng = near_stance("go2")
    at_limits = 0
    for size in [*[1.0] * 40, 1e8, 1e300]:
        asked = size * np.concatenate([[3.0, 3.0, 60.0] * rng.normal(size=3), 20.0 * rng.normal(size=3)])
        answer = solve(robot, state, contacts, [base_task(robot, state, acceleration=asked)]).prediction
        assert answer.status.certified
        excess = np.abs(answer.tau) - robot.limits.tau_max
        at_limits += (np.abs(excess) < 1e-6).any()
        assert (answer.torque_excess > 0.0) == (excess > 1e-9 * robot.limits.tau_max).any()
    assert at_limits > 5


def test_limits_that_no_motion_meets_are_named_and_laws_without_contact_forces_refused():
    robot, state, contacts, _ = near_stance("go2")
    answer = solve(robot, state, contacts, [base_task(robot, state)], limits=TaskLimits(torque=0.05, normal_force=5e3))
    assert any(name.startswith("torque limit of") for name in answer.relaxed)
    assert answer.prediction.status.ok

    with pytest.raises(InputError, match="predicts contact forces"):
        solve(robot, state, contacts, [ComTask()], law="contact-free")


# -- verification ------------------------------------------------------------------------------------------------------


@every("law", ["coulomb", "exact-cone", "no-slip", "cone", "convex", "sap"])
def test_forces_of_the_tasks_are_verified_where_the_law_would_find_the_same(law):
    """Against `predict` for the same demand. Laws that brake or creep are solved."""
    robot, state, contacts, _ = near_stance("go2", speed=0.02)
    tasks = [base_task(robot, state, (0.004, 0.002, -0.002)), PostureTask(angles=robot.joint_angles(state.q), level=1)]
    options, guess = Options(consistency="project"), None
    for _ in range(3):
        answer = predict_tasks(robot, state, contacts, TaskStack(tasks=tasks), law=law, dt=DT, guess=guess)
        mine = answer.prediction
        solved = predict(robot, state, contacts, answer.q_ddot, law=law, dt=DT, options=options, guess=guess)
        assert mine.status is solved.status is Status.SOLVED
        assert (mine.rung == "verified") == (law not in ("convex", "sap"))
        assert mine.residuals.worst <= 1e-8
        assert mine.null_dim == solved.null_dim
        np.testing.assert_allclose(mine.tau, solved.tau, rtol=0.0, atol=1e-6)
        np.testing.assert_allclose(mine.force, solved.force, rtol=0.0, atol=1e-6)
        guess = mine.guess


def test_a_verified_tick_keeps_the_basis_of_the_last_solved_one():
    robot, state, contacts, _ = near_stance("go2")
    solved = predict(robot, state, contacts, np.zeros(robot.na), law="coulomb", dt=DT, options=Options(consistency="project"))
    stack = TaskStack(tasks=[base_task(robot, state)])
    answer = predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT, guess=solved.guess).prediction
    assert answer.rung == "verified"
    again = predict(robot, state, contacts, np.zeros(robot.na), law="coulomb", dt=DT, guess=answer.guess)
    assert (solved.rung, again.rung) == ("cold", "warm")


def test_forces_under_which_a_contact_closes_that_shall_open_are_refused():
    robot, state, contacts, _ = near_stance("go2")
    tasks = [base_task(robot, state), FrameTask(frame="FL_foot", acceleration=[0.0, 0.0, -5.0, 0.0, 0.0, 0.0], stiffness=0.0)]
    answer = solve(robot, state, contacts, tasks, modes={"FL_foot": "open"})
    assert answer.prediction.status.ok
    assert answer.prediction.rung != "verified"
    assert answer.prediction.normal_force[contacts.keys.index("FL_foot")] > 0.0


# -- inputs ------------------------------------------------------------------------------------------------------------


@every_row(
    ("position", [FrameTask(frame="root_joint", position=[0.0, 1.0])], {}),
    ("position", [FrameTask(frame="root_joint", position=[0.0, 1.0, np.nan])], {}),
    ("rotation", [FrameTask(frame="root_joint", rotation=np.ones((3, 3)))], {}),
    ("axes", [FrameTask(frame="root_joint", axes="body")], {}),
    ("mask", [FrameTask(frame="root_joint", mask=[False] * 6)], {}),
    ("stiffness", [FrameTask(frame="root_joint", stiffness=-1.0)], {}),
    ("joints", [PostureTask(joints=["knee"])], {}),
    ("velocity", [FrameTask(frame="root_joint", velocity=np.zeros(3))], {}),
    ("acceleration", [FrameTask(frame="root_joint", acceleration=["up"])], {}),
    ("angles", [PostureTask(angles=[0.0])], {}),
    ("velocity", [PostureTask(velocity=np.full(12, np.inf))], {}),
    ("inertia", [AngularMomentumTask(inertia=0.0)], {}),
    ("contacts", [ForceTask(contacts="nose", normal=1.0)], {}),
    ("normal", [ForceTask(contacts="FL_foot")], {}),
    ("contacts", [ForceTask(contacts=(), normal=1.0)], {}),
    ("normal", [ForceTask(contacts="FL_foot", normal=1.0, force=np.zeros(3))], {}),
    ("normal", [ForceTask(contacts="FL_foot", normal=np.nan)], {}),
    ("force", [ForceTask(contacts="FL_foot", force=[1.0, np.inf, 0.0])], {}),
    ("force", [ForceTask(contacts="FL_foot", force=5.0)], {}),
    ("point", [CenterOfPressureTask(contacts=["FL_foot"], point=np.zeros(2))], {}),
    ("point", [CenterOfPressureTask(contacts=["FL_foot"], point=None)], {}),
    ("weight", [ComTask(weight=[1.0, 2.0])], {}),
    ("modes.nose", [ComTask()], {"modes": {"nose": "open"}}),
)
def test_malformed_tasks_are_named(field, tasks, stack):
    robot, state, contacts, _ = near_stance("go2")
    with pytest.raises(InputError) as error:
        solve(robot, state, contacts, tasks, **stack)
    assert error.value.field == field


@every_row(
    ("tasks[0].weight", lambda: TaskStack(tasks=[ComTask(weight=0.0)])),
    ("tasks[0].level", lambda: TaskStack(tasks=[ComTask(level=-1)])),
    ("tasks[1]", lambda: TaskStack(tasks=[ComTask(), "stand"])),
    ("tasks[2].name", lambda: TaskStack(tasks=[ComTask(name="sway"), ComTask(), PostureTask(name="sway")])),
    ("modes.FL_foot", lambda: TaskStack(modes={"FL_foot": "fly"})),
    ("limits.friction_margin", lambda: TaskLimits(friction_margin=1.0)),
    ("limits.pressure_margin", lambda: TaskLimits(pressure_margin=-0.1)),
    ("limits.torque", lambda: TaskLimits(torque=0.0)),
    ("limits.self_collision", lambda: TaskLimits(self_collision=0.02)),
)
def test_malformed_stacks_are_named(field, make):
    with pytest.raises(InputError) as error:
        make()
    assert error.value.field == field


def test_two_tasks_on_one_frame_are_told_apart_by_their_names():
    robot, state, contacts, _ = near_stance("go2")
    position = FrameTask(frame="root_joint", position=state.q[:3])
    far = FrameTask(frame="root_joint", position=state.q[:3] + 0.1 * np.eye(3)[2], level=1, name="height")
    answer = solve(robot, state, contacts, [position, far])
    assert answer["root_joint"].met
    assert not answer["height"].met
    assert "task root_joint" in answer["height"].obstacles
    answer = solve(robot, state, contacts, [position, msgspec.structs.replace(far, name="")])
    with pytest.raises(KeyError, match="2 tasks have the name 'root_joint'; give each task a `name`"):
        answer["root_joint"]
    with pytest.raises(KeyError, match="0 tasks have the name 'height'"):
        answer["height"]


def test_lists_and_narrow_arrays_are_accepted():
    robot, state, contacts, _ = near_stance("go2")
    same = State(q=state.q.tolist(), v=state.v.astype(np.float32))
    tasks = [base_task(robot, state)]
    one, other = (solve(robot, each, contacts, tasks).prediction.tau for each in (state, same))
    np.testing.assert_array_equal(one, other)


# -- many --------------------------------------------------------------------------------------------------------------


@full
def test_rigid_ground_and_other_options_are_used():
    robot, state, contacts, _ = near_stance("go2", speed=0.1)
    stack = TaskStack(tasks=[base_task(robot, state)])
    answer = predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT, options=Options(ground=Ground.rigid()))
    foot = robot.frames.velocity("FL_foot", robot.integrate(state.q, DT * answer.prediction.v_plus), answer.prediction.v_plus)
    assert answer.prediction.status.ok
    assert np.abs(foot[:3]).max() < 0.05


# -- an oracle that shares no code: one quadratic program in accelerations and contact forces, with PIQP ---------------


def skew(x):
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def contact_jacobian(robot, q, contacts):
    """Rows x, y, z of the velocity of each contact point in the world (3n, nv)."""
    rows = []
    for key, point in zip(contacts.keys, contacts.points, strict=True):
        frame = key if key in robot.frames.names else key.rsplit("/", 1)[0]
        J = robot.frames.jacobian(frame, q)
        rows.append(J[:3] - skew(point - robot.frames.placement(frame, q).translation) @ J[3:])
    return np.array(rows).reshape(-1, robot.nv)


class Program:
    """Least squares over (v̇, f) for sticking contacts, with labelled limits.

    rows: (label, G, upper) with G x ≤ upper; held: (A, b) with A x = b
    """

    def __init__(self, robot, q, v, contacts, limits, relaxation, edges):
        self.robot, self.nv, self.n = robot, robot.nv, len(contacts)
        terms = robot.terms(q, v)
        self.M, self.h = terms.M.copy(), terms.h.copy()
        u, a, size = robot.tree.u, robot.tree.a, robot.nv + 3 * self.n
        J = contact_jacobian(robot, q, contacts)
        dynamics = np.zeros((len(u), size))
        dynamics[:, : self.nv], dynamics[:, self.nv :] = self.M[u], -J[:, u].T
        holding = np.zeros((3 * self.n, size))
        holding[:, : self.nv] = J
        self.held = np.vstack([dynamics, holding]), np.concatenate([-self.h[u], -J @ v / relaxation])
        self.rows = []
        for i, key in enumerate(contacts.keys):
            n, s = contacts.normals[i], contacts.tangents[i]
            t = np.cross(n, s)
            at = slice(self.nv + 3 * i, self.nv + 3 * i + 3)
            self._limit(f"normal force of contact {key}", at, -n, -limits.normal_force)
            corners = [np.cos(x) * s + np.sin(x) * t for x in 2 * np.pi * np.arange(edges) / edges]
            for one, other in zip(corners, corners[1:] + corners[:1], strict=True):
                reach = contacts.mu[i] * (1 - limits.friction_margin) * (1 + one @ other)
                self._limit(f"friction of contact {key}", at, one + other - reach * n, 0.0)
        torque = np.zeros((len(a), size))
        torque[:, : self.nv], torque[:, self.nv :] = self.M[a], -J[:, a].T
        for k, name in enumerate(robot.joint_names):
            most = limits.torque * robot.limits.tau_max[k]
            for sign in (1.0, -1.0):
                self.rows.append((f"torque limit of {name}", sign * torque[k], most - sign * self.h[a][k]))

    def _limit(self, label, at, row, upper):
        G = np.zeros(self.nv + 3 * self.n)
        G[at] = row
        self.rows.append((label, G, upper))

    def solve(self, equations, without=()):
        """Return the least Σ ‖A v̇ − b‖², with v̇. equations: pairs (A (r, nv), b (r)); without: labels of dropped rows"""
        A = np.zeros((sum(len(b) for _, b in equations), self.nv + 3 * self.n))
        A[:, : self.nv] = np.vstack([A for A, _ in equations])
        b = np.concatenate([b for _, b in equations])
        kept = [(G, upper) for label, G, upper in self.rows if label not in without and np.isfinite(upper)]
        G, upper = (np.array([each[k] for each in kept]) for k in range(2)) if kept else (None, None)
        H = A.T @ A + np.diag(np.concatenate([np.full(self.nv, 1e-9), np.full(3 * self.n, 1e-9)]))
        for accuracy in (1e-10, 1e-9, 1e-8):
            settings = {"eps_abs": accuracy, "eps_rel": accuracy}
            x = qpsolvers.solve_qp(H, -A.T @ b, G, upper, *self.held, solver="piqp", **settings)
            if x is not None:
                return float(((A @ x - b) ** 2).sum()), x[: self.nv]
        return None


def test_straight_legs_are_not_asked_for_a_hundred_times_the_acceleration_of_the_trunk():
    robot, stance = load_robot("go2")
    trunk, asked = FrameTask(frame="root_joint", acceleration=5.0 * np.eye(6)[2], stiffness=0.0, damping=0.0), {}
    for bend in (0.2, 0.01):
        angles = np.tile([0.0, bend, -2.0 * bend], 4)
        q = robot.with_joint_angles(stance, angles)
        q[2] -= contacts_from_geometry(robot, q, Flat(), margin=np.inf).gaps.min()
        state = State(q=q, v=np.zeros(robot.nv))
        for singular in (0.0, 0.02):
            limits = TaskLimits(joints=False, torque=np.inf, singular=singular)
            asked[bend, singular] = solve(robot, state, feet(robot, q), [trunk], limits=limits)
    loose, damped = asked[0.01, 0.0], asked[0.01, 0.02]
    assert np.abs(loose.q_ddot).max() > 1000.0
    assert np.abs(damped.q_ddot).max() < 1.15 / 0.02 * 5.0
    assert damped.prediction.status.ok
    assert "nearly singular" in damped.outcomes[0].obstacles[0]
    assert np.array_equal(asked[0.2, 0.0].q_ddot, asked[0.2, 0.02].q_ddot)  # bent ones get what is asked for
    assert asked[0.2, 0.02].outcomes[0].met


# -- random stacks of tasks --------------------------------------------------------------------------------------------


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
