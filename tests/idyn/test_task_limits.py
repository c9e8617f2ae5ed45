"""`predict_tasks`: limits hold, and forces are verified as those of the law."""

import numpy as np
import pytest
from fast import every
from scenes import feet, near_stance
from stacks import DT, base_task, solve

from controllers.robot.load import load_robot
from idyn import Flat, Ground, InputError, Options, State, Status, contacts_from_geometry, predict
from idyn.tasks import (
    ComTask,
    FrameTask,
    PostureTask,
    TaskLimits,
    TaskStack,
    predict_tasks,
)


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


def driven(robot, q, v, limits, dt=DT):
    """The answer where the first joint of an arm is driven upwards, in the air."""
    contacts = contacts_from_geometry(robot, q, Flat(), margin=0.0).take(np.zeros(0, np.int64))
    task = PostureTask(joints=[robot.joint_names[0]], acceleration=[5000.0], stiffness=0.0, damping=0.0)
    return predict_tasks(robot, State(q=q, v=v), contacts, TaskStack(tasks=[task], limits=limits), law="coulomb", dt=dt)


@pytest.mark.parametrize("dt", [1e-3, 0.02])
@pytest.mark.parametrize(("narrower", "share", "beyond"), [(0.0, 0.0, 0.0), (0.4, 0.0, 0.0), (0.4, 1.0, 3e-3)])
def test_a_joint_stops_at_its_limit(narrower, share, beyond, dt):
    """A joint is driven against its limit in steps of the predicted motion: it never passes, and its speed falls to zero. At a
    share of the speed that the deceleration `braking` stops at the limit it passes by less than 3 mrad."""
    robot, stance = load_robot("arm")
    q, v, braking = stance.copy(), np.zeros(robot.nv), 100.0
    limit = robot.limits.q_max[0] - narrower
    assert np.isfinite(limit)
    room = limit - robot.joint_angles(q)[0]
    angles = ((robot.joint_names[0], -np.inf, limit),) if narrower else ()
    v[robot.tree.a[0]] = share * min(np.sqrt(2.0 * braking * room), robot.limits.v_max[0])
    for _ in range(round(1.5 / dt)):
        answer = driven(robot, q, v, TaskLimits(angles=angles, braking=braking, torque=np.inf), dt)
        v = answer.prediction.v_plus
        q = robot.integrate(q, dt * v)
        assert robot.joint_angles(q)[0] <= limit + beyond + 1e-9
        assert v[robot.tree.a[0]] <= robot.limits.v_max[0] + 1e-9
    assert abs(limit - robot.joint_angles(q)[0]) < max(1e-3, beyond)
    assert abs(v[robot.tree.a[0]]) < 0.05
    assert answer[robot.joint_names[0]].obstacles == (f"motion limit of {robot.joint_names[0]}",)


@pytest.mark.parametrize("room", [0.0, 1e-3, 0.05])
def test_a_speed_with_noise_shakes_no_joint_near_its_limit(room):
    """An error of the measured speed changes the acceleration by less than a fifth of what would correct it within a period."""
    robot, q = load_robot("arm")
    noise, asked = 0.05, []
    limits = TaskLimits(angles=((robot.joint_names[0], -np.inf, float(robot.joint_angles(q)[0]) + room),), torque=np.inf)
    for error in (-noise, noise):
        v = np.zeros(robot.nv)
        v[robot.tree.a[0]] = error
        asked.append(driven(robot, q, v, limits).q_ddot[0])
    assert 0.0 < asked[0] - asked[1] < 2.0 * noise / (5.0 * DT)
    assert room > 0.0 or asked[0] > 0.0 > asked[1]


@pytest.mark.parametrize("width", [1e-12, 1e-3, 0.1])
@pytest.mark.parametrize("speed", [-3.0, -0.5, -0.1, 0.0, 0.1, 0.5, 3.0])
def test_bounds_of_a_narrow_range_never_contradict_each_other(width, speed):
    """Wherever the joint is, within the range or beyond it, and however fast."""
    robot, q = load_robot("arm")
    v, angle = np.zeros(robot.nv), float(robot.joint_angles(q)[0])
    v[robot.tree.a[0]] = speed
    for low in angle + width * np.array([-2.0, -1.0, -0.5, 0.0, 1.0]):
        answer = driven(robot, q, v, TaskLimits(angles=((robot.joint_names[0], low, low + width),), torque=np.inf))
        assert answer.relaxed == ()


def test_ranges_of_angles_that_make_no_sense_are_refused():
    robot, state, contacts, _ = near_stance("go2")
    with pytest.raises(InputError, match=r"angles.* no motor 'FL_kalf_joint' \(nearest: FL_calf_joint"):
        solve(robot, state, contacts, [], limits=TaskLimits(angles=(("FL_kalf_joint", -1.0, 1.0),)))
    with pytest.raises(InputError, match=r"angles.* no angle of 'FL_calf_joint' is left"):
        solve(
            robot, state, contacts, [], limits=TaskLimits(angles=(("FL_calf_joint", -2.0, -1.5), ("FL_calf_joint", -1.0, 1.0)))
        )
    for wrong in (
        (("FL_calf_joint", 1.0, 1.0),),
        (("FL_calf_joint", np.nan, 1.0),),
        (("FL_calf_joint", "0", "1"),),
        "abc",
        None,
    ):
        with pytest.raises(InputError, match=r"limits.angles: expected \(joint, least, largest\)"):
            TaskLimits(angles=wrong)


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
