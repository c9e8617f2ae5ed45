"""Batches of worlds: equal to single worlds to the last bit, in one process or several; errors of processes are reported."""

import multiprocessing

import numpy as np
import pytest
from fast import every, fast, first_is_fast, full

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.errors import IdynError, InputError
from idyn.status import Status
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.run.batch import SceneBatch, WorldBatch
from sim_harness.scenes.load import load_scene
from sim_harness.world.worlds import NAMES, AnyEngine, build_scene, build_world

DT, COUNT = 1e-3, 5


def states(count=COUNT):
    """Robot, states about its stance with some feet off the ground or in it, and torques (count, ·)."""
    (robot, stance), rng = load_robot("quadruped"), np.random.default_rng(8)
    q = np.array([robot.integrate(stance, 0.01 * rng.normal(size=robot.nv)) for _ in range(count)])
    return robot, q, 0.1 * rng.normal(size=(count, robot.nv)), rng.normal(size=(count, robot.na))


def one_by_one(engine, steps):
    robot, q, v, tau = states()
    worlds = [build_world(engine, robot.variant(), Flat(), each) for each in q]
    for world, each, speed, torque in zip(worlds, q, v, tau, strict=True):
        world.reset(each, speed)
        for _ in range(steps):
            world.step(torque, DT)
    return worlds


def assert_equal_to(answer, worlds):
    for i, world in enumerate(worlds):
        assert answer.q[i].tobytes() == world.q.tobytes(), i
        assert answer.v[i].tobytes() == world.v.tobytes(), i


@pytest.mark.parametrize("processes", first_is_fast([1, 2]))
@pytest.mark.parametrize("engine", fast([name for name in NAMES if name != "mujoco"], "lcp"))
def test_batched_worlds_equal_single_worlds(engine, processes):
    """Several steps in one call and one at a time."""
    engine = parse(engine, AnyEngine, "engine")
    robot, q, v, tau = states()
    expected = one_by_one(engine, 8)
    with WorldBatch(engine, robot, Flat(), q, processes=processes) as batch:
        batch.reset(q, v)
        assert_equal_to(batch.step(tau, DT, 8), expected)
        batch.reset(q, v)
        for k in range(8):
            answer = batch.step(tau, DT)
            assert answer.t == pytest.approx((k + 1) * DT)
        assert_equal_to(answer, expected)


def test_batched_mujoco_worlds_equal_single_worlds():
    pytest.importorskip("mujoco")
    engine = parse("mujoco", AnyEngine, "engine")
    robot, q, v, tau = states()
    with WorldBatch(engine, robot, Flat(), q, processes=1) as batch:
        batch.reset(q, v)
        assert_equal_to(batch.step(tau, DT, 3), one_by_one(engine, 3))


@full
@pytest.mark.parametrize("name", ["sphere-stack", "crank-rocker"])
def test_batched_scenes_equal_single_scenes(name):
    settings, engine = load_scene(name), PolygonLcp()
    scene = build_scene(settings, engine)
    start = scene.bodies.start
    q, v = np.array([start.q] * 3), start.v + 0.01 * np.arange(3)[:, None]
    with SceneBatch(settings, engine, 3, processes=2) as batch:
        fresh = batch.step(4)
        batch.reset(q, v)
        moved = batch.step(4)
    for i in range(3):
        for answer, (position, speed) in ((fresh, (start.q, start.v)), (moved, (q[i], v[i]))):
            scene.reset(position, speed)
            for _ in range(4):
                scene.step()
            assert answer.q[i].tobytes() == scene.state.q.tobytes()
            assert answer.v[i].tobytes() == scene.state.v.tobytes()


def test_one_torque_and_one_state_can_be_shared():
    robot, q, _, tau = states()
    with WorldBatch(PolygonLcp(), robot, Flat(), q, processes=1) as batch:
        batch.reset(q[0])
        answer = batch.step(tau[0], DT, 3)
    assert (answer.q == answer.q[0]).all()
    assert len(batch) == COUNT


def test_an_unsolved_step_is_reported():
    robot, q, _, tau = states()
    q[3, 2] += 1.0  # nothing to solve in the air
    with WorldBatch(PolygonLcp(max_pivots=1), robot, Flat(), q, processes=1) as batch:
        answer = batch.step(tau, DT, 2)
    assert answer.status[3] == Status.SOLVED
    assert (answer.status[[0, 1, 2, 4]] != Status.SOLVED).all()


@every(
    ("field", "order"),
    [
        ("tau", lambda batch: batch.step(np.zeros((COUNT, 11)), DT)),
        ("tau", lambda batch: batch.step([0.0] * 12, DT)),
        (r"tau\[2, 7\]", lambda batch: batch.step(np.where(np.arange(COUNT * 12).reshape(COUNT, 12) == 31, np.nan, 0.0), DT)),
        ("dt", lambda batch: batch.step(np.zeros(12), 0.0)),
        ("steps", lambda batch: batch.step(np.zeros(12), DT, 0)),
        (r"q\[0\]", lambda batch: batch.reset(np.full(19, np.inf))),
        ("v", lambda batch: batch.reset(np.zeros(19), np.zeros((COUNT, 19)))),
    ],
)
def test_malformed_arguments_are_named(field, order):
    robot, q, _, tau = states()
    with WorldBatch(PolygonLcp(), robot, Flat(), q, processes=1) as batch:
        with pytest.raises(InputError, match=field):
            order(batch)
        assert (batch.step(tau, DT).status == 0).all()


def test_invalid_batches_are_refused():
    robot, q, _, tau = states()
    with pytest.raises(InputError, match="count"):
        WorldBatch(PolygonLcp(), robot, Flat(), q[:0])
    with pytest.raises(InputError, match="processes"):
        WorldBatch(PolygonLcp(), robot, Flat(), q, processes=0)
    with pytest.raises(InputError, match="q"):
        WorldBatch(PolygonLcp(), robot, Flat(), q[0])
    batch = WorldBatch(PolygonLcp(), robot, Flat(), q, processes=1)
    batch.close()
    with pytest.raises(IdynError, match="closed"):
        batch.step(tau, DT)


class Raising(PolygonLcp):
    """An engine whose steps raise an exception."""

    def solve(self, problem):
        raise ZeroDivisionError("of the engine")


@full
def test_an_error_in_another_process_is_reported():
    robot, q, _, tau = states()
    batch = WorldBatch(Raising(), robot, Flat(), q, processes=2)
    with pytest.raises(IdynError, match="a process of the batch failed: ZeroDivisionError"):
        batch.step(tau, DT)
    with pytest.raises(IdynError, match="closed"):
        batch.step(tau, DT)


@full
def test_a_dead_process_ends_the_batch():
    robot, q, _, tau = states()
    before = set(multiprocessing.active_children())
    batch = WorldBatch(PolygonLcp(), robot, Flat(), q, processes=2)
    victim = (set(multiprocessing.active_children()) - before).pop()
    victim.kill()
    victim.join()
    with pytest.raises(IdynError, match="a process of the batch failed"):
        batch.step(tau, DT)
    with pytest.raises(IdynError, match="closed"):
        batch.step(tau, DT)
    with pytest.raises(IdynError, match="closed"):
        batch.reset(q)


@every("mu", [np.full(2, 0.5), np.full(4, np.nan), np.array([0.5, -0.1, 0.5, 0.5])])
def test_invalid_friction_is_refused(mu):
    robot, q, _, _ = states()
    with pytest.raises(InputError, match=r"^mu: expected 4"):
        WorldBatch(PolygonLcp(), robot, Flat(), q, mu=mu, processes=1)


def test_quaternions_that_are_not_normalised_are_refused():
    robot, q, _, tau = states()
    q[1, 3:7] *= 2.0
    with pytest.raises(InputError, match=r"q\[3:7\].*unit quaternion"):
        WorldBatch(PolygonLcp(), robot, Flat(), q, processes=1)
    with (
        pytest.raises(InputError, match=r"^steps: .*whole"),
        WorldBatch(PolygonLcp(), robot, Flat(), q[:1], processes=1) as one,
    ):
        one.step(tau[:1], DT, 1.5)
