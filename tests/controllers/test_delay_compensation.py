"""Delay compensation: extrapolation of a state over a known delay."""

import numpy as np
import pytest
from rigs import at_rest, controller, nudged

from controllers.command import Inputs
from controllers.feedback.delay_compensation import MAX_TICKS, DelayCompensation

DT = 0.001


def test_without_delay_or_predictions_the_state_is_the_measured_one():
    c = controller("solo12")
    compensation, state = DelayCompensation(c.robot, DT), at_rest(c)
    assert compensation.extrapolate(state, 0.005) is state
    compensation.record(np.zeros(c.robot.nv), np.ones(c.robot.nv), 1.0)
    assert compensation.extrapolate(state, 0.0) is state
    compensation.reset()
    assert compensation.extrapolate(state, 0.005) is state


def test_pending_predictions_are_integrated_over_the_delay():
    """The predictions of the last ticks, oldest first, integrated as the world integrates."""
    c, rng = controller("solo12"), np.random.default_rng(0)
    compensation, state = DelayCompensation(c.robot, DT), nudged(c, rng)
    accelerations = rng.normal(size=(7, c.robot.nv))
    for a in accelerations:
        compensation.record(np.zeros(c.robot.nv), a, 1.0)
    q, v = state.q, state.v
    for a in accelerations[-3:]:
        v = v + DT * a
        q = c.robot.integrate(q, DT * v)
    ahead = compensation.extrapolate(state, 3 * DT)
    np.testing.assert_array_equal(ahead.v, v)
    np.testing.assert_array_equal(ahead.q, q)


def test_extrapolation_ends_with_the_kept_predictions():
    c = controller("solo12")
    compensation, state = DelayCompensation(c.robot, DT), at_rest(c)
    for _ in range(2 * MAX_TICKS):
        compensation.record(np.zeros(c.robot.nv), np.r_[0.0, 0.0, 1.0, np.zeros(c.robot.nv - 3)], 1.0)
    assert compensation.extrapolate(state, 1.0).v[2] == pytest.approx(MAX_TICKS * DT)


def test_with_a_delay_the_reference_is_that_of_the_time_when_the_torque_acts():
    """It never goes back when the delay shrinks."""
    moving = {"reference__kind": "sway", "reference__start": 0.0, "reference__ramp": 0.1}
    c, late = controller("quadruped", **moving), controller("quadruped", **moving)
    state = at_rest(c)
    prompt, delayed = [], []
    for k in range(60):
        dt = DT * (k > 0)
        prompt.append(c.step(state, c.contacts(state.q), Inputs(dt=dt)).reference.q)
        inputs = Inputs(dt=dt, delay=0.005 if k < 50 else 0.0)
        delayed.append(late.step(state, late.contacts(state.q), inputs).reference.q)
    np.testing.assert_allclose(delayed[44], prompt[49], atol=1e-12)
    np.testing.assert_allclose(delayed[51], prompt[54], atol=1e-12)
    np.testing.assert_allclose(delayed[59], prompt[59], atol=1e-12)
