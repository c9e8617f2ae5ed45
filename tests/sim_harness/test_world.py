"""The world without contact trouble: flight, pushes, standing, repeatability."""

import numpy as np
import pytest
from fast import every, first_is_fast

from idyn.errors import FrameNotFound, InputError
from sim_harness.world.world import Push

DT = 1e-3
G = 9.81


def test_a_falling_robot_follows_the_discrete_parabola(make_world):
    world = make_world()
    q = world.q.copy()
    q[2] += 10
    world.reset(q)
    n = 500
    for _ in range(n):
        world.step(np.zeros(12), DT)
    assert world.t == pytest.approx(n * DT)
    assert q[2] - world.q[2] == pytest.approx(G * DT * DT * n * (n + 1) / 2, abs=1e-11)
    assert q[2] - world.q[2] == pytest.approx(0.5 * G * world.t**2, rel=1.1 / n)
    assert world.v[2] == pytest.approx(-G * world.t, abs=1e-11)


def test_energy_error_in_flight_is_first_order(make_world):
    """A tumbling robot with free joints: no contact, no torque, so energy drifts with the step only."""
    rng = np.random.default_rng(2)
    v0 = rng.normal(size=18)
    drift = []
    for dt in (1e-3, 5e-4):
        world = make_world()
        q = world.q.copy()
        q[2] += 10
        world.reset(q, v0)
        before = world.robot.energy(q, v0)
        for _ in range(round(0.2 / dt)):
            world.step(np.zeros(12), dt)
        drift.append(abs(world.robot.energy(world.q, world.v) - before))
    assert drift[0] < 0.05
    assert drift[1] == pytest.approx(drift[0] / 2, rel=0.2)


def test_the_centre_of_mass_is_moved_by_gravity_alone(make_world):
    rng = np.random.default_rng(3)
    world = make_world()
    q = world.q.copy()
    q[2] += 10
    world.reset(q, rng.normal(size=18))
    start = world.robot.center_of_mass(world.q)
    world.step(np.zeros(12), DT)
    speed = (world.robot.center_of_mass(world.q) - start) / DT
    for _ in range(100):
        world.step(rng.normal(size=12), DT)
    path = speed * world.t - [0, 0, 0.5 * G * world.t**2]
    np.testing.assert_allclose(world.robot.center_of_mass(world.q) - start, path, atol=2e-3)


def test_a_push_gives_its_impulse_as_momentum(make_block):
    """Off the grid: 3.3 ms from 0.4 ms on."""
    world = make_block("lcp")
    q = world.q.copy()
    q[2] += 1
    world.reset(q)
    push = Push(frame="block", force=(4.0, -3.0, 2.0), start=0.4e-3, duration=3.3e-3)
    for _ in range(10):
        world.step(np.zeros(0), DT, [push])
    momentum = 2 * world.v[:3]
    expected = 3.3e-3 * np.array(push.force) - [0, 0, 2 * G * world.t]
    np.testing.assert_allclose(momentum, expected, atol=1e-12)
    np.testing.assert_allclose(world.v[3:], 0, atol=1e-15)


def test_a_push_off_the_centre_turns_the_block(make_block):
    world = make_block("lcp")
    q = world.q.copy()
    q[2] += 1
    world.reset(q)
    world.step(np.zeros(0), DT, [Push(frame="block", force=(0, 5, 0), point=(0.2, 0, 0))])
    assert world.v[5] == pytest.approx(0.2 * 5 * DT / 0.04)


def test_a_push_on_an_unknown_body_is_refused(make_world):
    with pytest.raises(FrameNotFound, match="BODY0"):
        make_world().step(np.zeros(12), DT, [Push(frame="BODY", force=(0, 0, 0))])


def test_a_malformed_state_is_refused(make_world):
    world = make_world()
    with pytest.raises(InputError, match="q: expected 19"):
        world.reset(np.zeros(18))
    with pytest.raises(InputError, match="v: expected 18"):
        world.reset(world.q, np.full(18, np.nan))


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_at_rest_the_ground_carries_the_weight(make_world, make_stand, name):
    """After a knock, back to rest: Σ f_N is the weight and nothing moves."""
    world = make_world(name=name)
    stand = make_stand(world, kd=0.3)
    world.reset(world.q, np.concatenate([[0.1, 0, 0, 0, 0.2, 0], np.zeros(12)]))
    for _ in range(4000):
        result = world.step(stand.torque(), DT)
        assert result.status.ok
    weight = world.robot.total_mass * G
    assert result.normal_force.sum() == pytest.approx(weight, rel=1e-6)
    assert result.impulse[:, 2].sum() / DT == pytest.approx(weight, rel=1e-6)
    assert np.abs(world.v).max() < 1e-4
    assert np.abs(world.contacts.gaps).max() < 1e-6


def test_the_quadruped_presses_with_the_published_weight(make_world, make_stand):
    world = make_world()
    stand = make_stand(world)
    for _ in range(20):
        result = world.step(stand.torque(), DT)
    assert result.normal_force.sum() == pytest.approx(47.088, rel=1e-9)


@every("engine", ["lcp", "penalty"])
def test_two_runs_are_identical(make_world, make_stand, engine):
    ends = []
    for _ in range(2):
        world = make_world(engine)
        stand = make_stand(world)
        push = Push(frame="BODY0", force=(8, 5, 0), start=0.02, duration=0.1)
        for _ in range(300):
            world.step(stand.torque(), DT, [push])
        ends.append((world.q.tobytes(), world.v.tobytes()))
    assert ends[0] == ends[1]


def test_a_drop_does_not_bounce_or_sink(make_world, make_stand):
    world = make_world()
    stand = make_stand(world, kd=0.2)
    q = world.q.copy()
    q[2] += 0.03
    world.reset(q)
    lowest = 0.0
    for _ in range(1500):
        assert world.step(stand.torque(), DT).status.ok
        if len(world.contacts):
            lowest = min(lowest, world.contacts.gaps.min())
    assert lowest > -2e-4
    assert len(world.contacts) == 4
