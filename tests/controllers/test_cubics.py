"""Cubics that are retargeted: end points, end velocities, and continuity."""

import numpy as np

from controllers.planners import cubics

START = np.array([[0.1, 0.2], [0.3, -0.4]])


class Cubics(cubics.Cubics):
    """All coordinates of a point at once."""

    def at(self, t):
        """Points, velocities and accelerations (n, d)."""
        n, d = self.since.shape
        return np.moveaxis([[cubics.at(self.fields, i, k, t) for k in range(d)] for i in range(n)], 2, 0)

    def aim(self, i, t, until, goal, velocity):
        for k in range(len(goal)):
            cubics.aim(self.fields, i, k, t, until, goal[k], velocity[k])

    def stop(self, i, t):
        for k in range(self.since.shape[1]):
            cubics.stop(self.fields, i, k, t)


def test_a_new_curve_rests_at_its_start():
    c = Cubics(START)
    for t in (0.0, 1.0, 1e6):
        p, v, a = c.at(t)
        np.testing.assert_array_equal(p, START)
        assert not v.any()
        assert not a.any()


def test_a_curve_ends_at_the_goal_with_the_given_velocity():
    c = Cubics(START)
    goal, velocity = np.array([0.5, -0.1]), np.array([0.3, -0.2])
    c.aim(0, 1.0, 1.5, goal, velocity)
    p, v, _ = c.at(1.5 - 1e-9)
    np.testing.assert_allclose(p[0], goal, atol=1e-8)
    np.testing.assert_allclose(v[0], velocity, atol=1e-7)
    np.testing.assert_array_equal(p[1], START[1])
    p, v, _ = c.at(1.0)
    np.testing.assert_array_equal(p, START)
    assert not v.any()


def test_retargeting_keeps_position_and_velocity_continuous():
    c = Cubics(START)
    c.aim(0, 0.0, 1.0, np.array([1.0, 1.0]), np.zeros(2))
    before = c.at(0.4)
    c.aim(0, 0.4, 0.9, np.array([-1.0, 2.0]), np.ones(2))
    after = c.at(0.4)
    np.testing.assert_allclose(before[0], after[0], atol=1e-15)
    np.testing.assert_allclose(before[1], after[1], atol=1e-15)
    assert np.abs(before[2] - after[2]).max() > 1.0


def test_retargeting_to_the_same_goal_changes_nothing():
    c, other = Cubics(START), Cubics(START)
    for curve in (c, other):
        curve.aim(0, 0.0, 1.0, np.array([1.0, 1.0]), np.array([0.1, 0.0]))
    for t in np.linspace(0.01, 0.9, 50):
        c.aim(0, t, 1.0, np.array([1.0, 1.0]), np.array([0.1, 0.0]))
        for one, same in zip(c.at(t + 0.05), other.at(t + 0.05), strict=True):
            np.testing.assert_allclose(one, same, atol=1e-9)


def test_velocity_and_acceleration_are_derivatives():
    c = Cubics(START)
    c.aim(1, 0.0, 1.0, np.array([1.0, -2.0]), np.array([0.5, 0.5]))
    e = 1e-5
    for t in (0.1, 0.5, 0.9):
        before, now, after = c.at(t - e), c.at(t), c.at(t + e)
        np.testing.assert_allclose(now[1], (after[0] - before[0]) / (2 * e), atol=1e-8)
        np.testing.assert_allclose(now[2], (after[1] - before[1]) / (2 * e), atol=1e-8)


def test_a_stopped_curve_stays_where_it_is():
    c = Cubics(START)
    c.aim(0, 0.0, 1.0, np.array([1.0, 1.0]), np.zeros(2))
    there = c.at(0.3)[0].copy()
    c.stop(0, 0.3)
    for t in (0.3, 0.7, 5.0):
        p, v, a = c.at(t)
        np.testing.assert_array_equal(p, there)
        assert not v.any()
        assert not a.any()


def test_retargeting_after_the_end_time_changes_nothing():
    c = Cubics(START)
    c.aim(0, 1.0, 1.0, np.array([9.0, 9.0]), np.zeros(2))
    np.testing.assert_array_equal(c.at(2.0)[0], START)
