"""Curves of the page: all extremes of the trace, limits of the robot, and what is left out."""

from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from fast import every

from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan
from sim_harness.view.page import POINTS, extremes, intervals, panels_of
from sim_harness.view.runs import read_run, read_runs


def quiet(label, ticks):
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run_in_process(load_plan("trot", 0.3), "coulomb", quiet, log=folder / "log.mcap").save(folder)
    return folder


def test_curves_are_those_of_the_trace_with_the_limits_of_the_urdf(folder):
    run = read_run(folder)
    panels = {panel.title: panel for panel in panels_of(run.controller, run.trace)}
    assert list(panels) == ["torque", "normal force", "model mismatch", "time"]
    torque, force = panels["torque"], panels["normal force"]
    np.testing.assert_array_equal(torque.lines["applied"], run.trace.tau)
    joints = ElementTree.fromstring(run.controller.robot.description.urdf).iter("joint")
    efforts = {joint.get("name"): float(limit.get("effort")) for joint in joints if (limit := joint.find("limit")) is not None}
    np.testing.assert_array_equal(torque.bounds, [[-efforts[name], efforts[name]] for name in torque.choices])
    for k, place in enumerate(force.choices):
        column = run.trace.places.index(place)
        np.testing.assert_array_equal(force.lines["world"][:, k], run.trace.simulated[:, column, 0])
        np.testing.assert_array_equal(force.lines["predicted"][:, k], run.trace.predicted[:, column, 0])
    motion = panels["model mismatch"].lines["motion [g]"]
    assert np.isnan(motion[0])  # nothing to compare yet
    assert (motion[2:] >= 0).all()
    np.testing.assert_allclose(panels["time"].bounds, [[-np.inf, 1.0]])


def test_a_log_has_the_same_model_mismatch_as_its_run(folder):
    """Both are the `reality` of the replies."""
    (logged,) = read_runs(folder / "log.mcap")
    np.testing.assert_array_equal(logged.trace.mismatch, read_run(folder).trace.mismatch)


def test_panels_without_values_are_left_out(folder):
    run = read_run(folder)
    unknown = np.full(len(run.trace), np.nan)
    old = msgspec.structs.replace(run.trace, mismatch=np.zeros((0, 2)), round_trip=unknown, solve_time=unknown)
    assert [panel.title for panel in panels_of(run.controller, old)] == ["torque", "normal force"]


@every("count", [1, POINTS, POINTS + 1, 7 * POINTS - 3])
def test_a_peak_of_one_tick_is_kept(count):
    values = np.random.default_rng(count).normal(size=(count, 2))
    values[count // 2] = [50.0, -60.0]
    starts = intervals(count)
    low, high = extremes(values, starts)
    assert len(low) <= POINTS
    interval = int(np.searchsorted(starts, count // 2, side="right")) - 1
    assert (high[interval, 0], low[interval, 1]) == (50.0, -60.0)
    assert np.nanmax(high[:, 1]) == values[:, 1].max()


def test_missing_values_leave_gaps():
    values = np.arange(3.0 * POINTS)[:, None]
    values[3:6] = np.nan
    values[7] = np.nan
    low, high = extremes(values, intervals(len(values)))
    np.testing.assert_array_equal(low[:3, 0], [0.0, np.nan, 6.0])
    np.testing.assert_array_equal(high[:3, 0], [2.0, np.nan, 8.0])


@every(("experiment", "known"), [("trot", True), ("trot-quadruped", False)])
def test_the_force_of_a_touchdown_is_predicted_only_if_the_contact_is_known(experiment, known):
    """As docs/how-to/view.md explains: switches report a contact with the state after the touchdown."""
    trace = run_in_process(load_plan(experiment, 0.75), "coulomb", quiet).trace
    simulated, predicted = (np.nan_to_num(f[..., 0]) > 0 for f in (trace.simulated, trace.predicted))
    touchdowns = simulated[1:] & ~simulated[:-1]
    assert touchdowns.any()
    assert (predicted[1:][touchdowns] == known).all()
