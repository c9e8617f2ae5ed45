"""`predict_tasks`: tasks are met where contacts and limits permit it; their numbers are read and checked."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest
from fast import every, every_row, full
from scenes import near_stance
from stacks import DT, LAWS, NO_JOINT_LIMITS, Program, base_task, solve

from idyn import Ground, InputError, Options, State, predict
from idyn.tasks import (
    AngularMomentumTask,
    CenterOfPressureTask,
    ComTask,
    ForceTask,
    FrameTask,
    PostureTask,
    TaskLimits,
    TaskStack,
    predict_tasks,
)


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


def test_obstacles_of_a_stack_that_has_changed_are_those_of_its_tick_or_refused():
    robot, state, contacts, _ = near_stance("go2")
    tasks = [ComTask(acceleration=[0.0, 40.0, 0.0]), FrameTask(frame="FL_calf", acceleration=[30.0] * 6, level=1)]
    at_once = [outcome.obstacles for outcome in solve(robot, state, contacts, tasks).outcomes]
    for change in (list.pop, list.reverse, lambda tasks: tasks.append(PostureTask(level=2))):
        stack = TaskStack(tasks=list(tasks))
        late = predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT).outcomes
        change(stack.tasks)
        predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT)
        assert [outcome.obstacles for outcome in late] == at_once
    masked = FrameTask(frame="FL_calf", acceleration=[30.0] * 6, mask=[True] * 6)
    (late,) = solve(robot, state, contacts, [masked]).outcomes
    masked.mask[5] = False
    solve(robot, state, contacts, [masked])
    with pytest.raises(InputError, match="masks, joints and contacts as in the tick"):
        _ = late.obstacles
    (late,) = solve(robot, state, contacts, tasks[:1]).outcomes
    solve(robot, state, contacts, tasks)
    contacts.points[0, 0] = np.nan
    with pytest.raises(InputError, match=r"contacts\.points\[0\]"):
        _ = late.obstacles


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


@full
def test_rigid_ground_and_other_options_are_used():
    robot, state, contacts, _ = near_stance("go2", speed=0.1)
    stack = TaskStack(tasks=[base_task(robot, state)])
    answer = predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT, options=Options(ground=Ground.rigid()))
    foot = robot.frames.velocity("FL_foot", robot.integrate(state.q, DT * answer.prediction.v_plus), answer.prediction.v_plus)
    assert answer.prediction.status.ok
    assert np.abs(foot[:3]).max() < 0.05
