"""Gaits that follow the speed, and plans that follow a pushed base."""

import numpy as np
import pytest
from fast import every
from walking import DT, Walker

from controllers.command import Steering
from controllers.planners.gait import FastSettings, GaitSettings

SLOW = GaitSettings(
    period=0.4, duty=0.7, capture=0.0, fast=FastSettings(speeds=(0.2, 0.6), period=0.3, duty=0.5, step_height=0.03)
)
GRAVITY = 9.81


class Pushed(Walker):
    """A walker whose measured velocity differs from the plan's. pushed: forward, left [m/s], turn [rad/s] (3), or None"""

    pushed = None

    def tick(self):
        at = self.plan.at

        def disturbed(t, state, contacts):
            if self.pushed is not None:
                state.v[[0, 1, 5]] = self.pushed
            return at(t, state, contacts)

        self.plan.at = disturbed
        try:
            return super().tick()
        finally:
            self.plan.at = at


def stances(references):
    return np.array([r.schedule.stance for r in references])


@every(("speed", "period", "duty"), [(0.1, 0.4, 0.7), (0.4, 0.35, 0.6), (0.6, 0.3, 0.5), (0.8, 0.3, 0.5)])
def test_period_and_duty_are_between_those_of_the_two_gaits(speed, period, duty):
    walker = Walker(gait=SLOW, velocity=(speed, 0.0, 0.0), acceleration=2.0)
    references = walker.run(2.2)
    assert not any(r.problem for r in references)
    stance = stances(references)[800:]
    for one in stance.T:
        lifts = np.flatnonzero(one[:-1] & ~one[1:])
        np.testing.assert_allclose(np.diff(lifts) * DT, period, atol=2 * DT)
        assert one[lifts[0] : lifts[-1]].mean() == pytest.approx(duty, abs=0.02)


def test_a_turn_in_place_counts_by_the_speed_of_the_hips():
    walker = Walker(gait=SLOW, velocity=(0.0, 0.0, 2.0))
    speed = 2.0 * np.linalg.norm(walker.plan.plan.hips[:, :2], axis=1).max()
    share = np.clip((speed - 0.2) / 0.4, 0.0, 1.0)
    lifts = stances(walker.run(3.0))[1500:, 0].astype(int)
    np.testing.assert_allclose(np.diff(np.flatnonzero(np.diff(lifts) < 0)) * DT, 0.4 - 0.1 * share, atol=2 * DT)


def test_the_gait_changes_without_a_jump():
    """Speeding up and slowing down: diagonals stay together, no foot waits, and no swing is cut short."""
    walker = Walker(gait=SLOW, velocity=(0.7, 0.0, 0.0), duration=1.5, acceleration=2.0)
    references = walker.run(2.0)
    stance = stances(references)
    np.testing.assert_array_equal(stance[:, 0], stance[:, 3])
    assert (stance.sum(axis=1) >= 2).all()
    edges = np.flatnonzero(np.diff(stance[:, 0].astype(int)))
    lengths, swings = np.diff(edges) * DT, ~stance[edges[:-1] + 1, 0]
    assert lengths[swings].min() > 0.095  # the first one begins at 3/4 of the period
    assert lengths.max() < 0.3
    assert np.abs(np.diff([r.q for r in references], axis=0)).max() < 0.04  # 40 rad/s


def test_a_foothold_after_a_push_stops_an_inverted_pendulum():
    walker = Pushed(gait=GaitSettings(period=0.3, duty=0.5, capture=1.0))
    walker.run(0.3)
    walker.pushed = np.array([0.0, 0.6, 0.0])
    offsets = []
    for _ in range(700):
        swinging = walker.plan.plan.swinging.copy()
        before = walker.plan.plan.pose[1]
        walker.tick()
        landed = swinging & ~walker.plan.plan.swinging
        speed = (walker.plan.plan.pose[1] - before) / DT
        offsets += [(walker.feet[i, 1] - walker.plan.plan.hips[i, 1], speed) for i in np.flatnonzero(landed)]
    assert len(offsets) >= 6
    offset, speed = offsets[-1]
    assert speed > 0.2
    # x'' = g/h (x − foot) from x = 0 at this speed: it comes to rest above the foot; without a step it falls
    height, x, v, dt = np.abs(walker.plan.plan.hips[:, 2]).mean(), 0.0, speed, 1e-4
    for _ in range(round(1.5 * np.sqrt(height / GRAVITY) / dt)):
        v += dt * GRAVITY / height * (x - offset)
        x += dt * v
    assert abs(v) < 0.4 * speed
    assert x == pytest.approx(offset, rel=0.4)


def test_the_sway_of_a_trot_changes_nothing():
    calm, swaying = (Pushed(gait=GaitSettings(capture=1.0), waypoints=((9.0, 0.0),)) for _ in range(2))
    swaying.pushed = np.array([0.1, -0.1, 0.3])
    for one, other in zip(calm.run(0.5), swaying.run(0.5), strict=True):
        np.testing.assert_array_equal(one.q, other.q)


def test_after_a_push_the_robot_steps_home_and_stands():
    walker = Pushed(gait=GaitSettings(capture=1.0))
    walker.plan.steer(Steering(velocity=np.zeros(3)))
    assert stances(walker.run(0.3))[200:].all()
    walker.pushed = np.array([0.3, 0.4, 0.0])
    assert not stances(walker.run(0.5)).all()
    walker.pushed = None
    references = walker.run(2.0)
    assert stances(references)[-300:].all()
    assert np.abs(walker.feet - walker.plan.plan.hips).max() < 2e-3
    np.testing.assert_array_equal(walker.plan.plan.u, 0.0)
