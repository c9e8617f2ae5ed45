"""A block on a plane, against closed forms: stick and slip by name, each engine within its own precision."""

import numpy as np
import pytest
from fast import every

from sim_harness.world.world import Push

DT = 1e-3
G = 9.81
WEIGHT = 2 * G


def test_a_sliding_block_decelerates_by_mu_g(make_block):
    world = make_block("lcp", mu=0.5)
    world.reset(world.q, np.array([1.0, 0, 0, 0, 0, 0]))
    for k in range(1, 151):
        result = world.step(np.zeros(0), DT)
        assert world.v[0] == pytest.approx(1 - 0.5 * G * k * DT, abs=1e-10)
        assert result.normal_force.sum() == pytest.approx(WEIGHT, rel=1e-9)
    np.testing.assert_allclose(world.v[1:], 0, atol=1e-10)


def test_the_block_stops_at_the_closed_form_distance_and_stays(make_block):
    world = make_block("lcp", mu=0.5)
    world.reset(world.q, np.array([1.0, 0, 0, 0, 0, 0]))
    for _ in range(400):
        world.step(np.zeros(0), DT)
    assert world.q[0] == pytest.approx(1 / (2 * 0.5 * G), abs=DT)
    assert np.abs(world.v).max() < 1e-12


@every("mu", [0.0, 0.1, 1.0])
def test_friction_brakes_in_every_direction_within_the_polygon_bound(make_block, mu):
    world = make_block("lcp", mu=mu, edges=8)
    direction = np.array([np.cos(0.3), np.sin(0.3), 0])
    world.reset(world.q, np.concatenate([direction, np.zeros(3)]))
    result = world.step(np.zeros(0), DT)
    braking = -result.impulse.sum(axis=0) @ direction / DT
    assert mu * WEIGHT * np.cos(np.pi / 8) - 1e-9 <= braking <= mu * WEIGHT + 1e-9


@every("share", [0.5, 0.99])
def test_a_push_below_the_friction_limit_sticks(make_block, share):
    world = make_block("lcp", mu=0.5)
    push = Push(frame="block", force=(share * 0.5 * WEIGHT, 0, 0), point=(0, 0, -0.05))
    for _ in range(200):
        result = world.step(np.zeros(0), DT, [push])
    assert abs(world.q[0]) < 1e-12
    assert -result.impulse[:, 0].sum() / DT == pytest.approx(push.force[0], rel=1e-9)


def test_a_push_above_the_friction_limit_slides(make_block):
    world = make_block("lcp", mu=0.5)
    push = Push(frame="block", force=(1.2 * 0.5 * WEIGHT, 0, 0), point=(0, 0, -0.05))
    for _ in range(200):
        world.step(np.zeros(0), DT, [push])
    assert world.v[0] == pytest.approx(0.2 * 0.5 * G * world.t, rel=1e-9)


def test_infinite_friction_withstands_any_push(make_block):
    world = make_block("lcp", mu=np.inf)
    push = Push(frame="block", force=(50 * WEIGHT, 0, 0), point=(0, 0, -0.05))
    for _ in range(50):
        result = world.step(np.zeros(0), DT, [push])
        assert result.status.ok
    assert abs(world.q[0]) < 1e-12


def test_penalty_creeps_below_the_cone_at_the_documented_speed(make_block):
    world = make_block("penalty", mu=0.5, slip_speed=1e-3)
    share = 0.6
    push = Push(frame="block", force=(share * 0.5 * WEIGHT, 0, 0), point=(0, 0, -0.05))
    for _ in range(500):
        world.step(np.zeros(0), DT, [push])
    assert world.v[0] == pytest.approx(1e-3 * share / np.sqrt(1 - share**2), rel=1e-3)


def test_penalty_slides_as_coulomb_at_speed(make_block):
    world = make_block("penalty", mu=0.5)
    for _ in range(500):
        world.step(np.zeros(0), DT)
    world.reset(world.q, np.array([1.0, 0, 0, 0, 0, 0]))
    for _ in range(100):
        world.step(np.zeros(0), DT)
    assert world.v[0] == pytest.approx(1 - 0.5 * G * 0.1, rel=1e-2)


def test_penetration_recovers_at_the_recovery_speed(make_block):
    """The block leaves the ground with it, hops by recovery² / 2g = 0.5 mm, and rests."""
    world = make_block("lcp", recovery=0.1)
    q = world.q.copy()
    q[2] -= 0.002
    world.reset(q)
    world.step(np.zeros(0), DT)
    assert world.v[2] == pytest.approx(0.1, abs=1e-12)
    highest = 0.0
    for _ in range(60):
        world.step(np.zeros(0), DT)
        highest = max(highest, world.contacts.gaps.max())
    assert highest < 0.1**2 / (2 * G)
    np.testing.assert_allclose(world.contacts.gaps, 0, atol=1e-9)
    assert abs(world.v[2]) < 1e-9
