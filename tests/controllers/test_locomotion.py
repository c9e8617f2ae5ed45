"""Locomotion planner: schedule, derivatives, footholds under yaw, start and stop."""

from itertools import pairwise

import numpy as np
import pytest
from fast import every, first_is_fast
from rigs import DT, Walker, stances

from controllers.planners.gait import GaitSettings
from controllers.planners.locomotion import CANDIDATES, FARTHEST, MARGIN, safe_shifts
from idyn.contact.terrain import Flat, Slope, Stairs

ROBOTS = ("quadruped", "solo12", "a1", "go2")


def test_a_trot_stands_on_diagonals_and_lifts_them_in_turn():
    """Touchdowns at .25 .75 .75 .25 of 0.3 s with duty 0.75: two feet stand at all times, four for half of it."""
    stance = stances(Walker(start=0.0).run(0.9))
    np.testing.assert_array_equal(stance[:, 0], stance[:, 3])
    np.testing.assert_array_equal(stance[:, 1], stance[:, 2])
    assert (stance.sum(axis=1) >= 2).all()
    np.testing.assert_allclose(stance.mean(axis=0), 0.75, atol=0.02)
    lifts = np.flatnonzero(stance[:-1, 0] & ~stance[1:, 0]) + 1
    np.testing.assert_allclose(lifts * DT, [0.3, 0.6], atol=2 * DT)
    lifts = np.flatnonzero(stance[:-1, 1] & ~stance[1:, 1]) + 1
    np.testing.assert_allclose(lifts * DT, [0.15, 0.45, 0.75], atol=2 * DT)


def test_walk_stand_and_a_table_of_phases_lift_the_feet_as_they_say():
    stance = stances(Walker(gait=GaitSettings(pattern="walk", period=0.8, duty=0.8), start=0.0).run(1.7))
    assert (stance.sum(axis=1) >= 3).all()
    assert not stance.all(axis=0).any()
    references = Walker(gait=GaitSettings(pattern="stand"), velocity=(0.2, 0.0, 0.0)).run(0.7)
    assert stances(references).all()
    np.testing.assert_array_equal(references[-1].q, references[150].q)
    assert np.isinf(references[-1].schedule.time_to_switch).all()
    table = GaitSettings(pattern="table", touchdown=(0.25, 0.75, 0.75, 0.25))
    for one, other in zip(Walker(gait=table).run(0.5), Walker(gait=GaitSettings()).run(0.5), strict=True):
        np.testing.assert_array_equal(one.q, other.q)


def test_the_time_to_the_next_switch_counts_down_to_it():
    references = Walker(start=0.0, velocity=(0.1, 0.0, 0.0)).run(0.8)
    for one, other in pairwise(references[1:]):
        a, b = one.schedule, other.schedule
        same = a.stance == b.stance
        np.testing.assert_allclose((a.time_to_switch - b.time_to_switch)[same], DT, atol=1e-9)
        assert (a.time_to_switch[~same] <= 3 * DT).all()


@pytest.mark.parametrize("name", first_is_fast(ROBOTS))
def test_speeds_and_accelerations_are_derivatives(name):
    """q⁺ = q + v dt + ½ a dt² and v⁺ = v + a dt to the next order, at all ticks but those in which a foot lands."""
    walker = Walker(name, velocity=(0.15, 0.05, 0.4))
    references = walker.run(1.0)
    stance = stances(references)
    checked = 0
    for k in range(1, len(references) - 1):
        if (stance[k + 1] & ~stance[k - 1]).any():
            continue
        now, after = references[k], references[k + 1]
        np.testing.assert_allclose(after.q, now.q + DT * now.v + 0.5 * DT**2 * now.a, atol=2e-5)
        np.testing.assert_allclose(after.v, now.v + DT * now.a, atol=4e-2)
        checked += 1
    assert checked > 900


def test_the_error_of_the_derivatives_is_of_third_order():
    """The error of q + v dt + ½ a dt² along a swing's rise falls with the third power of dt: it is the jerk that is missing."""

    def worst(dt):
        references = Walker(dt=dt, velocity=(0.2, 0.0, 0.3)).run(0.135)[round(0.102 / dt) :]
        return max(np.abs(b.q - a.q - dt * a.v - 0.5 * dt**2 * a.a).max() for a, b in pairwise(references))

    assert worst(0.0005) < worst(0.001) / 6


@every("velocity", first_is_fast([[0.15, -0.05, 0.5], [0.2, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.6]]))
def test_feet_are_under_their_hips_in_the_middle_of_the_stance(velocity):
    """For every command, with yaw too: this is the rule for footholds."""
    walker = Walker(velocity=velocity)
    references, feet = [], []
    for _ in range(2200):
        references.append(walker.tick())
        feet.append(walker.feet)
    stance, feet = stances(references), np.array(feet)
    checked = 0
    for i in range(4):
        edges = np.flatnonzero(stance[1:, i] != stance[:-1, i]) + 1
        for down, up in pairwise(edges):
            if stance[down, i] and down > 1300:
                middle = feet[(down + up) // 2, i]
                np.testing.assert_allclose(middle[:2], walker.plan.plan.hips[i, :2], atol=1.5e-3)
                checked += 1
    assert checked >= 8


def test_standing_feet_stay_where_they_are_in_the_world():
    walker = Walker(velocity=(0.15, 0.05, 0.5))
    before, held = None, 0
    for _ in range(1500):
        reference = walker.tick()
        pose = walker.plan.plan.pose.copy()
        c, s = np.cos(pose[2]), np.sin(pose[2])
        feet = walker.feet
        places = pose[:2] + np.column_stack([c * feet[:, 0] - s * feet[:, 1], s * feet[:, 0] + c * feet[:, 1]])
        stance = reference.schedule.stance
        if before is not None:
            both = stance & before[1]
            np.testing.assert_allclose(places[both], before[0][both], atol=1e-9)
            held += both.sum()
        before = places, stance
    assert held > 4000


def test_a_swing_foot_rises_to_its_height_and_lands():
    walker = Walker(velocity=(0.1, 0.0, 0.0))
    heights = np.array([walker.tick() and walker.feet[:, 2] for _ in range(900)])
    top = heights.max(axis=0) - walker.plan.plan.hips[:, 2]
    np.testing.assert_allclose(top, 0.015, atol=2e-4)
    assert heights.min() > walker.plan.plan.hips[:, 2].min() - 5e-4


def test_steps_out_of_reach_are_shortened_and_reported():
    """At 3 m/s the stance is two thirds of a metre long."""
    near, far = (Walker(velocity=(speed, 0.0, 0.0), acceleration=30.0).run(0.5) for speed in (0.6, 1.2))
    assert not any(r.problem for r in near)
    assert any("step shortened" in r.problem for r in far)
    assert all(not r.problem for r in Walker(velocity=(0.2, 0.0, 0.0)).run(0.5))
    hasty = Walker(velocity=(3.0, 0.0, 0.0), acceleration=30.0).run(0.5)
    assert any("does not reach" in r.problem for r in hasty)
    assert all(np.isfinite(r.q).all() and np.isfinite(r.a).all() for r in hasty)
    walker = Walker(velocity=(0.2, 0.0, 0.0))
    walker.run(0.2)
    before = walker.plan.plan.angles.copy()
    walker.plan.plan.cubics.c[0, 2] = np.nan
    assert "does not reach" in walker.tick().problem
    np.testing.assert_array_equal(walker.plan.plan.angles, before)


def test_the_gait_starts_and_stops_smoothly():
    walker = Walker(velocity=(0.2, 0.0, 0.0), duration=0.8, acceleration=0.5)
    speeds, references = [], []
    for _ in range(2500):
        references.append(walker.tick())
        speeds.append(walker.plan.plan.u[0])
    assert np.abs(np.diff(speeds)).max() <= 0.5 * DT + 1e-12
    lag = 0.5 * DT * 0.4  # the walker's velocity lags the plan's by a tick while it accelerates for 0.4 s
    assert 0.2 <= max(speeds) <= 0.2 + lag
    assert speeds[-1] == 0.0
    assert stances(references)[-300:].all()
    assert np.abs(walker.feet - walker.plan.plan.hips).max() < 2e-3
    assert np.abs(references[-1].v).max() < 1e-9


def test_a_gait_with_flight_phases_gives_finite_references():
    walker = Walker(gait=GaitSettings(duty=0.4, patience=0.0), velocity=(0.2, 0.0, 0.0))
    references = walker.run(1.0)
    assert not stances(references).any(axis=1).all()
    assert all(np.isfinite(r.q).all() and np.isfinite(r.a).all() for r in references)


def test_before_the_start_all_feet_stand():
    walker = Walker(start=0.3, velocity=(0.2, 0.0, 0.0))
    references = walker.run(0.29)
    assert stances(references).all()
    np.testing.assert_allclose(references[0].q, walker.robot.joint_angles(walker.stance), atol=1e-9)


@pytest.mark.parametrize("name", first_is_fast(ROBOTS))
def test_feet_come_to_stand_around_the_centre_of_mass(name):
    walker = Walker(name, start=0.2)
    walker.run(0.25)
    centre = walker.robot.center_of_mass(walker.q) - walker.q[:3]
    np.testing.assert_allclose(walker.feet.mean(axis=0)[:2], centre[:2], atol=3e-3)


# -- footholds on known ground -----------------------------------------------------------------------------------------


STAIRS = Stairs(0.5, 0.3, 0.1, 4)
NO_SHIFT = np.zeros((1, 2))


@every("x", np.arange(0.3, 1.6, 0.01))
def test_footholds_keep_away_from_edges(x):
    """The edges are at 0.5 + 0.3 k; a foothold that is farther away than the margin stays where it is."""
    edges = 0.5 + 0.3 * np.arange(4)
    shift = safe_shifts(STAIRS, np.array([[x, 0.1]]), NO_SHIFT)[0]
    assert np.abs(x + shift[0] - edges).min() > MARGIN - 1e-9
    if np.abs(x - edges).min() > MARGIN + 1e-9:
        np.testing.assert_array_equal(shift, 0.0)
    else:
        assert np.hypot(*shift) <= 2.0 * MARGIN + FARTHEST / 5


@every("ground", [Flat(), Slope(0.35, direction=1.0)])
def test_footholds_on_planes_stay(ground):
    wanted = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 2))
    np.testing.assert_array_equal(safe_shifts(ground, wanted, np.zeros((5, 2))), 0.0)


def test_a_foothold_keeps_its_side_and_stays_where_no_place_is_safe():
    """Just beyond the middle of an edge the nearer side is the other one, but the last displacement counts."""
    last = np.array([[-0.04, 0.0]])
    assert safe_shifts(STAIRS, np.array([[0.505, 0.0]]), last)[0, 0] < 0.0
    assert safe_shifts(STAIRS, np.array([[0.505, 0.0]]), NO_SHIFT)[0, 0] > 0.0
    narrow = Stairs(0.0, 0.02, 0.03, 100)
    np.testing.assert_array_equal(safe_shifts(narrow, np.array([[0.5, 0.0]]), NO_SHIFT), 0.0)
    assert np.hypot(*CANDIDATES.T).max() == pytest.approx(FARTHEST)
