"""Figures of runs made by hand, with known values."""

import math

import msgspec
import numpy as np
import pytest
from fast import every

from controllers.planners.path import PathSettings
from controllers.planners.trajectory import WalkSettings
from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat, Slope, Stairs
from sim_harness.measure.fall import above_ground
from sim_harness.measure.metrics import SETTLED, contact_force_error, path_error, summarise
from sim_harness.measure.run_time import slowness
from sim_harness.measure.trace import Trace
from sim_harness.measure.verdict import Task
from sim_harness.run.experiment import task_of
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.world.world import contact_jacobian

N, DT = 40, 1e-3
FLAT = Flat()


def trace(**changes) -> Trace:
    """The stance of the quadruped, held for 40 ticks, a quarter of its weight on each foot."""
    robot, q = load_robot("quadruped")
    force = np.zeros((N, 4, 3))
    force[..., 0] = robot.total_mass * 9.81 / 4
    still = Trace(
        t=np.arange(N) * DT,
        q=np.tile(q, (N, 1)),
        v=np.zeros((N, robot.nv)),
        tau=np.zeros((N, robot.na)),
        predicted=force.copy(),
        simulated=force.copy(),
        mode=np.zeros(N, dtype=np.int64),
        status=np.zeros(N, dtype=np.int64),
        round_trip=np.full(N, np.nan),
        solve_time=np.full(N, np.nan),
        q_ref=np.tile(robot.joint_angles(q), (N, 1)),
        v_ref=np.zeros((N, robot.na)),
        wall=7.0 + np.arange(N) * DT,
        places=robot.spheres.keys,
        modes=("ok",),
    )
    return msgspec.structs.replace(still, **changes)


def figures(one: Trace, terrain=FLAT, **options):
    robot, _ = load_robot("quadruped")
    return summarise(one, robot, Task(terrain=terrain, **options), label="", engine="", ticks=N, dt=DT)


def test_standing_still_has_no_error():
    s = figures(trace())
    assert (s.upright, s.tracking, s.speed_tracking, s.torque, s.torque_rate, s.torque_rate_max) == (True, 0, 0, 0, 0, 0)
    assert (s.force_error, s.drift, s.distance, s.tilt, s.modes) == (0, 0, 0, 0, {"ok": 1.0})
    assert s.contact_force_error == pytest.approx(0, abs=1e-12)
    assert s.force == pytest.approx(s.weight)
    assert math.isnan(s.path_error)
    assert (s.step_p50, s.step_max, s.round_trip_p50) == (None, None, None)


def test_missed_deadlines_are_described():
    s = figures(trace())
    assert s.pace == pytest.approx(1.0)
    assert slowness(s, DT) == ""
    wall = 7.0 + 1.6 * DT * np.arange(N)
    wall[20:] += 0.469
    slow = figures(trace(wall=wall, round_trip=np.where(np.arange(N) % 4, 0.5e-3, 1.5e-3)))
    assert slow.pace == pytest.approx(39e-3 / (39 * 1.6e-3 + 0.469))
    assert slow.longest_tick == pytest.approx(0.4706)
    sentence = slowness(slow, DT)
    for figure in ("1000 Hz", "0.07 × real time", "Of 40 replies 10", "p99 1500 µs", "471 ms"):
        assert figure in sentence


def test_tracking_is_the_mean_magnitude_over_joints_and_time():
    still = trace()
    q_ref, v_ref = still.q_ref.copy(), still.v_ref.copy()
    q_ref[:10, 0] += 0.12  # a quarter of the ticks, one joint of twelve
    v_ref[:, :6] -= 3.0
    s = figures(trace(q_ref=q_ref, v_ref=v_ref))
    assert s.tracking == pytest.approx(0.12 / 4 / 12)
    assert s.speed_tracking == pytest.approx(1.5)


def test_ticks_without_a_reference_do_not_count():
    still = trace()
    q_ref = still.q_ref + 0.1
    q_ref[20:] = np.nan
    assert figures(trace(q_ref=q_ref)).tracking == pytest.approx(0.1)


def test_torque_and_torque_rate_are_means_over_joints_and_time():
    tau = np.zeros((N, 12))
    tau[20:, 3] = 0.6
    s = figures(trace(tau=tau))
    assert s.torque == pytest.approx(0.6 / 2 / 12)
    assert s.torque_rate_max == pytest.approx(600.0)
    assert s.torque_rate == pytest.approx(600.0 / 12 / (N - 1 - SETTLED))


def test_the_first_ticks_do_not_count_as_chatter():
    tau = np.zeros((N, 12))
    tau[0] = 5.0
    assert figures(trace(tau=tau)).torque_rate_max == 0.0


def test_force_errors_absolute_and_relative():
    still = trace()
    predicted = still.predicted.copy()
    predicted[:, 0, 0] += 2.0
    predicted[:, 1, 0] -= 0.5
    predicted[7] = np.nan  # no prediction: left out
    s = figures(trace(predicted=predicted))
    assert s.force_error == pytest.approx(1.5)
    assert s.force_error_relative == pytest.approx(1.5 / s.weight)


def test_loaded_contacts_without_a_prediction_are_counted():
    """Four loaded feet: all predicted; two of them in all ticks; none of them loaded."""
    assert figures(trace()).told == 1.0
    predicted = trace().predicted.copy()
    predicted[:, :2] = np.nan
    assert figures(trace(predicted=predicted)).told == 0.5
    assert np.isnan(figures(trace(simulated=0.0 * trace().simulated)).told)


def test_self_balanced_forces_are_no_force_error():
    """A self-balanced set of contact forces is invisible to the base; a net push is not."""
    robot, q = load_robot("quadruped")
    contacts = contacts_from_geometry(robot, q, Flat(), margin=1.0)
    terms = robot.terms(q, np.zeros(robot.nv))
    J_u = contact_jacobian(terms.axes, robot.tree.support, contacts)[:, robot.tree.u]
    inside = np.linalg.svd(J_u.T)[2][6:].T @ np.arange(1.0, 7.0)  # a vector of the null space of J_uᵀ
    assert np.abs(J_u.T @ inside).max() < 1e-12
    shifted = trace().predicted + inside.reshape(4, 3)[:, [2, 0, 1]]
    assert np.abs(inside.reshape(4, 3)[:, 2]).max() > 0.1
    assert contact_force_error(trace(predicted=shifted), robot, Flat()) == pytest.approx(0, abs=1e-10)
    lifted = trace().predicted.copy()
    lifted[..., 0] += 1.0  # one newton more on each of four symmetric feet: nothing of it is internal
    assert contact_force_error(trace(predicted=lifted), robot, Flat()) == pytest.approx(1.0, rel=1e-9)


def test_the_path_error_is_the_distance_to_the_nearest_segment():
    robot, q = load_robot("quadruped")
    com = robot.center_of_mass(q)[:2]
    below = [(com[0] - 1, com[1] - 0.03), (com[0] + 1, com[1] - 0.03), (com[0] + 1, com[1] + 5)]
    assert path_error(trace(), robot, np.array(below)) == pytest.approx(0.03)
    beyond = [(com[0] + 0.03, com[1] + 0.04), (com[0] + 9, com[1] + 0.04)]
    assert path_error(trace(), robot, np.array(beyond)) == pytest.approx(0.05)
    assert path_error(trace(), robot, com[None] + [[0.3, 0.4]]) == pytest.approx(0.5)
    along = WalkSettings(path=PathSettings(waypoints=tuple(beyond)))
    assert figures(trace(), reference=along).path_error == pytest.approx(0.05)


def test_a_repeated_path_returns_to_its_start():
    corners, (_, stance) = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)), load_robot("quadruped")
    for repeat, path in ((False, corners), (True, (*corners, corners[0]))):
        plan = with_controller(load_plan("trot"), {"reference": {"path": {"waypoints": corners, "repeat": repeat}}})
        assert task_of(plan.controller, stance).reference.corners == path
    assert task_of(load_plan("stand").controller, stance).reference.corners == ()


@every("ground", [-1.0, 1.0])
def test_a_fall_is_judged_by_the_ground_below_the_robot(ground):
    q = trace().q.copy()
    q[:, 2] += ground
    assert figures(trace(q=q), terrain=Flat(ground)).upright
    q[30:, 2] = ground + 0.05
    assert not figures(trace(q=q), terrain=Flat(ground)).upright


def test_height_is_measured_from_the_ground_below():
    points = np.array([[-1.0, 0.0, 0.3], [0.45, 0.2, 0.3], [0.75, 0.2, 0.1]])
    np.testing.assert_allclose(above_ground(points, Stairs(0.3, 0.2, 0.02, 5)), [0.3, 0.28, 0.04], atol=1e-3)
    ground = 0.1 + points[:, 0] * np.tan(0.3)
    np.testing.assert_allclose(above_ground(points, Slope(0.3, 0.1)), points[:, 2] - ground, atol=1e-3)


@every("how", ["tilted", "sunk", "stopped"])
def test_tilted_and_low_robots_count_as_fallen(how):
    still = trace()
    q = still.q.copy()
    if how == "tilted":
        q[30, 3:7] = np.r_[np.sin(0.3), 0, 0, np.cos(0.3)]
    elif how == "sunk":
        q[30:, 2] = 0.05
    fallen = trace(q=q)
    if how == "stopped":  # the world ended before the run
        cut = {
            name: getattr(still, name)[:30]
            for name in still.__struct_fields__
            if name not in ("places", "modes", "answer", "answers")
        }
        fallen = trace(**cut)
    assert not figures(fallen).upright


def test_step_times_are_percentiles_in_microseconds():
    s = figures(trace(solve_time=np.arange(1, N + 1) * 1e-6, round_trip=np.full(N, 2e-3)))
    assert (s.step_p50, s.step_max) == (pytest.approx(20.5), pytest.approx(40.0))
    assert (s.round_trip_p50, s.late) == (pytest.approx(2000.0), N)


def test_path_length_and_distance_from_the_start():
    q = trace().q.copy()
    q[:20, 0] = np.linspace(0, 0.1, 20)
    q[20:, 0] = np.linspace(0.1, 0, 20)
    s = figures(trace(q=q))
    assert s.distance == pytest.approx(0.2)
    assert s.drift == pytest.approx(0, abs=1e-12)
