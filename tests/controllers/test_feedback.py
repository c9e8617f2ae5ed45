"""Joint feedback: the formula, the integral with its limit, and reset."""

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from fast import every

from controllers.command import Reference
from controllers.feedback.joints import FeedbackSettings, JointFeedback


def hinges(na):
    """A robot with na hinges, as far as feedback uses it."""
    return SimpleNamespace(na=na, one_axis_each=True, joint_error=None)


RNG = np.random.default_rng(0)
REFERENCE = Reference(q=RNG.normal(size=3), v=RNG.normal(size=3), a=RNG.normal(size=3))
ANGLES, SPEEDS = RNG.normal(size=3), RNG.normal(size=3)


def test_feedback_is_proportional_and_derivative():
    feedback = JointFeedback(FeedbackSettings(kp=100.0, kd=7.0), hinges(3))
    expected = REFERENCE.a + 100 * (REFERENCE.q - ANGLES) + 7 * (REFERENCE.v - SPEEDS)
    for dt in (0.0, 0.001, 1.0):  # without an integral the period does not matter
        np.testing.assert_allclose(feedback.add_to(REFERENCE.a, REFERENCE, (ANGLES, SPEEDS), dt), expected, rtol=1e-14)


def test_the_integral_grows_with_time_and_error_from_the_second_tick_on():
    feedback = JointFeedback(FeedbackSettings(kp=0.0, kd=0.0, ki=50.0, integral_limit=np.inf), hinges(3))
    error = REFERENCE.q - ANGLES
    np.testing.assert_allclose(feedback.add_to(REFERENCE.a, REFERENCE, (ANGLES, SPEEDS), 0.0), REFERENCE.a)
    total = 0.0
    for dt in (0.001, 0.002, 0.004):
        total += dt
        demand = feedback.add_to(REFERENCE.a, REFERENCE, (ANGLES, SPEEDS), dt)
        np.testing.assert_allclose(demand, REFERENCE.a + 50 * total * error, rtol=1e-12)


@every("sign", [1.0, -1.0])
def test_the_integral_stops_at_its_limit_and_does_not_wind_up(sign):
    """However long the error lasted, the integral follows an error of the other sign from the next tick on."""
    feedback = JointFeedback(FeedbackSettings(kp=0.0, kd=0.0, ki=10.0, integral_limit=2.0), hinges(1))
    still = Reference(q=np.full(1, sign), v=np.zeros(1), a=np.zeros(1))
    for _ in range(1000):
        demand = feedback.add_to(still.a, still, (np.zeros(1), np.zeros(1)), 0.01)
    assert demand[0] == sign * 2.0
    after = feedback.add_to(still.a, still, (np.full(1, sign * 2.0), np.zeros(1)), 0.01)
    assert after[0] == pytest.approx(sign * (2.0 - 10 * 0.01))


def test_reset_forgets_the_integral():
    feedback = JointFeedback(FeedbackSettings(ki=10.0), hinges(3))
    first = feedback.add_to(REFERENCE.a, REFERENCE, (ANGLES, SPEEDS), 0.01)
    assert np.abs(feedback.add_to(REFERENCE.a, REFERENCE, (ANGLES, SPEEDS), 0.01) - first).max() > 1e-3
    feedback.reset()
    np.testing.assert_array_equal(feedback.add_to(REFERENCE.a, REFERENCE, (ANGLES, SPEEDS), 0.01), first)


def test_the_reference_is_not_modified():
    before = msgspec.structs.asdict(REFERENCE)
    copies = {key: value.copy() for key, value in before.items() if isinstance(value, np.ndarray)}
    feedback = JointFeedback(FeedbackSettings(ki=10.0), hinges(3))
    feedback.add_to(REFERENCE.a, REFERENCE, (ANGLES, SPEEDS), 0.01)
    for key, value in copies.items():
        np.testing.assert_array_equal(getattr(REFERENCE, key), value)
