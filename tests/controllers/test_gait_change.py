"""Commanded gaits: when they begin, what they change, and what is refused."""

import numpy as np
import pytest
from fast import every
from rigs import DT, Walker

from controllers.command import GaitChange, Steering
from controllers.planners.gait import FastSettings, GaitSettings
from idyn import InputError

TROT = GaitSettings(period=0.4, duty=0.7)
FORWARD = np.array([0.2, 0.0, 0.0])


def walking(seconds=1.0, **gait):
    walker = Walker(gait=TROT, start=0.0)
    walker.plan.steer(Steering(velocity=FORWARD, gait=GaitChange(**gait) if gait else None))
    return walker, walker.run(seconds)


def stances(references):
    return np.array([reference.schedule.stance for reference in references])


def lift_offs(stance):
    """Ticks at which each foot lifts."""
    return [np.flatnonzero(one[:-1] & ~one[1:]) + 1 for one in stance.T]


def command(walker, seconds, **fields):
    walker.plan.steer(Steering(**fields))
    return walker.run(seconds)


@every("when", [0.0, 0.05, 0.1, 0.15, 0.2, 0.33])
def test_the_gait_changes_when_all_feet_stand_and_soon(when):
    walker, _ = walking(1.0 + when)
    before = walker.angles.copy()
    references = command(walker, 2.5, velocity=FORWARD, gait=GaitChange(pattern="walk", period=0.8, duty=0.8))
    stance = stances(references)
    assert (stance.sum(axis=1) >= 2).all()
    together = np.flatnonzero(stance.all(axis=1))[0]
    assert together * DT <= 0.3 * 0.4 + 0.05  # at the latest after the present swing
    assert (stance[together + 1 :].sum(axis=1) >= 3).all()  # a walk lifts one foot at a time
    for lifts in lift_offs(stance[together + 1 :]):
        np.testing.assert_allclose(np.diff(lifts) * DT, 0.8, atol=2 * DT)
    q = np.array([before, *(reference.q for reference in references)])
    assert np.abs(np.diff(q, axis=0)).max() < 0.03  # no joint jumps: 30 rad/s
    assert not any(reference.problem for reference in references)


@every(("pattern", "pairs"), [("trot", [(0, 3), (1, 2)]), ("pace", [(0, 2), (1, 3)]), ("bound", [(0, 1), (2, 3)])])
def test_pairs_of_feet_lift_together_half_a_period_after_the_others(pattern, pairs):
    walker, _ = walking()
    stance = stances(command(walker, 3.0, velocity=FORWARD, gait=GaitChange(pattern=pattern, period=0.4, duty=0.6)))[1200:]
    lifts = lift_offs(stance)
    for one, other in pairs:  # left front, right front, left hind, right hind
        np.testing.assert_allclose(lifts[one], lifts[other], atol=1)
    first, second = (lifts[pair[0]] for pair in pairs)
    np.testing.assert_allclose((second[0] - first[0]) * DT % 0.4, 0.2, atol=2 * DT)


def test_period_duty_and_step_height_are_as_commanded_and_then_as_configured():
    walker, _ = walking()
    references = command(walker, 3.0, velocity=FORWARD, gait=GaitChange(period=0.6, duty=0.6, step_height=0.03))
    stance = stances(references)[1200:]
    np.testing.assert_allclose(stance.mean(axis=0), 0.6, atol=0.03)
    for lifts in lift_offs(stance):
        np.testing.assert_allclose(np.diff(lifts) * DT, 0.6, atol=2 * DT)
    heights = np.array([walker.plan.legs.feet(reference.q)[:, 2] for reference in references[1200:]])
    assert np.ptp(heights, axis=0) == pytest.approx(0.03, abs=0.002)

    walker, _ = walking(2.0, period=0.8, duty=0.8)
    stance = stances(command(walker, 2.0, velocity=FORWARD))[800:]
    for lifts in lift_offs(stance):
        np.testing.assert_allclose(np.diff(lifts) * DT, TROT.period, atol=2 * DT)


def test_to_stand_the_base_halts_first_and_the_feet_step_home():
    walker, _ = walking(1.5)
    references = command(walker, 2.5, gait=GaitChange(pattern="stand"))
    stance = stances(references)
    assert stance[-500:].all()
    assert not stance[:500].all()  # it steps while it slows down
    assert np.isinf(references[-1].schedule.time_to_switch).all()
    np.testing.assert_array_equal(walker.plan.plan.u, 0.0)
    assert np.abs(walker.feet - walker.plan.plan.hips).max() < 2e-3
    assert not stances(command(walker, 1.0, velocity=FORWARD)).all()  # and it trots again


def test_a_reset_returns_to_the_configured_gait():
    walker, first = walking(1.0)
    command(walker, 1.0, velocity=FORWARD, gait=GaitChange(pattern="walk", duty=0.8))
    walker.plan.reset()
    again = Walker(gait=TROT, start=0.0)
    again.plan = walker.plan
    walker.plan.steer(Steering(velocity=FORWARD))
    for one, other in zip(again.run(1.0), first, strict=True):
        np.testing.assert_array_equal(one.q, other.q)


@every(
    ("field", "steering"),
    [
        ("gait.period", {"gait": {"period": 0.1}}),
        ("gait.period", {"gait": {"period": float("nan")}}),
        ("gait.period", {"gait": {"period": 0.16, "duty": 0.75}}),
        ("gait.duty", {"gait": {"duty": 0.4}}),
        ("gait.duty", {"gait": {"duty": 0.9}}),  # a swing of 0.04 s
        ("gait.duty", {"gait": {"pattern": "walk"}}),  # 0.7 as configured
        ("gait.step_height", {"gait": {"step_height": 0.0}}),
        ("gait.step_height", {"gait": {"step_height": 0.2}}),
        ("velocity", {"gait": {"pattern": "stand"}, "velocity": FORWARD}),
    ],
)
def test_a_gait_that_the_planner_cannot_realise_is_refused_with_its_field(field, steering):
    walker = Walker(gait=TROT)
    asked = Steering(gait=GaitChange(**steering["gait"]), velocity=steering.get("velocity"))
    with pytest.raises(InputError) as refused:
        walker.plan.check(asked)
    assert refused.value.field == field


def test_gaits_within_the_limits_are_accepted():
    walker = Walker(gait=TROT)
    for gait in ({"pattern": "walk", "duty": 0.8}, {"period": 1.0}, {"step_height": 0.04}, {"pattern": "stand"}):
        walker.plan.check(Steering(velocity=np.zeros(3), gait=GaitChange(**gait)))


# -- gaits that follow the speed, and plans that follow a pushed base --------------------------------------------------


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
